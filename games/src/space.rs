//! The state space of a game, as the rest of Strata sees it.
//!
//! A table stores one value per *key*: in 2048 the afterstate (after the move, before the new tile), in bearoff the position of the
//! player about to roll. (A table of moves has states for keys and a move for each, one of statistics some samples:
//! [`Keep`](crate::Keep).) From a key, chance leads to *states* where a player chooses, and every choice leads to a key of a later
//! layer (in 2048 of the same layer: an afterstate has the age of the state it came from), until no choice is left:
//!
//! ```text
//!     key ──chance──▶ state ──choice, reward──▶ key ──chance──▶ ...
//!     value(key) = Σ chance × best over choices (reward + value(key'))
//! ```
//!
//! Everything here is a pure function of the table's name, so any process can compute the whole plan without asking anyone.

use crate::array::Scratch;
use crate::columns::ColumnsView;
use crate::keys::{Bitmap, Keys};
use crate::name::TableName;
use std::fmt;
use std::ops::Range;

/// The positions of one age (2048) or pip count (bearoff). Play only goes from a layer to others in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Layer(pub u32);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position or a state, packed by its game. Only the game that made it can read it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position(pub u128);

/// Where a key lives: its layer, and its rank in the layer's dense universe `0..LayerInfo::universe`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// The layer.
    pub layer: Layer,
    /// The rank in the layer's universe.
    pub rank: u64,
}

/// One layer of the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerInfo {
    /// Its name.
    pub layer: Layer,
    /// Number of ranks.
    pub universe: u64,
    /// Number of keys, where theory knows it before anything is built.
    pub keys: Option<u64>,
    /// The runs of ranks that are its shards: they cover `0..universe` without gaps, in order.
    pub shards: Vec<Range<u64>>,
    /// The runs of the game's own ranks that working files cover. They are the shards, unless what is published has other keys than the
    /// game has positions, or the layer is cut among several tasks.
    pub parts: Vec<Range<u64>>,
    /// Number of blocks of the layer: parts that share a signature. A shard may begin and end within one.
    pub blocks: u64,
}

impl LayerInfo {
    /// The run that a file covers; `None` when there is no such file. A part has up to three files of working values, of number n, parts + n
    /// and 2 x parts + n: what each has, the game knows. What tasks have found of a layer ([`ArtifactKind::Partial`]) covers all of it.
    pub fn run(&self, kind: ArtifactKind, number: u32) -> Option<Range<u64>> {
        let (number, parts) = (number as usize, self.parts.len());
        match kind {
            ArtifactKind::Shard => self.shards.get(number).cloned(),
            ArtifactKind::Work if number < 3 * parts => Some(self.parts[number % parts].clone()),
            ArtifactKind::Work => None,
            ArtifactKind::Partial => (number < 2 * parts).then(|| 0..self.ranks()),
            ArtifactKind::Index | ArtifactKind::Checkpoint | ArtifactKind::Stretch => self.parts.get(number).cloned(),
        }
    }

    /// The numbers of the parts with ranks of a run, ascending.
    pub fn parts_with(&self, run: &Range<u64>) -> Vec<u32> {
        let meets = |part: &Range<u64>| run.start < part.end && part.start < run.end;
        (0..).zip(&self.parts).filter(|(_, part)| meets(part)).map(|(number, _)| number).collect()
    }

    /// Number of the game's own ranks.
    pub fn ranks(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }
}

/// Which way a stage works.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pass {
    /// Enumerates what is reachable, along play.
    Forward,
    /// Computes values, against play.
    Backward,
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
        })
    }
}

/// A step of the plan: one pass over a run of layers, in `parts` tasks that do not depend on each other. When all of them are
/// committed the coordinator stitches the stage, and only then the stages after it may start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// Which way.
    pub pass: Pass,
    /// Indices into [`StateSpace::layers`].
    pub layers: Range<usize>,
    /// Number of tasks.
    pub parts: u32,
    /// Indices of the stages that must be stitched before this one can start.
    pub after: Vec<u32>,
}

/// Names a task of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId {
    /// Index into [`StateSpace::stages`].
    pub stage: u32,
    /// Which of the stage's tasks.
    pub part: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stage, self.part)
    }
}

/// What an artifact (a file that a task writes) holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ArtifactKind {
    /// The keys of a shard, from the forward pass, until the table is finished.
    Index,
    /// The values of a shard in f64, for the tasks that still need them.
    Work,
    /// The finished shard: keys and packed values.
    Shard,
    /// The keys of a part of a layer from which the forward pass can be taken up again, while tasks still need them.
    Checkpoint,
    /// The keys of a part of a layer in the stretch that the backward pass is in, while tasks still need them.
    Stretch,
    /// What one task has found of the keys of a layer that several enumerate: the layer has what any of them found.
    Partial,
}

