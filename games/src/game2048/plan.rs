//! The plan of a 2048 table: its layers, their sizes, and the stages of both passes.
//!
//! The forward pass goes through the ages upwards. A stage needs only the afterstates of the two ages before it: the states of an
//! age are the spawns of a 2 from the age before and of a 4 from the age before that. The backward pass goes downwards. A stage
//! needs the afterstate sets of its own ages, of the age below (whose 4s reach into it) and of the two ages above, and the f64 values
//! of those two. So nothing has to be handed over between stages but what is in the table anyway, and two layers of f64 values.
//!
//! Most ages are small (thousands of positions) and there are thousands of them, so a stage takes as many consecutive ages as keep
//! it below [`STAGE_RANKS`]. An age is one shard, or several of [`SHARD_RANKS`].

use super::ranks::Rows;
use crate::OpenError;
use crate::name::Spec2048;
use crate::space::*;
use std::ops::Range;

/// Sum of the smallest start: two tiles of 2.
pub const FIRST_AGE: u32 = 4;
/// Sum of the largest start: two tiles of 4.
pub const LAST_START: u32 = 8;
/// Ranks of a stage: a second or two of work, so a killed build loses little.
const STAGE_RANKS: u64 = 1 << 26;
/// Ages of a stage, however large they are: a stage makes the states of two ages again that the one before has made already, and
/// hands over the values of as many.
const STAGE_LAYERS: usize = 8;
/// Ages that the first stage takes at least: those of all starts (4, 6, 8), so that it can value the random start.
const FIRST_STAGE_LAYERS: usize = 3;
/// Ranks of a shard: a file of some tens of megabytes, so that no layer is one huge file and none of the small ones is cut. A multiple of
/// 64, so that sets are cut between words.
const SHARD_RANKS: u64 = 1 << 25;
/// Offsets within a layer are 32 bits wide.
const MOST_RANKS: u128 = 1 << 32;

/// The last age of the table: of the game, of the horizon, or the last that a first tile T can be made at.
pub fn last_age(spec: &Spec2048) -> u32 {
    let goal = spec.tile.map_or(u32::MAX, |tile| (tile / 2).saturating_mul(spec.cells() as u32 + 1));
    spec.last_age().min(goal).min(spec.horizon.unwrap_or(u32::MAX))
}

/// The exponent of the largest tile that a board of the table can hold.
pub fn largest_exponent(spec: &Spec2048, last_age: u32) -> Result<u32, OpenError> {
    let goal = spec.tile.unwrap_or(u32::MAX);
    let largest = spec.largest_tile().min(goal).min(1 << last_age.ilog2()).ilog2();
    if largest > 15 {
        let problem = format!("a board may hold a tile of {}; boards with tiles up to 32768 can be ranked", 1u64 << largest);
        return Err(OpenError { table: crate::TableName::Game2048(spec.clone()), problem, help: narrower(spec) });
    }
    Ok(largest)
}

fn narrower(spec: &Spec2048) -> String {
    format!("a smaller +horizon=AGE or +tile=T makes 2048-{}x{} smaller", spec.rows, spec.cols)
}

/// The layers of the table.
pub fn layers<const R: usize, const C: usize>(
    spec: &Spec2048,
    rows: &Rows<R, C>,
    last: u32,
) -> Result<Vec<LayerInfo>, OpenError> {
    let sizes = rows.sizes();
    (FIRST_AGE..=last)
        .step_by(2)
        .map(|age| {
            let size = sizes[age as usize / 2];
            if size.universe >= MOST_RANKS {
                let problem = format!("age {age} has a universe of {} ranks; a layer can have {MOST_RANKS}", size.universe);
                return Err(OpenError { table: crate::TableName::Game2048(spec.clone()), problem, help: narrower(spec) });
            }
            let universe = size.universe as u64;
            Ok(LayerInfo { layer: Layer(age), universe, keys: None, shards: shards(universe), blocks: size.blocks })
        })
        .collect()
}

/// The shards of a layer: as many ranks each.
fn shards(universe: u64) -> Vec<Range<u64>> {
    (0..universe.max(1)).step_by(SHARD_RANKS as usize).map(|start| start..universe.min(start + SHARD_RANKS)).collect()
}

/// The stages of both passes: forward over runs of ages upwards, then backward over the same runs downwards.
pub fn stages(layers: &[LayerInfo]) -> Vec<Stage> {
    let runs = runs(layers);
    let run_of = |layer: usize| runs.iter().position(|run| run.contains(&layer));
    let mut stages = Vec::with_capacity(runs.len() * 2);
    for run in &runs {
        let before = (1..=2).filter_map(|back| run_of(run.start.checked_sub(back)?));
        stages.push(Stage { pass: Pass::Forward, layers: run.clone(), parts: 1, after: sorted(before) });
    }
    let (last, backward_of) = (runs.len() - 1, |run: usize| 2 * runs.len() - 1 - run);
    for (i, run) in runs.iter().enumerate().rev() {
        let above = (0..2).filter_map(|up| run_of(run.end + up)).map(backward_of);
        // Forward stages depend on each other in a chain, so the last one stands for all.
        let after = if i == last { sorted([last].into_iter()) } else { sorted(above) };
        stages.push(Stage { pass: Pass::Backward, layers: run.clone(), parts: 1, after });
    }
    stages
}

