//! Published numbers of small boards (tests/golden), and the engine against the rules written down plainly.

use super::ranks::{LayerRanks, Rows};
use super::*;
use crate::memory::{MemoryIo, MemoryTable, run_all};
use proptest::prelude::*;

fn solve(name: &str) -> MemoryTable {
    let name: TableName = name.parse().unwrap();
    run_all(crate::open(&name).unwrap().as_ref()).unwrap()
}

/// Asserts a value to a relative accuracy.
fn close(what: &str, found: f64, expected: f64, relative: f64) {
    assert!((found / expected - 1.0).abs() <= relative, "{what}: {found} instead of {expected}");
}

fn check(name: &str, counts: (u64, u64, u64), value: f64, relative: f64) -> MemoryTable {
    let table = solve(name);
    let found = table.totals();
    assert_eq!((found.states, found.afterstates, found.terminal), counts, "{name}");
    close(name, table.facts()["value"], value, relative);
    table
}

#[test]
fn two_by_two_matches_the_exact_fraction() {
    let exact = 41_852_593_410_688_287_414_496_003.0 / 625_000_000_000_000_000_000_000.0;
    let table = check("2048-2x2", (110, 67, 36), exact, 1e-12);
    for (age, value) in [(4, 67.696_264_078_768_93), (6, 64.006_101_615_794_8), (8, 60.907_726_245_536)] {
        close("by age", table.facts()[&format!("value_age_{age}")], value, 1e-13);
    }
}

#[test]
fn two_by_three_and_three_by_two_are_one_game() {
    for name in ["2048-2x3", "2048-3x2"] {
        check(name, (21_752, 14_883, 4_484), 480.258_271_775_958_04, 1e-12);
    }
}

#[test]
fn two_by_four_matches_the_published_counts() {
    check("2048-4x2", (4_980_767, 3_406_686, 892_648), 2_641.873_035_692_24, 1e-13);
}

#[test]
fn three_by_three_matches_the_published_solution() {
    let table = check("2048-3x3", (48_713_519, 31_431_374, 7_388_502), 5_468.486_797_41, 1e-10);
    for (age, value) in [(4, 5_469.214_070_146_745), (6, 5_465.577_706_468_288), (8, 5_461.941_342_711_579)] {
        close("by age", table.facts()[&format!("value_age_{age}")], value, 1e-12);
    }
    let counts: Vec<(u32, Counts)> = (4..=2044).step_by(2).map(|age| (age, table.counts(Layer(age)))).collect();
    assert_eq!(counts.iter().max_by_key(|(_, c)| c.states).map(|(age, c)| (*age, c.states)), Some((1200, 93_061)));
    let full: Vec<u32> = counts.iter().filter(|(_, c)| c.states > 0 && c.afterstates == 0).map(|(age, _)| *age).collect();
    assert_eq!(full, [1022, 1534, 1790, 1918, 1982, 2014, 2030, 2038, 2042, 2044]);
}

#[test]
fn chances_of_tiles_match_the_published_ones() {
    for (name, chance) in [
        ("2048-2x2+tile=16", 0.962_511_253_75),
        ("2048-2x2+tile=32", 0.082_887_289_071_55),
        ("2048-3x3+tile=256", 0.995_709_643_198_81),
    ] {
        close(name, solve(name).facts()["value"], chance, 1e-11);
    }
}

#[test]
fn play_stops_at_the_first_tile() {
    for (name, states, afterstates) in [
        ("2048-3x3+tile=64", 609_981, 393_579),
        ("2048-3x3+tile=256", 6_116_578, 3_981_715),
        ("2048-4x4+tile=16", 23_483_970, 11_386_045),
    ] {
        let totals = solve(name).totals();
        assert_eq!((totals.states, totals.afterstates), (states, afterstates), "{name}");
    }
}

