//! Names of tables: everything that decides a table's bytes, and nothing else.
//!
//! ```text
//! 2048-RxC[+tile=T][+horizon=AGE][+four=P][+meaningless][+keep=play|stats][+stretch=N][+parts=N]     R, C in 2..=4
//! bearoff-PxC[+doubles=P][+meaningless]                      P points 1..=18 (6 here), C checkers 1..=15
//! ```
//!
//! A name prints in one canonical way: options in the order above, defaults left out, numbers in their shortest form. Two names
//! mean the same table exactly when they print the same. Two options are not of the table but of the way to it, `+stretch` and `+parts`: they are
//! part of the name of a build and not of what is published ([`TableName::published`]).

use std::fmt;
use std::str::FromStr;

/// The name of a table.
#[derive(Clone, PartialEq, Debug)]
pub enum TableName {
    /// 2048 on a small board.
    Game2048(Spec2048),
    /// One-sided backgammon bearoff.
    Bearoff(SpecBearoff),
    /// Two-sided backgammon bearoff.
    TwoSided(SpecTwoSided),
}

/// A 2048 table.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec2048 {
    /// Rows of the board, 2..=4.
    pub rows: usize,
    /// Columns of the board, 2..=4.
    pub cols: usize,
    /// `+tile=T`: the value is the best probability of ever having a tile of at least `T`, and play stops there. Without it the
    /// value is the best expected score.
    pub tile: Option<u32>,
    /// `+horizon=AGE`: positions of ages up to `AGE`; only moves made at those ages count.
    pub horizon: Option<u32>,
    /// `+four=P`: the chance that a new tile is a 4. 0.1 in the game as published.
    pub four: f64,
    /// `+meaningless`: values beyond the horizon are hashes of the position. For tests of the pipeline.
    pub meaningless: bool,
    /// `+keep=play`, `+keep=stats`: what is published.
    pub keep: Keep,
    /// `+stretch=N`: with `+keep`, how many ages the backward pass has the positions of at a time, at least.
    pub stretch: Option<u32>,
    /// `+parts=N`: large ages are cut among at most so many tasks, so that as many workers can do them. Rectangles only.
    pub parts: Option<u32>,
}

/// How much of what is computed is published.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Keep {
    /// Every afterstate with its value.
    #[default]
    Values,
    /// Every state with its best move, the values of the starts, and the statistics of every layer.
    Play,
    /// The values of the starts, the statistics of every layer, and some sampled positions of each with their values.
    Stats,
}

/// A one-sided bearoff table.
#[derive(Clone, PartialEq, Debug)]
pub struct SpecBearoff {
    /// Points of the home board, 1..=18.
    pub points: usize,
    /// Most checkers, 1..=15.
    pub checkers: usize,
    /// `+doubles=P`: the chance that a roll is a double; each double has `P`/6, the other rolls share the rest evenly. 1/6 with
    /// fair dice.
    pub doubles: f64,
    /// `+meaningless`: distributions of positions of up to 24 pips are hashes. For tests of the pipeline.
    pub meaningless: bool,
}

/// A two-sided bearoff table.
#[derive(Clone, PartialEq, Debug)]
pub struct SpecTwoSided {
    /// Points of the home board, 1..=18.
    pub points: usize,
    /// Most checkers of one side and of the other, whoever is on roll; the larger first.
    pub checkers: (usize, usize),
    /// `+doubles=P`: as in one-sided tables.
    pub doubles: f64,
}

/// The chance of a 4 in the game as published.
pub const PUBLISHED_FOUR: f64 = 0.1;
/// The chance of a double with fair dice.
pub const FAIR_DOUBLES: f64 = 1.0 / 6.0;

/// What is wrong with a name, and what is allowed instead.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[error("{name:?} is not the name of a table: {problem}")]
pub struct NameError {
    /// The name as given.
    pub name: String,
    /// Which part is wrong, and what is allowed there.
    pub problem: String,
}

