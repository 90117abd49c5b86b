//! What a kernel reads and writes, over the files of a table.
//!
//! Inputs are the files that the coordinator named, with their hashes: each is read whole and hashed before this process uses it for the first
//! time ([`verified`](crate::verified)). Outputs are written and made durable by threads beside the kernel
//! ([`writer`](crate::writer)); when [`FileIo::with_writers`] returns, all of them are durable or there is a fault.

use crate::control::Control;
use crate::convert::{artifact_id, file_kind};
use crate::error::IoFault;
use crate::execute::Output;
use crate::relief::Relief;
use crate::verified;
use crate::writer::{WRITERS, WRITERS_FAR, Write, Writer};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use strata_games::{
    ArtifactId, ArtifactKind, Bitmap, ColumnsView, Counts, Keys, Layer, LayerInfo, LayerStats, Numbers, Releaser, Run, Scratch,
    StateSpace, TaskError, TaskIo,
};
use strata_proto::v1;
use strata_storage::{
    ColumnRef, FileRecord, ScratchMap, ShardError, ShardFile, ShardSpec, TableDir, encode_bits, encode_quick, encode_sorted,
    write_shard,
};

/// Most bytes of outputs that wait for the disk.
const MOST_WAITING: u64 = 256 << 20;
/// Least bytes of outputs that may wait, however little memory there is.
const LEAST_WAITING: u64 = 1 << 20;

/// The input and output of one task.
pub(crate) struct FileIo<'a> {
    table: Arc<str>,
    space: &'a dyn StateSpace,
    dir: &'a TableDir,
    layers: BTreeMap<Layer, &'a LayerInfo>,
    inputs: BTreeMap<ArtifactId, FileRecord>,
    control: &'a Control,
    memory_bytes: u64,
    writer: Writer<'a>,
    counts: Mutex<BTreeMap<(Layer, u32), Counts>>,
    stats: Mutex<BTreeMap<(Layer, u32), LayerStats>>,
    facts: Mutex<BTreeMap<String, f64>>,
    relief: Relief,
}

/// The keys of an output, as they wait for the disk.
enum OwnedKeys {
    Bits(Bitmap),
    Sorted(Vec<u64>),
}

impl OwnedKeys {
    fn of(keys: Keys<'_>) -> Self {
        match keys {
            Keys::Bits(bits) => OwnedKeys::Bits(bits.clone()),
            Keys::Sorted(ranks) => OwnedKeys::Sorted(ranks.to_vec()),
        }
    }

    fn keys(&self) -> Keys<'_> {
        match self {
            OwnedKeys::Bits(bits) => Keys::Bits(bits),
            OwnedKeys::Sorted(ranks) => Keys::Sorted(ranks),
        }
    }
}

fn keys_bytes(keys: Keys<'_>) -> u64 {
    match keys {
        Keys::Bits(bits) => bits.words().len() as u64 * 8,
        Keys::Sorted(ranks) => ranks.len() as u64 * 8,
    }
}

/// Which file to write: the plain facts that a writing thread needs.
struct Target<'a> {
    table: Arc<str>,
    dir: &'a TableDir,
    space: &'a dyn StateSpace,
    artifact: ArtifactId,
    first_rank: u64,
    universe: u64,
    blocks: u64,
}

