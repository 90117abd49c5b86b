//! Known answers, computed before a worker asks for work.
//!
//! A processor without the instructions this build assumes, a bad memory, a wrong compiler: all of them give numbers, and nobody would
//! notice until a table is verified. So a worker first solves two games whose values are known exactly, by the same kernels, in
//! memory, in a few milliseconds.

use strata_games::{TableName, TaskError, memory};

/// A table, how many keys it has, and its value over the random start.
struct Known {
    table: &'static str,
    keys: usize,
    value: f64,
}

const KNOWN: [Known; 2] = [
    // 67 afterstates; the value is 41852593410688287414496003 / 625000000000000000000000.
    Known { table: "2048-2x2", keys: 67, value: 66.964_149_457_101_26 },
    // All positions of at most 2 checkers on 6 points: 28. Two checkers on the 6-point take 49213/23328 rolls.
    Known { table: "bearoff-6x2", keys: 28, value: 49213.0 / 23328.0 },
];

/// Runs the self-test on the rayon pool it is called in. The error says which answer is wrong.
pub(crate) fn run() -> Result<(), String> {
    KNOWN.iter().try_for_each(check)
}

fn check(known: &Known) -> Result<(), String> {
    let name: TableName = known.table.parse().map_err(|error| format!("{error}"))?;
    let space = strata_games::open(&name).map_err(|error| error.to_string())?;
    let table = memory::run_all(&*space).map_err(|error: TaskError| format!("{}: {error}", known.table))?;
    let keys = table.keys().count();
    if keys != known.keys {
        return Err(format!("{} has {} positions, but {keys} were found", known.table, known.keys));
    }
    match table.facts().get("value") {
        Some(&value) if (value - known.value).abs() <= 1e-12 * known.value => Ok(()),
        Some(value) => Err(format!("{} has the value {}, but {value} was computed", known.table, known.value)),
        None => Err(format!("{} has the value {}, but none was computed", known.table, known.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_knows_the_known_answers() {
        run().unwrap();
    }

    #[test]
    fn a_wrong_answer_is_told() {
        let wrong = check(&Known { table: "2048-2x2", keys: 67, value: 66.964_149_458 }).unwrap_err();
        assert!(wrong.contains("2048-2x2") && wrong.contains("66.96414945"), "{wrong}");
        let wrong = check(&Known { table: "2048-2x2", keys: 68, value: 66.964_149_457_101_26 }).unwrap_err();
        assert!(wrong.contains("68 positions, but 67"), "{wrong}");
    }
}
