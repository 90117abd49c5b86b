//! One-sided databases: entries that follow each other, chances that add up, and means beside the exact ones.

use super::{Answer, Database, Report, expect_table};
use crate::failure::Failure;
use crate::gnubg::{HEADER, Header, ONE_SIDED_CHECKERS, compare};
use crate::table::Opened;
use crate::units;
use strata_games::bearoff::Bearoff;
use strata_games::bearoff::gnubg::{self, Chances, MOST_ROLLS, WHOLE};
use strata_games::{FAIR_DOUBLES, SpecBearoff, StateSpace};

/// How far makebearoff's rounding moves a mean number of rolls, at most: over the files of 1 to 10 points.
const KNOWN_DRIFT: f64 = 0.003;
/// Problems of one kind that are listed.
const LISTED: u64 = 5;

/// The file in memory.
struct Content {
    bytes: Vec<u8>,
    gammons: bool,
    compressed: bool,
    positions: usize,
}

/// Why a position has no chances.
type Bad = String;

impl Content {
    /// Bytes of an entry of compressed files.
    fn width(&self) -> usize {
        if self.gammons { 8 } else { 6 }
    }

    /// Bytes before the chances of compressed files.
    fn data(&self) -> usize {
        HEADER + self.positions * self.width()
    }

    /// The entry of a position: where its chances start, counted in numbers, and the span and first number of rolls of each distribution.
    fn entry(&self, index: usize) -> Option<(usize, [(usize, usize); 2])> {
        let width = self.width();
        let entry = self.bytes.get(HEADER + index * width..HEADER + (index + 1) * width)?;
        let offset = u32::from_le_bytes(*entry.first_chunk()?);
        let span = |at: usize| Some((usize::from(*entry.get(at)?), usize::from(*entry.get(at + 1)?)));
        Some((usize::try_from(offset).ok()?, [span(4)?, span(6).unwrap_or((0, 0))]))
    }

    /// The distributions of a position: of all off, and of the first off.
    fn chances(&self, index: usize) -> Result<[Option<Chances>; 2], Bad> {
        let outside = || format!("the chances of position {index} are outside the file");
        let kinds = if self.gammons { 2 } else { 1 };
        let mut all = [None; 2];
        let (mut at, spans) = if self.compressed {
            let (offset, spans) = self.entry(index).ok_or_else(outside)?;
            (self.data() + 2 * offset, spans)
        } else {
            (HEADER + index * kinds * MOST_ROLLS * 2, [(MOST_ROLLS, 0); 2])
        };
        for (chances, (span, first)) in all.iter_mut().zip(spans).take(kinds) {
            let mut found = [0; MOST_ROLLS];
            let into = found
                .get_mut(first..first + span)
                .ok_or_else(|| format!("position {index} has chances of {} rolls", first + span))?;
            let numbers = self.bytes.get(at..at + 2 * span).ok_or_else(outside)?;
            into.iter_mut().zip(numbers.as_chunks().0).for_each(|(into, &number)| *into = u16::from_le_bytes(number));
            at += 2 * span;
            *chances = Some(found);
        }
        Ok(all)
    }
}

/// The game that the file is of, and the file in memory.
fn load(database: &Database) -> Result<(Bearoff, Content), Failure> {
    let Header::OneSided { points, gammons, compressed } = database.header else {
        return Err(Failure::failed(format!("{} is not one-sided", database.shown)));
    };
    let spec = SpecBearoff { points, checkers: ONE_SIDED_CHECKERS, doubles: FAIR_DOUBLES, meaningless: false };
    let space = Bearoff::new(&spec);
    let positions = space.positions();
    let least = HEADER as u64 + positions * database.header.record_bytes();
    if !compressed || database.bytes < least {
        database.expect_length(least)?;
    }
    let positions = usize::try_from(positions).unwrap_or(usize::MAX);
    let content = Content { bytes: database.read_all("reading")?, gammons, compressed, positions };
    if compressed {
        // The chances of the last position are the last of the file.
        let end = content.entry(positions - 1).map(|(offset, spans)| offset + spans[0].0 + spans[1].0);
        database.expect_length(end.map_or(0, |end| (content.data() + 2 * end) as u64))?;
    }
    Ok((space, content))
}

