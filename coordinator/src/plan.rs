//! The whole dependency graph of a table, worked out once from its [`StateSpace`].
//!
//! A game hands out its plan a task at a time. The coordinator wants to ask the other way round as well: which task writes this
//! file, which tasks read it, which stages wait for that one. Here the answers are laid out in tables, and on the way the laws
//! that a plan must keep are checked, so that nothing after this has to doubt them:
//!
//! * a stage waits only for stages before it;
//! * the shards of a layer cover its universe without gaps;
//! * every file is written by exactly one task, and everything that a task reads is written by a stage it waits for, directly or not;
//! * every shard of every layer is published by exactly one task.

use crate::record::named;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use strata_games::{ArtifactId, ArtifactKind, Layer, LayerInfo, Pass, StateSpace, TaskId, TaskPlan};

/// Index of a task in [`Plan::tasks`]. Tasks are numbered by stage, then part: the order in which they are given out.
pub type TaskIndex = usize;

/// A game's plan that breaks the laws of a plan: a fault of the program, not of its user.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[error("the plan of {table} is broken: {problem}; please report this")]
pub struct PlanError {
    /// Which table.
    pub table: String,
    /// Which law is broken, and where.
    pub problem: String,
}

/// One stage of the plan.
#[derive(Clone, Debug)]
pub struct PlannedStage {
    /// Which way it works.
    pub pass: Pass,
    /// The layers, as indices into [`Plan::layers`].
    pub layers: Range<usize>,
    /// Its tasks.
    pub tasks: Range<TaskIndex>,
    /// The stages that must be stitched before its tasks are given out, ascending.
    pub after: Vec<u32>,
}

/// One task of the plan.
#[derive(Clone, Debug)]
pub struct PlannedTask {
    /// Its name.
    pub id: TaskId,
    /// What it reads, writes, costs. Inputs and outputs are sorted.
    pub plan: TaskPlan,
}

/// The plan of a table.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the build.
    pub table: String,
    /// The name of the table that it publishes.
    pub published: String,
    /// Its layers, in the order of the forward pass.
    pub layers: Vec<LayerInfo>,
    /// Its stages.
    pub stages: Vec<PlannedStage>,
    /// Its tasks, by stage and part.
    pub tasks: Vec<PlannedTask>,
    /// Estimated work of all tasks.
    pub cost: u64,
    producer: BTreeMap<ArtifactId, TaskIndex>,
    /// Indices of tasks, in half the room: there may be tens of millions.
    readers: BTreeMap<ArtifactId, Vec<u32>>,
    layer_at: BTreeMap<Layer, usize>,
}

impl Plan {
    /// Works out the plan of a state space and checks it.
    pub fn of(space: &dyn StateSpace) -> Result<Plan, PlanError> {
        let table = space.name().to_string();
        let fail = |problem: String| PlanError { table: table.clone(), problem };
        let layers = space.layers().to_vec();
        let layer_at = check_layers(&layers).map_err(fail)?;
        let mut plan = Plan {
            table: table.clone(),
            published: space.name().published().to_string(),
            layers,
            stages: Vec::new(),
            tasks: Vec::new(),
            cost: 0,
            producer: BTreeMap::new(),
            readers: BTreeMap::new(),
            layer_at,
        };
        for (stage, given) in (0u32..).zip(space.stages()) {
            let first = plan.tasks.len();
            let mut after: BTreeSet<u32> = given.after.iter().copied().collect();
            if given.layers.start > given.layers.end || given.layers.end > plan.layers.len() {
                return Err(fail(format!("stage {stage} covers layers {:?} of {}", given.layers, plan.layers.len())));
            }
            for part in 0..given.parts {
                let id = TaskId { stage, part };
                plan.add(id, space.task(id), &mut after).map_err(fail)?;
            }
            if let Some(late) = after.iter().find(|&&before| before >= stage) {
                return Err(fail(format!("stage {stage} waits for stage {late}, which is not before it")));
            }
            plan.stages.push(PlannedStage {
                pass: given.pass,
                layers: given.layers.clone(),
                tasks: first..plan.tasks.len(),
                after: after.into_iter().collect(),
            });
        }
        plan.readers.values_mut().for_each(Vec::shrink_to_fit);
        plan.check_published().map_err(fail)?;
        plan.check_waits(space).map_err(fail)?;
        Ok(plan)
    }

