//! What the tests of this crate share: a game whose kernels can be interfered with, and a build without a coordinator.

use crate::control::Control;
use crate::convert::artifact_id;
use crate::execute::{Ended, Output, run_task};
use std::collections::BTreeMap;
use std::path::Path;
use strata_games::*;
use strata_storage::{
    ColumnRef, FileRecord, Manifest, ManifestLayer, ManifestShard, ShardSpec, Table, TableDir, publish, write_shard,
};

/// A game of this build.
pub(crate) fn space(name: &str) -> Box<dyn StateSpace> {
    strata_games::open(&name.parse().unwrap()).unwrap()
}

/// A pool of so many threads.
pub(crate) fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// A table's state space that does something before every task.
pub(crate) fn hooked(
    name: &str,
    before: impl Fn(TaskId, &dyn TaskIo) -> Result<(), TaskError> + Send + Sync + 'static,
) -> Hooked {
    let hook: Hook = Box::new(move |game, task, io| {
        before(task, io)?;
        game.run(task, io)
    });
    Hooked::new(space(name), hook)
}

/// Everything the tasks of a plan handed in.
#[derive(Default, Debug)]
pub(crate) struct Built {
    pub(crate) files: BTreeMap<ArtifactId, FileRecord>,
    pub(crate) counts: BTreeMap<(u32, u32), strata_proto::v1::LayerCounts>,
    pub(crate) facts: BTreeMap<String, f64>,
}

impl Built {
    /// The files that a task reads.
    pub(crate) fn inputs(&self, plan: &TaskPlan) -> Vec<FileRecord> {
        plan.inputs.iter().map(|input| self.files[input].clone()).collect()
    }

    pub(crate) fn add(&mut self, output: Output) {
        self.files.extend(output.files.into_iter().map(|file| (artifact_id(&file), file)));
        self.counts.extend(output.counts.into_iter().map(|counts| ((counts.layer, counts.shard), counts)));
        self.facts.extend(output.facts.into_iter().map(|fact| (fact.name, fact.value)));
    }

    /// The manifest of the finished shards.
    pub(crate) fn manifest(&self, space: &dyn StateSpace) -> Manifest {
        let layers = space.layers().iter().map(|info| {
            let mut layer = ManifestLayer {
                layer: info.layer.0,
                universe: info.universe,
                states: 0,
                afterstates: 0,
                terminal: 0,
                stats: None,
                shards: Vec::new(),
            };
            for (shard, run) in (0..).zip(&info.shards) {
                let counts = &self.counts[&(info.layer.0, shard)];
                layer.states += counts.states;
                layer.afterstates += counts.afterstates;
                layer.terminal += counts.terminal;
                let record = &self.files[&ArtifactId { kind: ArtifactKind::Shard, layer: info.layer, shard }];
                layer.shards.push(ManifestShard::new(record, run.start, run.end - run.start, info.blocks));
            }
            layer
        });
        let (scalars, dists) = (space.scalar_columns(), space.dist_columns());
        Manifest::new(&space.name().to_string(), scalars, dists, layers.collect(), self.facts.clone()).unwrap()
    }
}

/// Runs every task of a plan over a directory.
pub(crate) fn build(space: &dyn StateSpace, root: &Path, threads: usize, memory_bytes: u64) -> Built {
    let (dir, pool) = (TableDir::open(root).unwrap(), pool(threads));
    let mut built = Built::default();
    for (stage, info) in (0..).zip(space.stages()) {
        for part in 0..info.parts {
            let task = TaskId { stage, part };
            match run_task(space, task, &dir, built.inputs(&space.task(task)), &Control::default(), &pool, memory_bytes) {
                Ended::Finished(output) => built.add(output),
                other => panic!("task {task}: {other:?}"),
            }
        }
    }
    built
}

/// Publishes what was built, and opens it.
pub(crate) fn published(space: &dyn StateSpace, root: &Path, built: &Built) -> Table {
    let (dir, manifest) = (TableDir::open(root).unwrap(), built.manifest(space));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(publish(&dir, &manifest)).unwrap();
    dir.remove_build().unwrap();
    Table::open(root).unwrap()
}

/// Writes one finished shard anew, with other keys and values but checksums that hold.
pub(crate) fn rewrite(
    space: &dyn StateSpace,
    root: &Path,
    built: &mut Built,
    layer: Layer,
    change: impl FnOnce(&mut Vec<u64>, &mut Columns),
) {
    let dir = TableDir::open(root).unwrap();
    let id = ArtifactId { kind: ArtifactKind::Shard, layer, shard: 0 };
    let file = dir.open_shard(&space.name().to_string(), &built.files[&id]).unwrap();
    let mut keys: Vec<u64> = file.index().unwrap().iter().collect();
    let dists = |column| file.dists(column).map(|(ends, firsts, values)| Dists { ends, firsts, values }).unwrap();
    let mut columns = Columns {
        scalars: (0..space.scalar_columns().len()).map(|column| file.scalars(column).unwrap()).collect(),
        dists: (0..space.dist_columns().len()).map(dists).collect(),
        ..Columns::default()
    };
    change(&mut keys, &mut columns);
    let index = strata_storage::encode_sorted(&keys, file.header().universe).unwrap();
    let header = file.header();
    let spec = ShardSpec {
        table: &header.table,
        kind: header.kind,
        layer: header.layer,
        shard: header.shard,
        first_rank: header.first_rank,
        universe: header.universe,
        blocks: header.blocks,
    };
    let scalars = space.scalar_columns().iter().zip(&columns.scalars).map(|(&name, values)| ColumnRef::Scalar { name, values });
    let dists = space.dist_columns().iter().zip(&columns.dists).map(|(&name, dists)| ColumnRef::Dist {
        name,
        ends: &dists.ends,
        firsts: &dists.firsts,
        values: &dists.values,
    });
    let record = write_shard(&dir, &spec, Some(&index), &scalars.chain(dists).collect::<Vec<_>>()).unwrap();
    built.files.insert(id, record);
}
