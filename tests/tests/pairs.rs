//! Two-sided bearoff from the command to the last digit: `golden/bearoff.md`, GNU Backgammon's files, and the program itself.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use strata_games::TableReader;
use strata_storage::Table;
use strata_tests::golden::{assert_within, count_bearoff, md5_of_two_sided, on_bearoff};
use strata_tests::{Fixture, Ran, fixture, run, text};
use strata_worker::GameTable;

/// How far makebearoff's rounding moves a value of six checkers, at most.
const DRIFT: f64 = 1.6e-4;

/// The five equities of a position: value and bound.
fn equities(table: &Path, position: &str) -> Vec<(String, f64, f64)> {
    let json = run(["probe", text(table), position, "--json"]).ok().json();
    let columns = json["columns"].as_array().expect("columns").iter();
    columns
        .map(|column| {
            let name = column["name"].as_str().expect("a name").to_owned();
            (name, column["value"].as_f64().expect("a number"), column["error"].as_f64().expect("a bound"))
        })
        .collect()
}

fn equity(table: &Path, position: &str, column: &str) -> (f64, f64) {
    let found = equities(table, position).into_iter().find(|(name, ..)| name == column);
    found.map(|(_, value, error)| (value, error)).unwrap_or_else(|| panic!("no column {column}"))
}

#[test]
fn exact_fractions_and_posted_values() {
    let table = fixture("bearoff-6x6v6");
    assert_eq!(table.info()["keys"].as_u64(), Some(924 * 924));
    let bound = table.built["error_bound"].as_f64().expect("a bound");
    assert!(bound < 1.0 / 32_768.0, "{bound} is not within 2^-15");
    for (position, column, golden) in [
        ("0,0,0,0,0,1 v 0,0,0,0,0,1", "cubeless", "5/8"),
        ("0,0,0,0,0,1 v 0,0,0,0,0,1", "owned", "5/8"),
        ("0,0,0,0,0,1 v 0,0,0,0,0,1", "centred", "1/2"),
        ("0,0,0,2,0,0 v 1,0,0,0,0,0", "cubeless", "-7/18"),
    ] {
        let (value, error) = equity(&table.dir, position, column);
        assert!(error <= bound);
        assert_within(value, on_bearoff(golden), error);
    }
    // Four digits of values that makebearoff rounded.
    for (position, golden) in [
        ("1,1,1,0,1,2 v 1,0,0,1,0,4", ["+0.7554", "+0.9339", "+0.9303", "+0.7441"]),
        ("0,0,0,0,0,6 v 0,0,0,0,0,6", ["+0.3023", "+0.5449", "+0.4849", "+0.2215"]),
    ] {
        for (column, golden) in ["cubeless", "owned", "centred", "opponent"].into_iter().zip(golden) {
            assert_within(equity(&table.dir, position, column).0, on_bearoff(golden), DRIFT);
        }
    }
    assert_eq!(count_bearoff("2,944,581,696"), 54_264 * 54_264);
}

/// Every `step`th pair of the smaller table is the same in the larger one, within what the files say they may be off.
fn corner(larger: &Path, smaller: &Path, step: usize) -> u64 {
    let tables = [larger, smaller].map(|dir| Table::open(dir).expect("a table"));
    let spaces = [&tables[0], &tables[1]]
        .map(|table| strata_games::open(&table.manifest().table.parse().expect("a name")).expect("it opens"));
    let mut compared = 0;
    for layer in &tables[1].manifest().layers {
        let reader = GameTable(&tables[1]);
        let beside = GameTable(&tables[0]);
        for rank in (0..layer.shards.iter().map(|shard| shard.keys).sum::<u64>()).step_by(step) {
            let key = strata_games::Key { layer: strata_games::Layer(layer.layer), rank };
            let position = spaces[1].format(spaces[1].unrank(key).expect("a pair"));
            if position == spaces[1].format(strata_games::Position(0)) {
                continue;
            }
            let other = spaces[0].rank(spaces[0].parse(&position).expect("it is a pair of both")).expect("and has a place");
            let slots = [beside.find(other), reader.find(key)].map(|slot| slot.expect("it can be read").expect("it is there"));
            for column in 0..spaces[0].scalar_columns().len() {
                let [a, b] =
                    [beside.scalar(slots[0], column), reader.scalar(slots[1], column)].map(|value| value.expect("a value"));
                assert!((a.value - b.value).abs() <= a.error + b.error, "{position}: {a:?} and {b:?}");
            }
            compared += 1;
        }
    }
    compared
}

