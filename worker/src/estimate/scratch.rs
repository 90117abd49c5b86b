//! A build that leaves nothing behind: inputs and outputs in memory, finished shards thrown away, stopped when its time is over.

use super::KeyCounts;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use strata_games::memory::HeapScratch;
use strata_games::{
    ArtifactId, ArtifactKind, Bitmap, Columns, ColumnsView, Counts, Keys, Layer, LayerStats, Pass, StateSpace, TaskError, TaskId,
    TaskIo, TaskPlan,
};

/// Most bytes kept in memory; a run that needs more stops as if its time were over.
const MOST_BYTES: u64 = 1 << 30;

/// One task that was run, or begun.
pub(super) struct Stretch {
    pub(super) pass: Pass,
    /// Units of cost that were done.
    pub(super) cost: f64,
    pub(super) seconds: f64,
    /// Whether the time was over before it was finished.
    pub(super) stopped: bool,
}

enum Artifact {
    Index(Bitmap),
    Work(Columns),
}

#[derive(Default)]
struct Written {
    artifacts: BTreeMap<ArtifactId, Artifact>,
    keys: BTreeMap<(Layer, u32), u64>,
    bytes: u64,
    layer: Option<Layer>,
}

/// A build in memory.
pub(super) struct Scratch<'a> {
    space: &'a dyn StateSpace,
    next: TaskId,
    deadline: Instant,
    kept: BTreeMap<ArtifactId, Artifact>,
    last_use: BTreeMap<ArtifactId, u32>,
    written: Mutex<Written>,
    keys: BTreeMap<(Layer, u32), u64>,
}

#[derive(thiserror::Error, Debug)]
#[error("the kernel reads {0:?}, which is not there")]
struct NotThere(ArtifactId);

impl<'a> Scratch<'a> {
    pub(super) fn new(space: &'a dyn StateSpace, deadline: Instant) -> Self {
        let mut last_use = BTreeMap::new();
        for (stage, info) in (0..).zip(space.stages()) {
            for part in 0..info.parts {
                last_use.extend(space.task(TaskId { stage, part }).inputs.into_iter().map(|input| (input, stage)));
            }
        }
        let next = TaskId { stage: 0, part: 0 };
        let (kept, keys) = (BTreeMap::new(), BTreeMap::new());
        Self { space, next, deadline, kept, last_use, written: Mutex::default(), keys }
    }

    /// Runs the next task; `None` when all are done.
    pub(super) fn step(&mut self) -> Result<Option<Stretch>, TaskError> {
        let task = self.next;
        let Some(stage) = usize::try_from(task.stage).ok().and_then(|at| self.space.stages().get(at)) else { return Ok(None) };
        let plan = self.space.task(task);
        let bytes = self.written().bytes;
        *self.written() = Written { bytes, ..Written::default() };
        let started = Instant::now();
        let result = self.space.run(task, self);
        let seconds = started.elapsed().as_secs_f64();
        let written = std::mem::take(&mut *self.written());
        let stopped = match result {
            Ok(()) => false,
            Err(TaskError::Stopped) => true,
            Err(error) => return Err(error),
        };
        let done = if stopped { self.part_done(stage.pass, &plan, written.layer) } else { 1.0 };
        let stretch = Stretch { pass: stage.pass, cost: plan.cost as f64 * done, seconds, stopped };
        self.kept.extend(written.artifacts);
        self.keys.extend(written.keys);
        self.next = TaskId { stage: task.stage, part: task.part + 1 };
        if self.next.part >= stage.parts {
            self.next = TaskId { stage: task.stage + 1, part: 0 };
            let last_use = &self.last_use;
            self.kept.retain(|id, _| last_use.get(id).is_some_and(|&last| last > task.stage));
        }
        self.written().bytes = self.kept.values().map(bytes_of).sum();
        Ok(Some(stretch))
    }

    /// The part of a task that was done when it had just come to a layer: the ranks it had passed.
    fn part_done(&self, pass: Pass, plan: &TaskPlan, layer: Option<Layer>) -> f64 {
        let Some(layer) = layer else { return 0.0 };
        let of_task: std::collections::BTreeSet<Layer> = plan.outputs.iter().map(|output| output.layer).collect();
        let at = self.space.layers().iter().position(|info| info.layer == layer);
        let (mut all, mut passed) = (0.0, 0.0);
        for (i, info) in self.space.layers().iter().enumerate().filter(|(_, info)| of_task.contains(&info.layer)) {
            let ranks = info.universe as f64;
            all += ranks;
            let before = match pass {
                Pass::Forward => Some(i) < at,
                Pass::Backward => Some(i) > at,
            };
            if before {
                passed += ranks;
            }
        }
        if all > 0.0 { passed / all } else { 0.0 }
    }

