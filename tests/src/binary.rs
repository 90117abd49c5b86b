//! Finds the binary under test, and builds it when it is missing or older than its sources.
//!
//! Cargo builds `strata` for its own package's tests only, so `cargo test -p strata-tests` on a fresh clone has none. Which sources it is made
//! of stands in the file `strata.d`, which cargo writes beside it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The binary under test: `STRATA_BIN`, or the one of the profile that this test was built with.
///
/// # Panics
/// When there is none and it cannot be built.
pub fn strata_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = env::var_os("STRATA_BIN") {
            return path.into();
        }
        let binary = profile_dir().join(format!("strata{}", env::consts::EXE_SUFFIX));
        if !is_fresh(&binary) {
            build();
        }
        assert!(binary.is_file(), "{} was not built; set STRATA_BIN to the binary to test", binary.display());
        binary
    })
}

/// `target/<profile>`: test executables are in `deps` below it.
pub(crate) fn profile_dir() -> PathBuf {
    let executable = env::current_exe().expect("a running program has a path");
    executable.ancestors().nth(2).expect("cargo puts tests two levels deep").to_path_buf()
}

/// Whether the binary is there and no source of it is newer.
fn is_fresh(binary: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let (Some(built), Ok(rule)) = (changed(binary), fs::read_to_string(binary.with_extension("d"))) else { return false };
    let sources = rule.lines().filter_map(|line| line.split_once(": ")).flat_map(|(_, sources)| words(sources));
    let times: Vec<Option<SystemTime>> = sources.map(|source| changed(Path::new(&source))).collect();
    !times.is_empty() && times.iter().all(|time| time.is_some_and(|time| time <= built))
}

/// The words of a make rule: blanks within them are escaped.
fn words(text: &str) -> Vec<String> {
    text.replace("\\ ", "\0").split_whitespace().map(|word| word.replace('\0', " ")).collect()
}

fn build() {
    let directory = profile_dir();
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "strata", "--profile", profile, "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(directory.parent().unwrap_or(&directory))
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "the strata binary does not build");
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn names_with_blanks_are_one_word() {
        assert_eq!(words("/a/b.rs /my\\ tables/c.rs"), ["/a/b.rs", "/my tables/c.rs"]);
    }
}
