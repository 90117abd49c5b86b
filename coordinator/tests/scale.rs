//! The simulation of `cargo bench -p strata-coordinator --bench scale`, in small: every task is done once, and soon enough.

#[path = "../benches/scale/world.rs"]
mod world;

use std::sync::Arc;
use strata_coordinator::plan::Plan;
use world::{Pace, World};

/// Seconds that make tasks of very different lengths, some longer than a lease.
const PACE: Pace = Pace { forward: 1e-5, backward: 3e-5, shared: 1.0 };

fn assert_near_the_bound(plan: Plan, workers: usize) {
    let tasks = plan.tasks.len() as u64;
    let table = plan.table.clone();
    let world = World::new(Arc::new(plan), PACE);
    let (bounds, ran) = (world.bounds(workers), world.run(workers));
    assert_eq!(ran.completions, tasks, "{table}: nobody was slow or lost, so every task was done once");
    assert!(ran.seconds > 0.999 * bounds.plain(workers).max(bounds.chain), "{table}: {ran:?} is faster than {bounds:?} allow");
    assert!(ran.seconds < 1.15 * bounds.chain, "{table}: {ran:?}, {bounds:?}");
    // Second copies of tasks that are not slow would keep workers busy with nothing.
    let worked = ran.busy * ran.seconds * workers as f64 / bounds.work;
    assert!((0.999..1.1).contains(&worked), "{table}: {worked} of the work, {ran:?}");
    assert!(ran.asks >= tasks);
}

#[test]
fn builds_of_many_workers_end_within_15_percent_of_what_no_schedule_can_beat() {
    let open = |name: &str| strata_games::open(&name.parse().unwrap()).unwrap();
    assert_near_the_bound(Plan::of(open("2048-3x3").as_ref()).unwrap(), 50);
    assert_near_the_bound(Plan::of(open("bearoff-6x10v10").as_ref()).unwrap(), 50);
    let cut = Plan::of(open("2048-4x3+horizon=200+parts=4").as_ref()).unwrap();
    assert!(cut.stages.iter().filter(|stage| stage.tasks.len() == 4).count() > 20);
    assert_near_the_bound(cut.clone(), 4);
    assert_near_the_bound(cut, 50);
}
