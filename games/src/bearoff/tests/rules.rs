use super::*;
use crate::bearoff::tests::naive;
use std::collections::BTreeSet;

/// Every position of these tables, every roll, against plays found by trying everything.
#[test]
fn plays_are_those_of_the_rules() {
    for (points, checkers) in [(1, 15), (2, 7), (3, 6), (6, 4), (7, 4), (8, 3), (18, 2)] {
        let space = space(&format!("bearoff-{points}x{checkers}"));
        for board in naive::boards(points, checkers) {
            let position = naive::pack(&board);
            let sums = space.sums(position).unwrap();
            for roll in ROLLS {
                let expected: BTreeSet<Position> = naive::plays(&board, roll).iter().map(|board| naive::pack(board)).collect();
                if sums == Sums::OFF {
                    assert_eq!(space.plays(position, roll), []);
                    continue;
                }
                let mut found = BTreeSet::new();
                space.board.successors(sums, roll, &mut |next| {
                    found.insert(space.board.position(next));
                });
                assert_eq!(found, expected, "{board:?} {roll:?}");
                let plays = space.plays(position, (roll.1, roll.0));
                assert_eq!(plays.len(), expected.len(), "{board:?} {roll:?}");
                assert!(plays.windows(2).all(|pair| pair[0].key.rank < pair[1].key.rank));
                for play in plays {
                    assert!(expected.contains(&play.position));
                    assert_eq!(space.rank(play.position), Some(play.key));
                    assert_eq!(naive::pack(&follow(&board, &play.label)), play.position, "{board:?} {roll:?} {}", play.label);
                }
            }
        }
    }
}

/// Does what a play says.
fn follow(board: &[u8], label: &str) -> Vec<u8> {
    let mut board: Vec<i32> = board.iter().map(|&count| i32::from(count)).collect();
    for part in label.split(' ') {
        let (step, times) =
            part.split_once('(').map_or((part, 1), |(step, rest)| (step, rest.trim_end_matches(')').parse().unwrap()));
        let (from, to) = step.split_once('/').unwrap();
        board[from.parse::<usize>().unwrap() - 1] -= times;
        if to != "off" {
            board[to.parse::<usize>().unwrap() - 1] += times;
        }
    }
    board.into_iter().map(|count| u8::try_from(count).unwrap()).collect()
}

#[test]
fn plays_are_written_as_players_write_them() {
    let space = space("bearoff-6x15");
    let labels = |text: &str, roll| -> BTreeSet<String> {
        space.plays(space.parse(text).unwrap(), roll).into_iter().map(|play| play.label).collect()
    };
    let set = |labels: &[&str]| labels.iter().map(|label| label.to_string()).collect::<BTreeSet<_>>();
    assert_eq!(labels("0 0 0 1 0 1", (6, 4)), set(&["6/off 4/off", "6/2 4/off"]));
    assert_eq!(labels("0 0 0 0 0 2", (4, 4)), set(&["6/off(2)"]));
    assert_eq!(labels("0 0 0 0 0 3", (2, 2)), set(&["6/off 6/4", "6/2(2)", "6/2 6/4(2)"]));
    assert_eq!(labels("1 0 0 1", (3, 1)), set(&["4/off"]));
    assert_eq!(labels("1", (6, 6)), set(&["1/off"]));
    assert_eq!(labels("0", (2, 1)), set(&[]));
    assert_eq!(space.plays(on(&[1]), (0, 3)), []);
    assert_eq!(space.plays(on(&[1]), (3, 7)), []);
    assert_eq!(space.plays(on(&[7]), (3, 1)), []);
}

/// The verification's form of the rules says what the readable form says.
#[test]
fn expansions_are_outcomes_and_choices() {
    for name in ["bearoff-6x4", "bearoff-9x2+doubles=0.3", "bearoff-6x5+meaningless"] {
        let space = space(name);
        for rank in 0..space.counting.universe() {
            let position = space.board.position(space.counting.of_index(rank));
            let mut expansion = Expansion::default();
            space.expand(position, &mut expansion);
            let outcomes = space.outcomes(position);
            assert_eq!(expansion.branches.len(), outcomes.len());
            let mut start = 0;
            for (branch, outcome) in expansion.branches.iter().zip(&outcomes) {
                let choices = space.choices(outcome.state);
                let leaves: Vec<Leaf> = choices.iter().map(|choice| Leaf { gain: choice.reward, key: choice.key }).collect();
                assert_eq!(expansion.leaves[start..branch.end], leaves);
                assert_eq!(branch.chance, outcome.chance);
                assert_eq!(branch.terminal, space.terminal_value(outcome.state));
                start = branch.end;
            }
        }
    }
}

#[test]
fn positions_are_read_and_written() {
    let space = space("bearoff-6x15");
    for (text, position) in [
        ("0,0,0,0,0,15", Position(15 << 20)),
        ("0 0 0 0 0 15", Position(15 << 20)),
        (" 7, 5 ,3 ", Position(0x357)),
        ("1", Position(1)),
        ("0", Position(0)),
        ("2,2 2,3 3 3", Position(0x333_222)),
    ] {
        assert_eq!(space.parse(text), Ok(position), "{text}");
        assert_eq!(space.parse(&space.format(position)), Ok(position));
    }
    assert_eq!(space.format(Position(0x357)), "7,5,3,0,0,0");
}

#[test]
fn bad_positions_say_which_part_is_wrong_and_what_is_allowed() {
    let space = space("bearoff-6x15");
    for (text, part, allowed) in [
        ("0,0,0,0,0,16", "16 checkers", "at most 15"),
        ("8 8", "point 2", "at most 15"),
        ("99999999999999999999999999999999999999999999", "point 1", "at most 15"),
        ("1,99999999999999999999999999999999999999999999", "point 2", "at most 15"),
        ("0,0,0,0,0,0,1", "point 7", "6 points"),
        ("0,x", "\"x\"", "checkers on points 1 to 6"),
        ("-1", "\"-1\"", "number of checkers"),
        ("1,,2", "point 2", "write 0"),
        ("", "point 1", "write 0"),
        ("1,", "point 2", "write 0"),
    ] {
        let PositionError(problem) = space.parse(text).unwrap_err();
        assert!(problem.contains(part) && problem.contains(allowed), "{text}: {problem}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_position_or_an_error(text in ".{0,60}", numbers in "[0-9, ]{0,30}") {
        let space = space("bearoff-6x15");
        for text in [text, numbers] {
            if let Ok(position) = space.parse(&text) {
                proptest::prop_assert!(space.rank(position).is_some());
                proptest::prop_assert_eq!(space.parse(&space.format(position)), Ok(position));
            }
        }
    }
}
