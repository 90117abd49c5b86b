//! Tables that keep statistics or moves: what is built, and what every verb says of them.

mod common;

use common::{Ran, run, strata, text};
use std::fs;
use std::path::Path;
use std::process::Stdio;

const HEADER: &str = "age,position,value,error";

/// A table of statistics of the chance of a 32 on 3x3, and what `build --json` says of it.
fn statistics(dir: &Path) -> serde_json::Value {
    run(&["build", "2048-3x3+tile=32", "--keep", "stats", "--out", text(dir), "--json"]).code(0).json()
}

#[test]
fn counts_and_value_are_those_of_the_whole_table_and_there_is_no_index_to_speak_of() {
    let dir = tempfile::tempdir().unwrap();
    let (stats, values) = (dir.path().join("stats"), dir.path().join("values"));
    let kept = statistics(&stats);
    let whole = run(&["build", "2048-3x3+tile=32", "--keep", "values", "--out", text(&values), "--json"]).code(0).json();
    assert_eq!(
        (kept["table"].as_str(), whole["table"].as_str()),
        (Some("2048-3x3+tile=32+keep=stats"), Some("2048-3x3+tile=32"))
    );
    for member in ["states", "afterstates", "layers", "value"] {
        assert_eq!(kept[member], whole[member], "{member}");
    }
    assert!(kept.get("index_bits_per_key").is_none() && whole["index_bits_per_key"].is_f64());
    assert!(kept["bytes"].as_u64() < whole["bytes"].as_u64());
    let again = run(&["build", "2048-3x3+tile=32+keep=stats", "--out", text(&stats)]).code(0).says("is complete");
    assert!(again.out.contains(kept["root"].as_str().unwrap()) && !again.out.contains("bits a stored position"), "{again:#?}");
    // Each directory is for one of them.
    run(&["build", "2048-3x3+tile=32", "--out", text(&stats)])
        .code(1)
        .one_clear_error()
        .says("holds the table 2048-3x3+tile=32+keep=stats");
    run(&["build", "2048-3x3+tile=32+keep=stats", "--out", text(&values)])
        .code(1)
        .one_clear_error()
        .says("holds the table 2048-3x3+tile=32");
    // The same statistics, to the last digit.
    let csv = |dir| run(&["stats", text(dir), "--csv"]).code(0).out;
    assert_eq!(csv(&stats), csv(&values));
}

#[test]
fn every_verb_knows_what_such_a_table_holds() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    let built = statistics(&out);
    let (afterstates, keys) = (built["afterstates"].as_u64().unwrap(), {
        let info = run(&["info", text(&out), "--json"]).code(0).json();
        assert_eq!(info["keep"], "stats");
        assert!(info.get("index_bits_per_key").is_none());
        info["keys"].as_u64().unwrap()
    });
    assert!(keys < afterstates);
    let info = run(&["info", text(&out)]).code(0).prints("statistics, and ").prints("sampled positions").prints("value, rank");
    assert!(!info.out.contains("stored") && !info.out.contains("bits a position"), "{info:#?}");
    run(&["info", text(&out), "--layers"]).code(0).prints("afterstates");

    for options in [&[][..], &["--json"]] {
        let ran = run(&[&["probe", text(&out), "2 0 0/0 0 2/0 0 0"], options].concat()).code(2).one_clear_error();
        ran.says("keeps statistics and no positions").says("--samples");
        let ran = run(&[&["verify", text(&out), "--level", "bellman"], options].concat()).code(2).one_clear_error();
        ran.says("keeps statistics").says("--level structure proves that").says("--level hash proves that every byte");
        for level in ["structure", "hash"] {
            run(&[&["verify", text(&out), "--level", level], options].concat()).code(0);
        }
    }
    let verified = run(&["verify", text(&out), "--json"]).code(0).json();
    assert!(!verified["does_not_prove"].as_str().unwrap().contains("bellman"), "{verified}");

    let people = run(&["stats", text(&out)]).code(0);
    assert!(people.out.contains("mean value") && !people.out.contains(HEADER));
}

#[test]
fn samples_are_printed_one_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    statistics(&out);
    let ran = run(&["stats", text(&out), "--samples"]).code(0);
    assert_eq!(ran.err, "");
    let mut lines = ran.out.lines();
    assert_eq!(lines.next(), Some(HEADER));
    let mut ages = std::collections::BTreeMap::<u64, u64>::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let [age, position, value, error] = cells[..] else { panic!("{line}") };
        let tiles = position.split([' ', '/']).map(|tile| tile.parse::<u64>().unwrap());
        assert_eq!(tiles.sum::<u64>(), age.parse::<u64>().unwrap(), "{line}");
        assert!(value.parse::<f64>().unwrap() >= 0.0 && (0.0..1e-6).contains(&error.parse::<f64>().unwrap()), "{line}");
        *ages.entry(age.parse().unwrap()).or_default() += 1;
    }
    let layers = run(&["info", text(&out), "--layers", "--json"]).code(0).json();
    for layer in layers["layer"].as_array().unwrap() {
        let (age, afterstates) = (layer["layer"].as_u64().unwrap(), layer["afterstates"].as_u64().unwrap());
        assert_eq!(ages.get(&age).copied().unwrap_or(0), afterstates.min(256), "age {age}");
    }
}

