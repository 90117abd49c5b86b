//! A game that is only a plan: a forward pass over all layers, then a backward pass, some layers a stage, a task for each shard.

use std::ops::Range;
use strata_games::{
    Aim, ArtifactId, ArtifactKind, Choice, Key, Layer, LayerInfo, Outcome, Pass, Position, PositionError, ReadError, Stage,
    Standing, StateSpace, TableName, TableReader, TaskError, TaskId, TaskIo, TaskPlan,
};

/// Ranks of every shard.
pub const RANKS: u64 = 10;

/// The fake game.
pub struct FakeSpace {
    name: TableName,
    layers: Vec<LayerInfo>,
    stages: Vec<Stage>,
    shards: u32,
    /// Memory that every task needs.
    pub memory_bytes: u64,
}

impl FakeSpace {
    /// So many layers of so many shards, `span` layers a stage. It goes by the name of a real table.
    pub fn new(name: &str, layers: u32, shards: u32, span: usize) -> Self {
        let runs = || (0..u64::from(shards)).map(|shard| shard * RANKS..(shard + 1) * RANKS);
        let layer = |at: u32| LayerInfo {
            layer: Layer(4 + 2 * at),
            universe: u64::from(shards) * RANKS,
            keys: at.is_multiple_of(2).then_some(u64::from(shards) * super::KEYS),
            shards: runs().collect(),
            parts: runs().collect(),
            blocks: 1,
        };
        let count = layers as usize;
        let spans: Vec<Range<usize>> = (0..count).step_by(span).map(|start| start..(start + span).min(count)).collect();
        let forward = spans.iter().map(|span| (Pass::Forward, span.clone()));
        let backward = spans.iter().rev().map(|span| (Pass::Backward, span.clone()));
        let after = |at: u32| at.checked_sub(1).into_iter().collect();
        let stages = (0u32..).zip(forward.chain(backward));
        Self {
            name: name.parse().expect("a name"),
            layers: (0..layers).map(layer).collect(),
            stages: stages.map(|(at, (pass, layers))| Stage { pass, layers, parts: shards, after: after(at) }).collect(),
            shards,
            memory_bytes: 1000,
        }
    }

    fn all(&self, kind: ArtifactKind, at: usize) -> impl Iterator<Item = ArtifactId> {
        let layer = self.layers[at].layer;
        (0..self.shards).map(move |shard| ArtifactId { kind, layer, shard })
    }
}

impl StateSpace for FakeSpace {
    fn name(&self) -> &TableName {
        &self.name
    }
    fn layers(&self) -> &[LayerInfo] {
        &self.layers
    }
    fn stages(&self) -> &[Stage] {
        &self.stages
    }
    fn task(&self, task: TaskId) -> TaskPlan {
        let stage = &self.stages[task.stage as usize];
        let own = |kind| stage.layers.clone().map(move |at| ArtifactId { kind, layer: self.layers[at].layer, shard: task.part });
        let mut inputs = Vec::new();
        let mut outputs = Vec::new();
        match stage.pass {
            Pass::Forward => {
                outputs.extend(own(ArtifactKind::Index));
                inputs.extend(stage.layers.start.checked_sub(1).into_iter().flat_map(|at| self.all(ArtifactKind::Index, at)));
            }
            Pass::Backward => {
                outputs.extend(own(ArtifactKind::Work).chain(own(ArtifactKind::Shard)));
                inputs.extend(own(ArtifactKind::Index));
                let next = Some(stage.layers.end).filter(|&at| at < self.layers.len());
                inputs.extend(next.into_iter().flat_map(|at| self.all(ArtifactKind::Work, at)));
            }
        }
        TaskPlan { inputs, outputs, cost: RANKS * stage.layers.len() as u64, memory_bytes: self.memory_bytes }
    }
    fn scalar_columns(&self) -> &'static [&'static str] {
        &["score"]
    }
    fn dist_columns(&self) -> &'static [&'static str] {
        &[]
    }
    fn aim(&self) -> Aim {
        Aim::Most
    }
    fn run(&self, _task: TaskId, _io: &dyn TaskIo) -> Result<(), TaskError> {
        Err(TaskError::Stopped)
    }
    fn rank(&self, _position: Position) -> Option<Key> {
        None
    }
    fn unrank(&self, _key: Key) -> Option<Position> {
        None
    }
    fn canonical(&self, position: Position) -> Position {
        position
    }
    fn outcomes(&self, _key: Position) -> Vec<Outcome> {
        Vec::new()
    }
    fn choices(&self, _state: Position) -> Vec<Choice> {
        Vec::new()
    }
    fn terminal_value(&self, _state: Position) -> f64 {
        0.0
    }
    fn starts(&self) -> Vec<Outcome> {
        Vec::new()
    }
    fn starts_are_states(&self) -> bool {
        true
    }
    fn parse(&self, text: &str) -> Result<Position, PositionError> {
        Err(PositionError(text.into()))
    }
    fn format(&self, position: Position) -> String {
        format!("{position:?}")
    }
    fn standing(&self, _position: Position, _table: &dyn TableReader) -> Result<Standing, ReadError> {
        Ok(Standing::Inside)
    }
}
