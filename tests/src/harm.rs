//! Doing harm to the files of a table, and undoing it.

use crate::reading::{Answers, Truth};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use strata_storage::{FileLevel, Report, Table, verify_files};

/// All files below a directory, relative to it, sorted. What goes away meanwhile is not there.
///
/// # Panics
/// When it cannot be read.
pub fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(folder) = todo.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.expect("the directory can be read"),
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                todo.push(path);
            } else {
                found.push(path.strip_prefix(dir).expect("it is below it").to_str().expect("a plain name").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The length of a file.
///
/// # Panics
/// When there is none.
pub fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).len()
}

/// The bit that is flipped at a place: every bit of the byte has its turn along a file.
pub fn bit(at: u64) -> u8 {
    1 << (at % 8)
}

/// Flips a bit of a file in place. The same call undoes it.
///
/// # Panics
/// When that fails.
pub fn flip(path: &Path, at: u64, mask: u8) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the file opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("the byte is there");
    file.write_all_at(&[byte[0] ^ mask], at).expect("the byte can be changed");
}

/// Cuts a file, or makes it longer with zeros.
///
/// # Panics
/// When that fails.
pub fn set_length(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).and_then(|file: File| file.set_len(length)).expect("the length can be set");
}

/// Verifies the files of a table.
///
/// # Panics
/// When nothing can be verified: there is a table here.
pub fn verify(dir: &Path, level: FileLevel) -> Report {
    verify_files(dir, level, &|_| true).expect("a table can be verified, whatever is wrong with it")
}

/// Asserts what must hold while one file of a table is damaged: verifying names it and nothing else, and no answer is wrong. Returns what
/// became of the questions to the damaged shard; with `all` the others are asked too, and answer.
///
/// # Panics
/// When something does not hold.
pub fn assert_noticed(dir: &Path, truth: &Truth, path: &str, all: bool) -> Answers {
    let report = verify(dir, FileLevel::Hash);
    assert!(report.problems.iter().any(|problem| problem.path == path), "{path} is not named: {report:#?}");
    // With the manifest goes what only the manifest knows; everything else is judged as before.
    let others: Vec<_> = report.problems.iter().filter(|problem| problem.path != path && path != "table.json").collect();
    assert!(others.is_empty(), "{path} was damaged, and these are accused: {others:#?}");
    assert!(!report.interrupted);
    let opened = Table::open(dir);
    if path == "table.json" {
        assert!(opened.is_err(), "a damaged manifest opens");
        return Answers::default();
    }
    let table = opened.expect("the manifest is sound");
    let keys = truth.keys(path);
    let answers = if keys > 0 { truth.ask_shard(&table, path) } else { Answers::default() };
    assert_eq!(answers.right + answers.refused, keys);
    if all {
        for other in truth.paths().filter(|other| *other != path) {
            assert_eq!(truth.ask_shard(&table, other).refused, 0, "{other} is sound, and refuses");
        }
    }
    answers
}
