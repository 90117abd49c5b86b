//! What a table will take, before it is built.
//!
//! [`Estimate::new`] reads the plan: layers, positions, memory and disk follow from it without computing anything, as bounds. A game
//! such as 2048 does not know how many of its ranks can be reached; then the universe is the only bound, about ten times too
//! high. [`measure`] runs the first stages of the plan in memory for a moment. It gives the speed of this machine in the plan's own unit of
//! cost, and when the whole forward pass fits in that moment the exact number of keys of every layer with it.
//!
//! Disk is the peak over the stages of the plan: published shards so far, keys found by the forward pass, and the working
//! values that later stages still read.

mod scratch;

use scratch::{Scratch, Stretch};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use strata_games::{ArtifactId, ArtifactKind, Layer, Pass, Spec2048, StateSpace, TableName, TaskError, TaskId};

/// Bytes of a published value. Its scale and checksum are shared by thousands.
const PACKED_BYTES: u64 = 4;
/// Bytes of a working value.
const WORK_BYTES: u64 = 8;
/// Entries that the distribution of a key may have, as a bound for the disk: those of bearoff have fewer than 32.
const DIST_ENTRIES: u64 = 32;
/// Bytes of a file beside its keys and values: header, directory, footer, and what is rounded up.
const FILE_BYTES: u64 = 4096;

/// A number of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// As theory has it, or as the forward pass counted it.
    Exact(u64),
    /// No more than this.
    AtMost(u64),
}

impl Known {
    /// The number, exact or not.
    pub fn bound(self) -> u64 {
        match self {
            Known::Exact(n) | Known::AtMost(n) => n,
        }
    }

    /// Whether it is exact.
    pub fn is_exact(self) -> bool {
        matches!(self, Known::Exact(_))
    }

    fn plus(self, other: Known) -> Known {
        let sum = self.bound().saturating_add(other.bound());
        if self.is_exact() && other.is_exact() { Known::Exact(sum) } else { Known::AtMost(sum) }
    }
}

/// Keys of every layer that were counted.
pub type KeyCounts = BTreeMap<Layer, u64>;

/// What a table will take.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// Number of layers.
    pub layers: u64,
    /// Number of shards, which are the files of the finished table.
    pub shards: u64,
    /// Number of ranks of all layers.
    pub universe: u64,
    /// Number of stored positions.
    pub keys: Known,
    /// Number of tasks.
    pub tasks: u64,
    /// Work of the forward pass, in the plan's unit.
    pub forward_cost: u64,
    /// Work of the backward pass, in the plan's unit.
    pub backward_cost: u64,
    /// Memory of the task that needs most, an upper bound. As much again for every further worker.
    pub memory_bytes: u64,
    /// Size of the finished table, an upper bound when the keys are one.
    pub table_bytes: u64,
    /// Most that is on the disk at any time of the build, with the same reservation.
    pub disk_bytes: u64,
}

impl Estimate {
    /// Reads the plan. `counted` has the keys of every layer, where [`measure`] found them.
    pub fn new(space: &dyn StateSpace, counted: Option<&KeyCounts>) -> Self {
        let sizes = Sizes::new(space, counted);
        let mut sums = Self {
            layers: space.layers().len() as u64,
            shards: space.layers().iter().map(|info| info.shards.len() as u64).sum(),
            universe: space.layers().iter().fold(0, |sum, info| sum.saturating_add(info.universe)),
            keys: space.layers().iter().map(|info| sizes.keys_of(info.layer)).fold(Known::Exact(0), Known::plus),
            tasks: 0,
            forward_cost: 0,
            backward_cost: 0,
            memory_bytes: 0,
            table_bytes: 0,
            disk_bytes: 0,
        };
        let mut disk = Disk::default();
        for (stage, info) in (0..).zip(space.stages()) {
            for part in 0..info.parts {
                let plan = space.task(TaskId { stage, part });
                sums.tasks += 1;
                let cost = match info.pass {
                    Pass::Forward => &mut sums.forward_cost,
                    Pass::Backward => &mut sums.backward_cost,
                };
                *cost = cost.saturating_add(plan.cost);
                sums.memory_bytes = sums.memory_bytes.max(plan.memory_bytes);
                for output in plan.outputs {
                    let bytes = sizes.bytes_of(output);
                    if output.kind == ArtifactKind::Shard {
                        sums.table_bytes = sums.table_bytes.saturating_add(bytes);
                    }
                    disk.write(stage, output, bytes);
                }
                for input in plan.inputs {
                    disk.read(stage, input);
                }
            }
        }
        sums.disk_bytes = disk.peak();
        sums
    }

