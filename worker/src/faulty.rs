//! A worker that computes one wrong value, for tests of what notices it. Only with the feature `fault-injection`.

use crate::error::WorkerError;
use crate::execute::Games;
use crate::run::{WorkerConfig, run_with};
use std::sync::Arc;
use strata_games::{
    ArtifactKind, Bitmap, Columns, ColumnsView, Counts, Hook, Hooked, Keys, Layer, LayerStats, Numbers, Run, Scratch, StateSpace,
    TaskError, TaskIo,
};
use tokio::sync::watch;
use tonic::transport::Channel;

/// Runs a worker in whose results the first value of a layer has one wrong bit, wherever it publishes that layer. See
/// [`run_worker`](crate::run_worker).
///
/// # Errors
/// See [`WorkerError`].
pub async fn run_faulty_worker(
    channel: Channel,
    config: WorkerConfig,
    stop: watch::Receiver<bool>,
    layer: u32,
) -> Result<(), WorkerError> {
    let games: Games = Arc::new(move |name| {
        let game = strata_games::open(name).map_err(|error| error.to_string())?;
        let hook: Hook = Box::new(move |game, task, io| game.run(task, &Faulty { io, layer: Layer(layer) }));
        let faulty: Arc<dyn StateSpace> = Arc::new(Hooked::new(game, hook));
        Ok(faulty)
    });
    run_with(channel, config, stop, games).await
}

/// Hands everything on but one bit.
struct Faulty<'a> {
    io: &'a dyn TaskIo,
    layer: Layer,
}

impl TaskIo for Faulty<'_> {
    fn put_shard(&self, layer: Layer, shard: u32, keys: Keys<'_>, columns: ColumnsView<'_>) -> Result<(), TaskError> {
        if layer != self.layer || shard != 0 {
            return self.io.put_shard(layer, shard, keys, columns);
        }
        let mut wrong: Columns = columns.to_columns();
        let scalar = wrong.scalars.iter_mut().find_map(|column| column.first_mut());
        let single = wrong.singles.iter_mut().find_map(|column| column.first_mut());
        match (scalar, single) {
            // High enough to survive the rounding of published values, and no power of two becomes no number.
            (Some(value), _) => *value = f64::from_bits(value.to_bits() ^ 1 << 48),
            (None, Some(value)) => *value = f32::from_bits(value.to_bits() ^ 1 << 20),
            (None, None) => {}
        }
        self.io.put_shard(layer, shard, keys, ColumnsView::from(&wrong))
    }

    fn memory_bytes(&self) -> u64 {
        self.io.memory_bytes()
    }
    fn scratch(&self, bytes: u64) -> Result<Box<dyn Scratch>, TaskError> {
        self.io.scratch(bytes)
    }
    fn load_index(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<Bitmap, TaskError> {
        self.io.load_index(kind, layer, shard)
    }
    fn join_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, runs: &mut [Run<'_>]) -> Result<(), TaskError> {
        self.io.join_index(kind, layer, shard, runs)
    }
    fn read_work(&self, layer: Layer, shard: u32, f: &mut dyn FnMut(&[f64])) -> Result<(), TaskError> {
        self.io.read_work(layer, shard, f)
    }
    fn map_numbers(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f32>>, TaskError> {
        self.io.map_numbers(layer, shard)
    }
    fn map_doubles(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f64>>, TaskError> {
        self.io.map_doubles(layer, shard)
    }
    fn put_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, keys: Keys<'_>) -> Result<(), TaskError> {
        self.io.put_index(kind, layer, shard, keys)
    }
    fn put_work(&self, layer: Layer, shard: u32, keys: Option<Keys<'_>>, columns: ColumnsView<'_>) -> Result<(), TaskError> {
        self.io.put_work(layer, shard, keys, columns)
    }
    fn put_numbers(&self, layer: Layer, shard: u32, numbers: &[f32]) -> Result<(), TaskError> {
        self.io.put_numbers(layer, shard, numbers)
    }
    fn put_doubles(&self, layer: Layer, shard: u32, numbers: &[f64]) -> Result<(), TaskError> {
        self.io.put_doubles(layer, shard, numbers)
    }
    fn relieve(&self) {
        self.io.relieve();
    }
    fn put_counts(&self, layer: Layer, shard: u32, counts: Counts) -> Result<(), TaskError> {
        self.io.put_counts(layer, shard, counts)
    }
    fn put_stats(&self, layer: Layer, shard: u32, stats: LayerStats) -> Result<(), TaskError> {
        self.io.put_stats(layer, shard, stats)
    }
    fn put_fact(&self, name: &str, value: f64) {
        self.io.put_fact(name, value);
    }
    fn progress(&self, layer: Layer, positions: u64) -> Result<(), TaskError> {
        self.io.progress(layer, positions)
    }
}
