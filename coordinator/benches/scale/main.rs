//! What a coordinator costs, and how long a build takes, with many workers on a simulated clock:
//!
//! ```text
//! cargo bench -p strata-coordinator --bench scale -- NAME [WORKERS] [CORES]
//! ```
//!
//! Workers have so many cores each, perfectly used. Without arguments: the whole of `2048-4x3` as one task a stage and cut among 16 workers, and a
//! table of pairs, with 1,000 workers of one core each.

mod world;

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use strata_coordinator::plan::Plan;
use strata_games::{StateSpace, TableName};
use world::{Pace, World};

/// Measured builds, as in docs/RESULTS.md: table, CPU seconds of the whole process, states or pairs; and what a build of the same game counts.
const MEASURED_2048: (f64, f64) = (141.0, 1_179_175_749.0);
const MEASURED_PAIRS: (f64, f64) = (760.0, 2_944_581_696.0);
const MEASURED_ONE_SIDED: (f64, f64) = (21.8 + 2.9, 3_268_760.0);
/// States of the whole of 2048 on 4x3, a published count.
const STATES_4X3: f64 = 1_152_817_492_752.0;
/// Million states a second of the kernels, docs/PERFORMANCE.md: how the time is divided between the passes.
const KERNELS: Pace = Pace { forward: 1.0 / 32.2, backward: 1.0 / 13.7, shared: CUT_AGES };
/// CPU time of a build of 2048-4x3+horizon=200+parts=2 to that of one without parts, docs/PERFORMANCE.md.
const CUT_AGES: f64 = 1.33;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match &words[..] {
        [] => {
            report("2048-4x3", 1000, 1);
            report("2048-4x3+parts=16", 1000, 1);
            report("bearoff-6x15v15", 1000, 1);
        }
        [name, rest @ ..] => {
            let number = |at: usize, usual| rest.get(at).map_or(usual, |count| count.parse().expect("a number"));
            report(name, number(0, 1000), number(1, 1));
        }
    }
}

/// Seconds for a unit of the plan's cost: ranks of 2048, of which a part is reached; positions of bearoff.
fn pace_of(space: &dyn StateSpace) -> Pace {
    let even =
        |(seconds, positions): (f64, f64)| Pace { forward: seconds / positions, backward: seconds / positions, shared: 1.0 };
    match space.name() {
        TableName::Game2048(_) => {
            let whole = strata_games::open(&"2048-4x3".parse().expect("a name")).expect("a table");
            let ranks: u64 = whole.layers().iter().map(|layer| layer.ranks()).sum();
            let a_state = MEASURED_2048.0 / MEASURED_2048.1;
            let a_rank = a_state * STATES_4X3 / ranks as f64 / (KERNELS.forward + KERNELS.backward);
            Pace { forward: a_rank * KERNELS.forward, backward: a_rank * KERNELS.backward, ..KERNELS }
        }
        name if name.to_string().contains('v') => even(MEASURED_PAIRS),
        _ => even(MEASURED_ONE_SIDED),
    }
}

fn report(name: &str, workers: usize, cores: usize) {
    let space = strata_games::open(&name.parse().expect("the name of a table")).expect("a table");
    let pace = pace_of(space.as_ref());
    let pace = Pace { forward: pace.forward / cores as f64, backward: pace.backward / cores as f64, ..pace };
    let most = space.layers().iter().map(|layer| layer.shards.len()).max().unwrap_or(0);
    let files: usize = space.layers().iter().map(|layer| layer.shards.len()).sum();
    let (ages, began) = (space.layers().len(), cpu_seconds());
    let plan = Arc::new(Plan::of(space.as_ref()).expect("a plan"));
    let planned = cpu_seconds() - began;
    println!("{name}, {workers} workers of {cores} cores");
    println!("  layers                 {ages}, with {files} files, {most} at most");
    let widest = plan.stages.iter().map(|stage| stage.tasks.len()).max().unwrap_or(0);
    println!(
        "  plan                   {} tasks in {} stages, at most {widest} side by side; {planned:.1} CPU s",
        plan.tasks.len(),
        plan.stages.len()
    );
    let world = World::new(plan, pace);
    let bounds = world.bounds(workers);
    let began = cpu_seconds();
    let outcome = world.run(workers);
    let seconds = cpu_seconds() - began;
    let hours = |seconds: f64| if seconds < 3600.0 { format!("{seconds:.1} s") } else { format!("{:.2} h", seconds / 3600.0) };
    println!(
        "  scheduling             {:.0} results a CPU second ({} results, {} calls for a task, {seconds:.1} CPU s)",
        outcome.completions as f64 / seconds,
        outcome.completions,
        outcome.asks
    );
    println!("  peak of memory so far  {:.0} MiB", peak_memory_kib() as f64 / 1024.0);
    println!("  wall clock             {}; workers are busy for {:.1} % of it", hours(outcome.seconds), outcome.busy * 100.0);
    println!(
        "  bounds                 work / workers {}, critical path {}, stage by stage {}",
        hours(bounds.work / workers as f64),
        hours(bounds.critical_path),
        hours(bounds.chain)
    );
    println!(
        "  wall clock / bound     {:.3} of the larger of the first two, {:.3} of the third",
        outcome.seconds / bounds.plain(workers),
        outcome.seconds / bounds.chain
    );
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The largest size that the process has had in memory.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
