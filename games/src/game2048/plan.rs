//! The plan of a 2048 table: its layers, their sizes, and the stages of both passes.
//!
//! The forward pass goes through the ages upwards. A stage needs only the afterstates of the two ages before it: the states of an
//! age are the spawns of a 2 from the age before and of a 4 from the age before that. The backward pass goes downwards. A stage
//! needs the afterstates of its own ages, of the two below (whose new tiles make its states) and of the one above, and the f64 values of
//! the states of the two ages above. So nothing has to be handed over between stages but what is in the table anyway, and two
//! layers of f64 values.
//!
//! Most ages are small (thousands of positions) and there are thousands of them, so a stage takes as many consecutive ages as keep
//! it below [`STAGE_RANKS`]. An age is one shard, or several of [`SHARD_RANKS`].
//!
//! **Keeping moves or statistics.** Then the forward pass does not leave its sets behind either: only those of the last two ages of every
//! *stretch*, some tens of ages, are kept as checkpoints. The backward pass goes through the stretches downwards, and before each of them
//! the forward pass is run again from the checkpoint below it. So the disk holds the checkpoints and the sets of one stretch:
//!
//! ```text
//!     forward    ════╪═════╪═════╪━━━━━▶      ═ only checkpoints ╪ stay    ━ the last stretch: all sets stay
//!     backward                   ◀━━━━━
//!     again                ━━━━━▶             from the checkpoint before the stretch
//!     backward             ◀━━━━━             and so on, down to the first
//! ```
//!
//! **Cut ages.** With `+parts=N` a large age is a stage of its own, or three, of up to N tasks each ([`super::cut`]).

use super::ranks::Rows;
use crate::OpenError;
use crate::name::{Keep, Spec2048};
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
/// Least ranks of a part of a cut age: some tenths of a second of work, which a task is worth.
pub const PART_RANKS: u64 = 1 << 23;
/// Ages of a stretch, unless the name says how many.
const DEFAULT_STRETCH: u32 = 64;
/// Positions of a layer that are published where only statistics are kept.
pub const SAMPLES: u64 = 256;
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

/// The layers of the table, and which of them are cut.
pub fn layers<const R: usize, const C: usize>(
    spec: &Spec2048,
    rows: &Rows<R, C>,
    last: u32,
    part_ranks: u64,
) -> Result<(Vec<LayerInfo>, Vec<bool>), OpenError> {
    let sizes = rows.sizes();
    (FIRST_AGE..=last)
        .step_by(2)
        .map(|age| {
            let size = sizes[age as usize / 2];
            if size.universe >= MOST_RANKS {
                let problem = format!("age {age} has a universe of {} ranks; a layer can have {MOST_RANKS}", size.universe);
                return Err(OpenError { table: crate::TableName::Game2048(spec.clone()), problem, help: narrower(spec) });
            }
            let files = files(size.universe as u64);
            // The ages of all starts are never cut: what comes of them is put together in one task.
            let wanted = spec.parts.filter(|_| age > LAST_START);
            let cut = wanted.and_then(|most| super::cut::parts(&size, most, part_ranks));
            let is_cut = cut.is_some();
            let parts = cut.unwrap_or_else(|| files.clone());
            let universe = if spec.keep == Keep::Stats { SAMPLES } else { size.universe as u64 };
            let shards = if spec.keep == Keep::Stats { std::iter::once(0..SAMPLES).collect() } else { files };
            Ok((LayerInfo { layer: Layer(age), universe, keys: None, shards, parts, blocks: size.blocks }, is_cut))
        })
        .collect()
}

/// The runs of ranks of a layer's files: as many ranks each.
fn files(universe: u64) -> Vec<Range<u64>> {
    (0..universe.max(1)).step_by(SHARD_RANKS as usize).map(|start| start..universe.min(start + SHARD_RANKS)).collect()
}

