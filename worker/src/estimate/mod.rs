//! What a table will take, before it is built.
//!
//! [`Estimate::new`] reads the plan: layers, memory and the files of every task follow from it. How many positions the layers have is
//! known, guessed or bounded (`positions.rs`); disk and work follow from that. [`measure`] builds smaller tables of the same game in a
//! temporary folder for some seconds and says what a position costs in either pass on this machine, files and hashes included.
//! Costs of positions hardly depend on the size of the table, so the two together give the time ([`Estimate::core_seconds`]).
//!
//! Disk is the peak over the stages of the plan: published shards so far, keys found by the forward pass, and the working
//! values that later stages still read. Traffic is what all tasks read and write.

mod positions;
mod trial;

pub use positions::{LayerCounts, whole_game};

use positions::{Positions, positions, published};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use strata_games::{
    ArtifactId, ArtifactKind, Keep, Layer, Pass, Precision, Spec2048, SpecTwoSided, StateSpace, TableName, TaskError, TaskId,
};
use strata_storage::CHOICES_A_BYTE;
use trial::{Stretch, Trial};

/// Bytes of an entry of a published distribution.
const ENTRY_BYTES: u64 = 4;
/// Bytes of a working value.
const WORK_BYTES: u64 = 8;
/// Entries that the distribution of a key may have, as a bound for the disk: those of bearoff have fewer than 32.
const DIST_ENTRIES: u64 = 32;
/// Bytes of a file beside its keys and values: header, directory, footer, and what is rounded up.
const FILE_BYTES: u64 = 4096;
/// In so many of the partial sets of a cut layer a key may be, as a bound for the disk.
const PARTIAL_SETS: u64 = 2;

/// A number of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// As theory has it, or as the forward pass counted it.
    Exact(u64),
    /// About so many.
    About(u64),
    /// No more than this.
    AtMost(u64),
}

impl Known {
    /// The number, exact or not.
    pub fn bound(self) -> u64 {
        match self {
            Known::Exact(n) | Known::About(n) | Known::AtMost(n) => n,
        }
    }

    /// Whether it is exact.
    pub fn is_exact(self) -> bool {
        matches!(self, Known::Exact(_))
    }

    fn plus(self, other: Known) -> Known {
        let sum = self.bound().saturating_add(other.bound());
        match (self, other) {
            (Known::AtMost(_), _) | (_, Known::AtMost(_)) => Known::AtMost(sum),
            (Known::About(_), _) | (_, Known::About(_)) => Known::About(sum),
            (Known::Exact(_), Known::Exact(_)) => Known::Exact(sum),
        }
    }
}

/// What a table will take.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// Number of layers.
    pub layers: u64,
    /// Number of shards, which are the files of the finished table.
    pub shards: u64,
    /// Number of ranks of all layers.
    pub universe: u64,
    /// Number of positions that are found: in 2048 afterstates.
    pub keys: Known,
    /// Number of positions that are published.
    pub stored: Known,
    /// Number of positions with the player to act.
    pub states: Known,
    /// Number of tasks.
    pub tasks: u64,
    /// Positions with the player to act that stages of the forward pass go through, all together.
    pub forward_states: u64,
    /// The same for the backward pass.
    pub backward_states: u64,
    /// Memory of the task that needs most, an upper bound. As much again for every further worker.
    pub memory_bytes: u64,
    /// Size of the finished table; as exact as the keys are, and never less.
    pub table_bytes: u64,
    /// Most that is on the disk at any time of the build, with the same reservation.
    pub disk_bytes: u64,
    /// What all tasks read, each file as often as it is read.
    pub read_bytes: u64,
    /// What all tasks write.
    pub written_bytes: u64,
    /// For each stage the bytes of the files that its tasks read, each once.
    pub stage_bytes: Vec<u64>,
}

