//! Tables of statistics, built in stretches: one root whatever the stretches and the kills, and samples that are right.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use strata_games::TableReader;
use strata_storage::Table;
use strata_tests::{Ran, fixture, run, start, strata, text};
use strata_worker::GameTable;

/// The smallest of these that has more than one stretch.
const WHOLE: &str = "2048-3x3+tile=256";
const NAME: &str = "2048-3x3+tile=256+keep=stats";
const SHORT: &str = "2048-3x3+tile=256+keep=stats+stretch=16";

fn build(name: &str, dir: &Path, options: &[&str]) -> Command {
    strata([&["build", name, "--out", text(dir), "--json"], options].concat())
}

/// How many tasks the plan of a build has, as it says itself.
fn tasks(ran: &Ran) -> u64 {
    let line = ran.err.lines().find(|line| line.ends_with(" tasks")).unwrap_or_else(|| panic!("no plan is shown: {ran:#?}"));
    let number = line.rsplit(' ').nth(1).expect("a number of tasks");
    number.replace(',', "").parse().expect("a number of tasks")
}

/// Number of stages that have a record.
fn stages(dir: &Path) -> usize {
    fs::read_dir(dir.join("build/layers")).map_or(0, Iterator::count)
}

#[test]
fn the_root_does_not_depend_on_the_stretches() {
    let usual = fixture(NAME);
    let home = tempfile::tempdir().expect("a temporary directory");
    let plans = [(SHORT, &[][..]), (WHOLE, &["--keep", "stats", "--disk", "1TiB"])].map(|(name, options)| {
        let dir = home.path().join(name);
        let ran = start(build(name, &dir, options)).wait().ok();
        let json = ran.json();
        assert_eq!((json["table"].as_str(), json["root"].as_str()), (Some(NAME), Some(usual.root())));
        assert!(!dir.join("build").exists(), "working files are left");
        let _ = run(["verify", text(&dir), "--level", "hash"]).ok();
        tasks(&ran)
    });
    assert!(plans[0] > plans[1], "the first build enumerates nothing twice: {plans:?}");
}

#[test]
fn killed_in_every_stage_and_resumed_under_other_names_it_has_the_same_root() {
    let undisturbed = fixture(NAME);
    let mut random = StdRng::seed_from_u64(16);
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let (mut kills, mut stage) = (0, 0);
    let ran = loop {
        // It is begun in short stretches; whatever is asked for later, it goes on in those.
        let (name, options) = match kills {
            0 => (SHORT, &["--threads", "2"][..]),
            n if n % 2 == 1 => (NAME, &["--threads", "1", "--workers", "2"][..]),
            _ => (WHOLE, &["--keep", "stats", "--disk", "1TiB"][..]),
        };
        let mut building = start(build(name, &dir, options));
        while building.is_running() && stages(&dir) < stage {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_millis(random.random_range(0..120)));
        if !building.is_running() {
            break building.wait().ok();
        }
        kills += usize::from(building.kill());
        let done = stages(&dir);
        assert!(done >= stage || dir.join("table.json").exists(), "records are lost: {stage} before, {done} now");
        stage = done.max(stage) + usize::from(random.random_bool(0.7));
    };
    assert!(kills >= 3, "it was killed {kills} times only");
    assert_eq!(ran.json()["root"], undisturbed.root());
    assert!(ran.err.contains(&format!("was begun as {SHORT}")) || ran.err.contains("is complete"), "{ran:#?}");
    assert!(!dir.join("build").exists(), "working files are left");
    let _ = run(["verify", text(&dir), "--level", "hash"]).ok();
}

#[test]
fn while_a_stretch_is_valued_only_its_positions_are_there() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let mut building = start(build(SHORT, &dir, &["--threads", "2"]));
    let mut most = BTreeMap::new();
    while building.is_running() {
        for kind in ["checkpoint", "stretch", "index"] {
            let files = strata_tests::harm::files(&dir.join("build").join(kind));
            let layers: BTreeSet<&str> = files.iter().filter_map(|path| path.split('/').next()).collect();
            let known = most.entry(kind).or_insert(0);
            *known = layers.len().max(*known);
        }
        sleep(Duration::from_millis(5));
    }
    let layers = building.wait().ok().json()["layers"].as_u64().expect("a number of layers");
    let layers = usize::try_from(layers).expect("a small number");
    assert!(most["checkpoint"] > 0 && most["checkpoint"] <= layers / 8, "{most:?}");
    assert!(most["stretch"] > 0 && most["stretch"] < layers, "{most:?} of {layers} layers");
    assert_eq!(most["index"], 0);
}

#[test]
fn every_sample_has_the_value_that_the_whole_table_has() {
    let (stats, whole) = (fixture(NAME), fixture(WHOLE));
    let table = Table::open(&whole.dir).expect("the table is sound");
    let space = strata_games::open(&WHOLE.parse().expect("a name")).expect("it opens");
    let reader = GameTable(&table);
    let listed = run(["stats", text(&stats.dir), "--samples"]).ok();
    let mut lines = listed.out.lines();
    assert_eq!(lines.next(), Some("age,position,value,error"));
    let mut found: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let [age, board, value, error] = cells[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let position = space.parse(board).expect("a board");
        let key = space.rank(space.canonical(position)).expect("a board of this table");
        assert_eq!(key.layer.0.to_string(), age, "{line}");
        let slot = reader.find(key).expect("a sound table").unwrap_or_else(|| panic!("the whole table lacks {line}"));
        let exact = reader.scalar(slot, 0).expect("a sound table");
        let off = (exact.value - number(value)).abs();
        assert!(off <= exact.error + number(error), "{line}: the whole table says {} ± {}", exact.value, exact.error);
        assert!(found.entry(key.layer.0).or_default().insert(board), "{board} is listed twice");
    }
    for layer in &table.manifest().layers {
        let samples = found.get(&layer.layer).map_or(0, |boards| boards.len() as u64);
        assert_eq!(samples, layer.afterstates.min(256), "age {}", layer.layer);
    }
    // Its facts are those of the whole table, to the last bit.
    let (stats, whole) = (stats.info(), whole.info());
    for member in ["facts", "states", "afterstates", "terminal", "layers"] {
        assert_eq!(stats[member], whole[member], "{member}");
    }
}
