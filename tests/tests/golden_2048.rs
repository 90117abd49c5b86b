//! 2048 on small boards, from the command to the last digit: counts, ages, expected scores and chances of `golden/2048-small-boards.md`,
//! built, shown by `info`, and read back by `probe`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use strata_tests::golden::{assert_close, assert_within, count_2048, on_2048, states_on_4x3};
use strata_tests::rules2048::{Board, Rules};
use strata_tests::{Fixture, fixture, run, text};

/// A row of `info --layers --csv`: states, afterstates, terminal states.
type Layers = BTreeMap<u64, [u64; 3]>;

fn layers(table: &Fixture) -> Layers {
    let csv = run(["info", text(&table.dir), "--layers", "--csv"]).ok().out;
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("layer,states,afterstates,terminal,index_bytes,value_bytes"));
    let row = |line: &str| {
        let numbers: Vec<u64> = line.split(',').map(|n| n.parse().expect("a number")).collect();
        assert_eq!(numbers.len(), 6, "{line}");
        (numbers[0], [numbers[1], numbers[2], numbers[3]])
    };
    lines.map(row).collect()
}

fn sums(layers: &Layers) -> [u64; 3] {
    layers.values().fold([0; 3], |sum, row| [sum[0] + row[0], sum[1] + row[1], sum[2] + row[2]])
}

fn number(json: &Value, member: &str) -> f64 {
    json[member].as_f64().unwrap_or_else(|| panic!("{member} is missing in {json}"))
}

/// Counts in the manifest, in `build --json`, and as sums of the layers; ages from 4 to the last, every even one.
fn assert_counts(table: &Fixture, states: &str, afterstates: &str, terminal: Option<&str>, last_age: u64) -> Layers {
    let (states, afterstates) = (count_2048(states), count_2048(afterstates));
    let info = table.info();
    for json in [&table.built, &info] {
        assert_eq!((json["states"].as_u64(), json["afterstates"].as_u64()), (Some(states), Some(afterstates)), "{json}");
    }
    assert_eq!(info["keys"].as_u64(), Some(afterstates), "the keys are the afterstates");
    let layers = layers(table);
    let [s, a, t] = sums(&layers);
    assert_eq!((s, a), (states, afterstates));
    assert_eq!(info["terminal"].as_u64(), Some(t));
    if let Some(terminal) = terminal {
        assert_eq!(t, count_2048(terminal));
    }
    let ages: Vec<u64> = layers.iter().filter(|(_, row)| row[0] > 0).map(|(&age, _)| age).collect();
    assert_eq!(ages, (4..=last_age).step_by(2).collect::<Vec<_>>());
    layers
}

/// The mean of what `probe` answers for the starts of one age, and the largest error it admits.
fn probed_mean(dir: &Path, rules: Rules, age: u32) -> (f64, f64) {
    let mut alike: BTreeMap<Board, f64> = BTreeMap::new();
    for (chance, start) in rules.starts(age) {
        *alike.entry(rules.smallest_image(&start)).or_default() += chance;
    }
    let (mut mean, mut error) = (0.0, 0.0f64);
    for (start, chance) in &alike {
        let json = run(["probe", text(dir), &rules.text(start), "--json"]).ok().json();
        assert_eq!(json["status"], "ok");
        mean += chance * number(&json, "value");
        error = error.max(number(&json, "error"));
    }
    (mean, error)
}

/// What `probe` says agrees with golden within the error that it admits, and that error is within the one of the manifest.
fn assert_probed(table: &Fixture, rules: Rules, golden: &[(u32, f64)]) {
    let bound = number(&table.built, "error_bound");
    for &(age, value) in golden {
        let (mean, error) = probed_mean(&table.dir, rules, age);
        assert!(error <= bound, "probe admits {error:e}, the manifest {bound:e}");
        assert_within(mean, value, error + 1e-10 * value);
    }
}

/// The chance of two tiles of an age at the start.
const START_AGES: [(u32, f64); 3] = [(4, 0.81), (6, 0.18), (8, 0.01)];