#[test]
fn fewer_checkers_are_a_corner_of_more() {
    assert!(corner(&fixture("bearoff-3x15v15").dir, &fixture("bearoff-3x11v11").dir, 1) > 130_000);
    assert!(corner(&fixture("bearoff-6x6v6").dir, &fixture("bearoff-6x5v3").dir, 1) > 20_000);
}

/// Tables that take minutes: `STRATA_PAIRS=LARGER:SMALLER cargo test -p strata-tests --test pairs -- --ignored corner`.
#[test]
#[ignore = "compares two tables that were built before, named in STRATA_PAIRS"]
fn corner_of_tables_that_are_there() {
    let Ok(names) = std::env::var("STRATA_PAIRS") else { return eprintln!("skipped: STRATA_PAIRS names no tables") };
    let (larger, smaller) = names.split_once(':').expect("LARGER:SMALLER");
    println!("{} pairs agree", corner(Path::new(larger), Path::new(smaller), 997));
}

#[test]
fn verify_recomputes_all_five_columns() {
    let table = fixture("bearoff-3x15v3");
    let _ = run(["verify", text(&table.dir), "--level", "bellman"]).ok().prints("ok");
}

fn export(table: &Fixture, file: &Path, options: &[&str]) -> Ran {
    run([&["export", text(&table.dir), "--format", "gnubg", "--out", text(file)], options].concat())
}

fn has_the_golden_sum(checkers: usize) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (table, file) = (fixture(&format!("bearoff-6x{checkers}v{checkers}")), home.path().join("gnubg.bd"));
    let json = export(&table, &file, &["--json"]).ok().json();
    assert_eq!(json["md5"], md5_of_two_sided()[checkers - 1], "{checkers} checkers");
    let off = json["largest_difference"].as_f64().expect("a number");
    assert!(off > 1e-6 && off < if checkers <= 6 { DRIFT } else { 3e-4 }, "{checkers} checkers: {off}");
    let _ = run(["import", text(&file), "--table", text(&table.dir)]).ok().prints("ok");
}

#[test]
fn files_of_up_to_seven_checkers_have_the_sums_of_the_manual() {
    assert_eq!(md5_of_two_sided().len(), 11);
    (1..=7).for_each(has_the_golden_sum);
}

#[test]
#[ignore = "tables of 25 million pairs"]
fn files_of_eight_and_nine_checkers_have_the_sums_of_the_manual() {
    (8..=9).for_each(has_the_golden_sum);
}

/// A program of GNU Backgammon (Debian: gnubg), where it is installed; it is no part of anybody's PATH there.
fn program(name: &str) -> Option<Command> {
    let places = [name.to_owned(), format!("/usr/games/{name}")];
    let found = places.into_iter().find(|program| Command::new(program).arg("--version").output().is_ok()).map(Command::new);
    if found.is_none() {
        eprintln!("skipped: there is no {name} here (Debian: apt-get install gnubg gnubg-data)");
    }
    found
}

#[test]
fn makebearoff_writes_the_same_file() {
    let Some(mut makebearoff) = program("makebearoff") else { return };
    let home = tempfile::tempdir().expect("a temporary directory");
    let (ours, theirs) = (home.path().join("ours.bd"), home.path().join("theirs.bd"));
    let ran = makebearoff.args(["-t", "6x4", "-f", text(&theirs)]).output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    let _ = export(&fixture("bearoff-6x4v4"), &ours, &[]).ok();
    assert!(fs::read(&ours).expect("ours") == fs::read(&theirs).expect("theirs"), "the files differ");
}

/// What the program is told: the position of 7 checkers on the 5- and 6-point each, and to evaluate it.
const SCRIPT: &str = "set player 0 human\nset player 1 human\nset automatic roll off\nset automatic game off\nnew session\nset turn 1\n\
    set board simple 0 0 0 0 0 3 4 0 0 0 0 0 0 0 0 0 0 0 0 -4 -3 0 0 0 0 0\neval\n";

