//! Which names belong to a table, and removing those that are no longer needed. A name that is not one of ours is never touched.

use crate::dir::{TMP, TableDir};
use crate::error::StoreError;
use crate::record::{FileKind, is_artifact_name, is_layer_name};
use std::collections::BTreeSet;
use std::fs;
use std::io;

/// What a name in a table's directory stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// A folder that tables have.
    Folder,
    /// A shard, or what only building needs of its kind.
    Artifact,
    /// A record, a list of sums, the manifest, the lock.
    Record,
    /// A file that is, or was, being written.
    Unfinished,
    /// Anything else.
    Foreign,
}

/// What a name, relative to the table, stands for.
pub(crate) fn classify(name: &str, is_dir: bool) -> Class {
    let parts: Vec<&str> = name.split('/').collect();
    let in_artifacts = FileKind::ALL.into_iter().find_map(|kind| name.strip_prefix(kind.folder())?.strip_prefix('/'));
    if is_dir {
        let ours = match parts.as_slice() {
            ["build"] | ["build", "commits" | "layers" | "tmp"] => true,
            _ => FileKind::ALL.iter().any(|kind| kind.folder() == name) || in_artifacts.is_some_and(is_layer_name),
        };
        return if ours { Class::Folder } else { Class::Foreign };
    }
    match parts.as_slice() {
        ["build", "tmp", _] => return Class::Unfinished,
        ["build", "lock"] | ["table.json" | "B3SUMS" | "SHA256SUMS"] => return Class::Record,
        ["build", file] | ["build", "commits" | "layers", file] if file.ends_with(".json") => return Class::Record,
        _ => {}
    }
    if in_artifacts
        .and_then(|name| name.split_once('/'))
        .is_some_and(|(layer, file)| is_layer_name(layer) && is_artifact_name(file))
    {
        return Class::Artifact;
    }
    // The object store writes NAME to NAME#1 first.
    match name.rsplit_once('#') {
        Some((stem, number)) if !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()) => match classify(stem, false) {
            Class::Record | Class::Artifact => Class::Unfinished,
            other => other,
        },
        _ => Class::Foreign,
    }
}

