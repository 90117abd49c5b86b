//! Against values from outside, and against a second implementation in f64 that shares nothing but the value of an option to double.

use super::*;
use crate::bearoff::tests::naive::{self, Checkers};
use crate::conformance;
use crate::memory::{MemoryTable, run_all};
use std::collections::HashMap;

struct Solved {
    space: TwoSided,
    table: MemoryTable,
}

fn spec(name: &str) -> SpecTwoSided {
    match name.parse() {
        Ok(TableName::TwoSided(spec)) => spec,
        other => panic!("{name}: {other:?}"),
    }
}

fn solve(name: &str) -> Solved {
    let space = TwoSided::new(&spec(name));
    let table = run_all(&space).unwrap();
    Solved { space, table }
}

impl Solved {
    fn values(&self, position: Position) -> [f64; 5] {
        let key = self.space.rank(position).unwrap();
        std::array::from_fn(|column| self.table.value(key, column).unwrap())
    }

    fn at(&self, text: &str) -> [f64; 5] {
        self.values(self.space.parse(text).unwrap())
    }
}

fn near(found: [f64; 5], expected: [Option<f64>; 5], tolerance: f64, what: &str) {
    for (column, (found, expected)) in found.iter().zip(expected).enumerate() {
        if let Some(expected) = expected {
            assert!((found - expected).abs() <= tolerance, "{what}: {} is {found}, not {expected}", COLUMNS[column]);
        }
    }
}

#[test]
fn exact_fractions() {
    let six = solve("bearoff-6x2v2");
    let (fraction, half) = (Some(0.625), Some(0.5));
    near(six.at("0,0,0,0,0,1 v 0,0,0,0,0,1"), [fraction, fraction, half, half, None], 1e-7, "a checker on the 6-point each");
    near(
        six.at("0,0,0,2,0,0 v 1,0,0,0,0,0"),
        [Some(-7.0 / 18.0), None, None, None, None],
        1e-7,
        "two on the 4-point against the ace",
    );
}

/// golden/bearoff.md, two-sided. Its four digits are of values that makebearoff rounded, up to 1.5e-4 from the exact ones.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes a minute without optimisation")]
fn posted_values() {
    let six = solve("bearoff-6x6v6");
    for (text, [cubeless, owned, centred, opponent]) in [
        ("1,1,1,0,1,2 v 1,0,0,1,0,4", [0.7554, 0.9339, 0.9303, 0.7441]),
        ("0,0,0,0,0,6 v 0,0,0,0,0,6", [0.3023, 0.5449, 0.4849, 0.2215]),
    ] {
        let expected = [cubeless, owned, centred, centred, opponent].map(Some);
        near(six.at(text), expected, 1.5e-4, text);
    }
    let owned_most = |values: [f64; 5]| values[OWNED] >= values[CENTRED] && values[CENTRED] >= values[OPPONENT];
    for (key, _) in six.table.keys() {
        let position = six.space.unrank(key).unwrap();
        let values = six.values(position);
        let text = six.space.format(position);
        assert!(owned_most(values.map(|value| (value * 1e6).round())), "{text}: {values:?}");
        assert_eq!(values[JACOBY], values[CENTRED], "{text}");
        assert!(values.iter().all(|value| value.abs() <= 1.0), "{text}: {values:?}");
    }
}

/// All values of a table by a plain recursion in f64, over the boards of either side; nothing for pairs that are not in it.
struct Plain {
    boards: Vec<Checkers>,
    values: Vec<[f64; 5]>,
}

impl Plain {
    fn solve(points: usize, (one, other): (u8, u8), rolls: &[((u8, u8), f64)]) -> Self {
        let pips = |board: &Checkers| board.iter().zip(1..).map(|(&count, point)| usize::from(count) * point).sum::<usize>();
        let count = |board: &Checkers| board.iter().sum::<u8>();
        let mut boards = naive::boards(points, one);
        boards.sort_by_key(pips);
        let numbers: HashMap<&Checkers, usize> = boards.iter().zip(0..).collect();
        let plays_of = |board: &Checkers| {
            let plays = |&(roll, chance)| (chance, naive::plays(board, roll).iter().map(|next| numbers[next]).collect());
            rolls.iter().map(plays).collect()
        };
        let plays: Vec<Vec<(f64, Vec<usize>)>> = boards.iter().map(plays_of).collect();
        let mut pairs: Vec<(usize, usize)> = (0..boards.len()).flat_map(|x| (0..boards.len()).map(move |y| (x, y))).collect();
        pairs.retain(|&(x, y)| count(&boards[x]).min(count(&boards[y])) <= other);
        pairs.sort_by_key(|&(x, y)| pips(&boards[x]) + pips(&boards[y]));
        let mut values = vec![[f64::NAN; 5]; boards.len() * boards.len()];
        for (x, y) in pairs {
            let wins = |loser: usize| if count(&boards[loser]) == 15 { 2.0 } else { 1.0 };
            let sums = if x == 0 {
                let won = wins(y);
                [won, won, won, 1.0, won]
            } else if y == 0 {
                let lost = -wins(x);
                [lost, lost, lost, -1.0, lost]
            } else {
                let mut sums = [0.0; 5];
                for (chance, plays) in &plays[x] {
                    let mut best = [f64::NEG_INFINITY; 5];
                    for &next in plays {
                        let [cubeless, owned, centred, jacoby, opponent] = values[y * boards.len() + next];
                        let with_double = |waiting: f64| waiting.max((2.0 * opponent).min(1.0));
                        let after = [cubeless, opponent, with_double(centred), with_double(jacoby), with_double(owned)];
                        best = std::array::from_fn(|n| best[n].max(-after[n]));
                    }
                    sums = std::array::from_fn(|n| sums[n] + chance * best[n]);
                }
                sums
            };
            values[x * boards.len() + y] = sums;
        }
        Self { boards, values }
    }

