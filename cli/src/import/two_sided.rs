//! Two-sided databases: the length, and every equity beside the exact one.

use super::{Answer, Database, Report, expect_table};
use crate::failure::Failure;
use crate::gnubg::{HEADER, Header, compare};
use crate::table::Opened;
use strata_games::bearoff::TwoSided;
use strata_games::bearoff::two_sided::gnubg::{NUMBERS, Record, equity};
use strata_games::{FAIR_DOUBLES, SpecTwoSided, StateSpace};

/// How far makebearoff's rounding moves an equity, at most, for each checker of a side and one more: over the files of 6 points and 1 to 11
/// checkers it is 0.000015 to 0.000025.
const KNOWN_DRIFT: f64 = 0.00003;

fn known_drift(database: &Database) -> f64 {
    match database.header {
        Header::TwoSided { checkers, .. } => KNOWN_DRIFT * (checkers + 1) as f64,
        Header::OneSided { .. } => 0.0,
    }
}

/// What the numbers of a record are.
const NAMES: [&str; NUMBERS] = ["cubeless", "owned", "centred", "opponent"];

/// The game that the file is of, and its number of positions of a side.
fn game(database: &Database) -> Result<(TwoSided, u64), Failure> {
    let Header::TwoSided { points, checkers, .. } = database.header else {
        return Err(Failure::failed(format!("{} is not two-sided", database.shown)));
    };
    let space = TwoSided::open(&SpecTwoSided { points, checkers: (checkers, checkers), doubles: FAIR_DOUBLES });
    let space =
        space.map_err(|e| Failure::failed(format!("{}: {e}", database.shown)).help("such a file would have terabytes"))?;
    let positions = space.positions();
    let length = u128::from(positions) * u128::from(positions) * u128::from(database.header.record_bytes()) + HEADER as u128;
    let length = u64::try_from(length).map_err(|_| Failure::failed(format!("{} would have 2^64 bytes", database.header)))?;
    database.expect_length(length)?;
    Ok((space, positions))
}

fn cubeful(database: &Database) -> bool {
    matches!(database.header, Header::TwoSided { cubeful: true, .. })
}

pub(super) fn position(database: &Database, position: &str) -> Result<Answer, Failure> {
    let (space, positions) = game(database)?;
    let pair =
        space.parse(position).map_err(|e| Failure::usage(e.to_string()).help("write '1,0,2 v 0,3', the player on roll first"))?;
    let (us, them) = space.indices_of_pair(pair);
    let numbers = if cubeful(database) { NUMBERS } else { 1 };
    let at = HEADER as u64 + (u64::from(us) * positions + u64::from(them)) * database.header.record_bytes();
    let mut bytes = vec![0; numbers * 2];
    database.read(at, &mut bytes)?;
    let values =
        bytes.as_chunks().0.iter().zip(NAMES).map(|(&b, name)| (name.to_owned(), equity(u16::from_le_bytes(b)))).collect();
    Ok(Answer { file: database.path.clone(), kind: database.header.to_string(), position: space.format(pair), at, values })
}

pub(super) fn check(database: &Database, opened: Option<&Opened>) -> Result<Report, Failure> {
    let (space, positions) = game(database)?;
    let mut report = database.report(positions * positions);
    let Some(opened) = opened else { return Ok(report) };
    expect_table(database, opened, &space.name().to_string())?;
    let bytes = database.read_all("comparing")?;
    let numbers = if cubeful(database) { NUMBERS } else { 1 };
    let record = |us: u32, them: u32| -> Record {
        let at = HEADER + (us as usize * positions as usize + them as usize) * numbers * 2;
        std::array::from_fn(|n| match bytes.get(at + 2 * n..).and_then(|rest| rest.first_chunk()) {
            Some(&number) if n < numbers => u16::from_le_bytes(number),
            _ => 0,
        })
    };
    let drift = known_drift(database);
    let difference = compare::two_sided(opened, &space, cubeful(database), drift, record)?;
    report.compare(space.name(), difference, drift, ("numbers", "off"));
    Ok(report)
}
