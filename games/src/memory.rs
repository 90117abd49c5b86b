//! Runs a whole plan in memory: for tests of kernels, and for the self-measurement of a prediction.
//!
//! [`MemoryIo`] hands a kernel its inputs from a map and keeps what it writes, as the worker does with files, and is strict about
//! the plan: reading an artifact that the task does not declare, or writing anything but exactly the declared outputs, is an
//! error. Artifacts that no later task reads are dropped, so the peak is close to what a build on one machine holds on disk at a time.
//! The finished [`MemoryTable`] answers like a published table, except that its values are the working f64: their error bound is 0.

use crate::array::{Array, Releaser, Scratch};
use crate::columns::{Columns, ColumnsView};
use crate::keys::{Bitmap, Keys};
use crate::space::*;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Runs every stage of the plan in order, one task after the other, on the rayon pool it is called in.
pub fn run_all(space: &dyn StateSpace) -> Result<MemoryTable, TaskError> {
    let mut io = MemoryIo::new(space);
    while io.step()?.is_some() {}
    io.finish()
}

/// A kernel broke the plan, or its output is no table. The sentence says how.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[error("{0}")]
pub struct PlanError(pub String);

fn broken<T>(what: String) -> Result<T, TaskError> {
    Err(TaskError::Io(Box::new(PlanError(what))))
}

#[derive(Debug)]
enum Artifact {
    Index(Bitmap),
    Work(Option<Bitmap>, Columns),
    Numbers(HeapNumbers<f32>),
    Doubles(HeapNumbers<f64>),
    Shard(MemoryShard),
}

#[derive(Default)]
struct Written {
    artifacts: BTreeMap<ArtifactId, Artifact>,
    counts: BTreeMap<(Layer, u32), Counts>,
    stats: BTreeMap<(Layer, u32), LayerStats>,
    facts: BTreeMap<String, f64>,
}

/// A build in memory: what was written so far, and the task that is running.
///
/// [`step`](Self::step) runs the next task; a prediction stops after a few, or sets [`until`](Self::until).
pub struct MemoryIo<'a> {
    space: &'a dyn StateSpace,
    next: TaskId,
    plan: TaskPlan,
    /// The last stage that reads an artifact.
    last_use: BTreeMap<ArtifactId, u32>,
    /// From stages that are done.
    kept: BTreeMap<ArtifactId, Artifact>,
    counts: BTreeMap<(Layer, u32), Counts>,
    stats: BTreeMap<(Layer, u32), LayerStats>,
    facts: BTreeMap<String, f64>,
    /// From the tasks of the stage that is running: no task reads what another of its stage wrote.
    stage: BTreeMap<ArtifactId, Artifact>,
    /// From the task that is running.
    written: Mutex<Written>,
    positions: AtomicU64,
    deadline: Option<Instant>,
    memory_bytes: u64,
}

impl<'a> MemoryIo<'a> {
    /// Nothing is done yet.
    pub fn new(space: &'a dyn StateSpace) -> Self {
        Self {
            space,
            next: TaskId { stage: 0, part: 0 },
            plan: TaskPlan { inputs: Vec::new(), outputs: Vec::new(), cost: 0, memory_bytes: 0 },
            last_use: last_uses(space),
            kept: BTreeMap::new(),
            counts: BTreeMap::new(),
            stats: BTreeMap::new(),
            facts: BTreeMap::new(),
            stage: BTreeMap::new(),
            written: Mutex::default(),
            positions: AtomicU64::new(0),
            deadline: None,
            memory_bytes: u64::MAX,
        }
    }