#[test]
fn gnu_backgammon_answers_from_our_file() {
    let Some(_) = program("gnubg") else { return };
    let home = tempfile::tempdir().expect("a temporary directory");
    let data = home.path().join("data");
    fs::create_dir(&data).expect("a folder");
    // It takes a second file for positions that the first does not have.
    let table = fixture("bearoff-6x7v7");
    let _ = export(&fixture("bearoff-6x6v6"), &data.join("gnubg_ts0.bd"), &[]).ok();
    let _ = export(&table, &data.join("gnubg_ts.bd"), &[]).ok();
    fs::write(home.path().join("script"), SCRIPT).expect("a script");
    let inside = "mount --bind \"$1/data\" /var/lib/gnubg && cd \"$1\" && exec env HOME=\"$1\" PATH=\"$PATH:/usr/games\" \
                  gnubg -t -q -r -s \"$1\" -c \"$1/script\"";
    let ran = Command::new("unshare").args(["-m", "bash", "-c", inside, "gnubg", text(home.path())]).output();
    let Some(ran) = ran.ok().filter(|ran| ran.status.success()) else {
        return eprintln!("skipped: a private mount over /var/lib/gnubg is not possible here");
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    let evaluator = said.lines().find(|line| line.starts_with("Evaluator:")).unwrap_or_else(|| panic!("{said}"));
    assert!(evaluator.contains("Bearoff-TS"), "{evaluator}");
    // Three digits of what our file has, which is ours but for the rounding.
    let position = "0,0,0,0,3,4 v 0,0,0,0,3,4";
    let number = |label: &str| {
        let line = said.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("no {label}: {said}"));
        line[line.find(label).expect("it is there") + label.len()..]
            .split_whitespace()
            .next()
            .expect("a number")
            .parse::<f64>()
            .expect("a number")
    };
    let (centred, opponent) = (equity(&table.dir, position, "centred").0, equity(&table.dir, position, "opponent").0);
    assert_within(number("No double"), centred, 5e-4 + 3e-4);
    assert_within(number("Double, take"), 2.0 * opponent, 5e-4 + 6e-4);
    assert_within(number("cubeless equity"), equity(&table.dir, position, "cubeless").0, 5e-4 + 3e-4);
}

/// The last word on a position: what a player would ask, in the forms that backgammon programs have.
#[test]
fn a_player_is_told_what_to_do() {
    let table = fixture("bearoff-6x7v7");
    let plain = run(["probe", text(&table.dir), "0,0,0,0,3,4 v 0,0,0,0,3,4", "--json"]).ok().json();
    for id in ["cA8AAHAPAAAAAA", "cA8AAHAPAAAAAA:cAkAAAAAAAAA", "XGID=-----CD------------dc-----:0:0:1:00:0:0:0:0:10"] {
        assert_eq!(run(["probe", text(&table.dir), id, "--json"]).ok().json(), plain, "{id}");
    }
    // GNU Backgammon says of this position: no double, +0.433; double and take, +0.364; win 0.636.
    assert_eq!(plain["cube"][0]["action"], "no double, take");
    assert_within(plain["cube"][0]["no_double"].as_f64().expect("a number"), 0.433, 5e-4);
    assert_within(plain["cube"][0]["double_take"].as_f64().expect("a number"), 0.364, 5e-4);
    assert_within(plain["win"].as_f64().expect("a number"), 0.636, 5e-4);
    // With dice on the board the plays of the roll are ranked.
    let rolled =
        run(["probe", text(&table.dir), "XGID=-----CD------------dc-----:0:0:1:64:0:0:0:0:10", "--by", "centred", "--json"])
            .ok()
            .json();
    assert_eq!(rolled["roll"], "64");
    assert_eq!((&rolled["moves"][0]["move"], &rolled["moves"][1]["move"]), (&"6/off 6/2".into(), &"6/off 5/1".into()));
    for (position, says) in [
        ("4HPwATDgc/ABMA", "pass each other"),
        ("XGID=-P----------------------b-:0:0:1:00:0:0:0:0:10", "16 checkers"),
        ("XGID=-C----A-----------------b-:0:0:1:00:3:2:0:7:10", "match to 7 points"),
        ("8 v 1", "at most 7 checkers"),
        ("0 v 0", "only one can be first"),
        ("1,1", "two-sided table needs two"),
    ] {
        let _ = run(["probe", text(&table.dir), position]).code(2).one_clear_error().says(says);
    }
    let _ = run(["probe", text(&table.dir), "1 v 1", "--by", "mean"]).code(2).one_clear_error().says("cubeless, owned, centred");
}

