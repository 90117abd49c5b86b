//! Whether the files of a table are what was published.
//!
//! *Structure* looks at names, lengths, headers, directories, footers and the manifest: it finds what is missing, cut short, extra, or in
//! the wrong place, and reads almost nothing. *Hash* reads every byte and compares the BLAKE3 of every file; where one differs,
//! the checksums of its sections tell which part. Neither says whether the values are right: that is for the levels that know the game.
//!
//! The manifest is the authority, and its root stands for it. Where the manifest itself is damaged, `B3SUMS` has the hashes of the shards
//! too, and the rest is checked against that.

use crate::digest::{Digest, hash_file, hash_file_while};
use crate::dir::TableDir;
use crate::error::{Corruption, Section, ShardError};
use crate::layout::damaged_sections;
use crate::manifest::{Manifest, ManifestShard};
use crate::map::map;
use crate::record::FileRecord;
use crate::sweep::{Class, walk};
use crate::table::{TableError, open_published, read_small};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How much to look at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FileLevel {
    /// Names, lengths, headers, directories, footers, manifest.
    Structure,
    /// Every byte.
    Hash,
}

/// Something that is not as it was published.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Problem {
    /// The file or folder, relative to the table.
    pub path: String,
    /// Its layer, when it is a shard of the table.
    pub layer: Option<u32>,
    /// Its shard.
    pub shard: Option<u32>,
    /// The section that is damaged, where that is known.
    pub section: Option<Section>,
    /// What is wrong.
    pub what: String,
}

/// What verifying found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    /// Everything that is wrong, sorted by path.
    pub problems: Vec<Problem>,
    /// Files looked at.
    pub files: u64,
    /// Bytes read (level hash), or bytes of the files looked at (level structure).
    pub bytes: u64,
    /// Whether it was stopped before the end.
    pub interrupted: bool,
}

/// Whether the content of a file is what its record says: every byte of it, not that there is such a file. Blocks.
pub fn check_file(dir: &TableDir, record: &FileRecord) -> Result<(), Corruption> {
    if let Some(remote) = dir.remote() {
        // What the store has counts, not a copy of it.
        return remote.bucket.block_on(remote.bucket.read_checked(&remote.name(&record.path), record, |_| Ok(())));
    }
    check_copy(dir, record)
}

/// The same of the file in the file system: where the table is in an object store, of the copy that is there.
pub fn check_copy(dir: &TableDir, record: &FileRecord) -> Result<(), Corruption> {
    let path = dir.path(&record.path);
    let found = fs::metadata(&path).map_err(unreadable)?.len();
    if found != record.bytes {
        return Err(Corruption::Length { found, expected: record.bytes });
    }
    let (found, _) = hash_file(&path).map_err(unreadable)?;
    if found != record.blake3 { Err(Corruption::Hash { found, expected: record.blake3 }) } else { Ok(()) }
}

fn unreadable(error: io::Error) -> Corruption {
    if error.kind() == io::ErrorKind::NotFound { Corruption::Missing } else { Corruption::Io(error) }
}