impl Estimate {
    /// Reads the plan. `counted` has what was counted of layers, where [`measure`] counted it.
    pub fn new(space: &dyn StateSpace, counted: Option<&LayerCounts>) -> Self {
        let sizes = Sizes::new(space, counted);
        let states = sizes.layers.values().map(Positions::known_states).fold(Known::Exact(0), Known::plus);
        let of_layers = |keys: fn(&Sizes<'_>, &strata_games::LayerInfo) -> Known| {
            space.layers().iter().map(|info| keys(&sizes, info)).fold(Known::Exact(0), Known::plus)
        };
        let mut sums = Self {
            layers: space.layers().len() as u64,
            shards: space.layers().iter().map(|info| info.shards.len() as u64).sum(),
            universe: space.layers().iter().fold(0, |sum, info| sum.saturating_add(ranks_of(space, info))),
            keys: of_layers(|sizes, info| sizes.layers[&info.layer].keys),
            stored: of_layers(|sizes, info| published(sizes.name, &sizes.layers[&info.layer], info.universe)),
            states,
            tasks: 0,
            forward_states: 0,
            backward_states: 0,
            memory_bytes: 0,
            table_bytes: 0,
            disk_bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            stage_bytes: Vec::new(),
        };
        let mut disk = Disk::default();
        for (stage, info) in (0..).zip(space.stages()) {
            let work = match info.pass {
                Pass::Forward => &mut sums.forward_states,
                Pass::Backward => &mut sums.backward_states,
            };
            let layers = &space.layers()[info.layers.clone()];
            *work = layers.iter().fold(*work, |sum, info| sum.saturating_add(sizes.layers[&info.layer].states));
            let mut read = BTreeSet::new();
            for part in 0..info.parts {
                let plan = space.task(TaskId { stage, part });
                sums.tasks += 1;
                sums.memory_bytes = sums.memory_bytes.max(plan.memory_bytes);
                for output in plan.outputs {
                    let bytes = sizes.bytes_of(output);
                    if output.kind == ArtifactKind::Shard {
                        sums.table_bytes = sums.table_bytes.saturating_add(bytes);
                    }
                    sums.written_bytes = sums.written_bytes.saturating_add(bytes);
                    disk.write(stage, output, bytes);
                }
                for input in plan.inputs {
                    sums.read_bytes = sums.read_bytes.saturating_add(sizes.bytes_of(input));
                    disk.read(stage, input);
                    read.insert(input);
                }
            }
            sums.stage_bytes.push(read.into_iter().fold(0, |sum, input| sum.saturating_add(sizes.bytes_of(input))));
        }
        sums.disk_bytes = disk.peak();
        sums
    }

    /// What comes from the disk where so much memory is there for the system's cache: of what a stage reads, the part that did not stay in it.
    pub fn disk_reads(&self, memory_bytes: u64) -> u64 {
        self.stage_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(bytes.saturating_sub(memory_bytes)))
    }

    /// Seconds that one core would need at these costs; `None` when one that is needed is not known.
    pub fn core_seconds(&self, costs: &Costs) -> Option<f64> {
        let time = |states: u64, cost: Option<f64>| if states == 0 { Some(0.0) } else { cost.map(|cost| states as f64 * cost) };
        Some(time(self.forward_states, costs.forward)? + time(self.backward_states, costs.backward)?)
    }
}

/// Positions that a layer may have.
fn ranks_of(space: &dyn StateSpace, info: &strata_games::LayerInfo) -> u64 {
    match space.number_bytes() {
        None => info.ranks(),
        // Here the game's own ranks are several numbers a position.
        Some(_) => info.universe,
    }
}

/// How many bytes artifacts have.
struct Sizes<'a> {
    name: &'a TableName,
    layers: BTreeMap<Layer, Positions>,
    infos: BTreeMap<Layer, &'a strata_games::LayerInfo>,
    scalars: u64,
    dists: u64,
    precision: Precision,
    number_bytes: Option<u64>,
    /// Bytes of the published values of a key, where the game says.
    published: BTreeMap<Layer, u64>,
}

impl<'a> Sizes<'a> {
    fn new(space: &'a dyn StateSpace, counted: Option<&LayerCounts>) -> Self {
        Self {
            name: space.name(),
            layers: positions(space, counted),
            infos: space.layers().iter().map(|info| (info.layer, info)).collect(),
            scalars: space.scalar_columns().len() as u64,
            dists: space.dist_columns().len() as u64,
            precision: space.precision(),
            number_bytes: space.number_bytes(),
            published: space.layers().iter().filter_map(|info| Some((info.layer, space.published_bytes(info.layer)?))).collect(),
        }
    }