impl ArtifactKind {
    /// Whether its files go when no task needs them any more.
    pub fn is_passing(self) -> bool {
        !matches!(self, ArtifactKind::Index | ArtifactKind::Shard)
    }
}

/// Names an artifact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArtifactId {
    /// What it holds.
    pub kind: ArtifactKind,
    /// Of which layer.
    pub layer: Layer,
    /// Of which shard of that layer.
    pub shard: u32,
}

/// What the coordinator has to know of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskPlan {
    /// What it reads.
    pub inputs: Vec<ArtifactId>,
    /// What it writes.
    pub outputs: Vec<ArtifactId>,
    /// Estimate of its work, in positions of the universe.
    pub cost: u64,
    /// The least memory that it can do with, in bytes.
    pub memory_bytes: u64,
}

/// What the forward pass counted in a shard of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Positions with the player to act, terminal ones included.
    pub states: u64,
    /// Positions after the move, before chance. 0 in a game that stores states.
    pub afterstates: u64,
    /// States without a legal move.
    pub terminal: u64,
}

/// What the backward pass found about the states of a shard of a layer: how much there is to choose, and how much the choice matters.
///
/// The *action gap* of a state with two or more legal moves is the value of its best move minus that of the second best: what the
/// smallest mistake costs. It is 0 when two moves are equally good, and a state with one legal move has none. Legal moves are those that
/// [`StateSpace::choices`] names: where play stops, because the tile is there that was asked for, nothing is left to choose.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct LayerStats {
    /// Number of pairs of a state and a legal move in it.
    pub legal_moves: u64,
    /// States whose best move is better than every other legal one ([`is_better`](Self::is_better)). One legal move counts.
    pub single_best: u64,
    /// States with at least two legal moves: those that have an action gap.
    pub choices: u64,
    /// Sum of the values of all states, terminal ones included.
    pub value_sum: f64,
    /// Sum of the action gaps.
    pub gap_sum: f64,
    /// The largest action gap; 0 when there is none.
    pub gap_most: f64,
}

impl LayerStats {
    /// Whether a move is better than another by more than rounding: by more than 2^-40 of its value, about 1e-12. Moves that are equally
    /// good in theory may have values from sums in different orders.
    pub fn is_better(best: f64, other: f64) -> bool {
        (best - other).abs() > best.abs() * (1.0 / (1u64 << 40) as f64)
    }

    /// Two parts of a layer together; `None` when a count does not fit into 64 bits. Floating-point sums depend on their order: add
    /// parts in the order of their ranks.
    pub fn checked_add(self, next: Self) -> Option<Self> {
        Some(Self {
            legal_moves: self.legal_moves.checked_add(next.legal_moves)?,
            single_best: self.single_best.checked_add(next.single_best)?,
            choices: self.choices.checked_add(next.choices)?,
            value_sum: self.value_sum + next.value_sum,
            gap_sum: self.gap_sum + next.gap_sum,
            gap_most: self.gap_most.max(next.gap_most),
        })
    }
}

