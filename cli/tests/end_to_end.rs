//! Two small tables from nothing to every answer, as somebody at a shell would do it. Numbers are those of tests/golden/.

mod common;

use common::{Ran, run, strata, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn build(name: &str, dir: &Path) -> Value {
    run(&["build", name, "--out", text(dir), "--threads", "2", "--json"]).code(0).json()
}

fn table(name: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join(name);
    build(name, &out);
    (dir, out)
}

/// The first shard file below a directory, by name.
fn some_shard(dir: &Path) -> PathBuf {
    let mut files = Vec::new();
    let mut open = vec![dir.join("shards")];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files.swap_remove(files.len() / 2)
}

#[test]
fn two_by_two_has_the_counts_and_the_value_of_theory() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a/b/2048-2x2"); // parents are made
    let json = build("2048-2x2", &out);
    let mut members: Vec<&String> = json.as_object().unwrap().keys().collect();
    members.sort();
    let expected =
        ["afterstates", "bytes", "error_bound", "index_bits_per_key", "layers", "root", "seconds", "states", "table", "value"];
    assert_eq!(members, expected);
    assert_eq!((json["states"].as_u64(), json["afterstates"].as_u64()), (Some(110), Some(67)));
    assert!((json["value"].as_f64().unwrap() / 66.964_149_457_101_26 - 1.0).abs() < 1e-9);
    assert_eq!(json["root"].as_str().unwrap().len(), 64);
    assert!(!out.join("build").exists(), "working files are gone");

    let again = run(&["build", "2048-2x2", "--out", text(&out), "--json"]).code(0).says("is complete");
    let again = again.json();
    for member in expected.iter().filter(|m| **m != "seconds") {
        assert_eq!(again[member], json[member], "{member}");
    }
    let people = run(&["build", "2048-2x2", "--out", text(&out)]).code(0);
    assert!(people.out.contains(json["root"].as_str().unwrap()) && people.out.contains("110"));
}

#[test]
fn one_name_has_one_root_whatever_the_threads_and_workers() {
    let roots: Vec<Value> = [("1", "1"), ("2", "1"), ("7", "3")]
        .iter()
        .map(|(threads, workers)| {
            let dir = tempfile::tempdir().unwrap();
            let arguments =
                ["build", "2048-2x3", "--out", text(dir.path()), "--threads", threads, "--workers", workers, "--json"];
            run(&arguments).code(0).json()["root"].clone()
        })
        .collect();
    assert!(roots[0].is_string() && roots.iter().all(|r| *r == roots[0]), "{roots:?}");
}

#[test]
fn a_directory_is_for_one_table() {
    let (_dir, out) = table("2048-2x2");
    run(&["build", "2048-2x3", "--out", text(&out)]).code(1).one_clear_error().says("holds the table 2048-2x2");
    fs::write(out.join("notes.txt"), "mine").unwrap();
    run(&["build", "2048-2x2", "--out", text(&out)]).code(1).one_clear_error().says("notes.txt");
}

#[test]
fn what_is_built_goes_to_stderr_and_the_result_to_stdout() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&["build", "2048-2x2", "--out", text(dir.path())]).code(0);
    assert!(ran.err.contains("67 (exact)") && ran.err.contains("disk") && ran.err.contains("memory"), "{ran:#?}");
    assert!(!ran.err.contains('\u{1b}') && !ran.out.contains('\u{1b}'), "no colours where there is no terminal");
}

#[test]
fn info_shows_facts_and_layers() {
    let (_dir, out) = table("2048-2x2");
    run(&["info", text(&out)]).code(0).prints("2048-2x2").prints("110").prints("over the random start");
    let csv = run(&["info", text(&out), "--layers", "--csv"]).code(0);
    let mut lines = csv.out.lines();
    assert_eq!(lines.next(), Some("layer,states,afterstates,terminal,index_bytes,value_bytes"));
    let rows: Vec<Vec<u64>> = lines.map(|l| l.split(',').map(|n| n.parse().unwrap()).collect()).collect();
    assert!(rows.iter().all(|r| r.len() == 6));
    assert_eq!(rows.iter().map(|r| r[1]).sum::<u64>(), 110);
    assert_eq!(rows.iter().map(|r| r[2]).sum::<u64>(), 67);
    assert_eq!(rows.iter().map(|r| r[3]).sum::<u64>(), 36);
    let json = run(&["info", text(&out), "--json", "--layers"]).code(0).json();
    assert_eq!(json["layer"].as_array().unwrap().len(), rows.len());
    assert_eq!(json["layers"].as_u64().unwrap(), rows.len() as u64);
    assert_eq!(json["terminal"], 36);
    run(&["info", text(&out), "--layers"]).code(0).prints("afterstates");
}

