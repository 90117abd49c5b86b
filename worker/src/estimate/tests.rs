use super::*;

fn space(name: &str) -> Box<dyn StateSpace> {
    strata_games::open(&name.parse().unwrap()).unwrap()
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
fn a_game_without_one_has_an_upper_bound_until_it_is_enumerated() {
    let space = space("2048-2x3");
    let bound = Estimate::new(&*space, None);
    assert!(!bound.keys.is_exact() && bound.keys.bound() > 14_883);
    let measured = measure(&*space, Duration::from_secs(20)).unwrap();
    let exact = Estimate::new(&*space, measured.keys.as_ref());
    assert_eq!(exact.keys, Known::Exact(14_883));
    assert!(exact.disk_bytes < bound.disk_bytes);
    assert!(exact.seconds(&measured.speeds).unwrap() > 0.0);
}

#[test]
fn a_plan_too_large_for_the_moment_is_measured_on_a_smaller_one() {
    let space = space("2048-4x3");
    let measured = measure(&*space, Duration::from_secs(2)).unwrap();
    assert!(measured.took < Duration::from_secs(10), "{:?}", measured.took);
    assert!(measured.keys.is_none());
    assert!(measured.also_ran.unwrap().to_string().starts_with("2048-4x3+horizon="));
    assert!(measured.speeds.forward.unwrap() > 0.0 && measured.speeds.backward.unwrap() > 0.0);
}
