//! Builds in places that are full, read-only, taken, or no places at all, and commands that make no sense: a clear sentence, the right
//! exit code, nothing half-published, and where it helps the same command goes on.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use strata_tests::place::Mount;
use strata_tests::{Ran, copy_table, fixture, run, start, strata, text};

const NAME: &str = "2048-3x3+tile=128";

fn build(name: &str, dir: &Path) -> Command {
    strata(["build", name, "--out", text(dir), "--threads", "2", "--json"])
}

fn assert_unpublished(dir: &Path) {
    assert!(!dir.join("table.json").exists(), "half a table is published");
}

#[track_caller]
fn assert_disk_full(ran: Ran) {
    let ran = ran.code(1);
    let said = ran.err.to_lowercase();
    assert!(said.contains("no space") || said.contains("disk is full") || said.contains("full"), "{ran:#?}");
    assert!(ran.err.contains("same command goes on") || ran.err.contains("same command again"), "{ran:#?}");
    assert_eq!(ran.out, "");
}

#[test]
fn a_disk_that_fills_up_during_a_build() {
    let undisturbed = fixture(NAME);
    for wait_for in ["build/commits", "shards"] {
        let Some(mount) = Mount::tmpfs("size=256m") else { return };
        let dir = mount.path().join("t");
        let mut building = start(build(NAME, &dir));
        while !dir.join(wait_for).exists() {
            assert!(building.is_running(), "it ended before {wait_for}");
            sleep(Duration::from_millis(2));
        }
        let ballast = mount.fill();
        assert_disk_full(building.wait());
        assert_unpublished(&dir);
        let _ = run(["info", text(&dir)]).code(1).one_clear_error();

        // Still full: said again, and nothing is worse.
        let again = start(build(NAME, &dir)).wait().code(1);
        assert_eq!(again.err.matches("error: ").count(), 1, "{again:#?}");
        assert_unpublished(&dir);

        fs::remove_file(ballast).expect("the ballast goes");
        let ran = start(build(NAME, &dir)).wait().ok();
        assert_eq!(ran.json()["root"], undisturbed.root());
        let _ = run(["verify", text(&dir)]).ok();
    }
}

#[test]
fn a_disk_too_small_by_every_amount() {
    // Counts are not known before the build, so nothing refuses to begin; where it stops depends on the room.
    let name = "2048-2x3+tile=128";
    let undisturbed = fixture(name);
    let Some(mount) = Mount::tmpfs("size=64m") else { return };
    let (mut full, mut enough) = (0, 0);
    for kib in (0..40).map(|i| 16 + i * 64) {
        let dir = mount.path().join("t");
        mount.remount(&format!("size={kib}k"));
        let ran = start(build(name, &dir)).wait();
        if ran.code == Some(0) {
            assert_eq!(ran.json()["root"], undisturbed.root());
            enough += 1;
        } else {
            full += 1;
            assert_unpublished(&dir);
            assert!(ran.err.matches("error: ").count() == 1 && ran.out.is_empty(), "{kib} KiB: {ran:#?}");
        }
        mount.remount("size=64m");
        assert_eq!(start(build(name, &dir)).wait().ok().json()["root"], undisturbed.root(), "after {kib} KiB");
        let _ = run(["verify", text(&dir)]).ok();
        fs::remove_dir_all(&dir).expect("removed");
    }
    assert!(full >= 5 && enough >= 1, "{full} full, {enough} enough");
}

#[test]
fn a_file_system_without_room_for_more_files() {
    let name = "2048-2x3";
    let undisturbed = fixture(name);
    let Some(mount) = Mount::tmpfs("size=64m,nr_inodes=2000") else { return };
    for inodes in [3, 8, 20, 60, 120] {
        let dir = mount.path().join("t");
        mount.remount(&format!("nr_inodes={inodes}"));
        let ran = start(build(name, &dir)).wait().code(1);
        assert_eq!(ran.err.matches("error: ").count(), 1, "{ran:#?}");
        assert_unpublished(&dir);
        mount.remount("nr_inodes=2000");
        assert_eq!(start(build(name, &dir)).wait().ok().json()["root"], undisturbed.root());
        fs::remove_dir_all(&dir).expect("removed");
    }
}

#[test]
fn a_disk_that_is_certainly_too_small_is_refused_before_anything_is_written() {
    let Some(mount) = Mount::tmpfs("size=8m") else { return };
    let dir = mount.path().join("t");
    let _ = run(["build", "2048-3x3", "--out", text(&dir)]).code(1).one_clear_error().says("too small");
    assert!(!dir.exists());
}