/// The longest stretch: more ages than any board has.
const MOST_STRETCH: u32 = 1 << 20;
/// The most parts of an age: a task of a part reads what all parts of its age have made, so their number counts twice.
pub const MOST_PARTS: u32 = 16;
/// Longest name that is looked at. The longest legal one is much shorter.
const MAX_NAME_BYTES: usize = 128;

impl FromStr for TableName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        parse(text).map_err(|problem| NameError { name: text.chars().take(MAX_NAME_BYTES).collect(), problem })
    }
}

fn parse(text: &str) -> Result<TableName, String> {
    if text.len() > MAX_NAME_BYTES {
        return Err(format!("it is {} bytes long, and no name is longer than {MAX_NAME_BYTES}", text.len()));
    }
    let mut parts = text.split('+');
    let base = parts.next().unwrap_or_default();
    let (game, size) = base.split_once('-').unwrap_or((base, ""));
    let options: Vec<&str> = parts.collect();
    match game {
        "2048" => parse_2048(size, &options).map(TableName::Game2048),
        "bearoff" if size.contains('v') => parse_two_sided(size, &options).map(TableName::TwoSided),
        "bearoff" => parse_bearoff(size, &options).map(TableName::Bearoff),
        _ => Err(format!(
            "there is no game {game:?}; the games are 2048 (2048-3x3) and bearoff (bearoff-6x15 for one side, bearoff-6x6v6 for two)"
        )),
    }
}

fn parse_2048(size: &str, options: &[&str]) -> Result<Spec2048, String> {
    let form = "a 2048 table is called 2048-RxC, R rows and C columns of 2 to 4 cells, for example 2048-3x3";
    let (rows, cols) = dimensions(size, form)?;
    let rows = within("rows", rows, 2, 4)?;
    let cols = within("columns", cols, 2, 4)?;
    let mut spec = Spec2048 {
        rows,
        cols,
        tile: None,
        horizon: None,
        four: PUBLISHED_FOUR,
        meaningless: false,
        keep: Keep::Values,
        stretch: None,
        parts: None,
    };
    let mut seen = Vec::new();
    for option in options {
        let (key, value) = split_option(option, &mut seen)?;
        match (key, value) {
            ("tile", Some(value)) => {
                let largest = spec.largest_tile();
                let tile: u32 = value.parse().map_err(|_| format!("+tile={value}: {value:?} is not a whole number"))?;
                if !tile.is_power_of_two() || !(8..=largest).contains(&tile) {
                    return Err(format!("+tile={value}: the tile must be a power of two from 8 to {largest} on this board"));
                }
                spec.tile = Some(tile);
            }
            ("horizon", Some(value)) => {
                let last = spec.last_age();
                let age: u32 = value.parse().map_err(|_| format!("+horizon={value}: {value:?} is not a whole number"))?;
                if !age.is_multiple_of(2) || !(4..=last).contains(&age) {
                    return Err(format!("+horizon={value}: the age must be an even number from 4 to {last} on this board"));
                }
                spec.horizon = (age != last).then_some(age);
            }
            ("four", Some(value)) => spec.four = probability("four", value)?,
            ("meaningless", None) => spec.meaningless = true,
            ("keep", value) => {
                let kept = [Keep::Values, Keep::Play, Keep::Stats].into_iter().find(|keep| Some(keep.name()) == value);
                spec.keep = kept.ok_or_else(|| format!("+{option}: what is kept must be values, play or stats"))?;
            }
            ("stretch", Some(value)) => {
                let ages = value.parse().ok().filter(|ages| (1..=MOST_STRETCH).contains(ages));
                spec.stretch =
                    Some(ages.ok_or_else(|| format!("+stretch={value}: it must be a number of ages from 1 to {MOST_STRETCH}"))?);
            }
            ("parts", Some(value)) => {
                let parts: Option<u32> = value.parse().ok().filter(|parts| (1..=MOST_PARTS).contains(parts));
                let parts = parts.ok_or_else(|| format!("+parts={value}: an age can be cut into 1 to {MOST_PARTS} parts"))?;
                spec.parts = (parts > 1).then_some(parts);
            }
            _ => return Err(unknown(option, "+tile=T, +horizon=AGE, +four=P (a chance), +keep=play, +keep=stats, +parts=N")),
        }
    }
    if spec.stretch.is_some() && spec.keep == Keep::Values {
        return Err("+stretch: with all values kept there are no stretches; it needs +keep=play or +keep=stats".into());
    }
    if spec.parts.is_some() && (rows == cols || spec.keep == Keep::Play) {
        let what = if rows == cols { "ages of square boards" } else { "builds that keep moves" };
        return Err(format!("+parts: {what} are not cut; leave it out"));
    }
    if spec.meaningless && spec.horizon.is_none() {
        return Err("+meaningless: values beyond a horizon are replaced, so it needs +horizon=AGE".into());
    }
    Ok(spec)
}