    /// The keys of every layer, when all of them were enumerated.
    pub(super) fn keys_when_complete(&self) -> Option<KeyCounts> {
        let mut counts = KeyCounts::new();
        for info in self.space.layers() {
            for (shard, _) in (0..).zip(&info.shards) {
                *counts.entry(info.layer).or_default() += self.keys.get(&(info.layer, shard))?;
            }
        }
        Some(counts)
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: ArtifactId) -> Result<&Artifact, TaskError> {
        self.kept.get(&id).ok_or_else(|| TaskError::Io(Box::new(NotThere(id))))
    }

    fn keep(&self, id: ArtifactId, artifact: Artifact) {
        let mut written = self.written();
        written.bytes += bytes_of(&artifact);
        written.artifacts.insert(id, artifact);
    }

    fn count(&self, layer: Layer, shard: u32, keys: Keys<'_>) {
        let count = match keys {
            Keys::Bits(bits) => bits.count(),
            Keys::Sorted(ranks) => ranks.len() as u64,
        };
        self.written().keys.insert((layer, shard), count);
    }
}

fn bytes_of(artifact: &Artifact) -> u64 {
    let bytes = match artifact {
        Artifact::Index(bits) => bits.words().len() * 8,
        Artifact::Work(columns) => return ColumnsView::from(columns).bytes(),
    };
    bytes as u64
}

impl TaskIo for Scratch<'_> {
    fn memory_bytes(&self) -> u64 {
        MOST_BYTES
    }

    fn scratch(&self, bytes: u64) -> Result<Box<dyn strata_games::Scratch>, TaskError> {
        Ok(Box::new(HeapScratch::zeroed(bytes)))
    }

    fn load_index(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<Bitmap, TaskError> {
        let id = ArtifactId { kind, layer, shard };
        match self.get(id)? {
            Artifact::Index(bits) => Ok(bits.clone()),
            Artifact::Work(_) => Err(TaskError::Io(Box::new(NotThere(id)))),
        }
    }

    fn load_work(&self, layer: Layer, shard: u32) -> Result<Columns, TaskError> {
        let id = ArtifactId { kind: ArtifactKind::Work, layer, shard };
        match self.get(id)? {
            Artifact::Work(columns) => Ok(columns.clone()),
            Artifact::Index(_) => Err(TaskError::Io(Box::new(NotThere(id)))),
        }
    }

    fn put_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, keys: Keys<'_>) -> Result<(), TaskError> {
        self.count(layer, shard, keys);
        let bits = match keys {
            Keys::Bits(bits) => bits.clone(),
            Keys::Sorted(ranks) => {
                let info = self.space.layers().iter().find(|info| info.layer == layer);
                let run = info.and_then(|info| info.runs(kind).get(usize::try_from(shard).ok()?)).cloned().unwrap_or(0..0);
                let mut bits = Bitmap::new(run.end - run.start);
                ranks.iter().for_each(|&rank| bits.insert(rank));
                bits
            }
        };
        self.keep(ArtifactId { kind, layer, shard }, Artifact::Index(bits));
        Ok(())
    }

    fn put_work(&self, layer: Layer, shard: u32, columns: ColumnsView<'_>) -> Result<(), TaskError> {
        self.keep(ArtifactId { kind: ArtifactKind::Work, layer, shard }, Artifact::Work(columns.to_columns()));
        Ok(())
    }

    fn put_shard(&self, layer: Layer, shard: u32, keys: Keys<'_>, _: ColumnsView<'_>) -> Result<(), TaskError> {
        self.count(layer, shard, keys);
        Ok(())
    }

    fn put_counts(&self, _: Layer, _: u32, _: Counts) -> Result<(), TaskError> {
        Ok(())
    }

    fn put_stats(&self, _: Layer, _: u32, _: LayerStats) -> Result<(), TaskError> {
        Ok(())
    }

    fn put_fact(&self, _: &str, _: f64) {}

    fn progress(&self, layer: Layer, _: u64) -> Result<(), TaskError> {
        let mut written = self.written();
        written.layer = Some(layer);
        if Instant::now() >= self.deadline || written.bytes > MOST_BYTES { Err(TaskError::Stopped) } else { Ok(()) }
    }
}
