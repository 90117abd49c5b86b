//! How near the sweep of two-sided bearoff is to what the machine could do: `cargo bench -p strata-games --bench pairs -- NAME`.
//!
//! One thread, nothing written. The two bounds are of the same run: comparing as many vectors from the nearest cache, and reading as many bytes
//! from memory, as the table takes. Neither can be reached together with the other.

use std::time::Instant;
use strata_games::bearoff::TwoSided;
use strata_games::bearoff::two_sided::limits::rates;
use strata_games::memory::MemoryIo;
use strata_games::{StateSpace, TableName};

fn main() {
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_else(|| "bearoff-6x8v8".into());
    let Ok(TableName::TwoSided(spec)) = name.parse() else { panic!("{name} is no two-sided bearoff table") };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| {
        let space = TwoSided::open(&spec).expect("it is not too large");
        let effort = space.effort();
        let before = rates();
        let start = Instant::now();
        let mut io = MemoryIo::new(&space);
        while io.step().expect("it runs").is_some() {}
        let seconds = start.elapsed().as_secs_f64();
        let after = rates();
        let pairs: u64 = space.layers().iter().filter_map(|info| info.keys).sum();
        let (loads, bytes) = ((before.loads + after.loads) / 2.0, (before.bytes + after.bytes) / 2.0);
        println!("{name}: {pairs} pairs, {seconds:.2} s, {:.2} million pairs a second", pairs as f64 / seconds / 1e6);
        println!("a pair takes {:.1} vectors and {:.0} bytes", effort.loads / pairs as f64, effort.bytes / pairs as f64);
        println!("this machine compares {:.2} billion vectors a second and reads {:.1} GB a second", loads / 1e9, bytes / 1e9);
        let share = |bound: f64| format!("{bound:.2} s, {:.0} % of the time taken", 100.0 * bound / seconds);
        println!("so the vectors alone take {}", share(effort.loads / loads));
        println!("and memory alone {}", share(effort.bytes / bytes));
    });
}