/// Verifies the files of a complete table. Goes on to the end whatever it finds, on the threads of the rayon pool it is called in.
///
/// `progress` is told the bytes done so far, of the [`bytes`](Manifest::bytes) of the manifest, by many threads; when it answers `false`
/// the work stops and the report says so.
pub fn verify_files(root: &Path, level: FileLevel, progress: &(dyn Fn(u64) -> bool + Sync)) -> Result<Report, TableError> {
    let fail = |source| TableError::Io { path: root.to_owned(), source };
    let found = match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => walk(root, "").map_err(|error| fail(io::Error::other(error)))?,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        _ => return Err(TableError::NotATable { path: root.to_owned() }),
    };
    let has = |name: &str| found.iter().any(|(path, _)| path == name);
    if !has("table.json") {
        // Without its manifest a table is one that lost it, or one that has none yet.
        if has("build") {
            return Err(TableError::Unfinished { path: root.to_owned() });
        }
        if !["B3SUMS", "SHA256SUMS", "shards"].into_iter().any(has) {
            return Err(TableError::NotATable { path: root.to_owned() });
        }
    }
    let run = Run { root, level, progress, bytes: AtomicU64::new(0), stop: AtomicBool::new(false) };
    let mut problems = Vec::new();
    let mut files = 1;
    let manifest = match read_small(&root.join("table.json")) {
        Ok(Some(bytes)) => Manifest::parse(&bytes).map_err(|error| error.to_string()),
        Ok(None) => Err("the manifest is missing".to_owned()),
        Err(error) => Err(format!("the manifest cannot be read: {error}")),
    };
    let listed: Vec<String> = match &manifest {
        Ok(manifest) => {
            files += run.check_sums_files(manifest, &mut problems);
            let shards: Vec<(u32, &ManifestShard)> =
                manifest.layers.iter().flat_map(|layer| layer.shards.iter().map(|shard| (layer.layer, shard))).collect();
            problems.par_extend(shards.par_iter().flat_map_iter(|&(layer, shard)| run.check_shard(manifest, layer, shard)));
            shards.into_iter().map(|(_, shard)| shard.path.clone()).collect()
        }
        Err(what) => {
            problems.push(problem("table.json", None, what.clone()));
            run.check_by_sums(&found, &mut problems)
        }
    };
    files += listed.len() as u64;
    extra(&found, &listed, &mut problems);
    problems.sort();
    Ok(Report { problems, files, bytes: run.bytes.into_inner(), interrupted: run.stop.into_inner() })
}

fn problem(path: &str, section: Option<Section>, what: impl ToString) -> Problem {
    Problem { path: path.to_owned(), layer: None, shard: None, section, what: what.to_string() }
}

/// Names everything that is not a file of the table or a folder that holds one.
fn extra(found: &[(String, Class)], listed: &[String], problems: &mut Vec<Problem>) {
    let listed: std::collections::BTreeSet<&str> =
        listed.iter().map(String::as_str).chain(["table.json", "B3SUMS", "SHA256SUMS"]).collect();
    let is_needed = |name: &str, class: Class| {
        let first_below = format!("{name}/");
        match class {
            Class::Folder => listed.range(first_below.as_str()..).next().is_some_and(|path| path.starts_with(&first_below)),
            _ => listed.contains(name),
        }
    };
    for (name, class) in found.iter().filter(|(name, class)| !is_needed(name, *class)) {
        let what = match (name.starts_with("build"), class) {
            (true, Class::Foreign) | (false, Class::Foreign) => "it is no part of the table",
            (true, _) => "it is left over from building; run the same `strata build` command again to remove it",
            (false, Class::Folder) => "no file of the table is in this folder",
            (false, _) => "the table has no such file",
        };
        problems.push(problem(name, None, what));
    }
}

/// One run over the files of a table.
struct Run<'a> {
    root: &'a Path,
    level: FileLevel,
    progress: &'a (dyn Fn(u64) -> bool + Sync),
    bytes: AtomicU64,
    stop: AtomicBool,
}