    /// From this moment on kernels are told to stop, and `step` fails with [`TaskError::Stopped`].
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Kernels are told to stay within so many bytes.
    pub fn within(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Positions that the kernels reported so far.
    pub fn positions(&self) -> u64 {
        self.positions.load(Ordering::Relaxed)
    }

    /// The task that `step` runs next; `None` when the plan is done.
    pub fn next_task(&self) -> Option<TaskId> {
        ((self.next.stage as usize) < self.space.stages().len()).then_some(self.next)
    }

    /// Runs the next task of the plan and says which it was; `None` when all are done.
    pub fn step(&mut self) -> Result<Option<TaskId>, TaskError> {
        let Some(task) = self.next_task() else { return Ok(None) };
        let stage = &self.space.stages()[task.stage as usize];
        self.plan = self.space.task(task);
        for input in &self.plan.inputs {
            if !self.kept.contains_key(input) {
                return broken(format!("task {task} needs {input:?}, which no earlier stage wrote"));
            }
        }
        *self.written() = Written::default();
        self.space.run(task, self)?;
        let written = std::mem::take(&mut *self.written());
        for output in &self.plan.outputs {
            if !written.artifacts.contains_key(output) {
                return broken(format!("task {task} did not write {output:?}, which its plan declares"));
            }
        }
        for (slot, counts) in written.counts {
            let sum = self.counts.entry(slot).or_default();
            *sum = added([*sum, counts]);
        }
        for (slot, stats) in written.stats {
            if self.stats.insert(slot, stats).is_some() {
                return broken(format!("task {task} has statistics of layer {} shard {} a second time", slot.0, slot.1));
            }
        }
        self.facts.extend(written.facts);
        self.stage.extend(written.artifacts);
        self.next = TaskId { stage: task.stage, part: task.part + 1 };
        if self.next.part >= stage.parts {
            self.next = TaskId { stage: task.stage + 1, part: 0 };
            let last_use = &self.last_use;
            self.kept.append(&mut self.stage);
            self.kept.retain(|id, _| id.kind == ArtifactKind::Shard || last_use.get(id).is_some_and(|&last| last > task.stage));
        }
        Ok(Some(task))
    }

    /// The table, when every task is done and every shard of every layer was written and counted, and of each layer either all
    /// shards have statistics or none.
    pub fn finish(self) -> Result<MemoryTable, TaskError> {
        if let Some(task) = self.next_task() {
            return broken(format!("task {task} has not run yet"));
        }
        let Self { space, mut kept, counts, stats, facts, .. } = self;
        let mut layers = BTreeMap::new();
        for info in space.layers() {
            let mut shards = Vec::new();
            for shard in (0..).zip(&info.shards).map(|(shard, _)| shard) {
                let id = ArtifactId { kind: ArtifactKind::Shard, layer: info.layer, shard };
                match kept.remove(&id) {
                    Some(Artifact::Shard(shard)) => shards.push(shard),
                    _ => return broken(format!("no task wrote {id:?}")),
                }
                if !counts.contains_key(&(info.layer, shard)) {
                    return broken(format!("no task counted layer {} shard {shard}", info.layer));
                }
            }
            let with_stats = stats.range((info.layer, 0)..=(info.layer, u32::MAX)).count();
            if with_stats != 0 && with_stats != shards.len() {
                return broken(format!("layer {}: {with_stats} of {} shards have statistics", info.layer, shards.len()));
            }
            layers.insert(info.layer, shards);
        }
        Ok(MemoryTable { layers, counts, stats, facts })
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn input(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<&Artifact, TaskError> {
        let id = ArtifactId { kind, layer, shard };
        match self.kept.get(&id) {
            Some(artifact) if self.plan.inputs.contains(&id) => Ok(artifact),
            _ => broken(format!("task {} reads {id:?}, which its plan does not declare", self.next)),
        }
    }

    fn output(&self, kind: ArtifactKind, layer: Layer, shard: u32, artifact: Artifact) -> Result<(), TaskError> {
        let id = ArtifactId { kind, layer, shard };
        if !self.plan.outputs.contains(&id) {
            return broken(format!("task {} writes {id:?}, which its plan does not declare", self.next));
        }
        match self.written().artifacts.insert(id, artifact) {
            None => Ok(()),
            Some(_) => broken(format!("task {} writes {id:?} twice", self.next)),
        }
    }

    fn run_of(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<Range<u64>, TaskError> {
        let info = self.space.layers().iter().find(|info| info.layer == layer);
        match info.and_then(|info| info.run(kind, shard)) {
            Some(run) => Ok(run),
            None => broken(format!("there is no layer {layer} shard {shard}")),
        }
    }
}

fn added([a, b]: [Counts; 2]) -> Counts {
    Counts { states: a.states + b.states, afterstates: a.afterstates + b.afterstates, terminal: a.terminal + b.terminal }
}

fn bits_of(keys: Keys<'_>, run: &Range<u64>) -> Result<Bitmap, TaskError> {
    let mut bits = Bitmap::new(run.end - run.start);
    ascending(keys, run)?.into_iter().for_each(|rank| bits.insert(rank));
    Ok(bits)
}

fn ascending(keys: Keys<'_>, run: &Range<u64>) -> Result<Vec<u64>, TaskError> {
    let ranks: Vec<u64> = match keys {
        Keys::Bits(bits) if bits.len() == run.end - run.start => bits.iter().collect(),
        Keys::Bits(bits) => return broken(format!("a bitmap of {} bits for the run of ranks {run:?}", bits.len())),
        Keys::Sorted(ranks) => ranks.to_vec(),
    };
    if let Some(pair) = ranks.windows(2).find(|pair| pair[0] >= pair[1]) {
        return broken(format!("keys {} and {} are not in ascending order", pair[0], pair[1]));
    }
    match ranks.last() {
        Some(&last) if last >= run.end - run.start => broken(format!("key {last} is past the end of the run of ranks {run:?}")),
        _ => Ok(ranks),
    }
}

fn one_value_a_key(columns: &Columns, keys: usize, task: TaskId) -> Result<(), TaskError> {
    let scalars = columns.scalars.iter().map(Vec::len).chain(columns.singles.iter().map(Vec::len));
    let scalars = scalars.chain(columns.choices.iter().map(Vec::len));
    let lengths = scalars.chain(columns.dists.iter().map(|dists| dists.len()));
    match lengths.into_iter().find(|&length| length != keys) {
        Some(length) => broken(format!("task {task} writes a column of {length} values for {keys} keys")),
        None => Ok(()),
    }
}

/// The last stage that reads each artifact which any stage reads.
pub fn last_uses(space: &dyn StateSpace) -> BTreeMap<ArtifactId, u32> {
    let mut last = BTreeMap::new();
    for (stage, info) in (0..).zip(space.stages()) {
        for part in 0..info.parts {
            last.extend(space.task(TaskId { stage, part }).inputs.into_iter().map(|input| (input, stage)));
        }
    }
    last
}

/// Numbers that are in memory all the same.
#[derive(Clone, Debug)]
pub struct HeapNumbers<T> {
    lines: Arc<Vec<Line>>,
    count: usize,
    of: PhantomData<T>,
}

/// A cache line: kernels read whole ones.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Line([u64; 8]);

impl<T: bytemuck::Pod> From<&[T]> for HeapNumbers<T> {
    fn from(numbers: &[T]) -> Self {
        let mut lines = vec![Line([0; 8]); size_of_val(numbers).div_ceil(size_of::<Line>())];
        bytemuck::cast_slice_mut(&mut lines)[..numbers.len()].copy_from_slice(numbers);
        Self { lines: Arc::new(lines), count: numbers.len(), of: PhantomData }
    }
}

impl<T: bytemuck::Pod + Send + Sync> Numbers<T> for HeapNumbers<T> {
    fn numbers(&self) -> &[T] {
        &bytemuck::cast_slice(&self.lines)[..self.count]
    }
}

/// Scratch that is memory all the same.
pub struct HeapScratch(Array<u64>, usize);

impl HeapScratch {
    /// So many bytes. Panics when they are more than an address can count.
    pub fn zeroed(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).expect("scratch that can be addressed");
        Self(Array::zeroed(bytes.div_ceil(8)), bytes)
    }
}

impl Scratch for HeapScratch {
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0)[..self.1]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.0)[..self.1]
    }
    fn releaser(&self) -> Releaser {
        Releaser::default()
    }
}