/// The mean over the random start, from probes alone.
fn assert_probed_value(table: &Fixture, rules: Rules, golden: f64) {
    let parts = START_AGES.map(|(age, chance)| (probed_mean(&table.dir, rules, age), chance));
    let mean: f64 = parts.iter().map(|((mean, _), chance)| mean * chance).sum();
    let error = parts.iter().map(|((_, error), _)| *error).fold(0.0, f64::max);
    assert!(error <= number(&table.built, "error_bound"));
    assert_within(mean, golden, error + 1e-10 * golden);
}

#[test]
fn two_by_two_has_110_states_and_its_exact_value() {
    let table = fixture("2048-2x2");
    assert_counts(&table, "110", "67", Some("36"), 60);
    let exact = on_2048("66.9641494571012598631936048");
    assert_close(number(&table.built, "value"), exact, 1e-9);
    assert_close(number(&table.info()["facts"], "value"), exact, 1e-9);
    let rules = Rules { rows: 2, cols: 2 };
    let by_age = [(4, on_2048("67.69626407876893")), (6, on_2048("64.0061016157948")), (8, on_2048("60.907726245536"))];
    assert_probed(&table, rules, &by_age);
    assert_probed_value(&table, rules, exact);
}

#[test]
fn two_by_three_is_the_same_either_way_round() {
    let golden = on_2048("480.258271775958036646629397");
    let tables = [("2048-2x3", 2, 3), ("2048-3x2", 3, 2)].map(|(name, rows, cols)| {
        let table = fixture(name);
        let layers = assert_counts(&table, "21,752", "14,883", Some("4,484"), 252);
        assert_close(number(&table.built, "value"), golden, 1e-9);
        assert_probed_value(&table, Rules { rows, cols }, golden);
        (layers, table)
    });
    assert_eq!(tables[0].0, tables[1].0);
    assert_ne!(tables[0].1.root(), tables[1].1.root(), "each name has its own table");
}

#[test]
fn two_by_four_has_its_counts_and_value() {
    let table = fixture("2048-2x4");
    assert_counts(&table, "4,980,767", "3,406,686", Some("892,648"), 1020);
    let golden = on_2048("2641.87303569224");
    assert_close(number(&table.built, "value"), golden, 1e-10);
    assert_probed_value(&table, Rules { rows: 2, cols: 4 }, golden);
}

#[test]
fn three_by_three_counts_match_the_paper() {
    let table = fixture("2048-3x3");
    let layers = assert_counts(&table, "48,713,519", "31,431,374", Some("7,388,502"), 2044);
    let largest = layers.iter().max_by_key(|(_, row)| row[0]).map(|(&age, row)| (age, row[0]));
    assert_eq!(largest, Some((count_2048("1200"), count_2048("93,061"))));
    // Where the age has as many binary ones as there are cells the board can be full of different tiles, so that no move is left.
    let stuck: Vec<u64> = layers.iter().filter(|(_, row)| row[1] == 0).map(|(&age, _)| age).collect();
    assert_eq!(stuck, [1022, 1534, 1790, 1918, 1982, 2014, 2030, 2038, 2042, 2044].map(|age: u64| count_2048(&age.to_string())));
    assert_eq!(stuck, (4..=2044u64).step_by(2).filter(|age| age.count_ones() >= 9).collect::<Vec<_>>());
    assert!(stuck.iter().all(|age| layers[age][0] == layers[age][2]), "a state without a move is terminal");
}

#[test]
fn three_by_three_has_its_value_to_ten_digits_and_reads_back() {
    let table = fixture("2048-3x3");
    let golden = on_2048("5468.48679741");
    assert_close(number(&table.built, "value"), golden, 1e-10);
    // Values of up to some ten thousand in 32 bits: f32 would be off by 0.0036 here.
    let bound = number(&table.built, "error_bound");
    assert!(bound > 0.0 && bound < 5e-6, "{bound:e}");
    let rules = Rules { rows: 3, cols: 3 };
    let by_age = [(4, on_2048("5469.214070146745")), (6, on_2048("5465.577706468288")), (8, on_2048("5461.941342711579"))];
    assert_probed(&table, rules, &by_age);
    assert_probed_value(&table, rules, golden);
}

/// The chance of a tile: over the random start, and read back.
fn assert_chance(name: &str, rules: Rules, golden: &str) {
    let table = fixture(name);
    let golden = on_2048(golden);
    assert_close(number(&table.built, "value"), golden, 1e-10);
    assert_probed_value(&table, rules, golden);
}