#[test]
fn read_only_places_serve_finished_tables_and_nothing_else() {
    let Some(mount) = Mount::tmpfs("size=64m") else { return };
    let (table, part) = (mount.path().join("table"), mount.path().join("part"));
    copy_table(&fixture("2048-2x3").dir, &table);
    let mut building = start(build("2048-2x3", &part));
    while !part.join("build/job.json").exists() {
        assert!(building.is_running());
        sleep(Duration::from_millis(1));
    }
    building.kill();
    mount.remount("ro");
    for level in ["structure", "hash", "bellman"] {
        let _ = run(["verify", text(&table), "--level", level]).ok();
    }
    let _ = run(["info", text(&table)]).ok();
    let _ = run(["probe", text(&table), "2 0 0/0 0 2"]).ok();
    let _ = run(["build", "2048-2x3", "--out", text(&table)]).ok().says("is complete");
    if !part.join("table.json").exists() {
        let _ = run(["build", "2048-2x3", "--out", text(&part)]).code(1).says("read-only");
    }
    let _ = run(["build", "2048-2x3", "--out", text(&mount.path().join("new/deep"))]).code(1).one_clear_error().says("read-only");
    mount.remount("rw");
    assert_eq!(start(build("2048-2x3", &part)).wait().ok().json()["root"], fixture("2048-2x3").root());
}

#[test]
fn places_that_are_none() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let here = |name: &str| home.path().join(name);
    fs::write(here("file"), "mine").expect("written");
    std::os::unix::fs::symlink(here("nowhere/at/all"), here("dangling")).expect("linked");
    std::os::unix::fs::symlink(here("loop"), here("loop")).expect("linked");
    assert!(Command::new("mkfifo").arg(here("pipe")).status().expect("there is mkfifo").success());
    let long = here(&"x".repeat(256));
    let longer = here(&"deep/".repeat(1000));
    let cases = [
        (here("file"), "is a file"),
        (here("file/below"), "is a file"),
        (here("file/below/and/deeper"), "is a file"),
        (here("pipe"), ""),
        (here("loop"), ""),
        (long.clone(), "too long"),
        (longer, "too long"),
        ("/dev/null".into(), "is a file"),
        ("/proc/strata".into(), ""),
    ];
    for (dir, says) in cases {
        let ran = start(build("2048-2x2", &dir)).wait_at_most(Duration::from_secs(20)).code(1);
        let _ = ran.one_clear_error().says(says);
    }
    for dir in [here("missing"), here("file"), here("pipe"), here("loop"), here("dangling"), long, "".into()] {
        for verb in ["info", "verify"] {
            let ran = start(strata([verb, text(&dir)])).wait_at_most(Duration::from_secs(20));
            assert!(matches!(ran.code, Some(1 | 2)), "{ran:#?}");
            assert!(ran.err.contains("error: ") && ran.out.is_empty(), "{ran:#?}");
        }
    }
    assert_eq!(fs::read_to_string(here("file")).expect("read"), "mine");
    let ran = run(["build", "2048-2x2", "--out", ""]);
    assert!(matches!(ran.code, Some(1 | 2)) && ran.err.contains("error: "), "{ran:#?}");
}

#[test]
fn missing_parents_are_made_and_odd_names_are_fine() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let root = fixture("2048-2x2").root().to_owned();
    for name in ["a/b/c/d", "with blank", "Ümläute/名", "-dash", "quote'\"$(x)", "percent%20#1", "..../x", "new\nline"] {
        let dir = home.path().join(name);
        let ran = start(build("2048-2x2", &dir)).wait().ok();
        assert_eq!(ran.json()["root"], *root, "{name}");
        let _ = run(["verify", text(&dir)]).ok();
        assert_eq!(run(["probe", text(&dir), "2 0/0 2", "--json"]).ok().json()["status"], "ok");
    }
    // Relative to where the command runs, and through a link.
    let mut relative = strata(["build", "2048-2x2", "--out", "here/../here", "--json"]);
    relative.current_dir(home.path());
    fs::create_dir(home.path().join("here")).expect("made");
    assert_eq!(start(relative).wait().ok().json()["root"], *root);
    std::os::unix::fs::symlink(home.path().join("here"), home.path().join("link")).expect("linked");
    let _ = start(build("2048-2x2", &home.path().join("link"))).wait().ok().says("is complete");
}

#[test]
fn foreign_files_are_named_and_left_alone() {
    let home = tempfile::tempdir().expect("a temporary directory");
    for (name, is_folder) in
        [("thesis.tex", false), (".git", true), ("shards", false), ("build/notes", false), ("shards/x", true)]
    {
        let dir = home.path().join(name.replace('/', "-"));
        let file = dir.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        if is_folder {
            fs::create_dir(&file).expect("made");
        } else {
            fs::write(&file, "precious").expect("written");
        }
        let before = strata_tests::harm::files(&dir);
        let _ = run(["build", "2048-2x2", "--out", text(&dir)]).code(1).one_clear_error().says(name);
        assert_eq!(strata_tests::harm::files(&dir), before, "something was written or removed");
        assert!(file.exists());
    }
    // The same in a directory that holds a part of a table, and in one that holds all of it.
    let dir = home.path().join("whole");
    copy_table(&fixture("2048-2x2").dir, &dir);
    fs::write(dir.join("shards/mine"), "precious").expect("written");
    let _ = run(["build", "2048-2x2", "--out", text(&dir)]).code(1).one_clear_error().says("shards/mine");
}

