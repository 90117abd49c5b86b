//! Whatever happens to the files of a table: verify names it, and no question gets a wrong answer.

mod common;

use common::*;
use std::fs;
use std::path::{Path, PathBuf};
use strata_storage::*;

/// A published table, and copies of its files to put back.
struct Victim {
    _temp: tempfile::TempDir,
    root: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
    contents: Vec<Content>,
    manifest: Manifest,
}

impl Victim {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("table");
        let contents = small();
        let manifest = publish_table(&root, &contents);
        let files = files(&root).into_iter().map(|path| (path.clone(), fs::read(root.join(path)).unwrap())).collect();
        Self { _temp: temp, root, files, contents, manifest }
    }

    /// Verifies: this file must be named, and no other.
    fn is_named(&self, path: &Path, what: &str) -> Vec<Problem> {
        let report = verify(&self.root, FileLevel::Hash).unwrap();
        let problems: Vec<Problem> = report.problems.into_iter().filter(|p| Path::new(&p.path) == path).collect();
        assert!(!problems.is_empty(), "{what}: {} is not named", path.display());
        problems
    }

    fn answers_are_right_or_errors(&self, what: &str) -> u32 {
        probe_everything(&self.root, &self.contents).unwrap_or_else(|wrong| panic!("{what}: {wrong}"))
    }
}

fn is_shard(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "shard")
}

#[test]
fn a_sound_table_has_no_problems_and_gives_all_its_values() {
    let victim = Victim::new();
    for level in [FileLevel::Structure, FileLevel::Hash] {
        let report = verify(&victim.root, level).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!((report.files, report.bytes, report.interrupted), (6, victim.manifest.bytes, false));
    }
    assert_eq!(victim.answers_are_right_or_errors("sound"), 0);
}

#[test]
fn every_single_byte_is_guarded() {
    let victim = Victim::new();
    for (path, bytes) in &victim.files {
        let file = victim.root.join(path);
        let mut sections = std::collections::BTreeSet::new();
        for at in 0..bytes.len() {
            // Every byte once, with a different bit each time, and every ninth byte with all its bits.
            let mask = if at % 9 == 0 { 0xff } else { 1 << (at % 8) };
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            fs::write(&file, &damaged).unwrap();
            let what = format!("{} byte {at} ^ {mask:#x}", path.display());
            let problems = victim.is_named(path, &what);
            let others = verify(&victim.root, FileLevel::Hash).unwrap().problems.len() - problems.len();
            if is_shard(path) {
                assert_eq!(others, 0, "{what}");
                assert!(
                    problems.iter().all(|p| p.layer.is_some() && p.shard.is_some() && p.section.is_some()),
                    "{what}: {problems:?}"
                );
                assert_eq!(problems.len(), 1, "{what}: {problems:?}");
                sections.extend(problems.into_iter().filter_map(|p| p.section));
            }
            victim.answers_are_right_or_errors(&what);
        }
        if is_shard(path) {
            let names: Vec<String> = sections.iter().map(Section::to_string).collect();
            let expected = ["header", "directory", "index", "column rolls", "column value", "column variance", "footer"];
            // A shard without keys has columns of no bytes.
            assert!(names == expected || names == ["header", "directory", "index", "footer"], "{names:?}");
        }
        fs::write(&file, bytes).unwrap();
    }
}

#[test]
fn files_that_are_cut_short_emptied_or_grown_are_named_and_never_answer_wrongly() {
    let victim = Victim::new();
    for (path, bytes) in &victim.files {
        let file = victim.root.join(path);
        let lengths = (0..bytes.len()).step_by(if is_shard(path) { 1 } else { 7 }).chain([bytes.len() - 1, bytes.len() - 8]);
        for length in lengths {
            fs::write(&file, &bytes[..length]).unwrap();
            let what = format!("{} cut to {length} bytes", path.display());
            let problems = victim.is_named(path, &what);
            assert!(!is_shard(path) || problems[0].section == Some(Section::Footer), "{what}: {problems:?}");
            let errors = victim.answers_are_right_or_errors(&what);
            assert!(errors > 0 || !is_shard(path), "{what}");
        }
        for extra in [1, 8, 5000] {
            fs::write(&file, [bytes.as_slice(), &vec![0; extra]].concat()).unwrap();
            let what = format!("{} with {extra} bytes more", path.display());
            victim.is_named(path, &what);
            victim.answers_are_right_or_errors(&what);
        }
        fs::write(&file, bytes).unwrap();
    }
}