/// Why a kernel stopped before its task was finished.
#[derive(thiserror::Error, Debug)]
pub enum TaskError {
    /// The task was cancelled, or its lease is lost.
    #[error("stopped before the task was finished")]
    Stopped,
    /// Reading an input or writing an output failed.
    #[error(transparent)]
    Io(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// Numbers that somebody else keeps, in memory or in a file.
pub trait Numbers<T>: Send + Sync {
    /// All of them, from an address that is a multiple of 64.
    fn numbers(&self) -> &[T];
    /// They will not be used for a while: they need not stay in memory.
    fn release(&self) {}
}

/// What is joined of an index begins and ends at multiples of so many ranks.
pub const JOIN_RANKS: u64 = 1 << 12;

/// Bits of a run of ranks.
pub struct Run<'a> {
    /// Its first rank, counted from that of the file's run: a multiple of [`JOIN_RANKS`].
    pub from: u64,
    /// 64 ranks a word; a multiple of [`JOIN_RANKS`] in all, unless the file's run ends with them.
    pub words: &'a mut [u64],
}

/// What a kernel reads and writes. The worker implements it over files, tests over a map.
pub trait TaskIo: Sync {
    /// How many bytes of memory the kernel should stay within. It may need more than that only where its plan says so.
    fn memory_bytes(&self) -> u64;
    /// Memory with a temporary file behind it, for a kernel that has to stay within little.
    fn scratch(&self, bytes: u64) -> Result<Box<dyn Scratch>, TaskError>;
    /// The keys of an input of a kind that holds nothing else, as bits over its run of ranks (bit 0 is the first of the run).
    fn load_index(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<Bitmap, TaskError>;
    /// Adds the keys of an input in some runs of ranks to bits.
    fn join_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, runs: &mut [Run<'_>]) -> Result<(), TaskError>;
    /// Calls `f` with the values of the first column of an input of kind [`ArtifactKind::Work`], some at a time, in the order of its keys.
    fn read_work(&self, layer: Layer, shard: u32, f: &mut dyn FnMut(&[f64])) -> Result<(), TaskError>;
    /// The numbers of an input that [`put_numbers`](Self::put_numbers) wrote, in place: as many as the run of the part has ranks.
    fn map_numbers(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f32>>, TaskError>;
    /// The numbers of an input that [`put_doubles`](Self::put_doubles) wrote, in place: at most as many as the run of the part has ranks.
    fn map_doubles(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f64>>, TaskError>;
    /// Writes an output of a kind that holds nothing but keys.
    fn put_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, keys: Keys<'_>) -> Result<(), TaskError>;
    /// Writes an output of kind [`ArtifactKind::Work`]; with keys, [`join_index`](Self::join_index) reads them.
    fn put_work(&self, layer: Layer, shard: u32, keys: Option<Keys<'_>>, columns: ColumnsView<'_>) -> Result<(), TaskError>;
    /// Writes an output of kind [`ArtifactKind::Work`] that is numbers in an order of the game's own: one for each of its ranks.
    fn put_numbers(&self, layer: Layer, shard: u32, numbers: &[f32]) -> Result<(), TaskError>;
    /// Writes an output of kind [`ArtifactKind::Work`] that is numbers in an order of the game's own: no more than it has ranks.
    fn put_doubles(&self, layer: Layer, shard: u32, numbers: &[f64]) -> Result<(), TaskError>;
    /// Takes mapped inputs out of this process's memory when it has more than it should. A kernel that reads them here and there
    /// calls it every few hundred positions, from any thread.
    fn relieve(&self) {}
    /// Writes an output of kind [`ArtifactKind::Shard`]: the values are packed, the keys written beside them.
    fn put_shard(&self, layer: Layer, shard: u32, keys: Keys<'_>, columns: ColumnsView<'_>) -> Result<(), TaskError>;
    /// Records what was counted. Called by one pass of the game, for every shard of every layer; what several tasks counted of one is
    /// added up. A task calls it at most once for a shard.
    fn put_counts(&self, layer: Layer, shard: u32, counts: Counts) -> Result<(), TaskError>;
    /// Records what the backward pass found about the states of a shard of a layer; called at most once for each; a game without
    /// states to choose in never calls it. Of one layer either all shards have statistics or none.
    fn put_stats(&self, layer: Layer, shard: u32, stats: LayerStats) -> Result<(), TaskError>;
    /// Records a number about the whole table, such as `value`.
    fn put_fact(&self, name: &str, value: f64);
    /// Reports progress: so many more positions, now in this layer. Fails with [`TaskError::Stopped`] when the task should stop;
    /// a kernel calls it at least once a layer and every few million positions.
    fn progress(&self, layer: Layer, positions: u64) -> Result<(), TaskError>;
}

/// Something went wrong while a table was read; the reader's own error says what and where.
pub type ReadError = Box<dyn std::error::Error + Send + Sync>;

/// Where the values of a key are found: its shard, and its number among the shard's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The layer.
    pub layer: Layer,
    /// The shard.
    pub shard: u32,
    /// Number of the key in the shard, from 0.
    pub ordinal: u64,
}

/// A finished table, as probing reads it.
pub trait TableReader: Sync {
    /// Finds a key; `None` when the table does not hold it.
    fn find(&self, key: Key) -> Result<Option<Slot>, ReadError>;
    /// Value of a scalar column (numbered as in [`StateSpace::scalar_columns`]) and the bound on its error.
    fn scalar(&self, slot: Slot, column: usize) -> Result<Bounded, ReadError>;
    /// Value of a distribution column (numbered as in [`StateSpace::dist_columns`]): its first index and its entries.
    fn dist(&self, slot: Slot, column: usize) -> Result<(usize, Vec<f64>), ReadError>;
}

/// A value, and how far it can be from the exact one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounded {
    /// The value.
    pub value: f64,
    /// The bound on its absolute error.
    pub error: f64,
}

/// One thing that chance may do from a key.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Its probability; those of a key sum to one.
    pub chance: f64,
    /// What people call it: `2 at row 1 column 3`, `64`.
    pub label: String,
    /// Where the player chooses next.
    pub state: Position,
}

/// One choice of the player.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// What people call it: `left`, `6/off 4/off`.
    pub label: String,
    /// What the player gets at once. In bearoff every choice costs one roll.
    pub reward: f64,
    /// Where it leads; `None` when the game ends, nothing after it counts, or the table keeps no values.
    pub key: Option<Key>,
    /// The position it leads to, canonical.
    pub position: Position,
}

/// What can follow from keys, without names: the form in which verification reads the rules, millions of keys a second. Filled by
/// [`StateSpace::expand`], which appends; whoever calls it clears it and so keeps the memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expansion {
    /// One entry for every outcome, in the order of [`StateSpace::outcomes`].
    pub branches: Vec<Branch>,
    /// The choices of all branches, one branch after the other, in the order of [`StateSpace::choices`]. A choice that an earlier
    /// one of the same branch equals may be left out.
    pub leaves: Vec<Leaf>,
}