    /// Seconds that a build takes at these speeds; `None` when one that is needed is not known.
    pub fn seconds(&self, speeds: &Speeds) -> Option<f64> {
        let time = |cost: u64, speed: Option<f64>| if cost == 0 { Some(0.0) } else { speed.map(|speed| cost as f64 / speed) };
        Some(time(self.forward_cost, speeds.forward)? + time(self.backward_cost, speeds.backward)?)
    }
}

/// How many bytes artifacts have.
struct Sizes {
    /// Universe and keys of every layer.
    layers: BTreeMap<Layer, (u64, Known)>,
    /// Universe of every shard.
    shards: BTreeMap<(Layer, u32), u64>,
    scalars: u64,
    dists: u64,
}

impl Sizes {
    fn new(space: &dyn StateSpace, counted: Option<&KeyCounts>) -> Self {
        let keys = |info: &strata_games::LayerInfo| {
            let counted = counted.and_then(|counted| counted.get(&info.layer)).copied();
            info.keys.or(counted).map_or(Known::AtMost(info.universe), Known::Exact)
        };
        let layers = space.layers().iter().map(|info| (info.layer, (info.universe, keys(info)))).collect();
        let shards =
            space.layers().iter().flat_map(|info| (0..).zip(&info.shards).map(|(i, run)| ((info.layer, i), run.end - run.start)));
        Self {
            layers,
            shards: shards.collect(),
            scalars: space.scalar_columns().len() as u64,
            dists: space.dist_columns().len() as u64,
        }
    }

    fn keys_of(&self, layer: Layer) -> Known {
        self.layers.get(&layer).map_or(Known::Exact(0), |&(_, keys)| keys)
    }

    fn bytes_of(&self, artifact: ArtifactId) -> u64 {
        let ranks = self.shards.get(&(artifact.layer, artifact.shard)).copied().unwrap_or(0);
        let (universe, keys) = self.layers.get(&artifact.layer).copied().unwrap_or((0, Known::Exact(0)));
        // A layer's keys spread over its shards as its ranks do; that is near enough for a forecast.
        let share = u128::from(keys.bound()) * u128::from(ranks) / u128::from(universe.max(1));
        let keys = u64::try_from(share).unwrap_or(u64::MAX).saturating_add(1).min(ranks);
        // A bitmap with its rank counts takes 1.2 bits a rank, Elias-Fano 2 + log2(ranks / keys) bits a key: the smaller is chosen.
        let log = u64::from(64 - (ranks / keys.max(1)).leading_zeros());
        let index = (keys.saturating_mul(2 + log) / 8).min(ranks / 20 * 3 + 64);
        let values = |scalar: u64, dist: u64| keys.saturating_mul(self.scalars * scalar + self.dists * dist);
        FILE_BYTES.saturating_add(match artifact.kind {
            ArtifactKind::Index | ArtifactKind::Checkpoint | ArtifactKind::Stretch => index,
            ArtifactKind::Work => values(WORK_BYTES, DIST_ENTRIES * WORK_BYTES + 9),
            ArtifactKind::Shard => index.saturating_add(values(PACKED_BYTES, DIST_ENTRIES * PACKED_BYTES + 9)),
        })
    }
}

/// When files come and go.
#[derive(Default)]
struct Disk {
    /// Bytes, and the stages that write and last read.
    files: BTreeMap<ArtifactId, (u64, u32, u32)>,
}

impl Disk {
    fn write(&mut self, stage: u32, artifact: ArtifactId, bytes: u64) {
        let last = if artifact.kind == ArtifactKind::Shard { u32::MAX } else { stage };
        self.files.insert(artifact, (bytes, stage, last));
    }

    fn read(&mut self, stage: u32, artifact: ArtifactId) {
        if let Some((_, _, last)) = self.files.get_mut(&artifact) {
            *last = stage.max(*last);
        }
    }