#[test]
fn chances_of_tiles_on_two_by_two() {
    let rules = Rules { rows: 2, cols: 2 };
    assert_chance("2048-2x2+tile=16", rules, "0.96251125375");
    assert_chance("2048-2x2+tile=32", rules, "0.08288728907155");
    // No tile above 32 fits on the board.
    let missing = tempfile::tempdir().expect("a temporary directory can be made").path().join("t");
    let _ = run(["build", "2048-2x2+tile=64", "--out", text(&missing)]).code(2).one_clear_error().says("+tile=64");
    assert!(!missing.exists());
}

#[test]
fn play_that_stops_at_64_on_three_by_three() {
    let table = fixture("2048-3x3+tile=64");
    let [states, afterstates, _] = sums(&layers(&table));
    assert_eq!((states, afterstates), (count_2048("609,981"), count_2048("393,579")));
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn chances_of_256_on_three_by_three() {
    let table = fixture("2048-3x3+tile=256");
    let [states, afterstates, _] = sums(&layers(&table));
    assert_eq!((states, afterstates), (count_2048("6,116,578"), count_2048("3,981,715")));
    assert_chance("2048-3x3+tile=256", Rules { rows: 3, cols: 3 }, "0.99570964319881");
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn chances_of_512_and_1024_on_three_by_three() {
    assert_chance("2048-3x3+tile=512", Rules { rows: 3, cols: 3 }, "0.73677417702316");
    assert_chance("2048-3x3+tile=1024", Rules { rows: 3, cols: 3 }, "0.01133788008253");
}

/// States of every age up to a horizon, published by others, and the counts of some ages.
fn assert_published_ages(horizon: u64, published: &[(u64, &str, &str)]) {
    let table = fixture(&format!("2048-4x3+horizon={horizon}"));
    let layers = layers(&table);
    let golden: Vec<(u64, u64)> = states_on_4x3().into_iter().filter(|&(age, _)| age <= horizon).collect();
    assert_eq!(golden.len() as u64, horizon / 2 - 1);
    let found: Vec<(u64, u64)> = layers.iter().map(|(&age, row)| (age, row[0])).collect();
    assert_eq!(found, golden);
    for (age, afterstates, terminal) in published {
        assert_eq!(layers[age][1..], [count_2048(afterstates), count_2048(terminal)], "age {age}");
    }
}

#[test]
fn four_by_three_has_the_published_states_of_every_age_up_to_64() {
    let published =
        [(4, "9", "0"), (6, "16", "0"), (8, "38", "0"), (20, "1,167", "0"), (36, "20,267", "1"), (64, "295,502", "422")];
    assert_published_ages(64, &published);
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn four_by_three_has_the_published_states_of_every_age_up_to_100() {
    assert_published_ages(100, &[(64, "295,502", "422"), (100, "1,443,035", "10,985")]);
}

#[test]
fn a_probed_move_is_worth_its_reward_and_what_follows() {
    let table = fixture("2048-2x3");
    let rules = Rules { rows: 2, cols: 3 };
    // 2 2 4 / 0 0 0 has an age of 8 and is no start; left merges the 2s and then has 4 4, which merge no more.
    let mut board = [0; 16];
    (board[0], board[1], board[2]) = (1, 1, 2);
    let json = run(["probe", text(&table.dir), &rules.text(&board), "--json"]).ok().json();
    let moves = json["moves"].as_array().expect("moves");
    let legal: Vec<(u32, String)> =
        rules.moves(&board).map(|(reward, next)| (reward, rules.text(&rules.smallest_image(&next)))).collect();
    assert_eq!(moves.len(), legal.len());
    let best = moves.iter().map(|m| number(m, "value")).fold(f64::MIN, f64::max);
    assert_eq!(number(&json, "value"), best);
    assert_eq!(moves[0]["rank"], 1);
    for (name, direction) in [("left", 0), ("right", 1), ("up", 2), ("down", 3)] {
        let (reward, next) = rules.slide(&board, direction);
        match moves.iter().find(|m| m["move"] == name) {
            None => assert_eq!(next, board, "{name} is legal"),
            Some(found) => {
                assert_ne!(next, board, "{name} changes nothing");
                assert_eq!(number(found, "reward"), f64::from(reward), "{name}");
            }
        }
    }
}
