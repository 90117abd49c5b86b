//! What must not change a byte: the width of the vectors, and how little memory there is.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use strata_tests::{start, strata, text};

/// Builds a table; gives its root and the most memory it had, in bytes (`VmHWM`), as far as that was seen.
fn build(name: &str, dir: &Path, options: &[&str], lanes: Option<&str>) -> (String, u64) {
    let mut command = strata([&["build", name, "--out", text(dir), "--json"], options].concat());
    command.env_remove("STRATA_LANES");
    if let Some(lanes) = lanes {
        command.env("STRATA_LANES", lanes);
    }
    let mut running = start(command);
    let status = format!("/proc/{}/status", running.pid());
    let mut most = 0;
    while running.is_running() {
        let read = fs::read_to_string(&status).unwrap_or_default();
        let line = read.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        most = most.max(line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10);
        sleep(Duration::from_millis(50));
    }
    let json = running.wait().ok().json();
    (json["root"].as_str().expect("a root").to_owned(), most)
}

#[test]
fn every_width_of_vectors_gives_the_same_root() {
    let home = tempfile::tempdir().expect("a temporary directory");
    for name in ["2048-4x3+horizon=64", "2048-3x3+horizon=150", "2048-2x4+horizon=300", "bearoff-7x15"] {
        let roots = [None, Some("4"), Some("1")].map(|lanes| {
            let dir = home.path().join(format!("{name}-{lanes:?}"));
            build(name, &dir, &[], lanes).0
        });
        assert!(roots.iter().all(|root| *root == roots[0]), "{name}: {roots:?}");
    }
}

/// The layers of age 160 take some 400 MiB where there is room, and the 24 layers of pips that a layer of bearoff reads 560.
#[test]
#[ignore = "takes a minute"]
fn memory_is_what_was_allowed_and_changes_nothing() {
    for name in ["2048-4x3+horizon=160", "bearoff-10x15"] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let (root, plenty) = build(name, &home.path().join("plenty"), &["--memory", "4GiB"], None);
        let (same, most) = build(name, &home.path().join("little"), &["--memory", "256MiB"], None);
        assert_eq!(root, same);
        let allowed = (256 << 20) * 11 / 10 + (64 << 20);
        assert!((1 << 20..=allowed).contains(&most), "{name}: the peak is {most} bytes, {allowed} are allowed");
        assert!(plenty > most, "{name}: {plenty} bytes with plenty of memory, {most} with little");
    }
}