#[test]
fn gammons_are_chances_of_their_own() {
    let table = fixture("bearoff-3x15v15");
    let probe = |position: &str| run(["probe", text(&table.dir), position, "--json"]).ok().json();
    let json = probe("0,2,0 v 1,4,10");
    let (win, gammon) = (json["win"].as_f64().expect("a number"), json["win_gammon"].as_f64().expect("a number"));
    let value = json["value"].as_f64().expect("a number");
    // Both are off at once but with one 1: 26 of 36. Otherwise the other takes a checker off first, as every roll of his does.
    assert_within(gammon, 26.0 / 36.0, 1e-5);
    assert_within(2.0 * win - 1.0 + gammon, value, 1e-4);
    assert_eq!(json["lose_gammon"].as_f64(), Some(0.0));
    assert_eq!(json["cube"][0]["action"], "too good to double, pass");
}

#[test]
fn a_race_from_one_side_is_an_approximation() {
    let (one, two) = (fixture("bearoff-6x6"), fixture("bearoff-6x6v6"));
    let position = "1,1,1,0,1,2 v 1,0,0,1,0,4";
    let json = run(["probe", text(&one.dir), position, "--json"]).ok().json();
    let error = on_bearoff("0.0139");
    assert_eq!(json["chance_error"], serde_json::Value::Null, "nobody knows it");
    let exact = (equity(&two.dir, position, "cubeless").0 + 1.0) / 2.0;
    assert_within(json["win"].as_f64().expect("a number"), exact, error);
    let from = json["chances_from"].as_str().expect("a word");
    assert!(from.contains("approximation") && from.contains("0.0139 over"), "{from}");
    // Gammons are lost by players who have all fifteen checkers, and by nobody else.
    let fifteen = fixture("bearoff-6x15");
    let gammon = |position: &str| run(["probe", text(&fifteen.dir), position, "--json"]).ok().json()["win_gammon"].as_f64();
    assert_eq!([gammon("0 v 14"), gammon("0 v 15"), gammon("1 v 14")], [Some(0.0), Some(1.0), Some(0.0)]);
    let _ = run(["probe", text(&fifteen.dir), "0 v 0"]).code(2).one_clear_error().says("only one can be first");
    // A game that is over has no plays, whatever the dice on the board.
    let over = run(["probe", text(&two.dir), "XGID=--------------------a-----:0:0:1:64:0:0:0:0:10", "--json"]).ok().json();
    assert_eq!(over["win"].as_f64(), Some(1.0));
    let _ = run(["probe", text(&two.dir), "0 v 1", "--roll", "64"]).code(2).one_clear_error().says("nothing is left to play");
}

/// golden/bearoff.md: each double 1 % likelier.
#[test]
fn the_study_of_biased_dice_is_one_command() {
    let json = run(["study", "doubles", "--percent", "1", "--json"]).ok().json();
    let row = &json["rows"][0];
    assert_within(json["value"].as_f64().expect("a number"), on_bearoff("12.266187171765"), 1e-11);
    assert_within(row["value"].as_f64().expect("a number"), on_bearoff("12.251941"), 5e-7);
    assert_within(100.0 * row["change"].as_f64().expect("a number"), on_bearoff("-0.116"), 5e-4);
    assert_within(100.0 * row["largest_change"].as_f64().expect("a number").abs(), on_bearoff("0.133"), 5e-4);
    let _ = run(["study", "doubles", "2048-2x2"]).code(2).one_clear_error().says("no dice");
    let _ = run(["study", "doubles", "bearoff-4x3+doubles=0.2"]).code(2).one_clear_error().says("leave +doubles out");
    let _ = run(["study", "doubles", "bearoff-18x15"]).code(1).one_clear_error().says("smaller table");
}

#[test]
fn a_bad_file_is_named_and_the_problem_with_it() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("gnubg_ts.bd");
    let table = fixture("bearoff-6x4v4");
    let _ = export(&table, &file, &[]).ok();
    let whole = fs::read(&file).expect("it was written");
    let import = |options: &[&str]| run([&["import", text(&file)], options].concat());
    // makebearoff's own readers answer from all of these.
    fs::write(&file, &whole[..whole.len() - 1000]).expect("it can be cut");
    let _ = import(&[]).code(1).one_clear_error().says("it is cut short");
    fs::write(&file, &whole[..40]).expect("it can be cut");
    let _ = import(&[]).code(1).one_clear_error().says("it is cut short");
    fs::write(&file, [&whole[..], b"more"].concat()).expect("it can be longer");
    let _ = import(&[]).code(1).one_clear_error().says("something follows its end");
    fs::write(&file, [b"gnubg-TS-06-5", &whole[13..]].concat()).expect("another header");
    let _ = import(&[]).code(1).one_clear_error();
    let mut wrong = whole.clone();
    wrong[40 + 8 * (16 * 210 + 14)] ^= 0x80;
    wrong[40 + 8 * (16 * 210 + 14) + 1] ^= 0x01;
    fs::write(&file, wrong).expect("two bits");
    let _ = import(&["--table", text(&table.dir)]).code(1).prints("1 numbers are further from the table");
    fs::write(&file, &whole).expect("as it was");
    let _ = import(&["--table", text(&table.dir)]).ok().prints("none further off");
    let _ = import(&["--table", text(&fixture("bearoff-6x5v5").dir)]).code(2).one_clear_error().says("bearoff-6x4v4");
    let _ = import(&["--position", "1 v"]).code(2).one_clear_error();
}