#[test]
fn samples_are_of_tables_of_statistics() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["2048-2x2", "bearoff-2x3"] {
        let out = dir.path().join(name);
        run(&["build", name, "--out", text(&out)]).code(0);
        run(&["stats", text(&out), "--samples"]).code(2).one_clear_error().says("keeps all positions").says("strata probe");
    }
    run(&["stats", "x", "--samples", "--csv"]).code(2).says("cannot be used with");
    run(&["stats", "x", "--samples", "--charts", "y"]).code(2).says("cannot be used with");
    run(&["stats", text(&dir.path().join("missing")), "--samples"]).code(1).one_clear_error().says("there is no directory");
}

#[test]
fn a_reader_of_samples_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    statistics(&out);
    let mut child = strata(&["stats", text(&out), "--samples"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn damaged_samples_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    statistics(&out);
    let folder = fs::read_dir(out.join("shards/00060")).unwrap().next().unwrap().unwrap();
    let mut bytes = fs::read(folder.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0x55);
    fs::write(folder.path(), bytes).unwrap();
    run(&["stats", text(&out), "--samples"]).code(1).says("the table is damaged").says("strata verify");
}

#[test]
fn what_cannot_be_kept_and_room_that_says_nothing_are_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    let build = |words: &[&str]| run(&[&["build", "--out", text(&out)], words].concat());
    build(&["2048-2x2+keep=stats", "--keep", "values"]).code(2).one_clear_error().says("says +keep=stats");
    build(&["bearoff-6x15", "--keep", "stats"]).code(2).one_clear_error().says("help: ");
    build(&["2048-2x2", "--keep", "all"]).code(2).says("stats");
    build(&["2048-2x2", "--disk", "1GiB"]).code(2).one_clear_error().says("--keep stats");
    build(&["2048-2x2+keep=stats+stretch=8", "--disk", "1GiB"]).code(2).one_clear_error().says("8 ages");
    build(&["2048-2x2+keep=stats", "--disk", "1Q"]).code(2).says("--disk");
    build(&["2048-2x2+keep=stats", "--disk", "1KiB"]).code(1).one_clear_error().says("is too little").says("give at least");
    assert!(!out.exists());
    build(&["2048-2x2+keep=stats", "--disk", "1GiB"]).code(0).says("+stretch=29: 29 layers").prints("2048-2x2+keep=stats\n");
}

#[test]
fn a_table_of_moves_answers_with_a_move() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    let built = run(&["build", "2048-2x2", "--keep", "play", "--disk", "1GiB", "--out", text(&out), "--json"]).code(0).json();
    assert_eq!((built["table"].as_str(), built["states"].as_u64()), (Some("2048-2x2+keep=play"), Some(110)));
    let info = run(&["info", text(&out), "--json"]).code(0).json();
    assert_eq!((info["keep"].as_str(), info["keys"].as_u64()), (Some("play"), Some(110)));
    run(&["info", text(&out)]).code(0).prints("110 states, each with its best move");
    let probe = |position: &str| run(&["probe", text(&out), position, "--json"]);
    let answer = probe("4 4/8 2").code(0).json();
    assert!(["left", "right"].contains(&answer["move"].as_str().unwrap()) && answer["reward"] == 8.0, "{answer}");
    assert!(answer.get("value").is_none() && answer.get("moves").is_none());
    let over = probe("2 4/4 2").code(0).json();
    assert_eq!((over["status"].as_str(), over.get("move")), (Some("ok"), None));
    run(&["probe", text(&out), "2 4/4 2"]).code(0).prints("the game is over");
    run(&["probe", text(&out), "4 4/8 2"]).code(0).prints("best move");
    assert_eq!(probe("32 32/32 32").code(2).json()["status"], "impossible");
    run(&["verify", text(&out)]).code(0).prints("a second build");
    run(&["verify", text(&out), "--level", "bellman"]).code(2).one_clear_error().says("keeps moves");
    run(&["stats", text(&out), "--samples"]).code(2).one_clear_error().says("strata probe");
    // The same statistics as the table of values.
    let values = dir.path().join("values");
    run(&["build", "2048-2x2", "--out", text(&values)]).code(0);
    let csv = |dir| run(&["stats", text(dir), "--csv"]).code(0).out;
    assert_eq!(csv(&out), csv(&values));
}

#[test]
fn a_build_that_was_begun_in_other_stretches_goes_on_in_those() {
    let dir = tempfile::tempdir().unwrap();
    let (undisturbed, begun) = (dir.path().join("undisturbed"), dir.path().join("begun"));
    let root = statistics(&undisturbed)["root"].clone();
    fs::create_dir_all(begun.join("build")).unwrap();
    fs::write(begun.join("build/job.json"), r#"{"table":"2048-3x3+tile=32+keep=stats+stretch=40"}"#).unwrap();
    run(&["build", "2048-3x3+tile=32", "--out", text(&begun)])
        .code(1)
        .one_clear_error()
        .says("holds the table 2048-3x3+tile=32+keep=stats");
    let ran = run(&["build", "2048-3x3+tile=32", "--keep", "stats", "--out", text(&begun), "--json"]).code(0);
    assert_eq!(ran.json()["root"], root);
    ran.says("was begun as 2048-3x3+tile=32+keep=stats+stretch=40").says("2048-3x3+tile=32+keep=stats+stretch=40: ");
}
