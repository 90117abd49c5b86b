use super::*;
use crate::bearoff::plan::Plan;
use std::time::Instant;

fn tasks(space: &Bearoff) -> impl Iterator<Item = TaskId> {
    (0..).zip(space.stages()).flat_map(|(stage, info)| (0..info.parts).map(move |part| TaskId { stage, part }))
}

#[test]
fn the_largest_table_is_planned_at_once() {
    let start = Instant::now();
    let space = space("bearoff-18x15");
    assert!(start.elapsed().as_secs_f64() < 1.0);
    assert_eq!(space.layers().len(), 271);
    assert_eq!(space.layers().iter().map(|layer| layer.keys.unwrap()).sum::<u64>(), 1_037_158_320);
    assert!(space.layers().iter().all(|layer| layer.shards.len() <= 256));
    assert!(space.stages().iter().any(|stage| stage.parts > 1));
}

#[test]
fn a_stage_reads_what_stages_before_it_wrote() {
    for (name, sizes) in [
        ("bearoff-6x15", None),
        ("bearoff-1x1", None),
        ("bearoff-10x15", None),
        ("bearoff-15x15", None),
        ("bearoff-6x15", Some((300, 100))),
        ("bearoff-6x15", Some((1, 1))),
    ] {
        let mut space = space(name);
        if let Some((most, shard)) = sizes {
            space.plan = Plan::with_sizes(&space.counting, most, shard);
        }
        let mut writer = std::collections::BTreeMap::new();
        for task in tasks(&space) {
            let plan = space.task(task);
            for input in plan.inputs {
                assert!(space.stages()[task.stage as usize].after.contains(writer.get(&input).unwrap()), "{task} {input:?}");
            }
            for output in plan.outputs {
                assert_eq!(writer.insert(output, task.stage), None, "{output:?} is written twice");
            }
        }
        for layer in space.layers() {
            for shard in 0..layer.shards.len() as u32 {
                assert!(writer.contains_key(&ArtifactId { kind: ArtifactKind::Shard, layer: layer.layer, shard }));
            }
        }
    }
}

#[test]
fn shards_cover_a_layer_evenly() {
    let space = space("bearoff-10x15");
    for (pips, layer) in space.layers().iter().enumerate() {
        assert_eq!((layer.shards[0].start, layer.shards[layer.shards.len() - 1].end), (0, 3_268_760));
        assert!(layer.shards.windows(2).all(|pair| pair[0].end == pair[1].start));
        let (mut most, mut fewest) = (0, u64::MAX);
        for (number, run) in layer.shards.iter().enumerate() {
            let ordinals = space.plan.ordinals(&space.counting, pips, number);
            let rank = |ordinal| space.counting.index(space.counting.position(pips, ordinal));
            assert!(run.contains(&rank(ordinals.start)) && run.contains(&rank(ordinals.end - 1)));
            most = most.max(ordinals.end - ordinals.start);
            fewest = fewest.min(ordinals.end - ordinals.start);
        }
        assert!(most <= 16_384 && most - fewest <= 1);
    }
}

/// What a task is said to need covers what it keeps for its later layers and its largest shard, as they really are; what is mapped
/// is no part of it.
#[test]
fn memory_is_bounded_from_above() {
    let Solved { space, table } = six();
    let bytes = |id: &ArtifactId| -> u64 {
        let columns = &table.shards(id.layer)[id.shard as usize].columns;
        let dists = columns.dists.iter().map(|dists| 9 * dists.len() + 8 * dists.values.len());
        (columns.scalars.iter().map(|scalar| 8 * scalar.len()).sum::<usize>() + dists.sum::<usize>()) as u64
    };
    for task in tasks(space) {
        let plan = space.task(task);
        let shards: Vec<u64> = plan.outputs.iter().filter(|id| id.kind == ArtifactKind::Shard).map(bytes).collect();
        let (all, largest) = (shards.iter().sum::<u64>(), shards.iter().max().unwrap());
        // In memory the last layer is columns, and all layers before it are rows, which are no less than the columns.
        assert!(all + 2 * largest <= plan.memory_bytes, "{task}: {all} + 2 * {largest} > {}", plan.memory_bytes);
        assert!(plan.memory_bytes < 40 << 20, "{task}: {}", plan.memory_bytes);
    }
}

/// However large the table, a task has room in half a gigabyte.
#[test]
fn tasks_of_large_tables_are_small() {
    for name in ["bearoff-10x15", "bearoff-13x15", "bearoff-15x15", "bearoff-18x15"] {
        let space = space(name);
        let most = tasks(&space).map(|task| space.task(task).memory_bytes).max().unwrap();
        assert!(most < 448 << 20, "{name}: {most}");
    }
}

/// The working files have no more numbers than the plan says, whatever the dice and the values.
#[test]
fn working_files_are_bounded_from_above() {
    for name in [
        "bearoff-9x4",
        "bearoff-6x15+doubles=0.9",
        "bearoff-6x15+meaningless",
        "bearoff-18x2",
        "bearoff-1x15",
        "bearoff-4x9+doubles=0.001",
    ] {
        // Writing more is an error.
        solve(name);
    }
}