#[test]
fn missing_files_are_named_and_are_errors() {
    let victim = Victim::new();
    for (path, bytes) in &victim.files {
        let file = victim.root.join(path);
        fs::remove_file(&file).unwrap();
        let what = format!("{} removed", path.display());
        let problems = victim.is_named(path, &what);
        assert!(problems[0].what.contains("missing"), "{problems:?}");
        victim.answers_are_right_or_errors(&what);
        // A folder of that name is no better.
        fs::create_dir(&file).unwrap();
        victim.is_named(path, "a folder in its place");
        victim.answers_are_right_or_errors("a folder in its place");
        fs::remove_dir(&file).unwrap();
        // Nor is a pipe, which would wait for ever.
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        victim.is_named(path, "a pipe in its place");
        victim.answers_are_right_or_errors("a pipe in its place");
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
    }
    // And the structure level sees it too.
    let (path, _) = victim.files.iter().find(|(path, _)| is_shard(path)).unwrap();
    fs::remove_file(victim.root.join(path)).unwrap();
    assert_eq!(verify(&victim.root, FileLevel::Structure).unwrap().problems.len(), 1);
}

#[test]
fn extra_files_and_folders_are_named_wherever_they_are() {
    let victim = Victim::new();
    for name in [
        "notes.txt",
        "table.json#1",
        "shards/x",
        "shards/00004/x.shard",
        "shards/00004/7-0123456789abcdef.shard",
        "shards/00099/0-0123456789abcdef.shard",
        "build/lock",
        "build/tmp/1-0",
        ".hidden",
        "src/main.rs",
    ] {
        let top = Path::new(name).components().next().unwrap().as_os_str().to_owned();
        let is_new = !victim.root.join(&top).exists();
        fs::create_dir_all(victim.root.join(name).parent().unwrap()).unwrap();
        fs::write(victim.root.join(name), "x").unwrap();
        for level in [FileLevel::Structure, FileLevel::Hash] {
            let named: Vec<String> = verify(&victim.root, level).unwrap().problems.into_iter().map(|p| p.path).collect();
            assert!(named.iter().any(|path| path == name || name.starts_with(&format!("{path}/"))), "{name}: {named:?}");
        }
        assert_eq!(victim.answers_are_right_or_errors(name), 0);
        fs::remove_file(victim.root.join(name)).unwrap();
        if is_new && name.contains('/') {
            fs::remove_dir_all(victim.root.join(&top)).unwrap();
        }
        let _ = fs::remove_dir(victim.root.join("shards/00099"));
    }
    fs::create_dir(victim.root.join("shards/00098")).unwrap();
    let problems = verify(&victim.root, FileLevel::Hash).unwrap().problems;
    assert_eq!(problems.iter().map(|p| p.path.as_str()).collect::<Vec<_>>(), ["shards/00098"]);
}