impl Run<'_> {
    fn advance(&self, bytes: u64) -> bool {
        let done = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if !(self.progress)(done) {
            self.stop.store(true, Ordering::Relaxed);
        }
        !self.stop.load(Ordering::Relaxed)
    }

    /// Compares the lists of sums with those that follow from the manifest, and returns how many there are.
    fn check_sums_files(&self, manifest: &Manifest, problems: &mut Vec<Problem>) -> u64 {
        let expected = [("B3SUMS", manifest.b3sums()), ("SHA256SUMS", manifest.sha256sums())];
        for (name, text) in &expected {
            match read_small(&self.root.join(name)) {
                Ok(Some(bytes)) if bytes == text.as_bytes() => {}
                Ok(Some(bytes)) => {
                    let same = bytes.iter().zip(text.as_bytes()).take_while(|(a, b)| a == b).count();
                    let line = bytes[..same].iter().filter(|&&b| b == b'\n').count() + 1;
                    problems.push(problem(name, None, format!("line {line} is not what follows from table.json")));
                }
                Ok(None) => problems.push(problem(name, None, Corruption::Missing)),
                Err(error) => problems.push(problem(name, None, Corruption::Io(error))),
            }
        }
        expected.len() as u64
    }

    fn check_shard(&self, manifest: &Manifest, layer: u32, shard: &ManifestShard) -> Vec<Problem> {
        if self.stop.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let name = |(section, what): (Option<Section>, String)| Problem {
            path: shard.path.clone(),
            layer: Some(layer),
            shard: Some(shard.shard),
            section,
            what,
        };
        let opened = open_published(self.root, manifest, layer, shard);
        if self.level == FileLevel::Structure {
            self.advance(shard.bytes);
            return opened.err().map(split).into_iter().map(name).collect();
        }
        match (self.damage(&shard.path, shard.bytes, &shard.blake3), opened) {
            (Some(damage), _) if !damage.is_empty() => damage.into_iter().map(name).collect(),
            // Every byte is as published, so what is still wrong was published like this.
            (Some(_), Err(error)) => vec![name(split(error))],
            _ => Vec::new(),
        }
    }

    /// What is wrong with the content of a file; `None` when the run was stopped.
    fn damage(&self, path: &str, bytes: u64, blake3: &Digest) -> Option<Vec<(Option<Section>, String)>> {
        let file = self.root.join(path);
        let whole = |cause: Corruption| vec![(None, cause.to_string())];
        let found = match fs::metadata(&file) {
            Ok(metadata) => metadata.len(),
            Err(error) => return Some(whole(unreadable(error))),
        };
        if found != bytes {
            let go_on = self.advance(bytes);
            let mut damage = whole(Corruption::Length { found, expected: bytes });
            // Where a file was cut short its footer is gone.
            if found < bytes {
                damage[0].0 = Some(Section::Footer);
            }
            return go_on.then_some(damage);
        }
        match hash_file_while(&file, &mut |read| self.advance(read)) {
            Ok(Some((found, _))) if found == *blake3 => Some(Vec::new()),
            Ok(Some((found, _))) => Some(locate(&file, bytes, Corruption::Hash { found, expected: *blake3 })),
            Ok(None) => None,
            Err(error) => Some(whole(unreadable(error))),
        }
    }

    /// Checks what `B3SUMS` lists, for want of a manifest, and returns the names it lists.
    fn check_by_sums(&self, found: &[(String, Class)], problems: &mut Vec<Problem>) -> Vec<String> {
        let text = match read_small(&self.root.join("B3SUMS")) {
            Ok(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(None) => {
                problems.push(problem("B3SUMS", None, Corruption::Missing));
                String::new()
            }
            Err(error) => {
                problems.push(problem("B3SUMS", None, Corruption::Io(error)));
                String::new()
            }
        };
        let mut sums = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            match line.split_once("  ").and_then(|(hash, path)| Some((path.to_owned(), hash.parse::<Digest>().ok()?))) {
                Some((path, _)) if path == "table.json" => {}
                Some((path, hash)) => {
                    sums.insert(path, hash);
                }
                None => problems.push(problem("B3SUMS", None, format!("line {number} is not a hash and the name of a file"))),
            }
        }
        // The names lead nowhere but to the table: only files that were found in it are opened.
        let there: BTreeMap<&str, Class> = found.iter().map(|(name, class)| (name.as_str(), *class)).collect();
        problems.par_extend(sums.par_iter().flat_map_iter(|(path, hash)| {
            let damage = match there.get(path.as_str()) {
                Some(Class::Artifact) => {
                    let bytes = fs::metadata(self.root.join(path)).map_or(0, |metadata| metadata.len());
                    self.damage(path, bytes, hash).unwrap_or_default()
                }
                _ => vec![(None, Corruption::Missing.to_string())],
            };
            damage.into_iter().map(|(section, what)| problem(path, section, what)).collect::<Vec<_>>()
        }));
        sums.into_keys().collect()
    }
}

/// The sections of a damaged file that do not have their checksums; the file as a whole where all have.
fn locate(file: &Path, bytes: u64, hash: Corruption) -> Vec<(Option<Section>, String)> {
    let Ok(map) = map(file, Some(bytes)) else { return vec![(None, hash.to_string())] };
    let sections = damaged_sections(map.in_place().unwrap_or_default());
    if sections.is_empty() {
        return vec![(None, format!("{hash}, although every section has its checksum: another file has this name"))];
    }
    sections.into_iter().map(|(section, cause)| (section, cause.to_string())).collect()
}

fn split(error: ShardError) -> (Option<Section>, String) {
    (error.section, error.cause.to_string())
}
