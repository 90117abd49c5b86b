//! Positions as backgammon programs write them: GNU Backgammon's position ID, alone or with its match ID, and XGID.
//!
//! A position ID is 80 bits in base 64: for each of the 25 points of the player *not* on roll, its ace point first and the bar last, a one
//! for every checker and then a zero, and the same for the player on roll. A match ID is 66 bits: of these are read the dice (bits 15..21)
//! and the length of the match (21..36). An XGID names the board from one side (letters A.. and a.. for the checkers of either, from its bar
//! to the other's) and then, between colons, the cube, who is on roll, the dice and the match.
//!
//! Source: the descriptions in GNU Backgammon's manual ("A technical description of the Position ID") and eXtreme Gammon's help ("XGID");
//! checked against what GNU Backgammon prints (the tests below).

use crate::space::PositionError;

/// Points of a side, the bar included.
const POINTS: usize = 25;
/// Checkers of a side.
const MOST: usize = 15;

/// What an ID says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Given {
    /// Checkers of the player on roll, by point.
    pub roller: [usize; POINTS],
    /// Those of the other, from his own side.
    pub other: [usize; POINTS],
    /// The dice, if they are rolled.
    pub dice: Option<(u8, u8)>,
}

/// Reads an ID; `None` for text of any other form.
pub(super) fn parse(text: &str) -> Option<Result<Given, PositionError>> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("XGID=").or_else(|| text.strip_prefix("xgid=")) {
        return Some(xgid(rest).and_then(checked));
    }
    let (position, game) = text.split_once(':').map_or((text, None), |(position, game)| (position, Some(game)));
    let is_base_64 = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    if position.len() == 26 && game.is_some() {
        return Some(xgid(text).and_then(checked));
    }
    let is_id = position.len() == 14 && is_base_64(position) && game.is_none_or(|game| game.len() == 12 && is_base_64(game));
    is_id.then(|| gnu(position, game).and_then(checked))
}

fn problem<T>(what: impl Into<String>) -> Result<T, PositionError> {
    Err(PositionError(what.into()))
}