fn parse_bearoff(size: &str, options: &[&str]) -> Result<SpecBearoff, String> {
    let form =
        "a bearoff table is called bearoff-PxC, P points (1 to 18) and at most C checkers (1 to 15), for example bearoff-6x15";
    let (points, checkers) = dimensions(size, form)?;
    let points = within("points", points, 1, 18)?;
    let checkers = within("checkers", checkers, 1, 15)?;
    let mut spec = SpecBearoff { points, checkers, doubles: FAIR_DOUBLES, meaningless: false };
    let mut seen = Vec::new();
    for option in options {
        match split_option(option, &mut seen)? {
            ("doubles", Some(value)) => spec.doubles = probability("doubles", value)?,
            ("meaningless", None) => spec.meaningless = true,
            _ => return Err(unknown(option, "+doubles=P (a chance)")),
        }
    }
    Ok(spec)
}

fn parse_two_sided(size: &str, options: &[&str]) -> Result<SpecTwoSided, String> {
    let form = "a two-sided bearoff table is called bearoff-PxCvD, P points (1 to 18), at most C checkers on one side and D on the \
                other (1 to 15), for example bearoff-6x6v6";
    let (size, other) = size.split_once('v').unwrap_or((size, ""));
    let (points, checkers) = dimensions(size, form)?;
    if !is_number(other) {
        return Err(format!("{other:?} checkers of the other side: not a number; {form}"));
    }
    let points = within("points", points, 1, 18)?;
    let (one, other) = (within("checkers", checkers, 1, 15)?, within("checkers", other, 1, 15)?);
    let mut spec = SpecTwoSided { points, checkers: (one.max(other), one.min(other)), doubles: FAIR_DOUBLES };
    let mut seen = Vec::new();
    for option in options {
        match split_option(option, &mut seen)? {
            ("doubles", Some(value)) => spec.doubles = probability("doubles", value)?,
            _ => return Err(unknown(option, "+doubles=P (a chance)")),
        }
    }
    Ok(spec)
}

fn dimensions<'a>(size: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    match size.split_once('x') {
        Some((a, b)) if is_number(a) && is_number(b) => Ok((a, b)),
        _ => Err(format!("the size {size:?} is not of the form NxM; {form}")),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn within(what: &str, text: &str, low: usize, high: usize) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if (low..=high).contains(&n) && !(text.len() > 1 && text.starts_with('0')) => Ok(n),
        _ => Err(format!("{text} {what}: the number of {what} must be from {low} to {high}")),
    }
}

fn split_option<'a>(option: &'a str, seen: &mut Vec<&'a str>) -> Result<(&'a str, Option<&'a str>), String> {
    let (key, value) = option.split_once('=').map_or((option, None), |(k, v)| (k, Some(v)));
    if seen.contains(&key) {
        return Err(format!("+{key} is given twice"));
    }
    seen.push(key);
    Ok((key, value))
}

