//! What the command says before it does anything: help, mistakes on the command line, places where no table can be.

mod common;

use common::{run, strata, text};
use std::fs;
use std::process::Stdio;

const VERBS: [&str; 7] = ["build", "info", "stats", "probe", "verify", "predict", "completions"];

#[test]
fn help_names_every_verb_and_every_verb_has_examples() {
    let help = run(&["--help"]).code(0);
    for verb in VERBS {
        assert!(help.out.contains(verb), "{verb}");
        run(&[verb, "--help"]).code(0).prints("Examples:").prints(&format!("strata {verb}"));
    }
    assert!(help.out.contains("Exit codes") && help.out.contains("2048-RxC"));
}

#[test]
fn version_is_that_of_the_workspace() {
    assert_eq!(run(&["--version"]).code(0).out, concat!("strata ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn no_verb_shows_the_help_and_is_a_usage_error() {
    run(&[]).code(2).says("Usage:");
}

#[test]
fn unknown_verbs_and_options_are_usage_errors() {
    run(&["bild", "2048-3x3"]).code(2).says("error: ").says("bild");
    run(&["build", "2048-3x3"]).code(2).says("--out");
    run(&["build", "2048-3x3", "--out", "x", "--thread", "2"]).code(2).says("--threads");
    run(&["build", "2048-3x3", "--out", "x", "--threads", "0"]).code(2).says("--threads");
    run(&["info", "x", "--csv"]).code(2).says("--layers");
    run(&["info", "x", "--layers", "--csv", "--json"]).code(2).says("cannot be used with");
    run(&["verify", "x", "--level", "deep"]).code(2).says("bellman");
}

#[test]
fn a_bad_name_says_which_part_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    for (name, part) in
        [("2048-5x9", "5 rows"), ("2048-3x3+tile=300", "+tile=300"), ("bearoff-6x16", "16 checkers"), ("chess", "chess")]
    {
        run(&["build", name, "--out", text(&out)]).code(2).one_clear_error().says(part).says("help: ");
        run(&["predict", name]).code(2).one_clear_error().says(part);
    }
    assert!(!out.exists(), "a bad name leaves nothing behind");
}

#[test]
fn a_bad_size_says_which_part_is_wrong() {
    for (size, part) in [("12Q", "\"Q\""), ("MiB", "no number"), ("0", "at least one byte"), ("1e9", "\"e9\"")] {
        run(&["build", "2048-2x2", "--out", "x", "--memory", size]).code(2).one_clear_error().says("--memory").says(part);
    }
}

#[test]
fn a_sample_goes_with_the_level_that_samples() {
    run(&["verify", "x", "--sample", "2"]).code(2).says("at most 1");
    run(&["verify", "x", "--sample", "0.5"]).code(2).one_clear_error().says("--level bellman");
    run(&["verify", "x", "--seed", "1"]).code(2).says("--sample");
}

#[test]
fn a_kibibyte_of_memory_is_refused_with_the_size_that_would_do_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    run(&["build", "2048-2x2", "--out", text(&out), "--memory", "1KiB"])
        .code(2)
        .one_clear_error()
        .says("--memory 1 KiB is too little")
        .says("help: give at least --memory ");
    assert!(!out.exists());
}

#[test]
fn a_file_is_no_directory_for_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "hello").unwrap();
    run(&["build", "2048-2x2", "--out", text(&file)]).code(1).one_clear_error().says("is a file");
    run(&["build", "2048-2x2", "--out", text(&file.join("below"))]).code(1).one_clear_error().says("is a file");
    run(&["info", text(&file)]).code(1).one_clear_error().says("is not a directory");
    assert_eq!(fs::read_to_string(&file).unwrap(), "hello");
}

#[test]
fn a_name_that_is_too_long_is_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("x".repeat(300));
    run(&["build", "2048-2x2", "--out", text(&long)]).code(1).one_clear_error().says("too long");
}

#[test]
fn foreign_files_are_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "precious").unwrap();
    run(&["build", "2048-2x2", "--out", text(dir.path())])
        .code(1)
        .one_clear_error()
        .says("thesis.tex")
        .says("help: move them away");
    assert_eq!(fs::read_to_string(dir.path().join("thesis.tex")).unwrap(), "precious");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was added");
}

#[test]
fn where_there_is_no_table_every_verb_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for verb in [&["info"][..], &["stats"], &["probe"], &["verify"]] {
        let position = if verb == ["probe"] { &["2 0/0 2"][..] } else { &[] };
        let words = |path| [verb, &[path], position].concat();
        run(&words(text(&missing))).code(1).one_clear_error().says("there is no directory").says("help: ");
        run(&words(text(dir.path()))).code(1).one_clear_error().says("no table").says("help: ");
    }
}

#[test]
fn completions_are_made_for_the_shells() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        run(&["completions", shell]).code(0).prints("strata").prints("predict");
    }
    run(&["completions", "csh"]).code(2).says("bash");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = strata(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = common::Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = strata(&["completions", "bash"]).stdout(Stdio::from(full)).stderr(Stdio::piped()).output().unwrap();
    common::Ran::of(output).code(1).one_clear_error().says("standard output");
}

#[test]
fn predict_is_exact_where_theory_knows_and_marks_bounds() {
    let bearoff = run(&["predict", "bearoff-6x15", "--json"]).code(0).json();
    assert_eq!(bearoff["positions"], serde_json::json!({ "count": 54_264, "exact": true }));
    let small = run(&["predict", "2048-3x3", "--json", "--seconds", "2"]).code(0).json();
    assert_eq!(small["positions"], serde_json::json!({ "count": 31_431_374u64, "exact": true }));
    assert_eq!(small["states"], serde_json::json!({ "count": 48_713_519u64, "exact": true }));
    assert!(small["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(small["cores"].as_array().unwrap().len(), 3);
    // Quick enough to be counted within the measurement on most machines; the count is that of tests/golden/.
    let cut = run(&["predict", "2048-3x3+tile=64", "--json"]).code(0).json();
    let count = cut["positions"]["count"].as_u64().unwrap();
    assert!(if cut["positions"]["exact"] == true { count == 393_579 } else { count > 393_579 }, "{cut}");
    run(&["predict", "2048-4x3+tile=4096", "--seconds", "1"]).code(0).prints("upper bound").prints("at most");
    run(&["predict", "2048-4x3", "--keep", "stats", "--seconds", "1"]).code(0).prints("16 cores").prints("bottleneck");
    run(&["predict", "2048-4x3", "--seconds", "0"]).code(2).says("1..=3600");
}
