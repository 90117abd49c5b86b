//! The one-sided database: chances of needing 0, 1, ... rolls.

use super::Export;
use crate::failure::Failure;
use crate::gnubg::Header;
use crate::gnubg::compare::{self, Difference};
use crate::signals;
use crate::table::Opened;
use rayon::prelude::*;
use std::io::{self, Write};
use strata_games::bearoff::gnubg::{self, Chances, MOST_ROLLS, OneSided};
use strata_games::{FAIR_DOUBLES, SpecBearoff};

/// The file of one table.
pub(super) struct File {
    layout: Layout,
    database: Option<OneSided>,
}

impl File {
    /// Refuses what the format has no room for.
    pub(super) fn new(spec: &SpecBearoff, args: &super::Args) -> Result<Self, Failure> {
        if args.cubeless {
            let what = "--cubeless: a one-sided table has no cube".to_string();
            return Err(Failure::usage(what).help("--no-gammons and --uncompressed are for one-sided tables"));
        }
        let points = exportable(spec)?;
        Ok(Self { layout: Layout { points, gammons: !args.no_gammons, compressed: !args.uncompressed }, database: None })
    }

    fn database(&self) -> io::Result<&OneSided> {
        self.database.as_ref().ok_or_else(|| io::Error::other("it was not computed"))
    }
}

impl Export for File {
    fn what(&self) -> String {
        format!("{} points", self.layout.points)
    }

    fn memory_bytes(&self) -> u64 {
        OneSided::memory_bytes(self.layout.points)
    }

    fn compute(&mut self, progress: &(dyn Fn(u64) -> bool + Sync)) -> bool {
        self.database = OneSided::compute(self.layout.points, &|done| progress(done));
        self.database.is_some()
    }

    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        self.layout.write(self.database()?, to)
    }

    fn compare(&self, opened: &Opened) -> Result<Difference, Failure> {
        let database = self.database.as_ref().ok_or_else(compare::stopped)?;
        compare::one_sided(opened, database.count(), f64::INFINITY, |index| Ok(gnubg::mean(database.win(index))))
    }

    fn rounding(&self, difference: f64, at: &str) -> String {
        format!("means are off by at most {difference:.5} rolls from those of the table, at {at}")
    }
}

/// How many points the table has, if the format has room for it.
fn exportable(spec: &SpecBearoff) -> Result<usize, Failure> {
    let refuse = |what: String, help: String| Err(Failure::usage(what).help(help));
    let name = strata_games::TableName::Bearoff(spec.clone());
    let most = gnubg::MOST_POINTS;
    match spec {
        _ if spec.checkers != 15 => refuse(
            format!("{name} has {} checkers, and GNU Backgammon's one-sided files have 15", spec.checkers),
            format!("build bearoff-{}x15", spec.points),
        ),
        _ if spec.points > most => refuse(
            format!("{name} has {} points; makebearoff goes up to {most}", spec.points),
            format!("build bearoff-{most}x15"),
        ),
        _ if spec.doubles != FAIR_DOUBLES || spec.meaningless => {
            refuse(format!("GNU Backgammon's files are of fair dice, {name} is not"), format!("build bearoff-{}x15", spec.points))
        }
        _ => Ok(spec.points),
    }
}

/// Positions that are written between two looks for a signal.
const LOOK_UP: usize = 1 << 16;

/// How the file is laid out: 40 bytes of header; then, compressed, 8 bytes for each position (6 without gammons) that say where its chances
/// are, and the chances from the first to the last that is not 0; or all 32 of each. All numbers are little-endian.
struct Layout {
    points: usize,
    gammons: bool,
    compressed: bool,
}

impl Layout {
    /// The distributions of a position that the file has.
    fn of<'d>(&self, database: &'d OneSided, index: usize) -> impl Iterator<Item = &'d Chances> {
        std::iter::once(database.win(index)).chain(self.gammons.then(|| database.gammon(index)))
    }

    fn write(&self, database: &OneSided, to: &mut dyn Write) -> io::Result<()> {
        let Self { points, gammons, compressed } = *self;
        to.write_all(&Header::OneSided { points, gammons, compressed }.bytes())?;
        if compressed {
            let mut offset = 0u32;
            let lengths = |chances: &Chances| {
                let (first, span) = span(chances);
                // Both at most 32.
                #[allow(clippy::cast_possible_truncation)]
                [span.len() as u8, first as u8]
            };
            let heads = |index| self.of(database, index).map(lengths).collect::<Vec<_>>();
            in_runs(database.count(), heads, |head| {
                to.write_all(&offset.to_le_bytes())?;
                to.write_all(head.as_flattened())?;
                let length: u32 = head.iter().map(|&[length, _]| u32::from(length)).sum();
                offset = offset.checked_add(length).ok_or_else(|| io::Error::other("its offsets do not fit in 32 bits"))?;
                Ok(())
            })?;
        }
        let chances = |index| {
            let kept = self.of(database, index).map(|chances| if compressed { span(chances).1 } else { &chances[..] });
            kept.flatten().flat_map(|chance| chance.to_le_bytes()).collect::<Vec<u8>>()
        };
        in_runs(database.count(), chances, |bytes| to.write_all(bytes))
    }
}

/// Makes something of every index, on the rayon pool it is called in, and hands it over in order; fails when a signal came.
fn in_runs<T: Send>(
    count: usize,
    make: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(&T) -> io::Result<()>,
) -> io::Result<()> {
    for start in (0..count).step_by(LOOK_UP) {
        if signals::received().is_some() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let made: Vec<T> = (start..count.min(start + LOOK_UP)).into_par_iter().with_min_len(1024).map(&make).collect();
        made.iter().try_for_each(&mut take)?;
    }
    Ok(())
}

/// The first number of rolls that has a chance, and the chances from there to the last.
fn span(chances: &Chances) -> (usize, &[u16]) {
    let first = chances.iter().position(|&chance| chance != 0).unwrap_or(0);
    let end = chances.iter().rposition(|&chance| chance != 0).map_or(MOST_ROLLS, |last| last + 1);
    (first, &chances[first..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_keeps_the_zeros_inside() {
        let mut chances = [0; MOST_ROLLS];
        (chances[2], chances[4]) = (65_534, 1);
        assert_eq!(span(&chances), (2, &[65_534, 0, 1][..]));
    }
}