#[test]
fn a_directory_of_another_table_is_refused() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let whole = home.path().join("whole");
    copy_table(&fixture("2048-2x2").dir, &whole);
    for other in ["2048-2x3", "2048-2x2+tile=16", "2048-2x2+four=0.2", "bearoff-6x2", "2048-2x2+horizon=20"] {
        let _ = run(["build", other, "--out", text(&whole)]).code(1).one_clear_error().says("2048-2x2").says("help: ");
    }
    // The same table by another of its names is the same table.
    let _ = run(["build", "2048-2x2+four=0.10", "--out", text(&whole)]).ok().says("is complete");
    let part = home.path().join("part");
    let mut building = start(build("2048-2x4", &part));
    while !part.join("build/job.json").exists() {
        assert!(building.is_running());
        sleep(Duration::from_millis(1));
    }
    assert!(building.kill());
    let before = strata_tests::harm::files(&part);
    let _ = run(["build", "2048-2x3", "--out", text(&part)]).code(1).one_clear_error().says("2048-2x4");
    assert_eq!(strata_tests::harm::files(&part), before);
    let _ = run(["verify", text(&whole)]).ok();
}

#[test]
fn too_little_memory_is_said_before_anything_is_written() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    for (name, memory) in [("2048-2x2", "1KiB"), ("2048-3x3", "1KiB"), ("bearoff-6x15", "1"), ("2048-3x3", "1MiB")] {
        let ran = run(["build", name, "--out", text(&dir), "--memory", memory]).code(2).one_clear_error();
        let ran = ran.says("too little").says("help: give at least --memory ");
        assert!(!dir.exists());
        // What it asks for is enough.
        if name == "2048-2x2" {
            let enough =
                ran.err.rsplit("--memory ").next().and_then(|text| text.split_whitespace().next()).expect("a size").to_owned();
            let _ = run(["build", name, "--out", text(&dir), "--memory", &enough]).ok();
            fs::remove_dir_all(&dir).expect("removed");
        }
    }
}

#[test]
fn bad_names_say_which_part_is_wrong() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let long = "2048-3x3".to_owned() + &"+tile=64".repeat(100);
    let names = [
        ("2048-5x9", "5 rows"),
        ("2048-3x3+tile=300", "+tile=300"),
        ("bearoff-0x15", "0 points"),
        ("bearoff-6x16", "16 checkers"),
        ("chess", "chess"),
        ("", ""),
        ("2048", ""),
        ("2048-", ""),
        ("2048-3", ""),
        ("2048-3x", ""),
        ("2048-x3", ""),
        ("2048-3X3", ""),
        ("2048-3x3x3", ""),
        ("2048-03x3", ""),
        ("2048- 3x3", ""),
        ("2048-3x3 ", ""),
        ("2048-3x3+", ""),
        ("2048-3x3+tile", "tile"),
        ("2048-3x3+tile=", "tile"),
        ("2048-3x3+tile=4", "+tile=4"),
        ("2048-3x3+tile=2048", "+tile=2048"),
        ("2048-3x3+horizon=7", "+horizon=7"),
        ("2048-3x3+horizon=0", ""),
        ("2048-3x3+four=0", "+four=0"),
        ("2048-3x3+four=1", "+four=1"),
        ("2048-3x3+four=nan", "nan"),
        ("2048-3x3+four=1e-3", ""),
        ("2048-3x3+four=-0.1", ""),
        ("2048-3x3+tile=64+tile=64", "twice"),
        ("2048-3x3+doubles=0.2", "doubles"),
        ("bearoff-6x15+four=0.2", "four"),
        ("2048-3x3+meaningless", "horizon"),
        ("2048-3x3\n", ""),
        ("２０４８-3x3", ""),
        ("bearoff-19x1", "19 points"),
        ("bearoff-99999999999999999999x1", ""),
        ("../2048-3x3", ""),
        (&long, ""),
    ];
    for (name, part) in names {
        let _ = run(["build", name, "--out", text(&dir)]).code(2).one_clear_error().says(part);
        let _ = run(["predict", name]).code(2).one_clear_error().says(part);
        assert!(!dir.exists(), "{name} leaves something behind");
    }
}