/// How ages are enumerated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweep {
    /// The sets of all ages are kept.
    Forward,
    /// They are counted, and the sets of the last two ages kept.
    Skim,
    /// A stretch that was skimmed before: the sets of all ages are kept, and not counted.
    Again,
}

/// What a stage does with its ages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// One task enumerates some ages.
    Enumerate(Sweep),
    /// One task evaluates some ages.
    Backward,
    /// The tasks of a cut age find what the moves of its states lead to.
    Find(Sweep),
    /// What they have found is put together, where no tasks of the next age do so.
    Join(Sweep),
    /// The tasks of a cut age value its afterstates.
    Value,
    /// The tasks of a cut age value its states.
    Solve,
}

impl Step {
    fn pass(self) -> Pass {
        match self {
            Step::Backward | Step::Value | Step::Solve => Pass::Backward,
            Step::Enumerate(_) | Step::Find(_) | Step::Join(_) => Pass::Forward,
        }
    }
}

/// The stages of a plan, and which layers are a stretch.
pub struct Stages {
    /// As the coordinator sees them.
    pub stages: Vec<Stage>,
    /// What each does.
    pub steps: Vec<Step>,
    /// Number of the first layer of each stretch, ascending; one stretch when all values are kept.
    pub stretches: Vec<usize>,
    /// Which layers are cut.
    pub is_cut: Vec<bool>,
    keep: Keep,
}

impl Stages {
    /// Plans both passes.
    pub fn new(spec: &Spec2048, layers: &[LayerInfo], is_cut: Vec<bool>) -> Self {
        let runs = runs(layers, &is_cut);
        let stretches = match spec.keep {
            Keep::Values => vec![0],
            Keep::Play | Keep::Stats => stretches(&runs, spec.stretch.unwrap_or(DEFAULT_STRETCH) as usize),
        };
        let mut this = Self { stages: Vec::new(), steps: Vec::new(), stretches, is_cut, keep: spec.keep };
        let last_stretch = this.stretches[this.stretches.len() - 1];
        let mut after = Vec::new();
        let sweep_of = |run: &Range<usize>| if run.start < last_stretch { Sweep::Skim } else { Sweep::Forward };
        this.enumerate(&runs.iter().map(|run| (sweep_of(run), run)).collect::<Vec<_>>(), layers, &mut after);
        for at in (0..this.stretches.len()).rev() {
            let stretch = this.stretches[at]..this.stretches.get(at + 1).copied().unwrap_or(layers.len());
            let of_stretch: Vec<&Range<usize>> = runs.iter().filter(|run| stretch.contains(&run.start)).collect();
            if stretch.start < last_stretch {
                this.enumerate(&of_stretch.iter().map(|run| (Sweep::Again, *run)).collect::<Vec<_>>(), layers, &mut after);
            }
            for run in of_stretch.iter().rev() {
                let parts = layers[run.start].parts.len() as u32;
                if this.is_cut[run.start] {
                    this.add(Step::Value, run, parts, &mut after);
                    this.add(Step::Solve, run, parts, &mut after);
                } else {
                    this.add(Step::Backward, run, 1, &mut after);
                }
            }
        }
        this
    }

    /// Adds the stages of the forward pass over consecutive runs.
    fn enumerate(&mut self, runs: &[(Sweep, &Range<usize>)], layers: &[LayerInfo], after: &mut Vec<u32>) {
        for (number, &(sweep, run)) in runs.iter().enumerate() {
            let parts = layers[run.start].parts.len() as u32;
            if !self.is_cut[run.start] {
                self.add(Step::Enumerate(sweep), run, 1, after);
                continue;
            }
            self.add(Step::Find(sweep), run, parts, after);
            if runs.get(number + 1).is_none_or(|(_, next)| !self.is_cut[next.start]) {
                self.add(Step::Join(sweep), run, parts, after);
            }
        }
    }