#[test]
fn a_valid_shard_under_another_shards_name_is_an_error() {
    // Shards of the same shape, so that their files have the same length; and one of another table.
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("table");
    let mut contents = vec![Content::new(4, 0, 0, 40, 2), Content::new(4, 1, 40, 40, 2), Content::new(6, 0, 0, 40, 2)];
    for content in &mut contents {
        content.keys = (0..40).step_by(2).collect();
        for scalars in &mut content.scalars {
            *scalars = (0..20).map(|i| noise(i + u64::from(content.layer)) * 100.0).collect();
        }
        content.dists = (0..20).map(|i| (i as u8, vec![0.25, 0.75])).collect();
    }
    let manifest = publish_table(&root, &contents);
    let shards: Vec<&ManifestShard> = manifest.layers.iter().flat_map(|layer| &layer.shards).collect();
    assert!(shards.iter().all(|shard| shard.bytes == shards[0].bytes));
    let saved: Vec<Vec<u8>> = shards.iter().map(|shard| fs::read(root.join(&shard.path)).unwrap()).collect();
    for (to, shard) in shards.iter().enumerate() {
        for (from, bytes) in saved.iter().enumerate().filter(|&(from, _)| from != to) {
            fs::write(root.join(&shard.path), bytes).unwrap();
            let errors = probe_everything(&root, &contents).unwrap();
            assert!(errors >= 40, "{from} as {to}: {errors} errors");
            for level in [FileLevel::Structure, FileLevel::Hash] {
                let problems = verify(&root, level).unwrap().problems;
                assert_eq!(problems.len(), 1);
                assert!(
                    problems[0].path == shard.path && problems[0].what.contains("another file has this name"),
                    "{problems:?}"
                );
            }
        }
        fs::write(root.join(&shard.path), &saved[to]).unwrap();
    }
    // Another table's shard: only the name in the header differs.
    let other = TableDir::open(&temp.path().join("other")).unwrap();
    let content = &contents[0];
    let index = encode_sorted(&content.keys, content.universe).unwrap();
    let mut spec = content.spec(FileKind::Index);
    spec.table = "synthetic-2";
    let record = write_shard(&other, &spec, Some(&index), &[]).unwrap();
    let error = other.open_shard(NAME, &record).unwrap_err();
    assert!(error.to_string().contains("the table is synthetic-2, but should be synthetic-1"), "{error}");
    other.open_shard("synthetic-2", &record).unwrap();
}

#[test]
fn a_table_that_lost_its_manifest_is_checked_by_its_sums() {
    let victim = Victim::new();
    fs::remove_file(victim.root.join("table.json")).unwrap();
    let pipe = victim.root.join(&victim.manifest.layers[1].shards[0].path);
    let kept = fs::read(&pipe).unwrap();
    fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(verify(&victim.root, FileLevel::Hash).unwrap().problems.len(), 2);
    fs::remove_file(&pipe).unwrap();
    fs::write(&pipe, kept).unwrap();
    let shard = &victim.manifest.layers[0].shards[0];
    let file = victim.root.join(&shard.path);
    let mut bytes = fs::read(&file).unwrap();
    bytes[3] ^= 1;
    fs::write(&file, bytes).unwrap();
    let problems = verify(&victim.root, FileLevel::Hash).unwrap().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!((problems[0].path.as_str(), problems[0].section.clone()), (shard.path.as_str(), Some(Section::Header)));
    assert_eq!(problems[1].path, "table.json");
    assert!(matches!(Table::open(&victim.root), Err(TableError::NotATable { .. })));
}

#[test]
fn a_directory_without_a_table_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let missing = temp.path().join("missing");
    for path in [temp.path(), &missing] {
        assert!(matches!(Table::open(path), Err(TableError::NotATable { .. })));
        assert!(matches!(verify(path, FileLevel::Hash), Err(TableError::NotATable { .. })));
    }
    fs::create_dir(temp.path().join("build")).unwrap();
    assert!(matches!(Table::open(temp.path()), Err(TableError::Unfinished { .. })));
    assert!(matches!(verify(temp.path(), FileLevel::Hash), Err(TableError::Unfinished { .. })));
    fs::write(temp.path().join("file"), "").unwrap();
    assert!(matches!(Table::open(&temp.path().join("file")), Err(TableError::NotATable { .. })));
    assert!(matches!(verify(&temp.path().join("file"), FileLevel::Hash), Err(TableError::NotATable { .. })));
}

#[test]
fn verifying_can_be_stopped() {
    let victim = Victim::new();
    let report = verify_files(&victim.root, FileLevel::Hash, &|_| false).unwrap();
    assert!(report.interrupted && report.bytes < victim.manifest.bytes && report.problems.is_empty());
}