fn sorted(stages: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut stages: Vec<u32> = stages.map(|stage| stage as u32).collect();
    stages.sort_unstable();
    stages.dedup();
    stages
}

fn runs(layers: &[LayerInfo]) -> Vec<Range<usize>> {
    let (mut runs, mut start, mut ranks) = (Vec::new(), 0, 0);
    for (i, info) in layers.iter().enumerate() {
        let least = if start == 0 { FIRST_STAGE_LAYERS } else { STAGE_LAYERS };
        if i - start >= least && ranks + info.universe > STAGE_RANKS {
            runs.push(start..i);
            (start, ranks) = (i, 0);
        }
        ranks += info.universe;
    }
    runs.push(start..layers.len());
    runs
}

/// One task of the plan.
pub fn task(layers: &[LayerInfo], stages: &[Stage], is_square: bool, task: TaskId) -> TaskPlan {
    let stage = &stages[task.stage as usize];
    assert_eq!(task.part, 0, "a stage of 2048 has one task");
    let run = stage.layers.clone();
    let files = |kind: ArtifactKind, range: Range<usize>| {
        let of_layer = |info: &LayerInfo| {
            let layer = info.layer;
            (0..info.shards.len() as u32).map(move |shard| ArtifactId { kind, layer, shard })
        };
        layers[range].iter().flat_map(of_layer).collect::<Vec<_>>()
    };
    let above = run.end..layers.len().min(run.end + 2);
    let ranks: u64 = layers[run.clone()].iter().map(|info| info.universe).sum();
    let widest = layers[run.start.saturating_sub(2)..above.end].iter().map(|info| info.universe).max().unwrap_or(0);
    let (inputs, outputs, memory_bytes) = match stage.pass {
        Pass::Forward => (
            files(ArtifactKind::Index, run.start.saturating_sub(2)..run.start),
            files(ArtifactKind::Index, run),
            widest / 8 * FORWARD_BITMAPS,
        ),
        Pass::Backward => {
            // The states of the two ages above are made again, the lower from the two ages before it, the upper with one more.
            let mut inputs = files(ArtifactKind::Index, run.start.saturating_sub(2)..layers.len().min(run.end + 1));
            inputs.extend(files(ArtifactKind::Work, above));
            let mut outputs = files(ArtifactKind::Shard, run.clone());
            if run.start > 0 {
                outputs.extend(files(ArtifactKind::Work, run.start..run.end.min(run.start + 2)));
            }
            (inputs, outputs, widest * BACKWARD_BYTES)
        }
    };
    // Passes over a square board look up states anywhere, so they do not go in windows.
    let memory_bytes = if is_square { memory_bytes } else { memory_bytes.min(WINDOWS_BYTES) };
    TaskPlan { inputs, outputs, cost: ranks, memory_bytes: memory_bytes + FIXED_BYTES }
}

/// Bitmaps of a layer's universe that the forward pass holds at once: afterstates of three ages, an encoded copy, and what is written.
const FORWARD_BITMAPS: u64 = 5;
/// Bytes a rank that the backward pass holds at once, if every rank were reachable: values of three ages of states and one of
/// afterstates and a packed copy (36), ranked sets of four (1), bitmaps of three (1), on square boards the best moves (24).
const BACKWARD_BYTES: u64 = 62;
/// Memory with which windows over the largest layer work without reading more than computing.
const WINDOWS_BYTES: u64 = 128 << 20;
/// Tables of moves and ranks, and buffers.
const FIXED_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(i: u32, universe: u64) -> LayerInfo {
        LayerInfo { layer: Layer(4 + 2 * i), universe, keys: None, shards: shards(universe), blocks: 1 }
    }

    #[test]
    fn small_layers_share_a_stage_and_large_ones_do_not() {
        let sizes = [vec![5; 20], vec![STAGE_RANKS - 100, 1], vec![STAGE_RANKS * 2; 20], vec![7]].concat();
        let layers: Vec<LayerInfo> = sizes.iter().enumerate().map(|(i, &u)| layer(i as u32, u)).collect();
        assert_eq!(runs(&layers), [0..21, 21..29, 29..37, 37..43]);
    }

    #[test]
    fn the_first_stage_holds_all_starts() {
        let layers: Vec<LayerInfo> = (0..6).map(|i| layer(i, STAGE_RANKS)).collect();
        assert_eq!(runs(&layers), [0..3, 3..6]);
    }
}