    /// Adds a task; the stages of its inputs' producers join `after`.
    fn add(&mut self, id: TaskId, mut task: TaskPlan, after: &mut BTreeSet<u32>) -> Result<(), String> {
        let index = self.tasks.len();
        task.inputs.sort_unstable();
        task.outputs.sort_unstable();
        task.inputs.shrink_to_fit();
        task.outputs.shrink_to_fit();
        if task.inputs.windows(2).chain(task.outputs.windows(2)).any(|pair| pair[0] == pair[1]) {
            return Err(format!("task {id} names a file twice"));
        }
        for input in &task.inputs {
            let Some(&producer) = self.producer.get(input) else {
                return Err(format!("task {id} reads {}, which no task before it writes", named(*input)));
            };
            let stage = self.tasks[producer].id.stage;
            if stage == id.stage {
                return Err(format!("task {id} reads {}, which its own stage writes", named(*input)));
            }
            after.insert(stage);
            let reader = u32::try_from(index).map_err(|_| format!("task {id} is one too many"))?;
            self.readers.entry(*input).or_default().push(reader);
        }
        for output in &task.outputs {
            self.run(*output).ok_or_else(|| format!("task {id} writes {}, which is not in the plan", named(*output)))?;
            if let Some(other) = self.producer.insert(*output, index) {
                return Err(format!("tasks {} and {id} both write {}", self.tasks[other].id, named(*output)));
            }
        }
        self.cost += task.cost;
        self.tasks.push(PlannedTask { id, plan: task });
        Ok(())
    }

    fn check_published(&self) -> Result<(), String> {
        for layer in &self.layers {
            for shard in (0u32..).zip(&layer.shards).map(|(shard, _)| shard) {
                let artifact = ArtifactId { kind: ArtifactKind::Shard, layer: layer.layer, shard };
                if !self.producer.contains_key(&artifact) {
                    return Err(format!("no task writes {}", named(artifact)));
                }
            }
        }
        Ok(())
    }

    /// That the game's own `after`, followed transitively, names the producers of all inputs.
    fn check_waits(&self, space: &dyn StateSpace) -> Result<(), String> {
        let words = self.stages.len().div_ceil(64);
        let mut reach = vec![0u64; words * self.stages.len()];
        for (stage, given) in space.stages().iter().enumerate() {
            let (before, rest) = reach.split_at_mut(stage * words);
            let own = &mut rest[..words];
            for &earlier in &given.after {
                let earlier = earlier as usize;
                own[earlier / 64] |= 1 << (earlier % 64);
                own.iter_mut().zip(&before[earlier * words..][..words]).for_each(|(own, theirs)| *own |= theirs);
            }
            if let Some(missing) = self.stages[stage].after.iter().find(|&&s| own[s as usize / 64] >> (s % 64) & 1 == 0) {
                return Err(format!("stage {stage} reads what stage {missing} writes, but does not wait for it"));
            }
        }
        Ok(())
    }

    /// The index of a task, if the plan has it.
    pub fn index_of(&self, id: TaskId) -> Option<TaskIndex> {
        let tasks = self.stages.get(id.stage as usize)?.tasks.clone();
        tasks.start.checked_add(id.part as usize).filter(|index| *index < tasks.end)
    }

    /// The task that writes an artifact.
    pub fn producer(&self, artifact: ArtifactId) -> Option<TaskIndex> {
        self.producer.get(&artifact).copied()
    }

    /// The tasks that read an artifact.
    pub fn readers(&self, artifact: ArtifactId) -> impl ExactSizeIterator<Item = TaskIndex> + '_ {
        self.readers.get(&artifact).map_or(&[][..], Vec::as_slice).iter().map(|&task| task as TaskIndex)
    }

    /// One layer.
    pub fn layer(&self, layer: Layer) -> Option<&LayerInfo> {
        self.layer_at.get(&layer).map(|&at| &self.layers[at])
    }

    /// The run of ranks that a file of a kind covers.
    pub fn run(&self, artifact: ArtifactId) -> Option<Range<u64>> {
        self.layer(artifact.layer)?.run(artifact.kind, artifact.shard)
    }

    /// Whether there is such a shard.
    pub fn has_shard(&self, layer: Layer, shard: u32) -> bool {
        self.run(ArtifactId { kind: ArtifactKind::Shard, layer, shard }).is_some()
    }

    /// All artifacts and the tasks that write them, in order.
    pub fn artifacts(&self) -> impl Iterator<Item = (ArtifactId, TaskIndex)> + '_ {
        self.producer.iter().map(|(&artifact, &task)| (artifact, task))
    }
}

fn check_layers(layers: &[LayerInfo]) -> Result<BTreeMap<Layer, usize>, String> {
    let mut layer_at = BTreeMap::new();
    for (at, layer) in layers.iter().enumerate() {
        let name = layer.layer;
        if layer_at.insert(name, at).is_some() {
            return Err(format!("layer {name} comes twice"));
        }
        if u32::try_from(layer.shards.len()).is_err() {
            return Err(format!("layer {name} has {} shards", layer.shards.len()));
        }
        let mut next = 0;
        for run in &layer.shards {
            if run.start != next || run.end < run.start {
                return Err(format!("the shards of layer {name} leave a gap or overlap at rank {next}"));
            }
            next = run.end;
        }
        if next != layer.universe {
            return Err(format!("the shards of layer {name} end at rank {next} of {}", layer.universe));
        }
    }
    Ok(layer_at)
}
