//! Tables that many tests look at and none changes, built once for each binary under test.
//!
//! They are kept in `target/<profile>/strata-tests/<hash of the binary>`, so that the test programs, which run one after the other, share
//! them. Another binary has another directory; that of the last one is removed.

use crate::binary::{profile_dir, strata_binary};
use crate::command::run;
use crate::text;
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A finished table. Look, and change nothing: [`copy_table`] makes one to play with.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// Its directory.
    pub dir: PathBuf,
    /// What `build --json` says of it.
    pub built: Value,
}

impl Fixture {
    /// The root, in hexadecimal.
    ///
    /// # Panics
    /// When the command did not print one.
    pub fn root(&self) -> &str {
        self.built["root"].as_str().expect("build --json prints the root")
    }

    /// What `info --json` says.
    pub fn info(&self) -> Value {
        run(["info", text(&self.dir), "--json"]).ok().json()
    }
}

/// The table of that name, built undisturbed by one worker with two threads.
///
/// # Panics
/// When it does not build.
pub fn fixture(name: &str) -> Fixture {
    let home = home();
    let lock = File::create(home.join(format!("{name}.lock"))).expect("the lock of a fixture can be made");
    lock.lock().expect("the lock of a fixture can be had");
    let dir = home.join(name);
    let built = run(["build", name, "--out", text(&dir), "--threads", "2", "--json"]).ok().json();
    Fixture { dir, built }
}

fn home() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let (hash, _) = strata_storage::hash_file(strata_binary()).expect("the binary can be read");
        let all = profile_dir().join("strata-tests");
        let home = all.join(hash.short());
        for old in fs::read_dir(&all).into_iter().flatten().flatten().filter(|entry| entry.path() != home) {
            let _ = fs::remove_dir_all(old.path()); // another test program may be at it too
        }
        fs::create_dir_all(&home).expect("target can be written");
        home
    })
}

/// Copies a table, or what there is of one.
///
/// # Panics
/// When that fails.
pub fn copy_table(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("a table can be read") {
        let entry = entry.expect("a table can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_table(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a file can be copied");
        }
    }
}