/// One thing that chance may do: an [`Outcome`] without its name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Branch {
    /// Its probability.
    pub chance: f64,
    /// End of its choices in [`Expansion::leaves`]; they start where those of the branch before it end.
    pub end: usize,
    /// Its value when it has no choices, otherwise 0.
    pub terminal: f64,
}

/// One choice: a [`Choice`] without its name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Leaf {
    /// Its reward.
    pub gain: f64,
    /// Where it leads: the value of this key is still to be added.
    pub key: Option<Key>,
}

impl Expansion {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.branches.clear();
        self.leaves.clear();
    }
}

/// Whether the player wants much or little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// The largest value is best.
    Most,
    /// The smallest value is best.
    Least,
    /// Two players take turns: what a key is worth to the one, the other loses. The largest value is best.
    Rival,
}

impl Aim {
    /// What a choice is worth: its reward, and what it leads to.
    #[inline]
    pub fn worth(self, reward: f64, next: f64) -> f64 {
        match self {
            Aim::Most | Aim::Least => reward + next,
            Aim::Rival => reward - next,
        }
    }

    /// Whether a value is better than another.
    #[inline]
    pub fn prefers(self, value: f64, other: f64) -> bool {
        match self {
            Aim::Most | Aim::Rival => value > other,
            Aim::Least => value < other,
        }
    }
}

/// In which numbers values are computed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Precision {
    /// f64: published in 32 bits.
    Double,
    /// f32: published in 16 bits, and working files have one number for each of the game's own ranks.
    Single {
        /// How far a value may be from the exact one before it is published. It is part of the bound on the error of every value.
        allowance: f64,
    },
}

impl Precision {
    /// How far values may be from the exact ones beside what the bounds of f64 tables say anyway.
    pub fn allowance(self) -> f64 {
        match self {
            Precision::Double => 0.0,
            Precision::Single { allowance } => allowance,
        }
    }

    /// Bytes of a published value.
    pub fn published_bytes(self) -> u64 {
        match self {
            Precision::Double => 4,
            Precision::Single { .. } => 2,
        }
    }
}

/// How the values of a column follow from those of the keys after: as at the head of this module, with what [`next`](Self::next) makes of
/// some columns in place of `value(key')`.
#[derive(Clone, Copy, Debug)]
pub struct Recursion {
    /// The column.
    pub column: usize,
    /// The columns of the key after that are read.
    pub reads: &'static [usize],
    /// What a key is worth when play comes to it, from what was read.
    pub next: fn(&[Bounded]) -> Bounded,
    /// What the end of the game is worth, from [`StateSpace::terminal_value`].
    pub end: fn(f64) -> f64,
}

fn first(values: &[Bounded]) -> Bounded {
    values[0]
}

/// That of column 0 in a game that says nothing else.
static FIRST: [Recursion; 1] = [Recursion { column: 0, reads: &[0], next: first, end: std::convert::identity }];

/// Why text is no position of the game.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[error("{0}")]
pub struct PositionError(pub String);

/// Whether a position can occur in the game that the table solves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It can, and the table answers for it.
    Inside,
    /// It may, but the table ends before it; the sentence says where.
    Outside(String),
    /// No play leads to it; the sentence says why.
    Impossible(String),
}