impl TaskIo for MemoryIo<'_> {
    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    fn scratch(&self, bytes: u64) -> Result<Box<dyn Scratch>, TaskError> {
        Ok(Box::new(HeapScratch::zeroed(bytes)))
    }

    fn load_index(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<Bitmap, TaskError> {
        match self.input(kind, layer, shard)? {
            Artifact::Index(bits) => Ok(bits.clone()),
            other => broken(format!("an index is kept as {other:?}")),
        }
    }

    fn join_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, runs: &mut [Run<'_>]) -> Result<(), TaskError> {
        let (Artifact::Index(bits) | Artifact::Work(Some(bits), _)) = self.input(kind, layer, shard)? else {
            return broken(format!("layer {layer} has no keys in {kind:?} {shard}"));
        };
        for Run { from, words } in runs {
            let end = *from + words.len() as u64 * 64;
            if !from.is_multiple_of(JOIN_RANKS) || !(end.is_multiple_of(JOIN_RANKS) || end == bits.len().next_multiple_of(64)) {
                return broken(format!("layer {layer}: keys are joined from rank {from} to {end}"));
            }
            let of_file = &bits.words()[(*from / 64) as usize..];
            words.iter_mut().zip(of_file).for_each(|(word, bits)| *word |= bits);
        }
        Ok(())
    }

    fn read_work(&self, layer: Layer, shard: u32, f: &mut dyn FnMut(&[f64])) -> Result<(), TaskError> {
        match self.input(ArtifactKind::Work, layer, shard)? {
            Artifact::Work(_, columns) => {
                columns.scalars.iter().take(1).for_each(|values| f(values));
                Ok(())
            }
            other => broken(format!("working values are kept as {other:?}")),
        }
    }

    fn map_numbers(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f32>>, TaskError> {
        match self.input(ArtifactKind::Work, layer, shard)? {
            Artifact::Numbers(numbers) => Ok(Box::new(numbers.clone())),
            other => broken(format!("working numbers are kept as {other:?}")),
        }
    }

    fn map_doubles(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f64>>, TaskError> {
        match self.input(ArtifactKind::Work, layer, shard)? {
            Artifact::Doubles(numbers) => Ok(Box::new(numbers.clone())),
            other => broken(format!("working numbers are kept as {other:?}")),
        }
    }

    fn put_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, keys: Keys<'_>) -> Result<(), TaskError> {
        let run = self.run_of(kind, layer, shard)?;
        self.output(kind, layer, shard, Artifact::Index(bits_of(keys, &run)?))
    }

    fn put_work(&self, layer: Layer, shard: u32, keys: Option<Keys<'_>>, columns: ColumnsView<'_>) -> Result<(), TaskError> {
        let run = self.run_of(ArtifactKind::Work, layer, shard)?;
        let bits = keys.map(|keys| bits_of(keys, &run)).transpose()?;
        self.output(ArtifactKind::Work, layer, shard, Artifact::Work(bits, columns.to_columns()))
    }

    fn put_numbers(&self, layer: Layer, shard: u32, numbers: &[f32]) -> Result<(), TaskError> {
        let run = self.run_of(ArtifactKind::Work, layer, shard)?;
        if numbers.len() as u64 != run.end - run.start {
            return broken(format!("{} numbers for the run of ranks {run:?}", numbers.len()));
        }
        self.output(ArtifactKind::Work, layer, shard, Artifact::Numbers(numbers.into()))
    }

    fn put_doubles(&self, layer: Layer, shard: u32, numbers: &[f64]) -> Result<(), TaskError> {
        let run = self.run_of(ArtifactKind::Work, layer, shard)?;
        if numbers.len() as u64 > run.end - run.start {
            return broken(format!("{} numbers for the run of ranks {run:?}", numbers.len()));
        }
        self.output(ArtifactKind::Work, layer, shard, Artifact::Doubles(numbers.into()))
    }

    fn put_shard(&self, layer: Layer, shard: u32, keys: Keys<'_>, columns: ColumnsView<'_>) -> Result<(), TaskError> {
        let run = self.run_of(ArtifactKind::Shard, layer, shard)?;
        let keys = ascending(keys, &run)?;
        let scalar_count = columns.scalar_count();
        let columns = columns.to_columns();
        one_value_a_key(&columns, keys.len(), self.next)?;
        let (scalars, dists) = (self.space.scalar_columns().len(), self.space.dist_columns().len());
        if scalar_count != scalars || columns.dists.len() != dists {
            return broken(format!("layer {layer} shard {shard} must have {scalars} scalar and {dists} distribution columns"));
        }
        let artifact = Artifact::Shard(MemoryShard { run, keys, columns });
        self.output(ArtifactKind::Shard, layer, shard, artifact)
    }

    fn put_counts(&self, layer: Layer, shard: u32, counts: Counts) -> Result<(), TaskError> {
        self.run_of(ArtifactKind::Shard, layer, shard)?;
        match self.written().counts.insert((layer, shard), counts) {
            None => Ok(()),
            Some(_) => broken(format!("task {} counts layer {layer} shard {shard} twice", self.next)),
        }
    }

    fn put_stats(&self, layer: Layer, shard: u32, stats: LayerStats) -> Result<(), TaskError> {
        self.run_of(ArtifactKind::Shard, layer, shard)?;
        match self.written().stats.insert((layer, shard), stats) {
            None => Ok(()),
            Some(_) => broken(format!("task {} has statistics of layer {layer} shard {shard} twice", self.next)),
        }
    }

    fn put_fact(&self, name: &str, value: f64) {
        self.written().facts.insert(name.to_owned(), value);
    }

    fn progress(&self, _layer: Layer, positions: u64) -> Result<(), TaskError> {
        self.positions.fetch_add(positions, Ordering::Relaxed);
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(TaskError::Stopped),
            _ => Ok(()),
        }
    }
}