fn probability(what: &str, text: &str) -> Result<f64, String> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match text.parse::<f64>() {
        Ok(p) if plain && p > 0.0 && p < 1.0 => Ok(p),
        _ => Err(format!("+{what}={text}: the chance must be a decimal number between 0 and 1, both excluded")),
    }
}

fn unknown(option: &str, allowed: &str) -> String {
    format!("there is no option +{option}; the options of this game are {allowed}")
}

impl TableName {
    /// The name of the table that a build of this name publishes.
    pub fn published(&self) -> TableName {
        match self {
            TableName::Game2048(spec) => TableName::Game2048(Spec2048 { stretch: None, parts: None, ..spec.clone() }),
            TableName::Bearoff(_) | TableName::TwoSided(_) => self.clone(),
        }
    }

    /// How much of what is computed the table publishes.
    pub fn keep(&self) -> Keep {
        match self {
            TableName::Game2048(spec) => spec.keep,
            TableName::Bearoff(_) | TableName::TwoSided(_) => Keep::Values,
        }
    }
}

impl Keep {
    /// As `+keep` and `--keep` have it.
    pub fn name(self) -> &'static str {
        match self {
            Keep::Values => "values",
            Keep::Play => "play",
            Keep::Stats => "stats",
        }
    }

    /// Whether the table answers for positions; otherwise it has statistics and samples.
    pub fn has_positions(self) -> bool {
        self != Keep::Stats
    }
}

