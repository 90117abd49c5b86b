//! One-sided bearoff, from the command to the last digit: `golden/bearoff.md`, built, and read back by `probe`.

use serde_json::Value;
use strata_games::{Position, StateSpace, TableReader};
use strata_storage::Table;
use strata_tests::golden::{assert_close, assert_within, count_bearoff, on_bearoff};
use strata_tests::{Fixture, fixture, run, text};
use strata_worker::GameTable;

fn number(json: &Value, member: &str) -> f64 {
    json[member].as_f64().unwrap_or_else(|| panic!("{member} is missing in {json}"))
}

fn probe(table: &Fixture, position: &str) -> Value {
    let json = run(["probe", text(&table.dir), position, "--json"]).ok().json();
    assert_eq!(json["status"], "ok");
    assert!(number(&json, "error") <= number(&table.built, "error_bound"));
    json
}

/// All means of a table, in the order of its keys, as published.
fn means(table: &Fixture) -> (Box<dyn StateSpace>, Vec<(Position, f64)>) {
    let opened = Table::open(&table.dir).expect("the table opens");
    let space = strata_games::open(&opened.manifest().table.parse().expect("a name")).expect("it opens");
    let mut means = Vec::new();
    for layer in &opened.manifest().layers {
        for shard in &layer.shards {
            let file = opened.shard(layer.layer, shard.shard).expect("a shard");
            let values = file.scalars(0).expect("values");
            for (rank, value) in file.index().expect("an index").iter().zip(values) {
                let key = strata_games::Key { layer: strata_games::Layer(layer.layer), rank: shard.first_rank + rank };
                means.push((space.unrank(key).expect("a position"), value));
            }
        }
    }
    (space, means)
}

#[test]
fn six_points_fifteen_checkers_have_54264_positions() {
    let table = fixture("bearoff-6x15");
    let info = table.info();
    let golden = Some(count_bearoff("54,264"));
    assert_eq!((info["states"].as_u64(), info["keys"].as_u64()), (golden, golden));
    // 15 checkers on 6 points: 0 to 90 pips.
    assert_eq!(info["layers"].as_u64(), Some(91));
    let bound = number(&table.built, "error_bound");
    assert!(bound > 0.0 && bound < 5e-9, "{bound:e}");
}

#[test]
fn headline_values_are_the_exact_fractions() {
    // The headline of a table is the mean for all checkers on the farthest point, and it is not rounded to 32 bits.
    let exact = [
        ("bearoff-6x1", "5/4"),
        ("bearoff-6x2", "49213/23328"),
        ("bearoff-6x3", "44038793/15116544"),
        ("bearoff-1x7", "767/216"),
    ];
    for (name, fraction) in exact {
        assert_close(number(&fixture(name).built, "value"), on_bearoff(fraction), 1e-12);
    }
}

#[test]
fn means_read_back_are_the_exact_fractions() {
    let table = fixture("bearoff-6x15");
    let exact = [
        ("0,0,0,0,0,1", "5/4"),
        ("1,0,0,1,0,0", "43/36"),
        ("1,0,0,0,1,0", "49/36"),
        ("0,1,0,0,1,0", "239/162"),
        ("0,0,0,0,1,1", "11431/5832"),
        ("0,0,0,0,0,2", "49213/23328"),
        ("1,1,1,0,0,0", "67/36"),
        ("0,0,1,1,1,0", "1867/864"),
        ("0,0,0,0,0,3", "44038793/15116544"),
        ("7,0,0,0,0,0", "767/216"),
    ];
    for (position, fraction) in exact {
        let json = probe(&table, position);
        assert_within(number(&json, "value"), on_bearoff(fraction), number(&json, "error") + 1e-12);
    }
}

#[test]
fn means_deviations_and_effective_pip_counts_are_those_of_the_table() {
    let table = fixture("bearoff-6x15");
    let rows = [
        ("0,0,0,0,0,15", 90, "12.266187171765", "1.512509", "100.173862"),
        ("0,0,0,5,5,5", 75, "10.0737589569", "1.464450", "82.269"),
        ("2,2,2,3,3,3", 57, "8.1389232026", "1.079010", "66.468"),
        ("7,5,3,0,0,0", 26, "6.9843781611", "0.803548", "57.039"),
        ("15,0,0,0,0,0", 15, "6.9795917638", "0.807607", "56.999999"),
        ("0,0,0,0,0,2", 12, "2.1096107682", "0.571032", "17.228"),
    ];
    let half_a_unit = |text: &str| 0.5 * 10f64.powi(-(text.split_once('.').map_or(0, |(_, digits)| digits.len()) as i32));
    for (position, pips, mean, sd, epc) in rows {
        let json = probe(&table, position);
        assert_eq!(json["pips"], pips);
        let error = number(&json, "error");
        assert_within(number(&json, "value"), on_bearoff(mean), half_a_unit(mean) + error);
        assert_within(number(&json, "sd"), on_bearoff(sd), half_a_unit(sd) + 1e-8);
        assert_within(number(&json, "epc"), on_bearoff(epc), half_a_unit(epc) + 1e-8);
        assert_within(number(&json, "wastage"), number(&json, "epc") - f64::from(pips), 1e-9);
        // The distribution has this mean and this deviation.
        let dist = &json["distributions"][0];
        let first = dist["first"].as_u64().expect("a first roll") as f64;
        let chances: Vec<f64> = dist["chances"].as_array().expect("chances").iter().filter_map(Value::as_f64).collect();
        let moment = |power: i32| chances.iter().zip(0..).map(|(p, i)| p * (first + f64::from(i)).powi(power)).sum::<f64>();
        assert_within(moment(0), 1.0, 1e-8);
        assert_within(moment(1), number(&json, "value"), 1e-7);
        assert_within((moment(2) - moment(1).powi(2)).sqrt(), number(&json, "sd"), 1e-6);
    }
}