    /// Adds a stage after others, and names it as what comes before the next. Every stage needs what the one before it made.
    fn add(&mut self, step: Step, run: &Range<usize>, parts: u32, after: &mut Vec<u32>) {
        self.stages.push(Stage { pass: step.pass(), layers: run.clone(), parts, after: after.clone() });
        self.steps.push(step);
        *after = vec![self.stages.len() as u32 - 1];
    }

    /// The kind of file that holds the set of a layer for a stage: that of a stretch, its own or the one above, or of a checkpoint below.
    pub fn kind(&self, stage: usize, layer: usize) -> ArtifactKind {
        if self.keep == Keep::Values {
            return ArtifactKind::Index;
        }
        let start = self.stages[stage].layers.start;
        let own = self.stretches[self.stretches.partition_point(|&first| first <= start) - 1];
        // A stage that skims reads what the one before it skimmed; the first of a stretch reads the checkpoint before it.
        let skims = matches!(self.steps[stage], Step::Enumerate(Sweep::Skim) | Step::Find(Sweep::Skim) | Step::Join(Sweep::Skim));
        if skims || layer < own { ArtifactKind::Checkpoint } else { ArtifactKind::Stretch }
    }

    /// Whether the sets of the states of a layer are handed over with their values: tasks of cut layers read parts of them.
    pub fn wants_sets(&self, layer: usize) -> bool {
        (1..=2).any(|less| layer.checked_sub(less).is_some_and(|below| self.is_cut[below]))
    }

    /// The layers whose sets a forward stage writes.
    pub fn written(&self, stage: usize) -> Range<usize> {
        let run = self.stages[stage].layers.clone();
        if self.steps[stage] == Step::Enumerate(Sweep::Skim) { run.end.saturating_sub(2).max(run.start)..run.end } else { run }
    }
}

/// Where the stretches begin: with a run each, of as many ages as asked for or a little more.
fn stretches(runs: &[Range<usize>], least: usize) -> Vec<usize> {
    let mut starts = vec![0];
    for run in runs {
        if run.start - starts[starts.len() - 1] >= least {
            starts.push(run.start);
        }
    }
    starts
}

/// Consecutive layers of a stage: one that is cut is alone.
fn runs(layers: &[LayerInfo], is_cut: &[bool]) -> Vec<Range<usize>> {
    let (mut runs, mut start, mut ranks) = (Vec::new(), 0, 0);
    for (i, info) in layers.iter().enumerate() {
        let least = if start == 0 { FIRST_STAGE_LAYERS } else { STAGE_LAYERS };
        let is_full = i - start >= least && ranks + info.ranks() > STAGE_RANKS;
        if i > start && (is_full || is_cut[i] || is_cut[i - 1]) {
            runs.push(start..i);
            (start, ranks) = (i, 0);
        }
        ranks += info.ranks();
    }
    runs.push(start..layers.len());
    runs
}

/// The files of a kind of a layer, one for each of its runs.
pub fn files_of(kind: ArtifactKind, info: &LayerInfo) -> impl Iterator<Item = ArtifactId> + use<> {
    let (layer, runs) = (info.layer, if kind == ArtifactKind::Shard { info.shards.len() } else { info.parts.len() });
    (0..runs as u32).map(move |shard| ArtifactId { kind, layer, shard })
}