#[test]
fn states_of_every_age_match_the_published_counts() {
    let golden = include_str!("../../../tests/golden/2048-4x3-states-per-age.txt");
    let table = solve("2048-4x3+horizon=64");
    let mut seen = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let numbers: Vec<u64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
        if let Some(layer) = u32::try_from(numbers[0]).ok().filter(|&age| age <= 64) {
            assert_eq!(table.counts(Layer(layer)).states, numbers[1], "age {layer}");
            seen += 1;
        }
    }
    assert_eq!(seen, 31);
    for (age, afterstates, terminal) in [(4, 9, 0), (6, 16, 0), (8, 38, 0), (20, 1_167, 0), (36, 20_267, 1), (64, 295_502, 422)] {
        let counts = table.counts(Layer(age));
        assert_eq!((counts.afterstates, counts.terminal), (afterstates, terminal), "age {age}");
    }
}

#[test]
fn a_layer_larger_than_memory_has_the_same_values() {
    for name in ["2048-4x3+horizon=56", "2048-2x4+horizon=60+keep=play", "2048-4x3+tile=16"] {
        let space = crate::open(&name.parse().unwrap()).unwrap();
        let mut io = MemoryIo::new(&*space).within(1 << 16);
        while io.step().unwrap().is_some() {}
        assert_eq!(io.finish().unwrap(), run_all(&*space).unwrap(), "{name}");
    }
}

/// What a table of statistics says, the table with all values says too; and the length of the stretches changes nothing.
#[test]
fn statistics_are_those_of_the_whole_table_however_long_the_stretches() {
    for (name, stretches) in [("2048-2x4+horizon=200", [1, 9, 64]), ("2048-3x3+horizon=100", [1, 20, 1000])] {
        let whole = solve(name);
        let space = crate::open(&name.parse().unwrap()).unwrap();
        let kept = stretches.map(|stretch| solve(&format!("{name}+keep=stats+stretch={stretch}")));
        for table in &kept {
            assert_eq!(table.facts(), whole.facts(), "{name}");
            for info in space.layers() {
                assert_eq!(table.counts(info.layer), whole.counts(info.layer), "{name} {}", info.layer);
                assert_eq!(table.stats(info.layer), whole.stats(info.layer), "{name} {}", info.layer);
                let samples = &table.shards(info.layer)[0].columns.scalars;
                assert_eq!(samples[0].len() as u64, whole.counts(info.layer).afterstates.min(256));
                assert!(samples[1].is_sorted_by(|a, b| a < b), "no position twice");
                for (&value, &rank) in samples[0].iter().zip(&samples[1]) {
                    assert_eq!(whole.value(Key { layer: info.layer, rank: rank as u64 }, 0), Some(value));
                }
                assert_eq!(table.shards(info.layer), kept[0].shards(info.layer));
            }
        }
    }
}

/// A table of moves has every state of the game, and plays the best move in each as the table of values has it.
#[test]
fn moves_that_are_kept_are_the_best_in_every_state() {
    for name in ["2048-2x2", "2048-3x2", "2048-2x4+horizon=60", "2048-3x3+horizon=32", "2048-3x3+tile=8", "2048-4x3+horizon=24"] {
        let (whole, kept) = (solve(name), solve(&format!("{name}+keep=play+stretch=9")));
        let values = crate::open(&name.parse().unwrap()).unwrap();
        let moves = crate::open(&format!("{name}+keep=play").parse().unwrap()).unwrap();
        assert_eq!(kept.facts(), whole.facts(), "{name}");
        for info in values.layers() {
            assert_eq!(kept.counts(info.layer), whole.counts(info.layer), "{name} {}", info.layer);
            assert_eq!(kept.stats(info.layer), whole.stats(info.layer), "{name} {}", info.layer);
            let states: usize = kept.shards(info.layer).iter().map(|shard| shard.keys.len()).sum();
            assert_eq!(states as u64, whole.counts(info.layer).states, "{name} {}", info.layer);
        }
        for (key, _) in kept.keys() {
            let state = moves.unrank(key).unwrap();
            assert_eq!(moves.rank(state), Some(key));
            assert_eq!(moves.standing(state, &kept).unwrap(), Standing::Inside);
            let value = |choice: &Choice| choice.reward + whole.value(choice.key.unwrap(), 0).unwrap();
            let choices = values.choices(state);
            let best = choices.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
            let chosen = moves.chosen(state, &kept).unwrap();
            assert_eq!(chosen.is_none(), choices.is_empty());
            let is_best = |value: f64| value == best;
            assert!(chosen.is_none_or(|chosen| is_best(value(&choices[chosen]))), "{name}: {}", moves.format(state));
            // Symmetric boards are played alike.
            for image in images_of(&*moves, state) {
                let played = moves.chosen(image, &kept).unwrap().map(|chosen| value(&values.choices(image)[chosen]));
                assert!(played.is_none_or(is_best), "{name}: {}", moves.format(image));
            }
        }
    }
}