#[test]
fn tables_too_large_for_any_machine_are_refused_or_predicted_but_never_begun_in_vain() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    for name in ["2048-4x4", "2048-4x3", "bearoff-18x15"] {
        let ran = run(["build", name, "--out", text(&dir)]);
        assert!(matches!(ran.code, Some(1 | 2)), "{ran:#?}");
        let _ = ran.one_clear_error();
        assert!(!dir.join("build/commits").exists());
    }
}

#[test]
fn positions_that_are_none_are_told_from_positions_outside() {
    let whole = fixture("2048-2x3").dir;
    let long = "2 ".repeat(60_000); // as long as one argument may be
    for position in [
        "",
        " ",
        "/",
        "hello",
        "2 4",
        "2 2 2/0 0",
        "2 2 2 2/0 0 0",
        "2 0 0/0 0 2/0 0 0",
        "3 0 0/0 0 2",
        "1 0 0/0 0 2",
        "-2 0 0/0 0 2",
        "2 0 0/0 0 256",
        "99999999999999999999 0 0/0 0 2",
        "0 0 0/0 0 0",
        "2 0 0/0 0 0",
        "2,0,0/0,0,2",
        "2 0 0\\0 0 2",
        "٢ 0 0/0 0 2",
        &long,
    ] {
        let ran = run(["probe", text(&whole), position]).code(2).one_clear_error();
        assert!(ran.err.len() < 10_000, "the text comes back at full length");
        let ran = run(["probe", text(&whole), position, "--json"]).code(2);
        assert_eq!(ran.json()["status"], "impossible");
    }
    // An age that occurs, but a board that no play leads to: nothing smaller than 8 is there.
    assert_eq!(run(["probe", text(&whole), "8 16 32/0 0 0", "--json"]).code(2).json()["status"], "impossible");
    let cut = fixture("2048-2x3+horizon=20").dir;
    assert_eq!(run(["probe", text(&cut), "16 8 2/0 0 2", "--json"]).code(1).json()["status"], "outside");
    assert_eq!(run(["probe", text(&cut), "2 0 0/0 0 2", "--json"]).ok().json()["status"], "ok");
    let tile = fixture("2048-2x3+tile=32").dir;
    assert_eq!(run(["probe", text(&tile), "32 2 0/0 0 0", "--json"]).code(1).json()["status"], "outside");
    let bearoff = fixture("bearoff-6x2").dir;
    for position in
        ["", "3", "0,0,0,0,0,3", "1,1,1", "a", "1,,0", "0,0,0,0,0,0,1", "-1,0", "1.5", "16,0,0,0,0,0", "999999999999999999999"]
    {
        let ran = run(["probe", text(&bearoff), position, "--json"]);
        assert!(matches!(ran.code, Some(1 | 2)), "{ran:#?}");
        assert_ne!(ran.json()["status"], "ok");
    }
    for roll in ["77", "07", "6", "666", "", "x", "6-7"] {
        let _ = run(["probe", text(&bearoff), "1,0,0,0,0,1", "--roll", roll]).code(2).one_clear_error();
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_the_table_is_there_all_the_same() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").expect("there is /dev/full"));
    let table = fixture("2048-2x2").dir;
    let commands = [
        build("2048-2x2", &dir),
        strata(["info", text(&table), "--layers"]),
        strata(["probe", text(&table), "2 0/0 2"]),
        strata(["verify", text(&table), "--json"]),
    ];
    for mut command in commands {
        let output = command.stdin(Stdio::null()).stdout(full()).stderr(Stdio::piped()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("standard output") && !said.contains("panicked"), "{said}");
    }
    let _ = run(["verify", text(&dir)]).ok();
    // Nobody to tell: the exit code alone says it.
    let mut silent = strata(["verify", text(&table)]);
    assert_eq!(silent.stdout(Stdio::null()).stderr(full()).status().expect("it starts").code(), Some(0));
    let mut silent = strata(["info", "/nowhere"]);
    assert_eq!(silent.stdout(full()).stderr(full()).status().expect("it starts").code(), Some(1));
}

#[test]
fn few_open_files_are_enough_or_the_limit_is_named() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let binary = strata_tests::binary::strata_binary();
    let limited = |limit: u32, arguments: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit} && exec '{}' {arguments}", binary.display())]);
        start(shell).wait()
    };
    let table = fixture("2048-2x3");
    for limit in [64, 32] {
        let ran = limited(limit, &format!("build 2048-2x3 --out {} --json", text(&dir)));
        if ran.code == Some(0) {
            assert_eq!(ran.json()["root"], table.root());
        } else {
            assert!(ran.code == Some(1) && ran.err.contains("error: "), "{ran:#?}");
        }
        assert_eq!(run(["build", "2048-2x3", "--out", text(&dir), "--json"]).ok().json()["root"], table.root());
        fs::remove_dir_all(&dir).expect("removed");
        // Maps need no open file, so 125 shards are read with fewer.
        let _ = limited(limit, &format!("verify {} --level bellman", text(&table.dir))).ok();
    }
}