    fn bytes_of(&self, artifact: ArtifactId) -> u64 {
        let info = self.infos[&artifact.layer];
        let ranks = info.run(artifact.kind, artifact.shard).map_or(0, |run| run.end - run.start);
        let universe = if artifact.kind == ArtifactKind::Shard { info.universe } else { info.ranks() };
        let parts = info.parts.len() as u64;
        // Of a cut layer there are also working values of afterstates, and the statistics of blocks.
        let files_before = u64::from(artifact.shard) / parts.max(1);
        let of_layer = &self.layers[&artifact.layer];
        let keys = match artifact.kind {
            ArtifactKind::Shard => published(self.name, of_layer, universe).bound(),
            // Working values are those of states.
            ArtifactKind::Work if files_before == 0 => of_layer.states,
            ArtifactKind::Work if files_before == 2 => info.blocks * 6,
            // What each of several tasks found: many find the same.
            ArtifactKind::Partial => of_layer.keys.bound().saturating_mul(PARTIAL_SETS) / parts.max(1),
            _ => of_layer.keys.bound(),
        };
        // A layer's keys spread over its shards as its ranks do; that is near enough for a forecast.
        let share = u128::from(keys) * u128::from(ranks) / u128::from(universe.max(1));
        let keys = u64::try_from(share).unwrap_or(u64::MAX).saturating_add(1).min(ranks);
        // A bitmap with its rank counts takes 1.2 bits a rank, Elias-Fano 2 + log2(ranks / keys) bits a key: the smaller is chosen.
        let bits = 2.0 + (ranks as f64 / keys.max(1) as f64).log2();
        let index = ((keys as f64 * bits / 8.0) as u64).min(ranks / 20 * 3 + 64);
        let values = |scalars: u64, scalar: u64, dist: u64| keys.saturating_mul(scalars * scalar + self.dists * dist);
        let work_scalars = if self.name.keep() == Keep::Values { self.scalars } else { 1 };
        FILE_BYTES.saturating_add(match artifact.kind {
            ArtifactKind::Index | ArtifactKind::Checkpoint | ArtifactKind::Stretch | ArtifactKind::Partial => index,
            ArtifactKind::Work => match self.number_bytes {
                Some(bytes) => ranks.saturating_mul(bytes),
                None => values(work_scalars, WORK_BYTES, DIST_ENTRIES * WORK_BYTES + 9),
            },
            // What the groups of moves take beside them is 1.2 %.
            ArtifactKind::Shard if self.name.keep() == Keep::Play => {
                index.saturating_add(keys / CHOICES_A_BYTE as u64 + keys / 256)
            }
            ArtifactKind::Shard => {
                let scalar = self.precision.published_bytes();
                let of_columns = || values(self.scalars, scalar, DIST_ENTRIES * ENTRY_BYTES + 9);
                let known = self.published.get(&artifact.layer).map(|bytes| keys.saturating_mul(*bytes));
                index.saturating_add(known.unwrap_or_else(of_columns))
            }
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

/// What a position with the player to act costs on this machine, in seconds of one core.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Costs {
    /// Forward pass.
    pub forward: Option<f64>,
    /// Backward pass.
    pub backward: Option<f64>,
}

/// What a short run found.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Costs of the passes.
    pub costs: Costs,
    /// What was counted of the layers that were enumerated, from the first on.
    pub counts: LayerCounts,
    /// The smaller table of the same game that was built, because the plan's own takes too long.
    pub also_ran: Option<TableName>,
    /// How long it took.
    pub took: Duration,
}

/// Builds in a temporary folder until the budget is spent, on the threads of `pool` and within so much memory: the table itself if it is
/// small, otherwise smaller tables of the same game and board, the last as large as the budget allows.
///
/// # Errors
/// A kernel's own, or that of the temporary folder.
pub fn measure(space: &dyn StateSpace, budget: Duration, pool: &rayon::ThreadPool, memory: u64) -> Result<Measured, TaskError> {
    let started = Instant::now();
    let deadline = started + budget;
    let (mut best, mut counts, mut also_ran) = (Trial::default(), LayerCounts::new(), None);
    let own: u64 = positions(space, None).values().fold(0, |sum, of_layer| sum.saturating_add(of_layer.states));
    let mut candidates: Vec<(u64, Option<TableName>)> =
        smaller(space.name()).into_iter().filter_map(|name| Some((states_of(&name)?, Some(name)))).collect();
    candidates.push((own, None));
    let mut next = 0;
    while next < candidates.len() {
        let (states, name) = &candidates[next];
        // The first is so small that it may take the time it takes: a busy machine gets an answer too.
        let until = if next == 0 { deadline.max(Instant::now() + GRACE) } else { deadline };
        let trial = match name {
            Some(name) => match strata_games::open(name) {
                Ok(smaller) => trial::run(&*smaller, until, pool, memory)?,
                Err(_) => break,
            },
            None => trial::run(space, until, pool, memory)?,
        };
        counts.extend(trial.counts.iter().map(|(&layer, &counted)| (layer, counted)));
        let knows_more = trial.is_complete || best.stretches.is_empty() || name.is_none();
        let rate = rate(&trial).unwrap_or(f64::INFINITY);
        if knows_more {
            also_ran = name.clone();
            best = trial;
        }
        // The largest that the time left allows at this pace.
        let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64() * SHARE;
        let fits = |states: u64| states as f64 <= left * rate;
        let further = candidates.iter().rposition(|&(larger, _)| larger > *states && fits(larger));
        match further {
            Some(at) if at > next => next = at,
            _ => break,
        }
    }
    let threads = pool.current_num_threads() as f64;
    let cost = |pass: Pass| cost(&best.stretches, pass).map(|seconds| seconds * threads);
    // What was counted of a stage that was not finished may be a part of the layer.
    if let Some(&last) = counts.keys().next_back().filter(|_| !best.is_complete) {
        counts.remove(&last);
    }
    let costs = Costs { forward: cost(Pass::Forward), backward: cost(Pass::Backward) };
    Ok(Measured { costs, counts, also_ran, took: started.elapsed() })
}

/// How much longer than its budget the smallest table may take.
const GRACE: Duration = Duration::from_secs(5);
/// The part of the time that is left which the next table may take, as the pace of the one before says.
const SHARE: f64 = 0.8;

/// States a second, both passes.
fn rate(trial: &Trial) -> Option<f64> {
    let passes = [Pass::Forward, Pass::Backward].map(|pass| cost(&trial.stretches, pass));
    Some(1.0 / (passes[0]? + passes[1]?))
}

/// Seconds a state, over the larger half of what was run of a pass: small layers cost more, and in a large table they do not count.
fn cost(stretches: &[Stretch], pass: Pass) -> Option<f64> {
    let mut of_pass: Vec<&Stretch> = stretches.iter().filter(|stretch| stretch.pass == pass && stretch.states > 0).collect();
    of_pass.sort_by_key(|stretch| std::cmp::Reverse(stretch.states));
    let all: u64 = of_pass.iter().map(|stretch| stretch.states).sum();
    let (mut states, mut seconds) = (0, 0.0);
    for stretch in of_pass {
        if 2 * states >= all {
            break;
        }
        states += stretch.states;
        seconds += stretch.seconds;
    }
    (states > 0 && seconds > 0.0).then(|| seconds / states as f64)
}

/// States of a table, as far as they can be guessed.
fn states_of(name: &TableName) -> Option<u64> {
    let space = strata_games::open(name).ok()?;
    Some(positions(&*space, None).values().fold(0, |sum, of_layer| sum.saturating_add(of_layer.states)))
}

/// Tables of the same game and board whose builds are shorter, the shortest first.
fn smaller(name: &TableName) -> Vec<TableName> {
    /// The first is a matter of milliseconds on every board.
    const HORIZONS: [u32; 13] = [24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 192];
    match name {
        TableName::Game2048(spec) => {
            let ends = spec.horizon.unwrap_or_else(|| spec.last_age());
            let horizons = HORIZONS.into_iter().filter(|&horizon| horizon < ends);
            let with = |horizon| Spec2048 {
                horizon: Some(horizon),
                keep: Default::default(),
                stretch: None,
                parts: None,
                ..spec.clone()
            };
            horizons.map(|horizon| TableName::Game2048(with(horizon))).collect()
        }
        TableName::Bearoff(_) => Vec::new(),
        TableName::TwoSided(spec) => {
            let (one, other) = spec.checkers;
            let with = |fewer: usize| SpecTwoSided { checkers: (one.min(fewer), other.min(fewer)), ..spec.clone() };
            (3..one).map(|fewer| TableName::TwoSided(with(fewer))).collect()
        }
    }
}

#[cfg(test)]
mod tests;
