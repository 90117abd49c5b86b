//! What a table will need, from its plan alone, from what is known about whole games of 2048, and from a short measurement.

use crate::failure::{Failure, chain};
use crate::resources;
use std::time::Duration;
use strata_games::{Keep, StateSpace};
use strata_storage::CHOICES_A_BYTE;
use strata_worker::estimate::{Estimate, Known, LayerCounts, measure, whole_game};

/// What a build will need.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Layers, positions, disk, memory.
    pub estimate: Estimate,
    /// Bytes that the build needs for certain; 0 when only bounds and guesses are known.
    pub certain_bytes: u64,
}

/// A published scalar.
const SCALAR_BYTES: u64 = 4;
/// The least that a published distribution takes; most take more.
const LEAST_DIST_BYTES: u64 = 16;

/// What a SATA SSD reads or writes in a second.
const DISK_BYTES_A_SECOND: f64 = 500e6;

/// From here on a build with distributions takes at least half of what its forecast allows: bearoff-13x15 and -15x15 took two thirds and more.
const LARGE: u64 = 1 << 30;

/// Reads the plan. `counted` has what was counted of layers, from the first on.
pub fn forecast(space: &dyn StateSpace, counted: Option<&LayerCounts>) -> Forecast {
    let mut estimate = Estimate::new(space, counted);
    // The sum is published, though its parts are guesses.
    if let (Some((states, keys)), Known::About(_)) = (whole_game(space.name()), estimate.keys) {
        (estimate.states, estimate.keys) = (Known::Exact(states), Known::Exact(keys));
        match space.name().keep() {
            Keep::Values => estimate.stored = Known::Exact(keys),
            Keep::Play => estimate.stored = Known::Exact(states),
            Keep::Stats => {}
        }
    }
    let certain_bytes = match (estimate.stored, space.dist_columns().len() as u64) {
        (Known::AtMost(_) | Known::About(_), _) => 0,
        (Known::Exact(states), _) if space.name().keep() == Keep::Play => states / CHOICES_A_BYTE as u64,
        (Known::Exact(_), 0) => estimate.disk_bytes,
        (Known::Exact(keys), dists) => {
            let published = keys * (space.scalar_columns().len() as u64 * SCALAR_BYTES + dists * LEAST_DIST_BYTES);
            // Working files of small layers are mostly what files take beside their numbers.
            let built = if estimate.disk_bytes > LARGE { estimate.disk_bytes / 2 } else { 0 };
            published.max(built)
        }
    };
    Forecast { estimate, certain_bytes }
}

/// Builds for so long on so many threads to see how fast that goes, then reads the plan. With it come the seconds that one core would need, when
/// the measurement got far enough.
pub fn measured(space: &dyn StateSpace, budget: Duration, threads: usize) -> Result<(Forecast, Option<f64>), Failure> {
    let memory = resources::memory(None);
    let measured = measure(space, budget, &resources::pool(threads)?, memory)
        .map_err(|e| Failure::failed(format!("the measurement failed: {}", chain(&e))))?;
    let plan = forecast(space, Some(&measured.counts));
    let core_seconds = plan.estimate.core_seconds(&measured.costs);
    Ok((plan, core_seconds))
}

/// What a disk like a SATA SSD is busy for, which reads or writes 500 MB a second: all that is written, and what is read and does not stay in memory.
pub fn disk_seconds(plan: &Forecast) -> f64 {
    let read = plan.estimate.disk_reads(resources::available_memory().unwrap_or(0));
    (read as f64 + plan.estimate.written_bytes as f64) / DISK_BYTES_A_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Forecast {
        forecast(strata_games::open(&name.parse().unwrap()).unwrap().as_ref(), None)
    }

    #[test]
    fn a_whole_game_is_known_exactly() {
        let forecast = of("2048-3x3");
        assert_eq!((forecast.estimate.states, forecast.estimate.keys), (Known::Exact(48_713_519), Known::Exact(31_431_374)));
        assert!(forecast.certain_bytes > 4 * 31_431_374);
    }

    #[test]
    fn a_table_of_moves_has_every_state() {
        let forecast = of("2048-3x3+keep=play");
        assert_eq!(forecast.estimate.stored, Known::Exact(48_713_519));
        assert!(forecast.certain_bytes >= 48_713_519 / 4 && forecast.certain_bytes < forecast.estimate.disk_bytes);
        // Built, it has 36,265,752 bytes.
        assert!((30_000_000..60_000_000).contains(&forecast.estimate.table_bytes), "{}", forecast.estimate.table_bytes);
    }

    #[test]
    fn nothing_is_certain_where_only_a_guess_or_a_bound_is_known() {
        for name in ["2048-3x3+tile=64", "2048-4x3+horizon=200", "2048-4x3+keep=stats"] {
            let forecast = of(name);
            assert!(!forecast.estimate.stored.is_exact(), "{name}");
            assert_eq!(forecast.certain_bytes, 0, "{name}");
        }
    }
}