#[test]
fn probing_a_state_ranks_every_legal_move() {
    let (_dir, out) = table("2048-2x2");
    let json = run(&["probe", text(&out), "2 0/0 2", "--json"]).code(0).json();
    assert_eq!(json["status"], "ok");
    let moves = json["moves"].as_array().unwrap();
    assert_eq!(moves.len(), 4);
    // All four moves of this symmetric board lead to one afterstate.
    assert!(moves.iter().all(|m| m["rank"] == 1 && m["tie"] == true && m["value"] == json["value"]));
    run(&["probe", text(&out), "2 0/0 2"]).code(0).prints("tie").prints("left");
    let over = run(&["probe", text(&out), "2 4/4 2", "--json"]).code(0).json();
    assert_eq!((over["value"].as_f64(), over["moves"].as_array().map(Vec::len)), (Some(0.0), Some(0)));
    run(&["probe", text(&out), "2 4/4 2"]).code(0).prints("the game is over");
}

#[test]
fn text_that_is_no_position_is_told_from_a_position_that_cannot_occur() {
    let (_dir, out) = table("2048-2x2");
    for text_of_position in ["hello", "2 2 2/0 0 0", "3 0/0 0", "-1", ""] {
        run(&["probe", text(&out), text_of_position]).code(2).one_clear_error().says("help: ");
        let json = run(&["probe", text(&out), text_of_position, "--json"]).code(2).json();
        assert_eq!(json["status"], "impossible");
    }
    // Two 32s would need an age of 64, and the last is 60.
    let json = run(&["probe", text(&out), "32 32/0 0", "--json"]).code(2).json();
    assert_eq!(json["status"], "impossible");
}

#[test]
fn a_position_beyond_the_horizon_is_outside() {
    let (_dir, out) = table("2048-2x2+horizon=20");
    let ran = run(&["probe", text(&out), "16 8/4 2", "--json"]).code(1).says("outside the table");
    assert_eq!(ran.json()["status"], "outside");
}

#[test]
fn bearoff_shows_what_players_ask_for() {
    let (_dir, out) = table("bearoff-6x2");
    // {1,4} takes 43/36 rolls, {6,6} 49213/23328, two on the 6-point have sd 0.571032 and EPC 17.228.
    let json = run(&["probe", text(&out), "1,0,0,1,0,0", "--json"]).code(0).json();
    assert!((json["value"].as_f64().unwrap() - 43.0 / 36.0).abs() < 1e-8);
    let json = run(&["probe", text(&out), "0,0,0,0,0,2", "--json"]).code(0).json();
    assert!((json["value"].as_f64().unwrap() - 49213.0 / 23328.0).abs() < 1e-8);
    assert!((json["sd"].as_f64().unwrap() - 0.571_032).abs() < 1e-6);
    assert!((json["epc"].as_f64().unwrap() - 17.228).abs() < 1e-3);
    assert!((json["wastage"].as_f64().unwrap() - (json["epc"].as_f64().unwrap() - 12.0)).abs() < 1e-9);
    let rolls = &json["distributions"][0];
    let sum: f64 = rolls["chances"].as_array().unwrap().iter().map(|c| c.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6);
    // 4 of 36 rolls bear both off at once.
    assert_eq!(rolls["first"], 1);
    assert!((rolls["chances"][0].as_f64().unwrap() - 4.0 / 36.0).abs() < 1e-7);
    run(&["probe", text(&out), "0,0,0,0,0,2"]).code(0).prints("EPC").prints("wastage").prints("at most");
}

#[test]
fn a_roll_ranks_its_plays_and_says_what_the_others_lose() {
    let (_dir, out) = table("bearoff-6x2");
    let json = run(&["probe", text(&out), "1,0,0,0,0,1", "--roll", "21", "--json"]).code(0).json();
    let moves = json["moves"].as_array().unwrap();
    assert!(moves.len() > 1);
    let best = moves[0]["value"].as_f64().unwrap();
    for m in moves {
        assert!((m["value"].as_f64().unwrap() - best - m["loss"].as_f64().unwrap()).abs() < 1e-12);
        assert!(m["loss"].as_f64().unwrap() >= 0.0);
    }
    // With 21 from {3,6} the checker on 3 comes off by 3/1/off; one checker on 6 then takes 5/4 rolls, after the one just used.
    let json = run(&["probe", text(&out), "0,0,1,0,0,1", "--roll", "12", "--json"]).code(0).json();
    let moves = json["moves"].as_array().unwrap();
    assert!((moves[0]["value"].as_f64().unwrap() - 2.25).abs() < 1e-8 && moves[0]["tie"] == false, "{json}");
    assert!(moves[1]["loss"].as_f64().unwrap() > 0.05, "{json}");
    run(&["probe", text(&out), "0,0,1,0,0,1", "--roll", "12"]).code(0).prints("roll 12").prints("best");
    run(&["probe", text(&out), "1,0,0,0,0,1", "--roll", "77"]).code(2).one_clear_error().says("there is no such roll");
    let (_dir, two) = table("2048-2x2");
    run(&["probe", text(&two), "2 0/0 2", "--roll", "64"]).code(2).one_clear_error().says("no dice");
}

