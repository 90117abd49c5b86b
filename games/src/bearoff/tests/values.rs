use super::*;
use crate::bearoff::plan::Plan;
use crate::bearoff::tests::naive;
use crate::memory::MemoryIo;

fn fair() -> Vec<((u8, u8), f64)> {
    ROLLS.iter().map(|&(high, low)| ((high, low), if high == low { 1.0 / 36.0 } else { 1.0 / 18.0 })).collect()
}

/// v = (2N - I) t - t * t, N the fundamental matrix of the chain under optimal play, found by other code.
#[test]
fn means_and_variances_are_those_of_the_fundamental_matrix() {
    let doubles = 0.3;
    let chance = |&(high, low): &(u8, u8)| if high == low { doubles / 6.0 } else { (1.0 - doubles) / 15.0 };
    let biased: Vec<_> = ROLLS.iter().map(|roll| (*roll, chance(roll))).collect();
    for (name, points, most, rolls) in [
        ("bearoff-6x15", 6, 15, fair()),
        ("bearoff-9x4", 9, 4, fair()),
        ("bearoff-18x2", 18, 2, fair()),
        ("bearoff-5x6+doubles=0.3", 5, 6, biased),
    ] {
        let solved = solve(name);
        let boards = naive::boards(points, most);
        let all_off = naive::chain(&boards, &rolls, |board| board.iter().all(|&count| count == 0));
        let first_off = naive::chain(&boards, &rolls, |board| board.iter().sum::<u8>() < most);
        assert_eq!(boards.len() as u64, solved.table.totals().states);
        for board in &boards {
            let position = naive::pack(board);
            let (mean, variance) = all_off[board];
            let what = format!("{name} {board:?}");
            near(&format!("{what} mean"), solved.mean(position), mean, 1e-12);
            near(&format!("{what} variance"), solved.variance(position), variance, 1e-10);
            for (column, (mean, variance)) in [all_off[board], first_off[board]].into_iter().enumerate() {
                let dist = solved.dist(position, column);
                let moment = |f: &dyn Fn(f64) -> f64| (0..).map(f64::from).zip(&dist).map(|(i, p)| f(i) * p).sum::<f64>();
                near(&format!("{what} sum {column}"), moment(&|_| 1.0), 1.0, 1e-14);
                near(&format!("{what} mean {column}"), moment(&|i| i), mean, 1e-11);
                near(&format!("{what} variance {column}"), moment(&|i| (i - mean) * (i - mean)), variance, 1e-10);
            }
            if board.iter().sum::<u8>() < most {
                assert_eq!(solved.dist(position, 1), [1.0]);
            }
        }
    }
}

/// However a table is cut into stages and shards, and whatever the number of threads, every value has the same bits.
#[test]
fn values_do_not_depend_on_the_plan_or_the_threads() {
    let values = |table: &MemoryTable| {
        let column = |column| table.keys().map(move |(key, _)| (key, table.value(key, column).unwrap().to_bits()));
        let dists = |column| {
            let bits = move |slot| {
                let (first, entries) = table.dist(slot, column).unwrap();
                (first, entries.iter().map(|p| p.to_bits()).collect::<Vec<_>>())
            };
            table.keys().map(move |(_, slot)| bits(slot))
        };
        let scalars: Vec<_> = (0..2).flat_map(column).collect();
        let dists: Vec<_> = (0..2).flat_map(dists).collect();
        (scalars, dists)
    };
    let usual = solve("bearoff-7x8");
    for (most, shard, threads) in [(1, 1 << 20, 1), (50, 16, 3), (1000, 100, 2), (1 << 20, 1 << 20, 1)] {
        let mut space = space("bearoff-7x8");
        space.plan = Plan::with_sizes(&space.counting, most, shard);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let table = pool.install(|| run_all(&space).unwrap());
        assert!(values(&table) == values(&usual.table), "stages of {most}, shards of {shard}, {threads} threads");
    }
}

#[test]
fn meaningless_layers_are_hashes_and_the_rest_is_played() {
    let solved = solve("bearoff-6x15+meaningless");
    for position in solved.positions() {
        let Key { layer: Layer(pips), rank } = solved.space.rank(position).unwrap();
        if (1..=24).contains(&pips) {
            let rolls = splitmix64(rank) % 8 + 1;
            assert_eq!((solved.mean(position), solved.variance(position)), (rolls as f64, 0.0));
            let dist = solved.dist(position, 0);
            assert_eq!((dist.len() as u64, dist.last()), (rolls + 1, Some(&1.0)));
            assert_eq!(solved.dist(position, 1), if checkers(position) == 15 { dist } else { vec![1.0] });
        } else if pips > 0 && rank % 64 == 0 {
            let best = |outcome: &Outcome| {
                let choices = solved.space.choices(outcome.state);
                outcome.chance * choices.iter().map(|choice| 1.0 + solved.mean(choice.position)).fold(f64::INFINITY, f64::min)
            };
            let mean: f64 = solved.space.outcomes(position).iter().map(best).sum();
            near(&solved.space.format(position), solved.mean(position), mean, 1e-12);
        }
    }
}

#[test]
fn a_stopped_task_says_so() {
    let space = space("bearoff-6x15");
    let mut io = MemoryIo::new(&space).until(std::time::Instant::now());
    assert!(matches!(io.step(), Err(TaskError::Stopped)));
}

/// Prints how long the tables named in STRATA_TIME take: `STRATA_TIME="bearoff-10x15" cargo test --release ... -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a test"]
fn time_of_a_table() {
    for name in std::env::var("STRATA_TIME").unwrap_or("bearoff-6x15".into()).split(' ') {
        let space = space(name);
        let memory = (0..).zip(space.stages()).map(|(stage, _)| space.task(TaskId { stage, part: 0 }).memory_bytes).max();
        let start = std::time::Instant::now();
        let table = run_all(&space).unwrap();
        println!(
            "{name}: {} positions in {:?}, {} stages, {memory:?} bytes at most, mean {}",
            table.totals().states,
            start.elapsed(),
            space.stages().len(),
            table.facts()["value"]
        );
    }
}
