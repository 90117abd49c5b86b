use super::*;
use crate::testing::{Built, build, published, rewrite, space};
use std::path::Path;
use strata_games::{ArtifactId, ArtifactKind, Layer};

const GO_ON: &(dyn Fn(u64) -> bool + Sync) = &|_| true;

/// Builds a table with a change to it, publishes it, and checks it all.
fn checked(name: &str, change: impl FnOnce(&dyn StateSpace, &Path, &mut Built)) -> BellmanReport {
    let (space, dir) = (space(name), tempfile::tempdir().unwrap());
    let mut built = build(&*space, dir.path(), 2, 1 << 30);
    change(&*space, dir.path(), &mut built);
    let table = published(&*space, dir.path(), &built);
    verify_bellman(&*space, &table, 1.0, 0, GO_ON).unwrap()
}

#[test]
fn tables_as_they_are_built_keep_every_law() {
    for (name, keys) in
        [("2048-2x2", 67), ("2048-2x3", 14_883), ("bearoff-4x5", 126), ("2048-2x3+tile=16", 0), ("bearoff-6x4+doubles=0.3", 210)]
    {
        let report = checked(name, |_, _, _| ());
        assert_eq!(report.problems, [], "{name}");
        assert!(report.is_clean() && report.unchecked == 0 && !report.interrupted);
        assert!(report.keys == keys || keys == 0, "{name}: {} keys", report.keys);
        assert!(report.worst <= 1.0 && report.look_ups > report.keys / 2);
    }
}

#[test]
fn one_wrong_value_behind_sound_checksums_is_found() {
    for (name, layer, wrong_by) in [("2048-2x3", 60, 1e-4), ("2048-2x2", 20, 1e-5), ("bearoff-3x5", 9, -1e-6)] {
        let report = checked(name, |space, root, built| {
            rewrite(space, root, built, Layer(layer), |_, columns| columns.scalars[0][1] += wrong_by);
        });
        let own = report.problems.iter().find(|problem| problem.layer == Some(layer));
        let own = own.unwrap_or_else(|| panic!("{name}: {:?}", report.problems));
        assert_eq!((own.shard, own.ordinal), (Some(0), Some(1)), "{name}");
        assert!(own.position.is_some() && report.worst > 1.0);
        match own.fault {
            Fault::Value { stored, recomputed, .. } => {
                assert!(((stored - recomputed) - wrong_by).abs() < 1e-6 * wrong_by.abs() + 2e-6, "{own}")
            }
            ref other => panic!("{name}: {other}"),
        }
        // Values that depend on it no longer follow from it either, and nothing else is wrong.
        assert!(
            report.found >= 1
                && report.problems.iter().all(|problem| matches!(
                    problem.fault,
                    Fault::Value { .. } | Fault::Distribution { .. } | Fault::Plan { .. }
                ))
        );
    }
}

#[test]
fn a_key_that_play_can_reach_and_the_table_lacks_is_found() {
    let report = checked("2048-2x3", |space, root, built| {
        rewrite(space, root, built, Layer(40), |keys, columns| {
            keys.remove(2);
            columns.scalars[0].remove(2);
        });
    });
    let missing = report.problems.iter().filter(|problem| matches!(problem.fault, Fault::Missing { layer: 40, .. })).count();
    assert!(missing > 0, "{:?}", report.problems);
    // The shard was packed a second time, which moves its values by no more than packing does.
    let others = report.problems.iter().filter(|problem| !matches!(problem.fault, Fault::Missing { .. }));
    for other in others {
        match other.fault {
            Fault::Value { stored, recomputed, .. } => assert!((stored - recomputed).abs() < 1e-6, "{other}"),
            _ => panic!("{other}"),
        }
    }
    let missed_from = report.problems.iter().filter(|problem| matches!(problem.fault, Fault::Missing { .. }));
    assert!(missed_from.into_iter().all(|problem| problem.layer == Some(36) || problem.layer == Some(38)));
}

#[test]
fn a_wrong_distribution_is_found() {
    let report = checked("bearoff-3x5", |space, root, built| {
        rewrite(space, root, built, Layer(9), |_, columns| {
            let entry = columns.dists[0].values.iter_mut().find(|p| **p < 0.9).unwrap();
            *entry += 0.05;
        });
    });
    assert!(report.problems.iter().any(|p| matches!(p.fault, Fault::Distribution { law: "sum", .. })), "{:?}", report.problems);
    assert!(report.problems.iter().any(|p| matches!(p.fault, Fault::Distribution { law: "mean", .. })));
    assert!(report.problems.iter().all(|p| p.layer == Some(9)));
}