impl Spec2048 {
    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.rows * self.cols
    }

    /// The largest tile that can appear on this board: 2^(cells + 1).
    pub fn largest_tile(&self) -> u32 {
        1 << (self.cells() + 1)
    }

    /// The last age of the game on this board: 2^(cells + 2) - 4.
    pub fn last_age(&self) -> u32 {
        (1 << (self.cells() + 2)) - 4
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableName::Game2048(spec) => {
                write!(f, "2048-{}x{}", spec.rows, spec.cols)?;
                if let Some(tile) = spec.tile {
                    write!(f, "+tile={tile}")?;
                }
                if let Some(age) = spec.horizon {
                    write!(f, "+horizon={age}")?;
                }
                if spec.four != PUBLISHED_FOUR {
                    write!(f, "+four={}", spec.four)?;
                }
                if spec.meaningless {
                    f.write_str("+meaningless")?;
                }
                if spec.keep != Keep::Values {
                    write!(f, "+keep={}", spec.keep.name())?;
                }
                if let Some(ages) = spec.stretch {
                    write!(f, "+stretch={ages}")?;
                }
                if let Some(parts) = spec.parts {
                    write!(f, "+parts={parts}")?;
                }
            }
            TableName::Bearoff(spec) => {
                write!(f, "bearoff-{}x{}", spec.points, spec.checkers)?;
                if spec.doubles != FAIR_DOUBLES {
                    write!(f, "+doubles={}", spec.doubles)?;
                }
                if spec.meaningless {
                    f.write_str("+meaningless")?;
                }
            }
            TableName::TwoSided(spec) => {
                let (one, other) = spec.checkers;
                write!(f, "bearoff-{}x{one}v{other}", spec.points)?;
                if spec.doubles != FAIR_DOUBLES {
                    write!(f, "+doubles={}", spec.doubles)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_print_as_they_are_read() {
        for name in [
            "2048-3x3",
            "2048-4x3+tile=256",
            "2048-4x3+horizon=200",
            "2048-2x2+tile=8+horizon=20+four=0.25",
            "2048-3x3+horizon=100+meaningless",
            "2048-4x3+keep=stats",
            "2048-4x3+tile=64+keep=play",
            "2048-4x3+four=0.25+keep=stats+stretch=64",
            "2048-4x3+keep=stats+stretch=64+parts=16",
            "bearoff-6x15",
            "bearoff-18x15+doubles=0.1683",
            "bearoff-6x15v15",
            "bearoff-6x10v6+doubles=0.1683",
        ] {
            assert_eq!(name.parse::<TableName>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn one_table_has_one_name() {
        for (given, printed) in [
            ("2048-3x3+four=0.1", "2048-3x3"),
            ("2048-3x3+four=.25+tile=64", "2048-3x3+tile=64+four=0.25"),
            ("2048-2x2+horizon=60", "2048-2x2"),
            ("2048-2x2+keep=values", "2048-2x2"),
            ("2048-4x3+parts=1", "2048-4x3"),
            ("bearoff-6x15+doubles=0.16666666666666666", "bearoff-6x15"),
            ("bearoff-6x6v10", "bearoff-6x10v6"),
        ] {
            assert_eq!(given.parse::<TableName>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn a_bad_name_says_which_part_is_wrong_and_what_is_allowed() {
        for (name, part, allowed) in [
            ("2048-5x9", "5 rows", "from 2 to 4"),
            ("2048-3x9", "9 columns", "from 2 to 4"),
            ("2048-3x3+tile=300", "+tile=300", "power of two from 8 to 1024"),
            ("2048-3x3+tile=2048", "+tile=2048", "from 8 to 1024"),
            ("2048-3x3+horizon=7", "+horizon=7", "even number from 4 to 2044"),
            ("2048-3x3+four=1", "+four=1", "between 0 and 1"),
            ("2048-3x3+four=1e-1", "+four=1e-1", "decimal number"),
            ("2048-3x3+dice=2", "+dice=2", "+tile=T"),
            ("2048-3x3+tile=64+tile=64", "+tile", "twice"),
            ("2048-3x3+meaningless", "+meaningless", "+horizon"),
            ("2048-3x3+keep=all", "+keep=all", "values, play or stats"),
            ("2048-3x3+stretch=5", "+stretch", "+keep=play or +keep=stats"),
            ("2048-3x3+keep=stats+stretch=0", "+stretch=0", "from 1 to"),
            ("2048-4x3+parts=17", "+parts=17", "1 to 16"),
            ("2048-3x3+parts=2", "square boards", "leave it out"),
            ("2048-4x3+keep=play+parts=2", "keep moves", "leave it out"),
            ("2048-33", "\"33\"", "2048-RxC"),
            ("2048", "\"\"", "2048-RxC"),
            ("bearoff-0x15", "0 points", "from 1 to 18"),
            ("bearoff-6x16", "16 checkers", "from 1 to 15"),
            ("bearoff-06x15", "06 points", "from 1 to 18"),
            ("bearoff-6x15+doubles=x", "+doubles=x", "between 0 and 1"),
            ("bearoff-6x6v", "\"\"", "bearoff-PxCvD"),
            ("bearoff-6x6v16", "16 checkers", "from 1 to 15"),
            ("bearoff-6x6v6v6", "\"6v6\"", "bearoff-PxCvD"),
            ("bearoff-6x6v6+meaningless", "+meaningless", "+doubles=P"),
            ("chess", "\"chess\"", "2048"),
            ("", "\"\"", "bearoff"),
        ] {
            let problem = name.parse::<TableName>().unwrap_err().problem;
            assert!(problem.contains(part) && problem.contains(allowed), "{name}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_an_error(text in ".{0,200}") {
            if let Ok(name) = text.parse::<TableName>() {
                prop_assert_eq!(name.to_string().parse::<TableName>().unwrap(), name);
            }
        }

        #[test]
        fn near_names_are_names_or_errors(text in "(2048|bearoff)-[0-9]{1,2}x[0-9]{1,2}(v[0-9]{1,2})?(\\+(tile|four|horizon|doubles|meaningless|keep|stretch|parts)(=[0-9.]{0,4}|=play|=stats)?){0,3}") {
            if let Ok(name) = text.parse::<TableName>() {
                prop_assert_eq!(name.to_string().parse::<TableName>().unwrap(), name);
            }
        }
    }
}