/// Bits of base 64, the lowest of each byte first.
fn bits_of(text: &str) -> Vec<bool> {
    let digit = |b: u8| match b {
        b'A'..=b'Z' => b - b'A',
        b'a'..=b'z' => b - b'a' + 26,
        b'0'..=b'9' => b - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let high_first: Vec<bool> = text.bytes().flat_map(|b| (0..6).rev().map(move |i| digit(b) >> i & 1 == 1)).collect();
    high_first.chunks_exact(8).flat_map(|byte| byte.iter().rev().copied()).collect()
}

fn gnu(position: &str, game: Option<&str>) -> Result<Given, PositionError> {
    let mut bits = bits_of(position).into_iter();
    let mut sides = [[0; POINTS]; 2];
    for point in sides.iter_mut().flatten() {
        loop {
            match bits.next() {
                Some(true) => *point += 1,
                Some(false) => break,
                None => return problem(format!("{position} is no position ID: its bits end before the last point")),
            }
        }
    }
    if bits.any(|bit| bit) {
        return problem(format!("{position} is no position ID: checkers follow after the last point"));
    }
    let mut dice = None;
    if let Some(game) = game {
        let bits = bits_of(game);
        let number = |range: std::ops::Range<usize>| range.rev().fold(0, |sum, bit| sum << 1 | usize::from(bits[bit]));
        no_match(number(21..36))?;
        dice = both(number(15..18), number(18..21));
    }
    let [other, roller] = sides;
    Ok(Given { roller, other, dice })
}

fn xgid(text: &str) -> Result<Given, PositionError> {
    let fields: Vec<&str> = text.split(':').collect();
    let [board, _cube, _owner, turn, dice, _score, _other_score, _rules, length, _] = fields[..] else {
        return problem(format!("{text:?} is no XGID: it has {} fields between colons instead of 10", fields.len()));
    };
    if !board.is_ascii() {
        return problem(format!("{board:?} is no board of an XGID: its letters are - for none, A to P and a to p"));
    }
    if board.len() != POINTS + 1 {
        return problem(format!("{board} is no board of an XGID: it has {} points instead of 26", board.chars().count()));
    }
    let (mut bottom, mut top) = ([0; POINTS], [0; POINTS]);
    for (point, letter) in board.bytes().enumerate() {
        match letter {
            b'-' => {}
            // Its points are counted from the bottom's side: 1..=24, and 25 is its bar.
            b'A'..=b'P' if point > 0 => bottom[point - 1] = usize::from(letter - b'A') + 1,
            b'a'..=b'p' if point < POINTS => top[POINTS - 1 - point] = usize::from(letter - b'a') + 1,
            _ => return problem(format!("{board} is no board of an XGID: {:?} on point {point}", char::from(letter))),
        }
    }
    no_match(length.parse().or_else(|_| problem(format!("{length:?} is no length of a match")))?)?;
    let dice = match (dice, dice.as_bytes()) {
        ("00" | "D" | "B" | "R", _) => None,
        (_, [a @ b'1'..=b'6', b @ b'1'..=b'6']) => Some((a - b'0', b - b'0')),
        _ => return problem(format!("{dice:?} says nothing of the dice in an XGID; it must be two numbers, 00, D, B or R")),
    };
    match turn {
        "1" => Ok(Given { roller: bottom, other: top, dice }),
        "-1" => Ok(Given { roller: top, other: bottom, dice }),
        _ => problem(format!("{turn:?} says of no player that he is on roll; it must be 1 or -1")),
    }
}

fn both(a: usize, b: usize) -> Option<(u8, u8)> {
    let die = |n: usize| u8::try_from(n).ok().filter(|die| (1..=6).contains(die));
    die(a).zip(die(b))
}

fn no_match(length: usize) -> Result<(), PositionError> {
    if length == 0 {
        return Ok(());
    }
    problem(format!("it is of a match to {length} points; these tables are of money play, where the score does not matter"))
}

/// Refuses what is no bearoff.
fn checked(given: Given) -> Result<Given, PositionError> {
    let sides = [("the player on roll", &given.roller), ("the other player", &given.other)];
    for (whose, side) in sides {
        let count: usize = side.iter().sum();
        if count > MOST {
            return problem(format!("{whose} has {count} checkers; there are {MOST}"));
        }
    }
    let farthest = sides.map(|(_, side)| side.iter().rposition(|&count| count > 0).map_or(0, |point| point + 1));
    // The points of one side are those of the other, counted from the far end.
    if farthest[0] > 0 && farthest[1] > 0 && farthest[0] + farthest[1] >= POINTS {
        return problem("the two sides have still to pass each other: that is no bearoff");
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(points: &[(usize, usize)]) -> [usize; POINTS] {
        let mut side = [0; POINTS];
        points.iter().for_each(|&(point, count)| side[point - 1] = count);
        side
    }

    fn given(text: &str) -> Result<Given, String> {
        parse(text).expect("it has the form of an ID").map_err(|error| error.to_string())
    }

    /// As GNU Backgammon 1.07 prints them.
    #[test]
    fn position_ids() {
        let (three_and_one, two) = (side(&[(1, 3), (6, 1)]), side(&[(1, 2)]));
        let expected = Given { roller: three_and_one, other: two, dice: None };
        assert_eq!(given("AwAAOAgAAAAAAA"), Ok(expected.clone()));
        assert_eq!(given("AwAAOAgAAAAAAA:cAkAAAAAAAAA"), Ok(expected));
        assert_eq!(given("BwEAYAAAAAAAAA"), Ok(Given { roller: two, other: three_and_one, dice: None }));
        let both = side(&[(5, 3), (6, 4)]);
        assert_eq!(given("cA8AAHAPAAAAAA"), Ok(Given { roller: both, other: both, dice: None }));
    }

    #[test]
    fn xgids() {
        let bearoff = "-C----A-----------------b-:0:0:1:61:0:0:0:0:10";
        let expected = Given { roller: side(&[(1, 3), (6, 1)]), other: side(&[(1, 2)]), dice: Some((6, 1)) };
        assert_eq!(given(&format!("XGID={bearoff}")), Ok(expected.clone()));
        assert_eq!(given(bearoff), Ok(expected));
        let other = given("XGID=-C----A-----------------b-:0:0:-1:00:0:0:0:0:10").unwrap();
        assert_eq!((other.roller, other.other, other.dice), (side(&[(1, 2)]), side(&[(1, 3), (6, 1)]), None));
    }

    #[test]
    fn what_is_no_bearoff_is_refused() {
        for (text, problem) in [
            ("4HPwATDgc/ABMA", "pass each other"),
            ("//////////////", "bits end"),
            ("AwAAOAgAAAAAgA", "after the last point"),
            ("XGID=-b----E-C---eE---c-e----B-:0:0:1:00:0:0:0:0:10", "pass each other"),
            ("XGID=-P----------------------b-:0:0:1:00:0:0:0:0:10", "16 checkers"),
            ("XGID=-C----A-----------------b-:0:0:1:00:3:2:0:7:10", "match to 7 points"),
            ("XGID=-C----A-----------------b-:0:0:2:00:0:0:0:0:10", "on roll"),
            ("XGID=-C----A-----------------b:0:0:1:00:0:0:0:0:10", "instead of 26"),
            ("XGID=-C----A-----------------?-:0:0:1:00:0:0:0:0:10", "'?'"),
            ("XGID=-C----A-----------------b-:0:0:1:77:0:0:0:0:10", "\"77\""),
            ("XGID=-C----A-----------------é-:0:0:1:61:0:0:0:0:10", "its letters"),
            ("XGID=-C", "fields"),
        ] {
            let error = given(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn other_text_is_no_id() {
        for text in ["1,2,3", "0 0 0 0 0 15", "1,2 v 3", "", "AwAAOAgAAAAAA", "AwAAOAgAAAAAAA:short"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_id_or_not(text in ".{0,60}", bits in "[A-Za-z0-9+/]{14}", board in "[-A-Pa-p?]{26}", fields in "(:[-0-9a-z]{0,3}){0,10}") {
            let _ = parse(&text);
            let _ = parse(&bits);
            let _ = parse(&format!("{board}{fields}"));
        }
    }
}