    fn peak(&self) -> u64 {
        let mut written = BTreeMap::<u32, u64>::new();
        let mut removed = BTreeMap::<u32, u64>::new();
        for &(bytes, first, last) in self.files.values() {
            *written.entry(first).or_default() += bytes;
            *removed.entry(last).or_default() += bytes;
        }
        let (mut now, mut peak) = (0u64, 0);
        for (stage, bytes) in written {
            // What the stages before read last is gone when this one starts.
            now -= removed.range(..stage).map(|(_, bytes)| bytes).sum::<u64>();
            removed = removed.split_off(&stage);
            now = now.saturating_add(bytes);
            peak = peak.max(now);
        }
        peak
    }
}

/// Units of cost that this machine does in a second, with the threads of the pool it was measured in.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Speeds {
    /// Forward pass.
    pub forward: Option<f64>,
    /// Backward pass.
    pub backward: Option<f64>,
}

/// What a short run found.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Speeds of the passes.
    pub speeds: Speeds,
    /// Keys of every layer, when the whole forward pass was run.
    pub keys: Option<KeyCounts>,
    /// The smaller table of the same game whose backward pass was measured, because the plan's own starts too late.
    pub also_ran: Option<TableName>,
    /// How long it took.
    pub took: Duration,
}

/// Runs the first stages of the plan in memory until the budget is spent, on the rayon pool it is called in.
///
/// The backward pass of a large table starts too late to be measured; then half of the budget goes to smaller tables of the same game
/// and board, each larger than the one before. Speeds are those of the kernels; writing files comes on top and mostly beside it.
///
/// # Errors
/// A kernel's own, other than having been stopped by the budget.
pub fn measure(space: &dyn StateSpace, budget: Duration) -> Result<Measured, TaskError> {
    let started = Instant::now();
    let smaller = smaller(space.name());
    let share = if smaller.is_empty() { budget } else { budget / 2 };
    let (stretches, keys) = run_until(space, started + share)?;
    let mut speeds = Speeds { forward: speed(&stretches, Pass::Forward), backward: speed(&stretches, Pass::Backward) };
    let mut also_ran = None;
    if speeds.backward.is_none() {
        // The first is so small that it may take the time it takes: a busy machine gets an answer too.
        let mut deadline = started + budget + GRACE;
        for name in smaller {
            let Ok(space) = strata_games::open(&name) else { break };
            let (stretches, _) = run_until(&*space, deadline)?;
            if let Some(backward) = speed(&stretches, Pass::Backward) {
                speeds.backward = Some(backward);
                also_ran = Some(name);
            }
            deadline = started + budget;
            if Instant::now() >= deadline {
                break;
            }
        }
    }
    Ok(Measured { speeds, keys, also_ran, took: started.elapsed() })
}

/// How much longer than its budget the smallest table may take.
const GRACE: Duration = Duration::from_secs(5);

/// Units of cost a second, over all that was run of a pass.
fn speed(stretches: &[Stretch], pass: Pass) -> Option<f64> {
    let of_pass = || stretches.iter().filter(|stretch| stretch.pass == pass);
    let cost: f64 = of_pass().map(|stretch| stretch.cost).sum();
    let seconds: f64 = of_pass().map(|stretch| stretch.seconds).sum();
    (cost > 0.0 && seconds > 0.0).then(|| cost / seconds)
}

/// Tables of the same game and board whose backward passes start soon, the soonest first.
fn smaller(name: &TableName) -> Vec<TableName> {
    /// The first is a matter of milliseconds on every board.
    const HORIZONS: [u32; 8] = [24, 32, 40, 48, 56, 64, 80, 96];
    match name {
        TableName::Game2048(spec) => {
            let ends = spec.horizon.unwrap_or_else(|| spec.last_age());
            let horizons = HORIZONS.into_iter().filter(|&horizon| horizon < ends);
            horizons.map(|horizon| TableName::Game2048(Spec2048 { horizon: Some(horizon), ..spec.clone() })).collect()
        }
        TableName::Bearoff(_) => Vec::new(),
    }
}

/// Runs tasks until the time is over. The keys are there when every stage of the forward pass was run.
fn run_until(space: &dyn StateSpace, deadline: Instant) -> Result<(Vec<Stretch>, Option<KeyCounts>), TaskError> {
    let mut scratch = Scratch::new(space, deadline);
    let mut stretches = Vec::new();
    while let Some(stretch) = scratch.step()? {
        let stopped = stretch.stopped;
        stretches.push(stretch);
        if stopped {
            break;
        }
    }
    Ok((stretches, scratch.keys_when_complete()))
}

#[cfg(test)]
mod tests;