    fn pairs(&self) -> impl Iterator<Item = (&Checkers, &Checkers, [f64; 5])> {
        let pairs = self.boards.iter().flat_map(|x| self.boards.iter().map(move |y| (x, y)));
        pairs.zip(&self.values).map(|((x, y), &values)| (x, y, values)).filter(|(.., values)| !values[0].is_nan())
    }
}

fn agree_with_the_plain_recursion(name: &str) {
    let Solved { space, table } = solve(name);
    let rolls: Vec<_> = ROLLS.iter().enumerate().map(|(roll, &dice)| (dice, space.dice.chance(roll))).collect();
    let (one, other) = space.spec.checkers;
    let plain = Plain::solve(space.spec.points, (one as u8, other as u8), &rolls);
    let mut worst = 0.0f64;
    let mut found = 0;
    for (x, y, expected) in plain.pairs() {
        let [roller, facing] = [x, y].map(|board| space.board.sums(naive::pack(board)));
        let key = space.rank(space.pack(roller, facing)).unwrap();
        for (column, expected) in expected.iter().enumerate() {
            let off = (table.value(key, column).unwrap() - expected).abs();
            assert!(off <= ALLOWANCE, "{name}, {x:?} v {y:?}: {} is off by {off}", COLUMNS[column]);
            worst = worst.max(off);
        }
        found += 1;
    }
    assert_eq!(found, table.keys().count(), "{name}");
    println!("{name}: {worst:e}, {:.3} of what is allowed", worst / ALLOWANCE);
    // So much room is left in what the manifest allows.
    assert!(worst < ALLOWANCE / 4.0, "{name}: {worst}");
}