#[test]
fn a_wrong_value_of_the_start_is_found() {
    let report = checked("2048-2x2", |_, _, built| *built.facts.get_mut("value").unwrap() += 1e-6);
    assert_eq!(report.found, 1);
    assert!(report.problems[0].to_string().contains("66.96415045"), "{}", report.problems[0]);
}

#[test]
fn a_damaged_file_is_one_problem_and_the_rest_is_checked() {
    let (space, dir) = (space("2048-2x3"), tempfile::tempdir().unwrap());
    let built = build(&*space, dir.path(), 1, 1 << 30);
    let record = built.files[&ArtifactId { kind: ArtifactKind::Shard, layer: Layer(60), shard: 0 }].clone();
    let table = published(&*space, dir.path(), &built);
    let path = dir.path().join(&record.path);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let report = verify_bellman(&*space, &table, 1.0, 0, GO_ON).unwrap();
    assert_eq!(report.found, 1, "{:?}", report.problems);
    assert_eq!((report.problems[0].layer, report.problems[0].shard), (Some(60), Some(0)));
    assert!(matches!(report.problems[0].fault, Fault::Unreadable { .. }));
    assert!(report.unchecked >= record.keys && report.keys + report.unchecked == 14_883);
}

#[test]
fn a_sample_is_the_same_for_a_seed_whatever_the_threads() {
    let (space, dir) = (space("2048-2x3"), tempfile::tempdir().unwrap());
    let mut built = build(&*space, dir.path(), 2, 1 << 30);
    for layer in (40..120).step_by(2) {
        rewrite(&*space, dir.path(), &mut built, Layer(layer), |_, columns| {
            columns.scalars[0].iter_mut().step_by(3).for_each(|v| *v += 1.0)
        });
    }
    let table = published(&*space, dir.path(), &built);
    let run = |threads, part, seed| {
        crate::testing::pool(threads).install(|| verify_bellman(&*space, &table, part, seed, GO_ON).unwrap())
    };
    let one = run(1, 0.1, 5);
    assert_eq!(one, run(3, 0.1, 5));
    assert!((1_400..=1_500).contains(&one.keys), "{}", one.keys);
    assert_ne!(one.problems, run(2, 0.1, 6).problems);
    // So sparse that values are read one by one.
    let sparse = run(2, 0.001, 5);
    assert!((14..=15).contains(&sparse.keys), "{}", sparse.keys);
}

#[test]
fn it_can_be_interrupted() {
    let (space, dir) = (space("2048-2x3"), tempfile::tempdir().unwrap());
    let built = build(&*space, dir.path(), 1, 1 << 30);
    let table = published(&*space, dir.path(), &built);
    let report = crate::testing::pool(1).install(|| verify_bellman(&*space, &table, 1.0, 0, &|_| false).unwrap());
    assert!(report.keys > 0 && report.keys <= 14_883 && report.interrupted == (report.keys < 14_883));
}

#[test]
fn another_table_and_an_impossible_sample_are_refused() {
    let (game, dir) = (space("2048-2x2"), tempfile::tempdir().unwrap());
    let built = build(&*game, dir.path(), 1, 1 << 30);
    let table = published(&*game, dir.path(), &built);
    let other = verify_bellman(&*space("2048-2x3"), &table, 1.0, 0, GO_ON).unwrap_err();
    assert_eq!(other, BellmanError::OtherTable { found: "2048-2x2".into(), expected: "2048-2x3".into() });
    for part in [0.0, -1.0, 1.5, f64::INFINITY, f64::NAN] {
        assert!(matches!(verify_bellman(&*game, &table, part, 0, GO_ON), Err(BellmanError::BadSample(_))));
    }
}

/// `cargo test --release -p strata-worker speed_of -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed_of_a_full_check() {
    let (space, dir) = (space("2048-2x4"), tempfile::tempdir().unwrap());
    let built = build(&*space, dir.path(), 2, 4 << 30);
    let table = published(&*space, dir.path(), &built);
    let started = std::time::Instant::now();
    let report = crate::testing::pool(1).install(|| verify_bellman(&*space, &table, 1.0, 0, GO_ON).unwrap());
    let seconds = started.elapsed().as_secs_f64();
    assert!(report.is_clean());
    let (keys, look_ups) = (report.keys as f64, report.look_ups as f64);
    println!(
        "{:.3} us a key, {:.1} ns a look-up, {:.1} look-ups a key, worst {:.3}",
        1e6 * seconds / keys,
        1e9 * seconds / look_ups,
        look_ups / keys,
        report.worst
    );
}
