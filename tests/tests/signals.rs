//! Ctrl-C, SIGTERM, and two builds that want one directory.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use strata_tests::binary::strata_binary;
use strata_tests::{Running, fixture, run, start, strata, text};

const NAME: &str = "2048-3x3+tile=128";

/// A build that has begun to write.
fn begun(dir: &Path, options: &[&str]) -> Running {
    let mut building = start(strata([&["build", NAME, "--out", text(dir), "--json"], options].concat()));
    let since = Instant::now();
    while !dir.join("build/commits").exists() && !dir.join("build/layers").exists() {
        assert!(building.is_running() && since.elapsed() < Duration::from_secs(60), "the build does not begin");
        sleep(Duration::from_millis(2));
    }
    building
}

#[test]
fn ctrl_c_and_sigterm_stop_in_order_and_the_command_that_is_shown_goes_on() {
    let undisturbed = fixture(NAME);
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let home = tempfile::tempdir().expect("a temporary directory");
        // A name that a shell would split.
        let dir = home.path().join("my table's place");
        let building = begun(&dir, &["--threads", "2"]);
        building.signal(signal);
        let since = Instant::now();
        let ran = building.wait().code(code).says("run the same command again");
        assert!(since.elapsed() < Duration::from_secs(60), "stopping took {:?}", since.elapsed());
        assert_eq!(ran.out, "");
        assert!(!ran.err.contains("error:"), "{ran:#?}");
        assert!(!dir.join("table.json").exists());
        let _ = run(["info", text(&dir)]).code(1).one_clear_error().says("not complete");

        let shown = ran.err.lines().map(str::trim).find(|line| line.starts_with("strata build ")).expect("the command is shown");
        let mut shell = Command::new("sh");
        let place = strata_binary().parent().expect("the binary is somewhere").to_path_buf();
        let path = format!("{}:{}", place.display(), std::env::var("PATH").unwrap_or_default());
        shell.args(["-c", shown]).env("PATH", path);
        let resumed = start(shell).wait().ok();
        assert_eq!(resumed.json()["root"], undisturbed.root());
    }
}

#[test]
fn a_second_signal_stops_at_once_and_nothing_is_lost() {
    let undisturbed = fixture(NAME);
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let building = begun(&dir, &["--threads", "1", "--workers", "2"]);
    building.signal("TERM");
    building.signal("INT");
    let ran = building.wait_at_most(Duration::from_secs(30));
    assert!(matches!(ran.code, Some(130 | 143)), "{ran:#?}");
    assert_eq!(start(strata(["build", NAME, "--out", text(&dir), "--json"])).wait().ok().json()["root"], undisturbed.root());
}

#[test]
fn a_signal_in_the_first_moments_leaves_nothing_that_is_in_the_way() {
    let undisturbed = fixture("2048-2x3");
    let home = tempfile::tempdir().expect("a temporary directory");
    for moment in 0..12 {
        let dir = home.path().join(moment.to_string());
        let building = start(strata(["build", "2048-2x3", "--out", text(&dir), "--json"]));
        sleep(Duration::from_millis(moment * 8));
        building.signal("INT");
        let ran = building.wait();
        // Before anybody listens the signal ends it as it ends any program.
        assert!(matches!((ran.code, ran.signal), (Some(0 | 130), _) | (None, Some(2))), "{ran:#?}");
        let ran = run(["build", "2048-2x3", "--out", text(&dir), "--json"]).ok();
        assert_eq!(ran.json()["root"], undisturbed.root());
    }
}

#[test]
fn the_second_of_two_builds_in_one_directory_is_refused_and_the_first_goes_on() {
    let undisturbed = fixture(NAME);
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let first = begun(&dir, &["--threads", "2"]);
    let second = run(["build", NAME, "--out", text(&dir)]).code(1);
    let second = second.says("another build").says(&first.pid().to_string());
    assert_eq!(second.err.matches("error: ").count(), 1, "{second:#?}");
    // By another way to the same place.
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).expect("links can be made");
    let _ = run(["build", NAME, "--out", text(&link)]).code(1).says("another build");
    let _ = run(["build", "2048-2x2", "--out", text(&dir)]).code(1).one_clear_error();
    assert_eq!(first.wait().ok().json()["root"], undisturbed.root());
}

#[test]
fn of_many_builds_that_start_together_one_builds() {
    let undisturbed = fixture("2048-2x3");
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let all: Vec<Running> = (0..6).map(|_| start(strata(["build", "2048-2x3", "--out", text(&dir), "--json"]))).collect();
    let mut built = 0;
    for building in all {
        let ran = building.wait();
        match ran.code {
            Some(0) => {
                assert_eq!(ran.json()["root"], undisturbed.root());
                built += 1;
            }
            _ => drop(ran.code(1).says("another build")),
        }
    }
    assert!(built >= 1);
    let _ = run(["verify", text(&dir)]).ok();
    assert_eq!(run(["build", "2048-2x3", "--out", text(&dir), "--json"]).ok().json()["root"], undisturbed.root());
}

#[test]
fn the_lock_of_a_killed_build_is_not_in_the_way() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let building = begun(&dir, &[]);
    assert!(building.kill());
    assert!(fs::metadata(dir.join("build/lock")).is_ok(), "the file stays, the lock does not");
    let ran = run(["build", NAME, "--out", text(&dir), "--json"]).ok();
    assert_eq!(ran.json()["root"], fixture(NAME).root());
}

#[test]
fn verifying_can_be_interrupted() {
    let table = fixture("2048-2x4");
    let verifying = start(strata(["verify", text(&table.dir), "--level", "bellman", "--threads", "1"]));
    sleep(Duration::from_millis(150));
    verifying.signal("INT");
    let ran = verifying.wait_at_most(Duration::from_secs(20));
    assert!(matches!(ran.code, Some(0 | 130)) || ran.signal == Some(2), "{ran:#?}");
}