#[test]
fn values_are_those_of_a_plain_recursion_in_f64() {
    for name in
        ["bearoff-3x3v3", "bearoff-6x2v2", "bearoff-4x3v1", "bearoff-1x15v15", "bearoff-4x2v2+doubles=0.3", "bearoff-8x2v1"]
    {
        agree_with_the_plain_recursion(name);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimisation")]
fn values_with_gammons_are_those_of_a_plain_recursion_in_f64() {
    for name in ["bearoff-2x15v15", "bearoff-3x15v3", "bearoff-6x4v3", "bearoff-6x6v6"] {
        agree_with_the_plain_recursion(name);
    }
}

/// Laws of the game that no line of the kernel knows: of all pairs, not of a sample.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes a minute without optimisation")]
fn the_laws_of_the_game_hold() {
    const ROUNDING: f64 = 1e-6;
    for name in ["bearoff-6x4v4", "bearoff-2x15v15", "bearoff-3x15v2", "bearoff-8x3v2"] {
        let Solved { space, table } = solve(name);
        let values = |roller: Sums, other: Sums| {
            let key = space.key((roller, other))?;
            Some(std::array::from_fn::<f64, 5, _>(|column| table.value(key, column).unwrap()))
        };
        for (key, _) in table.keys() {
            let position = space.unrank(key).unwrap();
            let (roller, other) = space.pair(position).unwrap();
            if is_over((roller, other)) {
                continue;
            }
            let text = space.format(position);
            let of = values(roller, other).unwrap();
            // The cube is worth having.
            assert!(of[OWNED] >= of[CENTRED] - ROUNDING && of[CENTRED] >= of[OPPONENT] - ROUNDING, "{text}: {of:?}");
            assert!(of[OWNED] >= of[CUBELESS] - ROUNDING && of[CUBELESS] >= of[OPPONENT] - ROUNDING, "{text}: {of:?}");
            // Nobody loses more than a gammon, and not that by Jacoby's rule unless the cube is turned, which the winner then does.
            assert!(of.iter().all(|value| value.abs() <= 2.0) && of[JACOBY].abs() <= 1.0 + ROUNDING, "{text}: {of:?}");
            // Rolling first is never worse than rolling second.
            let reversed = values(other, roller).unwrap();
            assert!(of[CUBELESS] + reversed[CUBELESS] >= -ROUNDING, "{text}: {of:?} {reversed:?}");
            // Having a checker less on the board is never worse.
            let board = space.board.position(roller);
            for point in (0..space.spec.points).filter(|point| board.0 >> (4 * point) & 15 > 0) {
                let fewer = space.board.sums(Position(board.0 - (1 << (4 * point))));
                let better = values(fewer, other).unwrap();
                for column in 0..COLUMNS.len() {
                    assert!(better[column] >= of[column] - ROUNDING, "{text} without one on {}: {better:?} {of:?}", point + 1);
                }
            }
        }
    }
}

/// A table of fewer checkers has the same numbers, to the bit, wherever no gammon is possible.
#[test]
fn fewer_checkers_are_a_corner_to_the_bit() {
    for (larger, smaller) in
        [("bearoff-2x15v15", "bearoff-2x14v14"), ("bearoff-2x15v3", "bearoff-2x4v2"), ("bearoff-6x3v3", "bearoff-6x3v1")]
    {
        let (larger, smaller) = (solve(larger), solve(smaller));
        for (key, _) in smaller.table.keys() {
            let position = smaller.space.unrank(key).unwrap();
            assert_eq!(larger.at(&smaller.space.format(position)), smaller.values(position));
        }
    }
}

#[test]
fn the_laws_of_a_state_space_hold() {
    for name in ["bearoff-3x2v2", "bearoff-2x4v2", "bearoff-1x15v15", "bearoff-7x2v1", "bearoff-2x3v3+doubles=0.2"] {
        conformance::check(&TwoSided::new(&spec(name))).unwrap();
    }
}

#[test]
fn values_do_not_hang_on_stages_shards_tasks_or_memory() {
    let spec = spec("bearoff-6x3v2");
    let whole = TwoSided::new(&spec);
    let table = run_all(&whole).unwrap();
    for (stage, shard, task) in [(1, 1, 1), (500, 37, 100), (1, 100, 1000)] {
        let space = TwoSided::with_sizes(&spec, Sizes { stage, shard, task });
        let mut io = crate::memory::MemoryIo::new(&space).within(1 << 12);
        while io.step().unwrap().is_some() {}
        let other = io.finish().unwrap();
        for (key, _) in table.keys() {
            for column in 0..COLUMNS.len() {
                assert_eq!(table.value(key, column), other.value(key, column), "{key:?} with {stage} {shard} {task}");
            }
        }
    }
}

#[test]
fn plays_are_those_that_a_roll_of_one_side_has() {
    let space = TwoSided::new(&spec("bearoff-6x3v3"));
    let position = space.parse("1,0,1,0,0,1 v 0,2,0,0,0,0").unwrap();
    let state = space.outcomes(position).into_iter().find(|outcome| outcome.label == "61").unwrap().state;
    let choices: Vec<(String, String)> =
        space.choices(state).into_iter().map(|choice| (choice.label, space.format(choice.position))).collect();
    let after = |side: &str| format!("0,2,0,0,0,0 v {side}");
    // The last is 6/5/off: the 6 bears the farthest checker off.
    let expected = [("6/off 1/off", "0,0,1,0,0,0"), ("6/off 3/2", "1,1,0,0,0,0"), ("6/off", "1,0,1,0,0,0")];
    assert_eq!(choices, expected.map(|(label, side)| (label.to_string(), after(side))));
}

#[test]
fn what_nobody_can_store_is_refused_with_the_numbers() {
    let error = TwoSided::open(&spec("bearoff-18x15v15")).unwrap_err();
    assert!(error.to_string().contains("1037158320 positions"), "{error}");
    for name in ["bearoff-8x15v15", "bearoff-8x15v2"] {
        assert!(TwoSided::open(&spec(name)).is_ok(), "{name}");
    }
    assert!(TwoSided::open(&spec("bearoff-18x15v1")).is_err());
}

#[test]
fn bad_positions_say_what_is_wrong() {
    let space = TwoSided::new(&spec("bearoff-6x4v2"));
    for (text, problem) in [
        ("1,2", "two-sided table needs two"),
        ("1,x v 1", "the player on roll: point 2"),
        ("1 v 5", "the other player: point 1"),
        ("3 v 3", "both players have more than 2 checkers"),
    ] {
        let error = space.parse(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}