#[test]
fn every_level_of_verify_passes_a_sound_table_and_says_what_it_proves() {
    for name in ["2048-2x2", "bearoff-2x3"] {
        let (_dir, out) = table(name);
        for level in ["structure", "hash", "bellman"] {
            run(&["verify", text(&out), "--level", level]).code(0).prints("ok").prints("proves that").prints("does not prove");
            let json = run(&["verify", text(&out), "--level", level, "--json"]).code(0).json();
            assert_eq!((json["ok"].as_bool(), json["problems"].as_array().map(Vec::len)), (Some(true), Some(0)));
        }
        let json = run(&["verify", text(&out), "--level", "bellman", "--sample", "50%", "--seed", "3", "--json"]).code(0).json();
        assert_eq!(json["seed"], 3);
    }
}

#[test]
fn damage_is_named_by_verify_and_never_answered_from_by_probe() {
    let (_dir, out) = table("bearoff-2x3");
    let shard = some_shard(&out);
    let mut bytes = fs::read(&shard).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let name = shard.file_name().unwrap().to_str().unwrap();
    run(&["verify", text(&out)]).code(1).prints("problem:").prints(name);
    let json = run(&["verify", text(&out), "--json"]).code(1).json();
    assert_eq!(json["ok"], false);
    assert!(json["problems"][0]["path"].as_str().unwrap().contains(name));

    fs::remove_file(&shard).unwrap();
    fs::write(out.join("extra"), "x").unwrap();
    let ran = run(&["verify", text(&out)]).code(1).prints(name).prints("extra");
    assert_eq!(ran.err, "");
    let mut statuses = Vec::new();
    for position in ["1,0", "0,1", "1,1", "2,0", "0,2", "3,0", "2,1", "1,2", "0,3"] {
        let ran = run(&["probe", text(&out), position, "--json"]);
        let status = ran.json()["status"].as_str().unwrap().to_string();
        assert_eq!(ran.code, Some(if status == "ok" { 0 } else { 1 }));
        if status == "damaged" {
            assert!(ran.err.contains(name), "{ran:#?}");
        }
        statuses.push(status);
    }
    assert!(statuses.iter().all(|s| s == "ok" || s == "damaged"));
    assert!(statuses.iter().any(|s| s == "damaged"), "{statuses:?}");
}

#[test]
fn a_damaged_manifest_is_damage_too() {
    let (_dir, out) = table("2048-2x2");
    let manifest = out.join("table.json");
    let changed = fs::read_to_string(&manifest).unwrap().replacen("110", "111", 1);
    fs::write(&manifest, changed).unwrap();
    let json = run(&["probe", text(&out), "2 0/0 2", "--json"]).code(1).json();
    assert_eq!(json["status"], "damaged");
    run(&["verify", text(&out)]).code(1).prints("table.json");
    run(&["info", text(&out)]).code(1).one_clear_error().says("table.json");
    run(&["build", "2048-2x2", "--out", text(&out)]).code(1).one_clear_error().says("table.json");
}

/// A build that takes a while, in a process of its own.
fn start_long(out: &Path) -> Child {
    let child = strata(&["build", "2048-3x3+horizon=900", "--out", text(out), "--threads", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !out.join("build/commits").exists() && !out.join("build/layers").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the build does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn a_second_signal_ends_the_build_at_once_and_the_same_command_still_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let child = start_long(dir.path());
    signal(&child, "TERM");
    signal(&child, "INT");
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(matches!(ran.code, Some(130 | 143)), "{ran:#?}");
    let json = run(&["build", "2048-3x3+horizon=900", "--out", text(dir.path()), "--json"]).code(0).json();
    let undisturbed = tempfile::tempdir().unwrap();
    assert_eq!(json["root"], build("2048-3x3+horizon=900", undisturbed.path())["root"]);
}

fn signal(child: &Child, name: &str) {
    let status = std::process::Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_signal_stops_the_build_in_order_and_says_how_to_go_on() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("my table");
        let child = start_long(&out);
        signal(&child, name);
        let ran = Ran::of(child.wait_with_output().unwrap()).code(code);
        assert_eq!(ran.out, "");
        assert!(!ran.err.contains("error:"), "{ran:#?}");
        let ran = ran.says("strata build 2048-3x3+horizon=900 --out '").says("my table' --threads 1");
        assert!(!ran.err.contains("bug"), "{ran:#?}");
        run(&["info", text(&out)]).code(1).one_clear_error().says("not complete");
    }
}

#[test]
fn a_build_in_a_directory_that_is_being_built_says_who_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = start_long(dir.path());
    let ran = run(&["build", "2048-3x3+horizon=900", "--out", text(dir.path())]).code(1);
    let ran = ran.says("another build").says(&child.id().to_string());
    assert_eq!(ran.err.matches("error: ").count(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
}
