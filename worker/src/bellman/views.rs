//! The shards of a table, decoded for many look-ups, as many as memory is given for.

use super::{BellmanProblem, Fault, Sample};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use strata_games::{Dists, Key, Layer, StateSpace};
use strata_storage::{IndexSet, ManifestLayer, Piece, ShardError, ShardFile, Table};

/// Most bytes of decoded values that are kept between windows.
const MOST_BYTES: u64 = 1 << 30;

/// A shard that is open, with its values if the sample is dense.
pub(super) struct View {
    file: Arc<ShardFile>,
    /// Bound on the error of each scalar column.
    pub(super) bounds: Vec<f64>,
    /// The scalar columns; none in a sparse sample.
    scalars: Vec<OnceLock<Vec<f64>>>,
    dists: Vec<OnceLock<Dists>>,
    dense: bool,
}

impl View {
    pub(super) fn index(&self) -> Result<IndexSet<Piece<'_>>, ShardError> {
        self.file.index()
    }

    /// A whole column, when columns are decoded as a whole.
    pub(super) fn column(&self, column: usize) -> Result<Option<&[f64]>, ShardError> {
        if !self.dense {
            return Ok(None);
        }
        get_or_try(&self.scalars[column], || self.file.scalars(column)).map(|values| Some(values.as_slice()))
    }

    /// One value, and the bound on its error.
    pub(super) fn scalar(&self, column: usize, ordinal: u64) -> Result<(f64, f64), ShardError> {
        match self.column(column)? {
            Some(values) => match usize::try_from(ordinal).ok().and_then(|at| values.get(at)) {
                Some(&value) => Ok((value, self.bounds[column])),
                // Past the end of the column: the reader of single values has the words for it.
                None => self.file.scalar(column, ordinal).map(|read| (read.value, read.error)),
            },
            None => self.file.scalar(column, ordinal).map(|read| (read.value, read.error)),
        }
    }

    /// One distribution: its first index and its entries.
    pub(super) fn dist(&self, column: usize, ordinal: u64) -> Result<(usize, Vec<f64>), ShardError> {
        if self.dense {
            let dists = get_or_try(&self.dists[column], || {
                self.file.dists(column).map(|(ends, firsts, values)| Dists { ends, firsts, values })
            })?;
            if let Some(at) = usize::try_from(ordinal).ok().filter(|&at| at < dists.len()) {
                let (first, entries) = dists.get(at);
                return Ok((first, entries.to_vec()));
            }
        }
        self.file.dist(column, ordinal)
    }

    fn bytes(&self) -> u64 {
        let scalars: usize = self.scalars.iter().filter_map(OnceLock::get).map(|values| values.len() * 8).sum();
        let dists: usize =
            self.dists.iter().filter_map(OnceLock::get).map(|dists| dists.values.len() * 8 + dists.len() * 9).sum();
        (scalars + dists) as u64
    }
}

/// `OnceLock::get_or_try_init` is not stable. Two threads may decode the same column; the first to finish wins.
fn get_or_try<T, E>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

type ViewCell = Arc<OnceLock<Option<Arc<View>>>>;

#[derive(Default)]
struct Kept {
    views: HashMap<(u32, u32), (ViewCell, u64)>,
    unreadable: BTreeMap<(u32, u32), String>,
}

/// The shards of a table.
pub(super) struct Views<'a> {
    table: &'a Table,
    space: &'a dyn StateSpace,
    /// The places of the layers in the manifest.
    layers: HashMap<Layer, usize>,
    dense: bool,
    clock: AtomicU64,
    kept: Mutex<Kept>,
}

impl<'a> Views<'a> {
    pub(super) fn new(space: &'a dyn StateSpace, table: &'a Table, sample: &Sample) -> Self {
        let layers = table.manifest().layers.iter().enumerate();
        let layers = layers.map(|(at, layer)| (Layer(layer.layer), at)).collect();
        Self { table, space, layers, dense: sample.is_dense(), clock: AtomicU64::new(0), kept: Mutex::default() }
    }

    /// The shard that a key would be in, and the ranks of that shard; `None` when the table has no such layer or rank.
    pub(super) fn place(&self, key: Key) -> Option<(u32, Range<u64>)> {
        let layer = self.layer(key.layer)?;
        let number = layer.shards.partition_point(|shard| shard.first_rank <= key.rank).checked_sub(1)?;
        let shard = &layer.shards[number];
        let run = shard.first_rank..shard.first_rank.saturating_add(shard.universe);
        run.contains(&key.rank).then_some((shard.shard, run))
    }

    fn layer(&self, layer: Layer) -> Option<&ManifestLayer> {
        self.table.manifest().layers.get(*self.layers.get(&layer)?)
    }

    /// A shard; `None` when it cannot be read, which is noted.
    pub(super) fn get(&self, layer: u32, shard: u32) -> Option<Arc<View>> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let cell = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = kept.views.entry((layer, shard)).or_insert_with(|| (ViewCell::default(), now));
            entry.1 = now;
            Arc::clone(&entry.0)
        };
        cell.get_or_init(|| match self.open(layer, shard) {
            Ok(view) => Some(Arc::new(view)),
            Err(error) => {
                self.note(layer, shard, &error);
                None
            }
        })
        .clone()
    }

    fn open(&self, layer: u32, shard: u32) -> Result<View, ShardError> {
        let file = self.table.shard(layer, shard)?;
        let number = usize::try_from(shard).ok();
        let record = self.layer(Layer(layer)).and_then(|layer| layer.shards.get(number?));
        let mut bounds = record.map_or_else(Vec::new, |record| record.error_bounds.clone());
        let scalars = self.space.scalar_columns().len();
        bounds.resize(scalars, 0.0);
        // The whole index is checked once, here, and not by each of the many look-ups.
        file.index()?;
        Ok(View {
            file,
            bounds,
            scalars: std::iter::repeat_with(OnceLock::new).take(scalars).collect(),
            dists: std::iter::repeat_with(OnceLock::new).take(self.space.dist_columns().len()).collect(),
            dense: self.dense,
        })
    }

    /// Notes that a shard cannot be read. One note for each shard.
    pub(super) fn note(&self, layer: u32, shard: u32, error: &ShardError) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.unreadable.entry((layer, shard)).or_insert_with(|| error.to_string());
    }

    /// The shards that could not be read.
    pub(super) fn unreadable(&self) -> Vec<BellmanProblem> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let problems = kept.unreadable.iter();
        problems
            .map(|(&(layer, shard), what)| BellmanProblem::of_shard(layer, shard, Fault::Unreadable { what: what.clone() }))
            .collect()
    }

    /// Lets go of what was used longest ago, until the rest fits.
    pub(super) fn trim(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_age: Vec<_> = kept
            .views
            .iter()
            .map(|(&id, (cell, used))| (*used, id, cell.get().and_then(Option::as_ref).map_or(0, |view| view.bytes())))
            .collect();
        let mut bytes: u64 = by_age.iter().map(|&(_, _, bytes)| bytes).sum();
        by_age.sort_unstable();
        for (_, id, of_view) in by_age {
            if bytes <= MOST_BYTES {
                break;
            }
            kept.views.remove(&id);
            bytes -= of_view;
        }
    }
}