impl Target<'_> {
    fn write(&self, keys: Option<Keys<'_>>, columns: Option<&ColumnsView<'_>>) -> Result<FileRecord, IoFault> {
        let ArtifactId { kind, layer, shard } = self.artifact;
        let index = match keys {
            None => None,
            Some(Keys::Bits(bits)) if bits.len() == self.universe => {
                let encode = if file_kind(kind).is_fleeting() { encode_quick } else { encode_bits };
                Some(encode(bits.words(), self.universe))
            }
            Some(Keys::Bits(bits)) => {
                return Err(IoFault::Plan(format!(
                    "{} bits for layer {layer} shard {shard}, which has {} ranks",
                    bits.len(),
                    self.universe
                )));
            }
            Some(Keys::Sorted(ranks)) => {
                let encoded = encode_sorted(ranks, self.universe);
                Some(encoded.map_err(|error| IoFault::Plan(format!("the keys of layer {layer} shard {shard}: {error}")))?)
            }
        };
        let columns = columns.map_or_else(|| Ok(Vec::new()), |columns| self.column_refs(columns))?;
        let spec = ShardSpec {
            table: &self.table,
            kind: file_kind(kind),
            layer: layer.0,
            shard,
            first_rank: self.first_rank,
            universe: self.universe,
            blocks: self.blocks,
        };
        write_shard(self.dir, &spec, index.as_deref(), &columns)
            .map_err(|error| IoFault::Write { artifact: self.artifact, source: error.into() })
    }

    fn column_refs<'c>(&self, columns: &ColumnsView<'c>) -> Result<Vec<ColumnRef<'c>>, IoFault> {
        let (scalars, dists) = (self.space.scalar_columns(), self.space.dist_columns());
        // Working values may be fewer columns than a shard has: the first.
        let is_work = self.artifact.kind == ArtifactKind::Work;
        let numbers = columns.scalar_count();
        let few = is_work && (1..=scalars.len()).contains(&numbers);
        if numbers != scalars.len() && !few || columns.dists.len() != dists.len() && columns.doubles.is_empty() {
            let ArtifactId { layer, shard, .. } = self.artifact;
            let (a, b) = (numbers, columns.dists.len());
            return Err(IoFault::Plan(format!(
                "{a} scalar and {b} distribution columns for layer {layer} shard {shard}, instead of {} and {}",
                scalars.len(),
                dists.len()
            )));
        }
        let (after, allowance) = (columns.scalars.len(), self.space.precision().allowance());
        let singles = scalars.iter().skip(after).zip(&columns.singles);
        let singles = singles.map(|(&name, values)| ColumnRef::Single { name, values, allowance });
        let doubles = scalars.iter().skip(after + columns.singles.len()).zip(&columns.doubles);
        let doubles = doubles.map(|(&name, values)| ColumnRef::Double { name, values });
        let choices = scalars.iter().skip(after + columns.singles.len()).zip(&columns.choices);
        let choices = choices.map(|(&name, values)| ColumnRef::Choice { name, values });
        let scalars = scalars.iter().zip(&columns.scalars).map(|(&name, values)| ColumnRef::Scalar { name, values });
        let dists = dists.iter().zip(columns.dists).map(|(&name, dists)| ColumnRef::Dist {
            name,
            ends: &dists.ends,
            firsts: &dists.firsts,
            values: &dists.values,
        });
        Ok(scalars.chain(singles).chain(doubles).chain(choices).chain(dists).collect())
    }
}

impl<'a> FileIo<'a> {
    /// For one task, whose inputs are these files of the directory.
    pub(crate) fn new(
        space: &'a dyn StateSpace,
        dir: &'a TableDir,
        inputs: Vec<FileRecord>,
        control: &'a Control,
        memory_bytes: u64,
    ) -> Self {
        Self {
            table: space.name().published().to_string().into(),
            space,
            dir,
            layers: space.layers().iter().map(|info| (info.layer, info)).collect(),
            inputs: inputs.into_iter().map(|record| (artifact_id(&record), record)).collect(),
            control,
            memory_bytes,
            writer: Writer::new((memory_bytes / 8).clamp(LEAST_WAITING, MOST_WAITING)),
            counts: Mutex::default(),
            stats: Mutex::default(),
            facts: Mutex::default(),
            relief: Relief::default(),
        }
    }

