use super::*;

fn space(name: &str) -> Box<dyn StateSpace> {
    strata_games::open(&name.parse().unwrap()).unwrap()
}

fn pool() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

fn measured(name: &str, seconds: u64) -> Measured {
    measure(&*space(name), Duration::from_secs(seconds), &pool(), 1 << 30).unwrap()
}

#[test]
fn a_game_with_a_theory_is_known_before_it_is_built() {
    // All positions of at most 15 checkers on 6 points: C(21, 6).
    let estimate = Estimate::new(&*space("bearoff-6x15"), None);
    assert_eq!(estimate.keys.bound(), 54_264);
    assert!(estimate.keys.is_exact());
    assert!(estimate.disk_bytes >= estimate.table_bytes && estimate.table_bytes > 54_264 * 4);
}

#[test]
fn a_game_without_one_is_exact_when_it_was_enumerated() {
    let space = space("2048-2x3");
    assert!(!Estimate::new(&*space, None).keys.is_exact());
    let measured = measured("2048-2x3", 20);
    let exact = Estimate::new(&*space, Some(&measured.counts));
    assert_eq!((exact.keys, exact.states), (Known::Exact(14_883), Known::Exact(21_752)));
    assert!(measured.also_ran.is_none());
    assert!(exact.core_seconds(&measured.costs).unwrap() > 0.0);
}

#[test]
fn a_plan_too_large_for_the_moment_is_measured_on_a_smaller_one() {
    let measured = measured("2048-4x3", 2);
    assert!(measured.took < Duration::from_secs(10), "{:?}", measured.took);
    assert!(measured.also_ran.unwrap().to_string().starts_with("2048-4x3+horizon="));
    assert!(measured.costs.forward.unwrap() > 0.0 && measured.costs.backward.unwrap() > 0.0);
    assert_eq!(measured.counts[&Layer(20)].states, 6_186, "published");
}

/// Statistics of the whole 4x3 game fit a disk of 80 GB and 24 GiB of memory, and go through most ages twice.
#[test]
fn statistics_of_the_whole_4x3_game_fit_a_small_machine() {
    let estimate = Estimate::new(&*space("2048-4x3+keep=stats"), None);
    assert!(estimate.disk_bytes < 80_000_000_000, "{}", estimate.disk_bytes);
    assert!(estimate.memory_bytes < 1 << 30);
    let states = estimate.states.bound();
    assert!(estimate.backward_states == states && (states..2 * states).contains(&estimate.forward_states));
    assert!(estimate.stored.bound() <= 8_189 * 256);
    // All values take terabytes.
    assert!(Estimate::new(&*space("2048-4x3"), None).table_bytes > 3_000_000_000_000);
}

#[test]
fn costs_are_those_of_the_larger_half() {
    let stretch = |pass, states, seconds| Stretch { pass, states, seconds };
    let stretches = [
        stretch(Pass::Forward, 10, 10.0),
        stretch(Pass::Forward, 100, 20.0),
        stretch(Pass::Forward, 60, 15.0),
        stretch(Pass::Backward, 5, 1.0),
    ];
    assert_eq!(cost(&stretches, Pass::Forward), Some(0.2));
    assert_eq!(cost(&stretches, Pass::Backward), Some(0.2));
    assert_eq!(cost(&stretches[..3], Pass::Backward), None);
}