/// One finished shard.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryShard {
    /// The ranks it covers.
    pub run: Range<u64>,
    /// Its keys, ascending, relative to the first rank of the run.
    pub keys: Vec<u64>,
    /// Their values.
    pub columns: Columns,
}

/// A finished table in memory. Its values are exact, so every error bound is 0.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryTable {
    layers: BTreeMap<Layer, Vec<MemoryShard>>,
    counts: BTreeMap<(Layer, u32), Counts>,
    stats: BTreeMap<(Layer, u32), LayerStats>,
    facts: BTreeMap<String, f64>,
}

impl MemoryTable {
    /// The shards of a layer; empty when there is no such layer.
    pub fn shards(&self, layer: Layer) -> &[MemoryShard] {
        self.layers.get(&layer).map_or(&[], Vec::as_slice)
    }

    /// What was counted in a layer, its shards together.
    pub fn counts(&self, layer: Layer) -> Counts {
        self.sum(self.counts.range((layer, 0)..=(layer, u32::MAX)).map(|(_, counts)| counts))
    }

    /// What was counted in the whole table.
    pub fn totals(&self) -> Counts {
        self.sum(self.counts.values())
    }

    /// What the backward pass found about the states of a layer, its shards together in their order; `None` when it said nothing.
    pub fn stats(&self, layer: Layer) -> Option<LayerStats> {
        let shards = self.stats.range((layer, 0)..=(layer, u32::MAX)).map(|(_, &stats)| stats);
        shards.reduce(|sum, stats| sum.checked_add(stats).expect("what fits in memory is counted in 64 bits"))
    }

