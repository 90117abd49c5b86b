//! Meaningless tables: the values of a far layer are hashes of the positions, and everything else is real. What the pipeline does to them does
//! not depend on workers, threads and kills, and a single value that goes astray changes the root.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use strata_tests::place::scratch;
use strata_tests::{fixture, run, start, strata, text};

fn build(name: &str, dir: &Path, threads: &str, workers: &str) -> Command {
    strata(["build", name, "--out", text(dir), "--json", "--threads", threads, "--workers", workers])
}

/// One root with 1, 2 and 3 workers, 1 and 2 threads, and after kills.
fn assert_one_root(name: &str, settings: &[(&str, &str)], kills: u32, longest: f64) {
    let root = fixture(name).root().to_owned();
    let home = scratch();
    let dir = home.path().join("t");
    for (threads, workers) in settings {
        let ran = start(build(name, &dir, threads, workers)).wait().ok();
        assert_eq!(ran.json()["root"], *root, "{threads} threads, {workers} workers");
        fs::remove_dir_all(&dir).expect("removed");
    }
    let mut random = StdRng::seed_from_u64(u64::from(kills));
    for kill in 0..kills {
        let workers = ["1", "2", "3"][kill as usize % 3];
        let building = start(build(name, &dir, "2", workers));
        sleep(Duration::from_secs_f64(random.random_range(0.05..longest)));
        if !building.kill() {
            break;
        }
    }
    let ran = start(build(name, &dir, "2", "2")).wait().ok();
    assert_eq!(ran.json()["root"], *root, "after kills");
    let _ = run(["verify", text(&dir)]).ok();
}

/// The same positions as the plain table, other values.
fn assert_differs_from(meaningless: &str, plain: &str) {
    let (a, b) = (fixture(meaningless), fixture(plain));
    for member in ["states", "afterstates", "layers"] {
        assert_eq!(a.built[member], b.built[member], "{member}");
    }
    assert_ne!(a.root(), b.root());
    assert_ne!(a.built["value"], b.built["value"]);
}

const ALL: [(&str, &str); 4] = [("1", "1"), ("1", "2"), ("2", "2"), ("2", "3")];

#[test]
fn meaningless_layers_hash_the_same_on_one_to_three_workers() {
    assert_one_root("2048-2x3+horizon=100+meaningless", &ALL, 4, 0.3);
    assert_one_root("bearoff-6x8+meaningless", &ALL, 4, 0.3);
}

#[test]
fn meaningless_values_are_not_those_of_play() {
    assert_differs_from("2048-2x3+horizon=100+meaningless", "2048-2x3+horizon=100");
    assert_differs_from("bearoff-6x8+meaningless", "bearoff-6x8");
}

#[test]
fn meaningless_tables_verify_by_the_same_recursion() {
    for name in ["2048-2x3+horizon=100+meaningless", "bearoff-6x8+meaningless"] {
        let _ = run(["verify", text(&fixture(name).dir), "--level", "bellman"]).ok();
    }
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn a_large_meaningless_2048_table() {
    const NAME: &str = "2048-3x3+horizon=400+meaningless";
    assert_one_root(NAME, &[("1", "1"), ("2", "2"), ("2", "3")], 5, 1.5);
    assert_differs_from(NAME, "2048-3x3+horizon=400");
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn a_large_meaningless_bearoff_table() {
    const NAME: &str = "bearoff-8x15+meaningless";
    assert_one_root(NAME, &[("1", "1"), ("2", "2"), ("2", "3")], 5, 2.0);
    assert_differs_from(NAME, "bearoff-8x15");
}