/// Every file and folder of a directory below `folder` (empty: all of it), relative to the directory, folders before what is in
/// them, sorted. Foreign folders are named but not entered.
pub(crate) fn walk(root: &std::path::Path, folder: &str) -> Result<Vec<(String, Class)>, StoreError> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        let path = root.join(&folder);
        let fail = |error| StoreError::io("list", &path, error);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(fail)?,
        };
        for entry in entries {
            let entry = entry.map_err(fail)?;
            // A name that is not UTF-8 is shown with replacement characters, and none of ours has those.
            let last = entry.file_name().to_string_lossy().into_owned();
            let name = if folder.is_empty() { last } else { format!("{folder}/{last}") };
            // Follows links: a table may keep its shards on another disk.
            let is_dir = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
            let class = classify(&name, is_dir);
            if class == Class::Folder {
                todo.push(name.clone());
            }
            found.push((name, class));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

impl TableDir {
    /// Files and folders that no table puts there, sorted. Folders are not looked into. Blocks, as all of these.
    pub fn foreign_files(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.names("", |class| class == Class::Foreign)?.into_iter().collect())
    }

    /// Removes files that were being written when a build was stopped.
    pub fn clean_tmp(&self) -> Result<(), StoreError> {
        if self.is_far() {
            // What is written to an object store is there when all of it is.
            return Ok(());
        }
        for name in self.names("", |class| class == Class::Unfinished)? {
            self.remove(&name)?;
        }
        self.remove_empty_folders(TMP)
    }

    /// Removes shards, and files of their kind that only building needs, that are not in `keep`, and folders that are empty then.
    /// Returns the names of the files. Records stay.
    pub fn remove_unlisted(&self, keep: &BTreeSet<String>) -> Result<Vec<String>, StoreError> {
        let names: Vec<String> =
            self.names("", |class| class == Class::Artifact)?.into_iter().filter(|name| !keep.contains(name)).collect();
        for name in &names {
            self.remove(name)?;
        }
        for kind in FileKind::ALL {
            self.remove_empty_folders(kind.folder())?;
        }
        Ok(names)
    }

    /// Removes everything under `build/` that is ours. The lock stays until it is dropped, and takes the folder with it.
    pub fn remove_build(&self) -> Result<(), StoreError> {
        for name in self.names("build", |class| class != Class::Folder && class != Class::Foreign)? {
            if name != "build/lock" {
                self.remove(&name)?;
            }
        }
        self.remove_empty_folders("build")?;
        let names: Vec<String> = self.names("build", |class| class == Class::Foreign)?.into_iter().collect();
        if names.is_empty() { Ok(()) } else { Err(StoreError::Foreign { path: self.shown(""), names }) }
    }

    fn names(&self, folder: &str, wanted: impl Fn(Class) -> bool) -> Result<BTreeSet<String>, StoreError> {
        if let Some(remote) = self.remote() {
            let listed = async { if folder.is_empty() { self.list_all().await } else { self.list(folder).await } };
            let found = remote.bucket.block_on(listed)?;
            return Ok(found.into_iter().filter(|name| wanted(classify(name, false))).collect());
        }
        Ok(walk(self.root(), folder)?.into_iter().filter(|&(_, class)| wanted(class)).map(|(name, _)| name).collect())
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        if let Some(remote) = self.remote() {
            return remote.bucket.block_on(self.delete(name));
        }
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", &self.path(name), error)),
            _ => Ok(()),
        }
    }

    /// Removes a folder of ours and those in it, as far as they are empty.
    fn remove_empty_folders(&self, folder: &str) -> Result<(), StoreError> {
        if self.is_far() {
            // A folder of an object store is there as long as something is in it.
            return Ok(());
        }
        let mut folders: Vec<String> = self.names(folder, |class| class == Class::Folder)?.into_iter().collect();
        folders.insert(0, folder.to_owned());
        for name in folders.iter().rev() {
            match fs::remove_dir(self.path(name)) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {}
                // A link to a directory is no directory to remove.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) => return Err(StoreError::io("remove", &self.path(name), error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [&str; 15] = [
        "table.json",
        "B3SUMS",
        "SHA256SUMS",
        "build/job.json",
        "build/lock",
        "build/epoch.json",
        "build/commits/3.17.json",
        "build/layers/3.json",
        "build/tmp/77-3",
        "shards/00004/0-0123456789abcdef.shard",
        "build/index/00004/0-0123456789abcdef.shard",
        "build/work/00004/12-0123456789abcdef.shard",
        "build/checkpoint/00004/0-0123456789abcdef.shard",
        "build/stretch/00004/0-0123456789abcdef.shard",
        "build/partial/00004/0-0123456789abcdef.shard",
    ];

    fn table(foreign: &[&str]) -> (tempfile::TempDir, TableDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = TableDir::open(temp.path()).unwrap();
        for name in OURS.iter().chain(foreign) {
            fs::create_dir_all(dir.path(name).parent().unwrap()).unwrap();
            fs::write(dir.path(name), "x").unwrap();
        }
        (temp, dir)
    }

    #[test]
    fn the_names_of_a_table_are_not_foreign_and_all_others_are() {
        let foreign =
            ["notes.txt", "shards/00004/x.shard", "shards/4/0-0123456789abcdef.shard", "build/commits/a", "src/main.rs", "x#1"];
        let (_temp, dir) = table(&foreign);
        fs::write(dir.path("table.json#1"), "x").unwrap();
        let found = dir.foreign_files().unwrap();
        assert_eq!(found, ["build/commits/a", "notes.txt", "shards/00004/x.shard", "shards/4", "src", "x#1"]);
    }

    #[test]
    fn what_is_not_listed_goes_and_what_is_foreign_stays() {
        let (_temp, dir) =
            table(&["shards/00006/1-0123456789abcdef.shard", "shards/00006/mine", "shards/00008/1-0123456789abcdef.shard"]);
        let keep = BTreeSet::from(["shards/00004/0-0123456789abcdef.shard".to_owned()]);
        let removed = dir.remove_unlisted(&keep).unwrap();
        assert_eq!(
            removed,
            [
                "build/checkpoint/00004/0-0123456789abcdef.shard",
                "build/index/00004/0-0123456789abcdef.shard",
                "build/partial/00004/0-0123456789abcdef.shard",
                "build/stretch/00004/0-0123456789abcdef.shard",
                "build/work/00004/12-0123456789abcdef.shard",
                "shards/00006/1-0123456789abcdef.shard",
                "shards/00008/1-0123456789abcdef.shard"
            ]
        );
        assert!(dir.path("shards/00004/0-0123456789abcdef.shard").exists() && dir.path("shards/00006/mine").exists());
        assert!(dir.path("build/commits/3.17.json").exists());
        assert!(!dir.path("shards/00008").exists() && !dir.path("build/work").exists());
        assert!(!dir.path("build/stretch").exists());
    }

    #[test]
    fn unfinished_files_go_at_the_start_of_a_build() {
        let (_temp, dir) = table(&["build/commits/3.4.json#2", "table.json#1"]);
        dir.clean_tmp().unwrap();
        assert!(!dir.path("build/tmp").exists() && !dir.path("table.json#1").exists());
        assert!(!dir.path("build/commits/3.4.json#2").exists() && dir.path("build/commits/3.17.json").exists());
    }

    #[test]
    fn after_publication_nothing_of_the_build_is_left_but_foreign_files() {
        let (_temp, dir) = table(&[]);
        let lock = dir.lock().unwrap();
        dir.remove_build().unwrap();
        drop(lock);
        assert!(!dir.path("build").exists() && dir.path("table.json").exists());
        let (_temp, dir) = table(&["build/mine"]);
        assert!(matches!(dir.remove_build(), Err(StoreError::Foreign { names, .. }) if names == ["build/mine"]));
        assert!(dir.path("build/mine").exists() && !dir.path("build/job.json").exists());
    }
}