    /// The facts that the kernels recorded, such as `value`.
    pub fn facts(&self) -> &BTreeMap<String, f64> {
        &self.facts
    }

    /// Every key of the table with its slot, layer by layer, ascending.
    pub fn keys(&self) -> impl Iterator<Item = (Key, Slot)> + '_ {
        self.layers.iter().flat_map(|(&layer, shards)| {
            (0..).zip(shards).flat_map(move |(shard, content)| {
                let first = content.run.start;
                (0..)
                    .zip(&content.keys)
                    .map(move |(ordinal, &key)| (Key { layer, rank: first + key }, Slot { layer, shard, ordinal }))
            })
        })
    }

    /// Value of a scalar column for a key; `None` when the table does not hold it.
    pub fn value(&self, key: Key, column: usize) -> Option<f64> {
        let slot = self.slot(key)?;
        scalar_of(self.columns(slot)?, column, slot.ordinal)
    }

    fn sum<'c>(&self, counts: impl Iterator<Item = &'c Counts>) -> Counts {
        counts.fold(Counts::default(), |sum, counts| added([sum, *counts]))
    }

    fn slot(&self, key: Key) -> Option<Slot> {
        let shards = self.shards(key.layer);
        let number = shards.partition_point(|shard| shard.run.end <= key.rank);
        let shard = shards.get(number)?;
        let ordinal = shard.keys.binary_search(&key.rank.checked_sub(shard.run.start)?).ok()?;
        Some(Slot { layer: key.layer, shard: u32::try_from(number).ok()?, ordinal: ordinal as u64 })
    }

    fn columns(&self, slot: Slot) -> Option<&Columns> {
        Some(&self.shards(slot.layer).get(slot.shard as usize)?.columns)
    }
}

/// The number of a key in a scalar column: f64 first, then f32, then choices.
fn scalar_of(columns: &Columns, column: usize, ordinal: u64) -> Option<f64> {
    let ordinal = usize::try_from(ordinal).ok()?;
    let Some(column) = column.checked_sub(columns.scalars.len()) else {
        return columns.scalars[column].get(ordinal).copied();
    };
    match column.checked_sub(columns.singles.len()) {
        None => columns.singles[column].get(ordinal).copied().map(f64::from),
        Some(choice) => columns.choices.get(choice)?.get(ordinal).copied().map(f64::from),
    }
}

fn absent(slot: Slot) -> ReadError {
    Box::new(PlanError(format!("the table has no {slot:?}")))
}

impl TableReader for MemoryTable {
    fn find(&self, key: Key) -> Result<Option<Slot>, ReadError> {
        Ok(self.slot(key))
    }

    fn scalar(&self, slot: Slot, column: usize) -> Result<Bounded, ReadError> {
        let value = self.columns(slot).and_then(|columns| scalar_of(columns, column, slot.ordinal));
        value.map(|value| Bounded { value, error: 0.0 }).ok_or_else(|| absent(slot))
    }

    fn dist(&self, slot: Slot, column: usize) -> Result<(usize, Vec<f64>), ReadError> {
        let dists = self.columns(slot).and_then(|columns| columns.dists.get(column)).ok_or_else(|| absent(slot))?;
        let ordinal = usize::try_from(slot.ordinal).ok().filter(|&i| i < dists.len()).ok_or_else(|| absent(slot))?;
        let (first, entries) = dists.get(ordinal);
        Ok((first, entries.to_vec()))
    }
}