pub(super) fn position(database: &Database, position: &str) -> Result<Answer, Failure> {
    let (space, content) = load(database)?;
    if let Ok((_, Some(_))) = space.read(position) {
        let what = format!("{position:?} is of two players, and the file is one-sided");
        return Err(Failure::usage(what).help("give the position of one of them: 1,0,2"));
    }
    let read =
        space.parse(position).map_err(|e| Failure::usage(e.to_string()).help("write the checkers on points 1, 2, ...: 1,0,2"))?;
    let index = space.rank(read).and_then(|key| usize::try_from(key.rank).ok());
    let index = index.ok_or_else(|| {
        Failure::usage(format!("{position} is no position of the file")).help("write the checkers on points 1, 2, ...: 1,0,2")
    })?;
    let chances = content.chances(index).map_err(|what| Failure::failed(format!("{}: {what}", database.shown)))?;
    let mut values = Vec::new();
    for (chances, name) in chances.iter().zip(["all off", "first off"]) {
        let Some(chances) = chances else { continue };
        let of_rolls = chances.iter().enumerate().filter(|&(_, &chance)| chance > 0);
        values.extend(of_rolls.map(|(rolls, &chance)| (format!("{name} in {rolls}"), f64::from(chance) / f64::from(WHOLE))));
        values.push((format!("{name}, mean"), gnubg::mean(chances)));
    }
    let at = match content.entry(index) {
        Some((offset, _)) if content.compressed => (content.data() + 2 * offset) as u64,
        _ => HEADER as u64 + index as u64 * database.header.record_bytes(),
    };
    Ok(Answer { file: database.path.clone(), kind: database.header.to_string(), position: space.format(read), at, values })
}

pub(super) fn check(database: &Database, opened: Option<&Opened>) -> Result<Report, Failure> {
    let (space, content) = load(database)?;
    let mut problems = Vec::new();
    let mut further = 0u64;
    let mut problem = |what: String| {
        further += 1;
        if further <= LISTED {
            problems.push(what);
        }
    };
    let mut next = 0;
    for index in 0..content.positions {
        if content.compressed {
            let Some((offset, spans)) = content.entry(index) else { break };
            if offset != next {
                problem(format!("the chances of position {index} start at number {offset} instead of {next}"));
            }
            next = offset + spans[0].0 + spans[1].0;
        }
        match content.chances(index) {
            Ok(chances) => {
                for (chances, name) in chances.iter().zip(["until all are off", "until the first is off"]) {
                    let sum: u32 = chances.iter().flatten().map(|&chance| u32::from(chance)).sum();
                    if chances.is_some() && sum != u32::from(WHOLE) {
                        problem(format!("the chances of position {index} {name} add up to {sum} instead of {WHOLE}"));
                    }
                }
            }
            Err(what) => problem(what),
        }
    }
    if further > LISTED {
        problems.push(format!("{} more like these", units::count(further - LISTED)));
    }
    let mut report = Report { problems, ..database.report(content.positions as u64) };
    let Some(opened) = opened else { return Ok(report) };
    expect_table(database, opened, &space.name().to_string())?;
    let mean = |index: usize| match content.chances(index) {
        Ok([Some(chances), _]) => Ok(gnubg::mean(&chances)),
        Ok(_) => Ok(f64::NAN),
        Err(what) => Err(Failure::failed(format!("{}: {what}", database.shown)).help("check it without --table first")),
    };
    let difference = compare::one_sided(opened, content.positions, KNOWN_DRIFT, mean)?;
    report.compare(space.name(), difference, KNOWN_DRIFT, ("means", "rolls off"));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_chances_or_a_problem(
            bytes in prop::collection::vec(any::<u8>(), 0..400), gammons: bool, compressed: bool, positions in 1..40usize,
        ) {
            let content = Content { bytes, gammons, compressed, positions };
            for index in 0..positions {
                let _ = (content.entry(index), content.chances(index));
            }
        }
    }
}
