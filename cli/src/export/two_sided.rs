//! The two-sided database: equities of every pair of positions.

use super::Export;
use crate::failure::Failure;
use crate::gnubg::Header;
use crate::gnubg::compare::{self, Difference};
use crate::signals;
use crate::table::Opened;
use std::io::{self, Write};
use strata_games::bearoff::TwoSided;
use strata_games::bearoff::two_sided::gnubg::{MOST_CHECKERS, NUMBERS, Records};
use strata_games::{FAIR_DOUBLES, SpecTwoSided, TableName};

/// Records that are written between two looks for a signal.
const LOOK_UP: usize = 1 << 16;

/// The file of one table: 40 bytes of header, and for each pair of positions 4 numbers of 16 bits, or one.
pub(super) struct File {
    space: TwoSided,
    points: usize,
    checkers: usize,
    cubeful: bool,
    records: Option<Records>,
}

impl File {
    /// Refuses what the format has no room for.
    pub(super) fn new(spec: &SpecTwoSided, args: &super::Args) -> Result<Self, Failure> {
        let name = TableName::TwoSided(spec.clone());
        let refuse = |what: String, help: String| Err(Failure::usage(what).help(help));
        let SpecTwoSided { points, checkers: (one, other), doubles } = *spec;
        if args.no_gammons || args.uncompressed {
            let option = if args.no_gammons { "--no-gammons" } else { "--uncompressed" };
            return refuse(format!("{option} is for one-sided tables, {name} is two-sided"), "leave it out".into());
        }
        if one != other {
            let help = format!("build bearoff-{points}x{other}v{other}");
            return refuse(format!("{name}: GNU Backgammon's files have as many checkers on both sides"), help);
        }
        if one > MOST_CHECKERS {
            let help = format!("build bearoff-{points}x11v11, as far as makebearoff goes, or up to {MOST_CHECKERS} checkers");
            return refuse(format!("{name} has gammons, and GNU Backgammon's two-sided files have no room for them"), help);
        }
        if doubles != FAIR_DOUBLES {
            let help = format!("build bearoff-{points}x{one}v{one}");
            return refuse(format!("GNU Backgammon's files are of fair dice, {name} is not"), help);
        }
        let space = TwoSided::open(spec).map_err(|e| Failure::failed(e.to_string()).help(e.help))?;
        Ok(Self { space, points, checkers: one, cubeful: !args.cubeless, records: None })
    }
}

impl Export for File {
    fn what(&self) -> String {
        format!("{} checkers on {} points", self.checkers, self.points)
    }

    fn memory_bytes(&self) -> u64 {
        Records::memory_bytes(self.points, self.checkers)
    }

    fn compute(&mut self, progress: &(dyn Fn(u64) -> bool + Sync)) -> bool {
        self.records = Records::compute(self.points, self.checkers, &|done| progress(done));
        self.records.is_some()
    }

    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let records = self.records.as_ref().ok_or_else(|| io::Error::other("it was not computed"))?;
        let Self { points, checkers, cubeful, .. } = *self;
        to.write_all(&Header::TwoSided { points, checkers, cubeful }.bytes())?;
        let numbers = if self.cubeful { NUMBERS } else { 1 };
        let mut bytes = vec![0; LOOK_UP * numbers * 2];
        let mut all = records.all();
        while all.len() > 0 {
            if signals::received().is_some() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let mut end = 0;
            for (bytes, record) in bytes.chunks_exact_mut(numbers * 2).zip(&mut all) {
                for (bytes, number) in bytes.as_chunks_mut().0.iter_mut().zip(record) {
                    *bytes = number.to_le_bytes();
                }
                end += numbers * 2;
            }
            to.write_all(&bytes[..end])?;
        }
        Ok(())
    }

    fn compare(&self, opened: &Opened) -> Result<Difference, Failure> {
        let records = self.records.as_ref().ok_or_else(compare::stopped)?;
        let record = |us: u32, them: u32| records.get(us as usize, them as usize);
        compare::two_sided(opened, &self.space, self.cubeful, f64::INFINITY, record)
    }

    fn rounding(&self, difference: f64, at: &str) -> String {
        format!("equities are off by at most {difference:.6} from those of the table, at {at}")
    }
}