#[test]
fn rolls_that_bear_everything_off_at_once() {
    let table = fixture("bearoff-6x15");
    let rolls = [
        ("1", 36),
        ("0,1", 36),
        ("0,0,1", 36),
        ("0,0,0,1", 34),
        ("0,0,0,0,1", 31),
        ("0,0,0,0,0,1", 27),
        ("1,0,0,1", 29),
        ("1,0,0,0,0,1", 15),
        ("0,1,0,0,1", 19),
        ("0,0,2", 17),
        ("0,0,0,0,2", 6),
        ("0,0,0,0,1,1", 6),
        ("0,0,0,0,0,2", 4),
    ];
    for (position, golden) in rolls {
        let dist = &probe(&table, position)["distributions"][0];
        assert_eq!(dist["first"], 1, "{position}");
        assert_within(dist["chances"][0].as_f64().expect("a chance") * 36.0, f64::from(golden), 1e-7);
    }
}

#[test]
fn fifteen_checkers_on_the_farthest_point() {
    let golden = ["6.979591764", "7.420626794", "8.452495869", "9.437095713", "10.824508814", "12.266187172", "14.528979132"];
    for (points, mean) in (1..).zip(golden) {
        let table = fixture(&format!("bearoff-{points}x15"));
        assert_within(number(&table.built, "value"), on_bearoff(mean), 5.01e-10);
    }
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn fifteen_checkers_on_the_eighth_and_ninth_point() {
    for (points, mean) in [(8, "15.946564803"), (9, "17.553576213")] {
        let table = fixture(&format!("bearoff-{points}x15"));
        assert_within(number(&table.built, "value"), on_bearoff(mean), 5.01e-10);
    }
}

#[test]
fn dice_with_doubles_one_per_cent_likelier() {
    // Every double has 1.01/36.
    let biased = fixture("bearoff-6x15+doubles=0.16833333333333333");
    let golden = on_bearoff("12.251941");
    assert_within(number(&biased.built, "value"), golden, 5.01e-7);
    let json = probe(&biased, "0,0,0,0,0,15");
    assert_within(number(&json, "value"), golden, 5.01e-7);
    let (_, fair) = means(&fixture("bearoff-6x15"));
    let (_, other) = means(&biased);
    assert_eq!(fair.len(), 54_264);
    let mut largest = 0.0f64;
    for ((position, a), (same, b)) in fair.iter().zip(&other) {
        assert_eq!(position, same);
        largest = if *a > 0.0 { largest.max((b / a - 1.0).abs()) } else { largest };
    }
    assert_within(largest * 100.0, on_bearoff("0.133"), 5.01e-4);
}

#[test]
fn play_declines_to_bear_off_in_3825_cases() {
    // From the published means alone: what a reader of the table would play.
    let table = fixture("bearoff-6x15");
    let (space, means) = means(&table);
    let opened = Table::open(&table.dir).expect("the table opens");
    let reader = GameTable(&opened);
    let on_board = |position: Position| (0..6).map(|i| (position.0 >> (4 * i) & 15) as u32).sum::<u32>();
    let (mut declined, mut of_two) = (0, 0);
    for &(position, _) in means.iter().filter(|(position, _)| position.0 != 0) {
        for outcome in space.outcomes(position) {
            let dice: Vec<char> = outcome.label.chars().filter(char::is_ascii_digit).collect();
            if dice[0] == dice[1] {
                continue;
            }
            let best = |off: bool| {
                let choices = space.choices(outcome.state).into_iter();
                let kept = choices.filter(|c| (on_board(c.position) < on_board(position)) == off);
                kept.map(|c| match c.key {
                    Some(key) => {
                        let slot = reader.find(key).expect("a sound table").expect("the key");
                        reader.scalar(slot, 0).expect("a sound table").value
                    }
                    None => 0.0,
                })
                .reduce(f64::min)
            };
            if let (Some(off), Some(inside)) = (best(true), best(false))
                && inside < off - 1e-8
            {
                declined += 1;
                of_two += u32::from(on_board(position) == 2);
            }
        }
    }
    assert_eq!((declined, of_two), (count_bearoff("3,825"), 1));
}

#[test]
fn a_roll_ranks_its_plays() {
    let table = fixture("bearoff-6x15");
    let json = run(["probe", text(&table.dir), "0,0,0,0,0,15", "--roll", "64", "--json"]).ok().json();
    let moves = json["moves"].as_array().expect("moves");
    assert!(!moves.is_empty() && moves[0]["rank"] == 1);
    // 6-4 from fifteen on the 6-point: one off, one to the 2-point, and nothing else.
    assert_eq!(moves.len(), 1);
    assert_eq!(moves[0]["to"], "0,1,0,0,0,13");
    let after = probe(&table, "0,1,0,0,0,13");
    assert_within(number(&moves[0], "value"), number(&after, "value") + 1.0, 1e-12);
}