    /// Runs `work` with the writing threads beside it, and returns when everything it wrote is durable or failed.
    pub(crate) fn with_writers<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            for _ in 0..if self.dir.is_far() { WRITERS_FAR } else { WRITERS } {
                scope.spawn(|| self.writer.serve());
            }
            let result = work();
            self.writer.close();
            result
        })
    }

    /// The first thing that went wrong with a file.
    pub(crate) fn first_fault(&self) -> Option<IoFault> {
        self.writer.first_fault()
    }

    /// Everything the task made. The files are in the order in which they were written.
    pub(crate) fn into_results(self) -> Output {
        let counts = self.counts.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter();
        let counts = counts
            .map(|((layer, shard), counts)| v1::LayerCounts {
                layer: layer.0,
                shard,
                states: counts.states,
                afterstates: counts.afterstates,
                terminal: counts.terminal,
            })
            .collect();
        let stats = self.stats.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter();
        let stats = stats
            .map(|((layer, shard), stats)| v1::LayerStats {
                layer: layer.0,
                shard,
                legal_moves: stats.legal_moves,
                single_best: stats.single_best,
                choices: stats.choices,
                value_sum: stats.value_sum,
                gap_sum: stats.gap_sum,
                gap_most: stats.gap_most,
            })
            .collect();
        let facts = self.facts.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter();
        let facts = facts.map(|(name, value)| v1::Fact { name, value }).collect();
        Output { files: self.writer.into_records(), counts, stats, facts }
    }

    fn fail<T>(&self, fault: IoFault) -> Result<T, TaskError> {
        self.writer.fault(fault.clone());
        Err(fault.into())
    }

    /// Keeps what the kernel says of a shard. It may say it once.
    fn note<T>(
        &self,
        all: &Mutex<BTreeMap<(Layer, u32), T>>,
        layer: Layer,
        shard: u32,
        said: T,
        does: &str,
    ) -> Result<(), TaskError> {
        let before = all.lock().unwrap_or_else(PoisonError::into_inner).insert((layer, shard), said);
        match before {
            None => Ok(()),
            Some(_) => self.fail(IoFault::Plan(format!("it {does} layer {layer} shard {shard} twice"))),
        }
    }

    /// The run of ranks and the number of blocks of a shard.
    fn run_of(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Option<(Range<u64>, u64)> {
        let info = self.layers.get(&layer)?;
        Some((info.run(kind, shard)?, info.blocks))
    }

    /// Opens an input, after checking that it is what the coordinator says.
    fn input(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<(ShardFile, &FileRecord), TaskError> {
        let id = ArtifactId { kind, layer, shard };
        let Some(record) = self.inputs.get(&id) else {
            return self.fail(IoFault::Plan(format!("it reads {id:?}, which is no input of the task")));
        };
        let open =
            || verified::verify(self.dir, record).and_then(|()| self.dir.open_shard(&self.table, record).map_err(bad_input));
        // Another thread may have made room on the shelf just then.
        let is_there = || self.dir.path(&record.path).exists();
        let opened = open().or_else(|fault| if is_there() { Err(fault) } else { open() });
        match opened {
            Ok(file) => Ok((file, record)),
            Err(fault) => self.fail(fault),
        }
    }

    /// Checks that an input has so many numbers, and where they lie.
    fn in_lines<T>(
        &self,
        numbers: &[T],
        record: &FileRecord,
        layer: Layer,
        shard: u32,
        fits: impl FnOnce(u64, u64) -> bool,
    ) -> Result<(), TaskError> {
        let ranks = self.run_of(ArtifactKind::Work, layer, shard).map_or(0, |(run, _)| run.end - run.start);
        if fits(numbers.len() as u64, ranks) && numbers.as_ptr().addr().is_multiple_of(LINE) {
            return Ok(());
        }
        let cause = format!("it has {} numbers for {ranks} ranks, or they are not in whole cache lines", numbers.len());
        self.fail(IoFault::BadInput { path: self.dir.path(&record.path), cause })
    }

    fn read<T>(&self, result: Result<T, ShardError>) -> Result<T, TaskError> {
        result.or_else(|error| self.fail(bad_input(error)))
    }

    fn put(&self, artifact: ArtifactId, keys: Option<Keys<'_>>, columns: Option<ColumnsView<'_>>) -> Result<(), TaskError> {
        let Some((run, blocks)) = self.run_of(artifact.kind, artifact.layer, artifact.shard) else {
            return self.fail(IoFault::Plan(format!("it writes {artifact:?}, and there is no such shard")));
        };
        // A second copy of the last task, whose first copy was faster.
        match self.dir.is_published() {
            Ok(false) => {}
            Ok(true) => return self.fail(IoFault::Complete(self.dir.shown(""))),
            Err(error) => return self.fail(IoFault::Write { artifact, source: error.into() }),
        }
        let (first_rank, universe) = (run.start, run.end - run.start);
        let target =
            Target { table: Arc::clone(&self.table), dir: self.dir, space: self.space, artifact, first_rank, universe, blocks };
        let bytes = keys.map_or(0, keys_bytes) + columns.as_ref().map_or(0, ColumnsView::bytes);
        if !self.writer.takes(bytes) {
            return Ok(self.writer.write_now(|| target.write(keys, columns.as_ref()))?);
        }
        self.writer.reserve(bytes)?;
        let keys = keys.map(OwnedKeys::of);
        let columns = columns.as_ref().map(ColumnsView::to_columns);
        let write: Write<'a> =
            Box::new(move || target.write(keys.as_ref().map(OwnedKeys::keys), columns.as_ref().map(ColumnsView::from).as_ref()));
        self.writer.queue(bytes, write);
        Ok(())
    }
}

fn bad_input(error: ShardError) -> IoFault {
    let cause = match &error.section {
        Some(section) => format!("{section}: {}", error.cause),
        None => error.cause.to_string(),
    };
    IoFault::BadInput { path: error.path, cause }
}

/// A work file of numbers, which was found to be one.
#[derive(Clone)]
struct FileNumbers(Arc<ShardFile>);

/// Words of an index that a thread decodes at a time.
const PIECE_WORDS: usize = 1 << 12;

/// Numbers are handed to kernels in whole cache lines.
const LINE: usize = 64;

impl Numbers<f32> for FileNumbers {
    fn numbers(&self) -> &[f32] {
        self.0.singles(0).expect("it was found to be in one piece when it was mapped")
    }
    fn release(&self) {
        self.0.release();
    }
}

impl Numbers<f64> for FileNumbers {
    fn numbers(&self) -> &[f64] {
        self.0.doubles(0).expect("it was found to be in one piece when it was mapped")
    }
    fn release(&self) {
        self.0.release();
    }
}

/// Scratch of the directory, as kernels know it.
struct FileScratch(ScratchMap);

impl Scratch for FileScratch {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
    fn releaser(&self) -> Releaser {
        Releaser::new(self.0.releaser())
    }
}

impl TaskIo for FileIo<'_> {
    fn memory_bytes(&self) -> u64 {
        // What waits for the disk comes out of the same memory.
        self.memory_bytes - self.writer.limit().min(self.memory_bytes)
    }

    fn scratch(&self, bytes: u64) -> Result<Box<dyn Scratch>, TaskError> {
        match self.dir.scratch(bytes) {
            Ok(map) => Ok(Box::new(FileScratch(map))),
            Err(error) => self.fail(IoFault::Scratch(error.into())),
        }
    }

    fn load_index(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<Bitmap, TaskError> {
        let universe = self.run_of(kind, layer, shard).map_or(0, |(run, _)| run.end - run.start);
        let mut bits = Bitmap::new(universe);
        self.join_index(kind, layer, shard, &mut [Run { from: 0, words: bits.words_mut() }])?;
        Ok(bits)
    }

    fn join_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, runs: &mut [Run<'_>]) -> Result<(), TaskError> {
        let (file, record) = self.input(kind, layer, shard)?;
        let index = self.read(file.index())?;
        let universe = self.run_of(kind, layer, shard).map_or(0, |(run, _)| run.end - run.start);
        let bad = |cause| self.fail(IoFault::BadInput { path: self.dir.path(&record.path), cause });
        if index.universe() != universe {
            return bad(format!("it covers {} ranks, but the shard has {universe}", index.universe()));
        }
        let pieces = runs.iter_mut().flat_map(|Run { from, words }| {
            let starts = (*from..).step_by(PIECE_WORDS * 64);
            starts.zip(words.chunks_mut(PIECE_WORDS))
        });
        let pieces: Vec<(u64, &mut [u64])> = pieces.collect();
        match pieces.into_par_iter().find_map_any(|(from, words)| (!index.fill_run(from, words)).then_some(from)) {
            None => Ok(()),
            Some(from) => bad(format!("what begins with rank {from} is no run of its {universe} ranks")),
        }
    }

    fn read_work(&self, layer: Layer, shard: u32, f: &mut dyn FnMut(&[f64])) -> Result<(), TaskError> {
        let (file, _) = self.input(ArtifactKind::Work, layer, shard)?;
        self.read(file.each_scalars(0, f))
    }

    fn map_numbers(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f32>>, TaskError> {
        let (file, record) = self.input(ArtifactKind::Work, layer, shard)?;
        let numbers = self.read(file.singles(0))?;
        self.in_lines(numbers, record, layer, shard, |count, ranks| count == ranks)?;
        Ok(Box::new(FileNumbers(Arc::new(file))))
    }

    fn map_doubles(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f64>>, TaskError> {
        let (file, record) = self.input(ArtifactKind::Work, layer, shard)?;
        let numbers = self.read(file.doubles(0))?;
        self.in_lines(numbers, record, layer, shard, |count, ranks| count <= ranks)?;
        // Looking at its ends may have brought in megabytes: thousands of files are mapped before one is used.
        file.release();
        file.read_little_by_little();
        let numbers = FileNumbers(Arc::new(file));
        self.relief.add(&numbers.0);
        Ok(Box::new(numbers))
    }

    fn put_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, keys: Keys<'_>) -> Result<(), TaskError> {
        self.put(ArtifactId { kind, layer, shard }, Some(keys), None)
    }

    fn put_work(&self, layer: Layer, shard: u32, keys: Option<Keys<'_>>, columns: ColumnsView<'_>) -> Result<(), TaskError> {
        self.put(ArtifactId { kind: ArtifactKind::Work, layer, shard }, keys, Some(columns))
    }

    fn put_numbers(&self, layer: Layer, shard: u32, numbers: &[f32]) -> Result<(), TaskError> {
        let columns = ColumnsView { singles: vec![numbers], ..ColumnsView::default() };
        self.put(ArtifactId { kind: ArtifactKind::Work, layer, shard }, None, Some(columns))
    }

    fn put_doubles(&self, layer: Layer, shard: u32, numbers: &[f64]) -> Result<(), TaskError> {
        let columns = ColumnsView { doubles: vec![numbers], ..ColumnsView::default() };
        self.put(ArtifactId { kind: ArtifactKind::Work, layer, shard }, None, Some(columns))
    }

    fn relieve(&self) {
        // What other threads bring in meanwhile, and outputs that wait for the disk, have room in the rest.
        self.relief.relieve(self.memory_bytes / 4 * 3);
    }

    fn put_shard(&self, layer: Layer, shard: u32, keys: Keys<'_>, columns: ColumnsView<'_>) -> Result<(), TaskError> {
        self.put(ArtifactId { kind: ArtifactKind::Shard, layer, shard }, Some(keys), Some(columns))
    }

    fn put_counts(&self, layer: Layer, shard: u32, counts: Counts) -> Result<(), TaskError> {
        self.note(&self.counts, layer, shard, counts, "counts")
    }

    fn put_stats(&self, layer: Layer, shard: u32, stats: LayerStats) -> Result<(), TaskError> {
        self.note(&self.stats, layer, shard, stats, "has statistics of")
    }

    fn put_fact(&self, name: &str, value: f64) {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value);
    }

    fn progress(&self, layer: Layer, positions: u64) -> Result<(), TaskError> {
        self.control.progress(layer, positions)?;
        // A kernel that would compute for hours should not learn at its end that the disk is full.
        self.writer.first_fault().map_or(Ok(()), |fault| Err(fault.into()))
    }
}