/// The board upside down, turned over, and if it is square with rows and columns exchanged, as states.
fn images_of(space: &dyn StateSpace, state: Position) -> Vec<Position> {
    let text = space.format(state);
    let cells: Vec<Vec<&str>> = text.split('/').map(|row| row.split(' ').collect()).collect();
    let is_square = cells.iter().all(|row| row.len() == cells.len());
    let exchanged = (0..cells.len()).map(|c| cells.iter().map(|row| row[c]).collect::<Vec<_>>().join(" "));
    let exchanged = if is_square { Some(exchanged.collect::<Vec<_>>().join("/")) } else { None };
    let upside_down: Vec<&str> = text.split('/').rev().collect();
    let turned_over = text.split('/').map(|row| row.split(' ').rev().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    let images = [upside_down.join("/"), turned_over.join("/")].into_iter().chain(exchanged);
    images.map(|text| space.parse(&text).unwrap()).collect()
}

/// A forged move that cannot be made is noticed, not played.
#[test]
fn a_move_that_is_not_legal_is_an_error() {
    struct Forged(MemoryTable, f64);
    impl TableReader for Forged {
        fn find(&self, key: Key) -> Result<Option<Slot>, ReadError> {
            self.0.find(key)
        }
        fn scalar(&self, _: Slot, _: usize) -> Result<Bounded, ReadError> {
            Ok(Bounded { value: self.1, error: 0.0 })
        }
        fn dist(&self, slot: Slot, column: usize) -> Result<(usize, Vec<f64>), ReadError> {
            self.0.dist(slot, column)
        }
    }
    let space = crate::open(&"2048-3x2+keep=play".parse().unwrap()).unwrap();
    let state = space.parse("2 4/0 0/0 0").unwrap();
    let all = [0.0, 1.0, 2.0, 3.0].map(|number| space.chosen(state, &Forged(solve("2048-3x2+keep=play"), number)));
    assert_eq!(all.iter().filter(|chosen| chosen.is_err()).count(), 3, "down alone is legal, or up in its image");
    let problem = all.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(problem.contains("is not legal in 2 4/0 0/0 0"), "{problem}");
}

fn ranks_are_dense_and_invert<const R: usize, const C: usize>(ages: &[u32]) {
    let rows = Arc::new(Rows::<R, C>::new((R * C + 1).min(15) as u32, *ages.last().unwrap(), None));
    let sizes = rows.sizes();
    for &age in ages {
        let ranks = LayerRanks::new(&rows, age);
        assert_eq!(u128::from(ranks.universe()), sizes[age as usize / 2].universe, "{R}x{C} age {age}");
        let step = ranks.universe() / 5000 + 1;
        for rank in (0..ranks.universe()).step_by(step as usize) {
            let board = ranks.unrank(rank);
            assert_eq!(Lines::<R, C>::age(board), age);
            let own = ranks.rank(board);
            assert_eq!(ranks.rank(ranks.unrank(own)), own);
            for image in images::<R, C>(board) {
                assert_eq!(ranks.rank(image), own, "{R}x{C} board {board:x} image {image:x}");
            }
            assert!(images::<R, C>(board).contains(&ranks.unrank(own)), "a rank unranks to an image of its board");
        }
    }
}

#[test]
fn ranks_are_dense_invert_and_know_every_symmetry() {
    ranks_are_dense_and_invert::<2, 2>(&[4, 6, 8, 30, 60]);
    ranks_are_dense_and_invert::<2, 3>(&[4, 8, 62, 128, 250]);
    ranks_are_dense_and_invert::<2, 4>(&[4, 8, 100, 510]);
    ranks_are_dense_and_invert::<3, 3>(&[4, 8, 36, 200, 1022]);
    ranks_are_dense_and_invert::<3, 4>(&[4, 8, 36, 128]);
    ranks_are_dense_and_invert::<4, 4>(&[4, 8, 36, 64]);
}

#[test]
fn a_position_is_inside_outside_or_impossible() {
    let standing = |name: &str, text: &str| {
        let space = crate::open(&name.parse().unwrap()).unwrap();
        let table = run_all(space.as_ref()).unwrap();
        space.standing(space.parse(text).unwrap(), &table).unwrap()
    };
    assert_eq!(standing("2048-2x2", "2 0/0 2"), Standing::Inside);
    assert_eq!(standing("2048-2x2", "16 8/4 2"), Standing::Inside);
    assert!(matches!(standing("2048-2x2", "8 0/0 0"), Standing::Impossible(_)));
    assert!(matches!(standing("2048-2x2", "0 0/0 2"), Standing::Impossible(_)));
    assert!(matches!(standing("2048-2x2", "32 32/32 32"), Standing::Impossible(_)));
    assert!(matches!(standing("2048-2x2+horizon=10", "8 4/0 2"), Standing::Outside(_)));
    assert_eq!(standing("2048-2x2+tile=8", "4 4/0 2"), Standing::Inside);
    assert!(matches!(standing("2048-2x2+tile=8", "16 4/0 2"), Standing::Outside(_)));
}

#[test]
fn bad_boards_say_which_cell() {
    let space = crate::open(&"2048-3x2".parse().unwrap()).unwrap();
    for (text, part) in [
        ("2 0/0 2", "2 rows"),
        ("2 0/0 2/0", "row 3 has 1 cells"),
        ("2 0/0 3/0 0", "row 2, column 2"),
        ("2 0/0 x/0 0", "\"x\" is no tile"),
        ("2 0/0 -2/0 0", "no tile"),
        ("256 0/0 0/0 0", "exceed 128"),
        ("", "1 rows"),
    ] {
        let problem = space.parse(text).unwrap_err().0;
        assert!(problem.contains(part), "{text}: {problem}");
    }
}

#[test]
fn a_turned_board_moves_as_it_is_written() {
    let space = crate::open(&"2048-3x2".parse().unwrap()).unwrap();
    let state = space.parse("2 0/2 0/0 0").unwrap();
    let after: Vec<(String, f64)> = space.choices(state).into_iter().map(|c| (c.label, c.reward)).collect();
    let expected = [("up", 4.0), ("down", 4.0), ("right", 0.0)].map(|(label, reward)| (label.to_owned(), reward));
    let mut sorted = after.clone();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
    assert_eq!(sorted, expected);
}

proptest! {
    #[test]
    fn any_text_is_a_board_or_an_error(text in "[0-9. /x]{0,40}") {
        for name in ["2048-2x2", "2048-3x2", "2048-4x4+tile=16"] {
            let space = crate::open(&name.parse().unwrap()).unwrap();
            if let Ok(position) = space.parse(&text) {
                prop_assert_eq!(space.parse(&space.format(position)).unwrap(), position);
            }
        }
    }
}
