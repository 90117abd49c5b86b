//! Tables whose ages are cut are those whose ages are not.

use super::*;
use crate::Keep;
use crate::conformance;
use crate::memory::{MemoryIo, MemoryTable, run_all};
use crate::name::{Spec2048, TableName};

fn spec(name: &str) -> Spec2048 {
    match name.parse() {
        Ok(TableName::Game2048(spec)) => spec,
        other => panic!("{name}: {other:?}"),
    }
}

/// The state space of a table, cut into parts of at least so many ranks.
fn cut<const R: usize, const C: usize>(name: &str, most: u32, least: u64) -> Game2048<R, C> {
    Game2048::with_parts(&Spec2048 { parts: Some(most), ..spec(name) }, least).unwrap()
}

fn whole<const R: usize, const C: usize>(name: &str) -> MemoryTable {
    run_all(&Game2048::<R, C>::new(&spec(name)).unwrap()).unwrap()
}

/// Cuts a table in several ways, and asserts that it comes out the same; how many layers were cut, at most.
fn comes_out_the_same<const R: usize, const C: usize>(name: &str, cuts: &[(u32, u64)]) -> usize {
    let expected = whole::<R, C>(name);
    let most = cuts.iter().map(|&(most, least)| {
        let space = cut::<R, C>(name, most, least);
        assert!(run_all(&space).unwrap() == expected, "{name} in {most} parts of at least {least}");
        space.stages.is_cut.iter().filter(|&&is_cut| is_cut).count()
    });
    most.max().unwrap()
}

#[test]
fn values_do_not_depend_on_how_ages_are_cut() {
    assert!(comes_out_the_same::<2, 4>("2048-2x4+horizon=300", &[(2, 1), (3, 6000), (7, 1)]) > 20);
    assert!(comes_out_the_same::<3, 4>("2048-4x3+horizon=48", &[(2, 1 << 14), (5, 1 << 14), (16, 1)]) > 8);
    assert!(comes_out_the_same::<3, 4>("2048-3x4+tile=16", &[(4, 1)]) > 8);
    assert!(comes_out_the_same::<3, 4>("2048-4x3+horizon=36+meaningless+four=0.3", &[(6, 1)]) > 3);
}

#[test]
fn statistics_do_not_depend_on_how_ages_are_cut() {
    for stretch in [1, 10, 1000] {
        let name = format!("2048-4x3+horizon=44+keep=stats+stretch={stretch}");
        assert!(comes_out_the_same::<3, 4>(&name, &[(2, 1 << 13), (5, 1)]) > 5);
    }
}

#[test]
fn a_cut_age_larger_than_memory_has_the_same_values() {
    let name = "2048-4x3+horizon=44";
    let space = cut::<3, 4>(name, 3, 1 << 12);
    let mut io = MemoryIo::new(&space).within(1 << 16);
    while io.step().unwrap().is_some() {}
    assert_eq!(io.finish().unwrap(), whole::<3, 4>(name));
}

#[test]
fn the_laws_hold_of_cut_tables() {
    conformance::check(&cut::<2, 4>("2048-2x4+horizon=120", 5, 1)).unwrap();
    conformance::check(&cut::<3, 4>("2048-4x3+horizon=24", 3, 1)).unwrap();
}

/// A part reads what is near it, not everything; each part is made once, and parts are about as long as each other.
#[test]
fn tasks_read_what_they_need() {
    let space = cut::<3, 4>("2048-4x3+horizon=160", 16, PART);
    let (mut find, mut value) = (0, 0);
    for (stage, step) in (0u32..).zip(&space.stages.steps) {
        let planned = &space.stages.stages[stage as usize];
        let info = &space.layers[planned.layers.start];
        if info.parts.len() < 16 || !matches!(step, Step::Find(_) | Step::Value) {
            continue;
        }
        let longest = info.parts.iter().map(|run| run.end - run.start).max().unwrap();
        assert!(longest * 16 <= info.ranks() + (JOIN_RANKS + 16) * 16);
        // The first also reads the statistics of the age above.
        let near = (1..16).map(|part| {
            let inputs = space.task_of_part(TaskId { stage, part }).inputs;
            inputs.iter().filter(|input| input.kind != ArtifactKind::Partial).count()
        });
        match step {
            Step::Find(_) => find = near.max().unwrap().max(find),
            _ => value = near.max().unwrap().max(value),
        }
    }
    // Of two ages before with 16 parts each, of which one is joined; of this age and two others. These ages are small: of larger ones it is less.
    assert!((2..=8).contains(&find) && (3..=16).contains(&value), "{find} and {value}");
}

const PART: u64 = 1 << 18;

#[test]
fn small_ages_are_not_cut() {
    let space = cut::<3, 4>("2048-4x3+horizon=160", 8, super::super::plan::PART_RANKS);
    let least = (space.layers.iter()).filter(|info| info.parts.len() > 1).map(LayerInfo::ranks).min().unwrap();
    assert!(least >= 2 * super::super::plan::PART_RANKS);
    assert!(space.layers.iter().all(|info| (info.parts.len() as u64) <= 8));
    assert_eq!(space.spec.keep, Keep::Values);
}