#[test]
fn a_one_sided_file_is_checked_to_the_last_chance() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("gnubg_os.bd");
    let table = fixture("bearoff-4x15");
    let _ = export(&table, &file, &[]).ok();
    let whole = fs::read(&file).expect("it was written");
    let import = |options: &[&str]| run([&["import", text(&file)], options].concat());
    let _ = import(&["--table", text(&table.dir)]).ok().prints("none further off");
    let ace = import(&["--position", "1", "--json"]).ok().json();
    assert_eq!(ace["values"][0], serde_json::json!(["all off in 1", 1.0]));
    let mut wrong = whole.clone();
    let last = wrong.len() - 1;
    wrong[last] ^= 0x10;
    fs::write(&file, &wrong).expect("a bit");
    let _ = import(&[]).code(1).prints("add up to");
    let mut wrong = whole.clone();
    wrong[40 + 8 * 100] ^= 0x10;
    fs::write(&file, &wrong).expect("a bit");
    let _ = import(&[]).code(1).prints("the chances of position 100 start at");
    fs::write(&file, &whole[..whole.len() - 2]).expect("it can be cut");
    let _ = import(&[]).code(1).one_clear_error().says("it is cut short");
}

/// Files beyond 4 GiB, where GNU Backgammon reads the wrong record.
#[test]
fn places_beyond_four_gibibytes_are_found() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("large.bd");
    let file = File::create(&path).expect("a file");
    let positions = 27_132u64; // C(6 + 13, 6)
    file.write_all_at(b"gnubg-TS-06-13-1xxxxxxxxxxxxxxxxxxxxxxx\n", 0).expect("a header");
    if file.set_len(40 + 8 * positions * positions).is_err() {
        return eprintln!("skipped: no files of 6 GB here");
    }
    // The last record: everything on the 6-point against the same.
    let at = 40 + 8 * (positions * positions - 1);
    assert!(at > 1 << 32);
    file.write_all_at(&[0x00, 0x80, 0xff, 0xff, 0x00, 0x00, 0xff, 0xbf], at).expect("a record");
    let json = run(["import", text(&path), "--position", "0,0,0,0,0,13 v 0,0,0,0,0,13", "--json"]).ok().json();
    assert_eq!(json["at"].as_u64(), Some(at));
    for ((name, golden), found) in [("cubeless", 0.0), ("owned", 1.0), ("centred", -1.0), ("opponent", 0.5)]
        .into_iter()
        .zip(json["values"].as_array().expect("four"))
    {
        assert_eq!(found[0], name);
        assert_within(found[1].as_f64().expect("a number"), golden, 1e-4);
    }
}

#[test]
fn requests_that_are_refused_leave_the_file_as_it_was() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("gnubg.bd");
    fs::write(&file, "precious").expect("it can be written");
    for (table, options, says) in [
        ("bearoff-3x15v15", &[][..], "gammons"),
        ("bearoff-6x5v3", &[], "as many checkers on both sides"),
        ("bearoff-3x2v2+doubles=0.2", &[], "fair dice"),
        ("bearoff-6x4v4", &["--uncompressed"], "one-sided"),
        ("bearoff-4x15", &["--cubeless"], "no cube"),
    ] {
        let _ = export(&fixture(table), &file, options).code(2).one_clear_error().says(says);
    }
    assert_eq!(fs::read(&file).expect("it is there"), b"precious");
    let _ = export(&fixture("bearoff-6x4v4"), &file, &["--cubeless"]).ok();
    assert_eq!(fs::metadata(&file).expect("it is there").len(), 40 + 2 * 210 * 210);
    let _ = run(["import", text(&file), "--table", text(&fixture("bearoff-6x4v4").dir)]).ok();
}
