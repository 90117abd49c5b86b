//! Files for GNU Backgammon: byte for byte its own, whatever was asked for before, and nothing lost when a request is refused.

use std::fs;
use std::path::Path;
use std::process::Command;
use strata_tests::{Ran, fixture, golden, run, text};

fn export(table: &Path, file: &Path, options: &[&str]) -> Ran {
    run([&["export", text(table), "--format", "gnubg", "--out", text(file)], options].concat())
}

fn has_the_golden_sum(points: usize) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (table, file) = (fixture(&format!("bearoff-{points}x15")), home.path().join("gnubg.bd"));
    let json = export(&table.dir, &file, &["--json"]).ok().json();
    assert_eq!(json["md5"], golden::md5_of_one_sided()[points - 1], "{points} points");
    assert_eq!(json["bytes"], fs::metadata(&file).expect("it is there").len());
    // 65,535ths, rounded at every step: near the exact means, and not equal to them.
    let off = json["largest_difference"].as_f64().expect("a number");
    assert!(off > 1e-6 && off < 1e-3, "{off}");
    assert_eq!(fs::read_dir(home.path()).expect("it is there").count(), 1, "something is left beside the file");
}

#[test]
fn files_of_up_to_six_points_have_the_sums_of_the_manual() {
    assert_eq!(golden::md5_of_one_sided().len(), 13);
    (1..=6).for_each(has_the_golden_sum);
}

#[test]
#[ignore = "builds tables of up to three million positions"]
fn files_of_seven_to_ten_points_have_the_sums_of_the_manual() {
    (7..=10).for_each(has_the_golden_sum);
}

/// Chances of every position in a file without compression.
fn plain(bytes: &[u8], gammons: bool) -> Vec<Vec<u16>> {
    let record = if gammons { 128 } else { 64 };
    let number = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
    bytes[40..].chunks(record).map(|record| record.chunks(2).map(number).collect()).collect()
}

#[test]
fn what_is_left_out_changes_nothing_else() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let table = fixture("bearoff-4x15");
    let written = |name: &str, options: &[&str]| {
        let file = home.path().join(name);
        let _ = export(&table.dir, &file, options).ok();
        fs::read(file).expect("it was written")
    };
    let both = written("both", &["--uncompressed"]);
    let wins = written("wins", &["--uncompressed", "--no-gammons"]);
    assert!(both.starts_with(b"gnubg-OS-04-15-1-0-0x") && wins.starts_with(b"gnubg-OS-04-15-0-0-0x"));
    let (both, wins) = (plain(&both, true), plain(&wins, false));
    assert_eq!((both.len(), wins.len()), (3876, 3876));
    for (both, wins) in both.iter().zip(&wins) {
        assert_eq!(both[..32], wins[..]);
        assert_eq!(both[32..].iter().map(|&chance| u32::from(chance)).sum::<u32>(), 65_535);
    }
    // And compressed: each entry points at the chances from the first to the last.
    for (name, options, entry) in [("packed", &[][..], 8), ("packed wins", &["--no-gammons"], 6)] {
        let bytes = written(name, options);
        let data = 40 + 3876 * entry;
        for (index, expected) in both.iter().enumerate() {
            let head = &bytes[40 + index * entry..][..entry];
            let mut at = data + 2 * u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            for (span, expected) in head[4..].chunks(2).zip(expected.chunks(32)) {
                let (length, first) = (usize::from(span[0]), usize::from(span[1]));
                let mut chances = [0; 32];
                for chance in &mut chances[first..first + length] {
                    *chance = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
                    at += 2;
                }
                assert_eq!(chances, expected, "{name}, position {index}");
            }
        }
    }
}

/// The real program, where it is installed (Debian: gnubg); it is no part of anybody's PATH there.
fn makebearoff() -> Option<Command> {
    let places = ["makebearoff", "/usr/games/makebearoff"];
    places.into_iter().find(|program| Command::new(program).arg("--version").output().is_ok()).map(Command::new)
}

#[test]
fn makebearoff_writes_the_same_file() {
    let Some(mut makebearoff) = makebearoff() else {
        eprintln!("skipped: there is no makebearoff here (Debian: apt-get install gnubg)");
        return;
    };
    let home = tempfile::tempdir().expect("a temporary directory");
    let (ours, theirs) = (home.path().join("ours.bd"), home.path().join("theirs.bd"));
    let ran = makebearoff.args(["-o", "6", "-f", text(&theirs)]).output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    let _ = export(&fixture("bearoff-6x15").dir, &ours, &[]).ok();
    assert!(fs::read(&ours).expect("ours") == fs::read(&theirs).expect("theirs"), "the files differ");
}

#[test]
fn a_request_that_is_refused_leaves_the_file_as_it_was() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("gnubg.bd");
    fs::write(&file, "precious").expect("it can be written");
    for (table, says) in
        [("bearoff-6x10", "10 checkers"), ("bearoff-3x15+doubles=0.2", "fair dice"), ("2048-2x2", "no bearoff table")]
    {
        let _ = export(&fixture(table).dir, &file, &[]).code(2).one_clear_error().says(says);
    }
    let _ = export(home.path(), &file, &[]).code(1).one_clear_error();
    let table = fixture("bearoff-4x15");
    let _ = export(&table.dir, home.path(), &[]).code(2).one_clear_error().says("is a directory");
    let _ = export(&table.dir, &home.path().join("none/gnubg.bd"), &[]).code(1).one_clear_error().says("cannot write");
    assert_eq!(fs::read(&file).expect("it is there"), b"precious");
    // A good one replaces it.
    let _ = export(&table.dir, &file, &[]).ok();
    assert_eq!(fs::metadata(&file).expect("it is there").len(), 87_074);
}