/// A game's state space.
///
/// Laws, proved for every game by [`crate::conformance`]:
/// * layers strictly increase in the order of [`layers`](Self::layers), and keys of later stages never depend on earlier ones;
/// * `rank` of `unrank` is the identity on reachable ranks, and `unrank` of `rank` is [`canonical`](Self::canonical);
/// * `canonical` is idempotent and keeps rank and value;
/// * the chances of a key's outcomes are positive and sum to one;
/// * `parse` of `format` is the identity;
/// * every input of a task is an output of exactly one task, of a stage that is named in `after`, directly or not;
/// * where values are kept, the kernels give those that the recursion at the head of this module gives;
/// * the statistics that they record, if any, are those of the states that the keys of the table lead to.
pub trait StateSpace: Send + Sync {
    /// The name of the table.
    fn name(&self) -> &TableName;
    /// The layers, in the order of the forward pass.
    fn layers(&self) -> &[LayerInfo];
    /// The plan.
    fn stages(&self) -> &[Stage];
    /// One task of the plan. Panics when there is no such task.
    fn task(&self, task: TaskId) -> TaskPlan;
    /// Names of the scalar columns stored for every key; column 0 is the one that play optimises, where values are kept.
    fn scalar_columns(&self) -> &'static [&'static str];
    /// Names of the distribution columns stored for every key.
    fn dist_columns(&self) -> &'static [&'static str];
    /// Which way column 0 is optimised.
    fn aim(&self) -> Aim;
    /// In which numbers kernels compute values.
    fn precision(&self) -> Precision {
        Precision::Double
    }
    /// Bytes of a rank of a part, in a game whose working files are numbers in an order of its own; `None` where they are columns.
    fn number_bytes(&self) -> Option<u64> {
        None
    }
    /// Bytes of the published values of a key of a layer, at most, where the game knows that better than from the number of its columns.
    fn published_bytes(&self, _layer: Layer) -> Option<u64> {
        None
    }
    /// How the columns that play decides about follow from each other. The first is that of column 0.
    fn recursions(&self) -> &'static [Recursion] {
        &FIRST
    }
    /// Runs one task, on the threads of the rayon pool it is called in.
    fn run(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError>;

    /// The key's place; `None` when it cannot be a key of this table.
    fn rank(&self, position: Position) -> Option<Key>;
    /// The canonical position at a place, reachable or not; `None` past the universe.
    fn unrank(&self, key: Key) -> Option<Position>;
    /// The one position that stands for all symmetric ones.
    fn canonical(&self, position: Position) -> Position;
    /// What chance can do from a key. Empty when the game is over there.
    fn outcomes(&self, key: Position) -> Vec<Outcome>;
    /// What the player can do in a state. Empty when the state is terminal; its value is then [`terminal_value`](Self::terminal_value).
    fn choices(&self, state: Position) -> Vec<Choice>;
    /// In a table of moves (`+keep=play`): the number of the one of [`choices`](Self::choices) that it plays in a state. `None` where there
    /// is nothing to choose, where the table does not hold the state, and in every other table.
    fn chosen(&self, _state: Position, _table: &dyn TableReader) -> Result<Option<usize>, ReadError> {
        Ok(None)
    }
    /// The value of a state without choices.
    fn terminal_value(&self, state: Position) -> f64;
    /// Appends all that can follow from a key. Says the same as [`outcomes`](Self::outcomes) and [`choices`](Self::choices), from
    /// which it is made here; a game whose tables have millions of keys has its own, without an allocation a call.
    fn expand(&self, key: Position, into: &mut Expansion) {
        for outcome in self.outcomes(key) {
            let first = into.leaves.len();
            into.leaves
                .extend(self.choices(outcome.state).into_iter().map(|choice| Leaf { gain: choice.reward, key: choice.key }));
            let end = into.leaves.len();
            let terminal = if end == first { self.terminal_value(outcome.state) } else { 0.0 };
            into.branches.push(Branch { chance: outcome.chance, end, terminal });
        }
    }
    /// The starts of the game with their probabilities: states (2048), or keys whose value is the table's headline (bearoff).
    fn starts(&self) -> Vec<Outcome>;
    /// Whether starts are states (the player chooses next) or keys (chance moves next).
    fn starts_are_states(&self) -> bool;

    /// Reads a position written by a person: a state in 2048, a key in bearoff.
    fn parse(&self, text: &str) -> Result<Position, PositionError>;
    /// The dice that the text of a position names beside it, in games with dice.
    fn roll_in(&self, _text: &str) -> Option<(u8, u8)> {
        None
    }
    /// Writes a position so that `parse` reads it again.
    fn format(&self, position: Position) -> String;
    /// Whether a parsed position can occur.
    fn standing(&self, position: Position, table: &dyn TableReader) -> Result<Standing, ReadError>;
}