/// The one task of a stage that is not cut.
pub fn task(layers: &[LayerInfo], stages: &Stages, is_square: bool, task: TaskId) -> TaskPlan {
    let number = task.stage as usize;
    let stage = &stages.stages[number];
    assert_eq!(task.part, 0, "the stage has one task");
    let run = stage.layers.clone();
    let sets =
        |range: Range<usize>| range.flat_map(|layer| files_of(stages.kind(number, layer), &layers[layer])).collect::<Vec<_>>();
    let all =
        |kind: ArtifactKind, range: Range<usize>| range.flat_map(|layer| files_of(kind, &layers[layer])).collect::<Vec<_>>();
    let above = run.end..layers.len().min(run.end + 2);
    let ranks: u64 = layers[run.clone()].iter().map(LayerInfo::ranks).sum();
    let (inputs, outputs) = match stages.steps[number] {
        Step::Backward => {
            // The states of the two ages above are made again, the lower from the two ages before it, the upper with one more.
            let mut inputs = sets(run.start.saturating_sub(2)..layers.len().min(run.end + 1));
            inputs.extend(all(ArtifactKind::Work, above.clone()));
            if above.start < above.end && stages.is_cut[above.start] {
                inputs.extend(super::cut::statistics(&layers[above.start]));
            }
            let mut outputs = all(ArtifactKind::Shard, run.clone());
            if run.start > 0 {
                outputs.extend(all(ArtifactKind::Work, run.start..run.end.min(run.start + 2)));
            }
            (inputs, outputs)
        }
        _ => (sets(run.start.saturating_sub(2)..run.start), sets(stages.written(number))),
    };
    TaskPlan { inputs, outputs, cost: ranks, memory_bytes: memory_of(layers, stages, is_square, number) }
}

/// The least memory of a task of a stage.
pub fn memory_of(layers: &[LayerInfo], stages: &Stages, is_square: bool, stage: usize) -> u64 {
    let Stage { layers: run, pass, .. } = &stages.stages[stage];
    let near = &layers[run.start.saturating_sub(2)..layers.len().min(run.end + 2)];
    let widest = near.iter().map(LayerInfo::ranks).max().unwrap_or(0);
    let all = if *pass == Pass::Backward { widest * BACKWARD_BYTES } else { widest / 8 * FORWARD_BITMAPS };
    // Passes over a square board look up states anywhere, so they do not go in windows: their sets must be in memory.
    let least = if is_square { widest / 2 * 3 + SQUARE_BYTES } else { WINDOWS_BYTES };
    all.min(least) + FIXED_BYTES
}

/// Bitmaps of a layer's universe that the forward pass holds at once: afterstates of three ages, an encoded copy, and what is written.
const FORWARD_BITMAPS: u64 = 5;
/// Bytes a rank that the backward pass holds at once, if every rank were reachable: values of three ages of states and one of
/// afterstates and a packed copy (36), ranked sets of four (1), bitmaps of three (1), the moves that are kept (1).
const BACKWARD_BYTES: u64 = 39;
/// Memory with which windows over the largest layer work without reading more than computing.
const WINDOWS_BYTES: u64 = 128 << 20;
/// Memory for the values of a layer of a square board: more states than any that fits a small disk has.
const SQUARE_BYTES: u64 = 1 << 30;
/// Tables of moves and ranks, and buffers.
const FIXED_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(i: u32, universe: u64) -> LayerInfo {
        LayerInfo { layer: Layer(4 + 2 * i), universe, keys: None, shards: files(universe), parts: files(universe), blocks: 1 }
    }

    #[test]
    fn small_layers_share_a_stage_and_large_ones_do_not() {
        let sizes = [vec![5; 20], vec![STAGE_RANKS - 100, 1], vec![STAGE_RANKS * 2; 20], vec![7]].concat();
        let layers: Vec<LayerInfo> = sizes.iter().enumerate().map(|(i, &u)| layer(i as u32, u)).collect();
        assert_eq!(runs(&layers, &[false; 43]), [0..21, 21..29, 29..37, 37..43]);
    }

    #[test]
    fn stretches_begin_with_runs_and_are_long_enough() {
        assert_eq!(stretches(&[0..3, 3..11, 11..19, 19..27, 27..30], 10), [0, 11, 27]);
        assert_eq!(stretches(&[0..3, 3..11], 100), [0]);
    }

    #[test]
    fn the_first_stage_holds_all_starts() {
        let layers: Vec<LayerInfo> = (0..6).map(|i| layer(i, STAGE_RANKS)).collect();
        assert_eq!(runs(&layers, &[false; 6]), [0..3, 3..6]);
        assert_eq!(runs(&layers, &[false, false, true, true, false, false]), [0..2, 2..3, 3..4, 4..6]);
    }
}
