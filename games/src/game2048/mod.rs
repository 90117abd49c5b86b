//! 2048 on boards of 2 to 4 rows and columns.
//!
//! Layers are ages (sums of tiles), keys are afterstates (states where moves are kept), ranks are those of [`ranks`]. Rules as in Cirulli's game: a start has two
//! random tiles, a move must change the board, one merge a tile a move from the wall, reward is the face value of what a merge
//! makes, then a 2 or (with probability `+four`) a 4 appears on a uniformly random empty cell. Play goes on past 2048.
//!
//! The engine turns a board so that it has no more rows than columns; a rectangle and the same rectangle on its side are one game.
//!
//! With `+tile=T` a state that holds T has no moves and the value 1. With `+horizon=AGE` a state beyond that age has no moves and
//! the value 0; an afterstate of the last age is stored, and worth what the states beyond it are worth.

mod after;
mod backward;
mod best;
mod bits;
mod cut;
mod forward;
pub(crate) mod lanes;
pub mod lines;
mod moves;
mod plan;
mod probe;
pub mod ranks;
mod room;
pub mod rows;
mod spawn;
mod square;
mod states;
#[cfg(test)]
mod tests;
mod vertical;

use crate::OpenError;
use crate::name::{Keep, Spec2048, TableName};
use crate::space::*;
use lines::Lines;
use plan::{Step, Sweep};
use ranks::{Blocks, LayerRanks, Rows};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The state space of one 2048 table, on an engine board of `R` rows and `C` columns, `R <= C`.
pub struct Game2048<const R: usize, const C: usize> {
    name: TableName,
    spec: Spec2048,
    rows: Arc<Rows<R, C>>,
    recent: Recent<LayerRanks<R, C>>,
    outlines: Recent<Blocks>,
    lines: Lines<R, C>,
    layers: Vec<LayerInfo>,
    stages: plan::Stages,
}

/// Opens the state space of a 2048 table.
pub fn open(spec: &Spec2048) -> Result<Box<dyn StateSpace>, OpenError> {
    let small = spec.rows.min(spec.cols);
    let large = spec.rows.max(spec.cols);
    Ok(match (small, large) {
        (2, 2) => Box::new(Game2048::<2, 2>::new(spec)?),
        (2, 3) => Box::new(Game2048::<2, 3>::new(spec)?),
        (2, 4) => Box::new(Game2048::<2, 4>::new(spec)?),
        (3, 3) => Box::new(Game2048::<3, 3>::new(spec)?),
        (3, 4) => Box::new(Game2048::<3, 4>::new(spec)?),
        _ => Box::new(Game2048::<4, 4>::new(spec)?),
    })
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// Plans a table.
    pub fn new(spec: &Spec2048) -> Result<Self, OpenError> {
        Self::with_parts(spec, plan::PART_RANKS)
    }

    /// Plans a table whose ages are cut, if they are, into parts of at least so many ranks.
    pub(crate) fn with_parts(spec: &Spec2048, part_ranks: u64) -> Result<Self, OpenError> {
        let last = plan::last_age(spec);
        let largest = plan::largest_exponent(spec, last)?;
        let rows = Arc::new(Rows::new(largest, last, spec.tile.map(u32::trailing_zeros)));
        let (layers, is_cut) = plan::layers(spec, &rows, last, part_ranks)?;
        let stages = plan::Stages::new(spec, &layers, is_cut);
        let (name, spec) = (TableName::Game2048(spec.clone()), spec.clone());
        Ok(Self {
            name,
            spec,
            rows,
            recent: Recent::default(),
            outlines: Recent::default(),
            lines: Lines::build(),
            layers,
            stages,
        })
    }

    /// The ranks of an age. Laying them out takes about as long as ranking ten thousand boards, so those of the ages used last are
    /// kept: play from a key touches three.
    fn ranks(&self, age: u32) -> Arc<LayerRanks<R, C>> {
        self.recent.get(age, || LayerRanks::new(&self.rows, age))
    }

    /// The blocks of an age, for who ranks no boards.
    fn outline(&self, age: u32) -> Arc<Blocks> {
        self.outlines.get(age, || Blocks::new(&self.rows, age))
    }

    /// The last age of the table.
    fn last_age(&self) -> u32 {
        self.layers[self.layers.len() - 1].layer.0
    }

    /// The layer of an age; `None` when the table has none.
    fn layer_of(&self, age: u32) -> Option<&LayerInfo> {
        self.layers.get(age.checked_sub(plan::FIRST_AGE)? as usize / 2)
    }

    /// Whether no move is made in this state because the goal is reached or the table ends before it.
    #[inline]
    fn is_stopped(&self, board: u64, age: u32) -> bool {
        age > self.last_age() || self.has_won(board)
    }

    /// Whether the board holds the tile that `+tile` asks for.
    #[inline]
    fn has_won(&self, board: u64) -> bool {
        self.spec.tile.is_some_and(|tile| Lines::<R, C>::largest(board) >= tile.trailing_zeros())
    }

    /// What a move earns at once: its score, or nothing when the value is a probability.
    #[inline]
    fn reward(&self, score: u32) -> f64 {
        if self.spec.tile.is_some() { 0.0 } else { f64::from(score) }
    }

    /// The value of a state without moves.
    #[inline]
    fn value_without_moves(&self, board: u64, age: u32) -> f64 {
        if self.has_won(board) {
            1.0
        } else if self.spec.meaningless && age > self.last_age() {
            meaningless(self.canonical_board(board))
        } else {
            0.0
        }
    }

    /// The smallest of the board's images.
    fn canonical_board(&self, board: u64) -> u64 {
        images::<R, C>(board).into_iter().min().expect("a board has images")
    }

    /// The starts of an age, as boards; each comes once for every way to make it.
    fn start_boards(&self) -> BTreeMap<u64, f64> {
        let cells = R * C;
        let pairs = (cells * (cells - 1)) as f64;
        let chances = [(1u64, 1.0 - self.spec.four), (2, self.spec.four)];
        let mut starts = BTreeMap::new();
        for i in 0..cells {
            for j in (0..cells).filter(|&j| j != i) {
                for (x, px) in chances {
                    for (y, py) in chances {
                        *starts.entry(x << (4 * i) | y << (4 * j)).or_insert(0.0) += px * py / pairs;
                    }
                }
            }
        }
        starts
    }
}

/// What was worked out for the ages used last.
struct Recent<T>(RwLock<Vec<(u32, Arc<T>)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> Recent<T> {
    const KEPT: usize = 16;

    fn get(&self, age: u32, make: impl FnOnce() -> T) -> Arc<T> {
        let recent = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = recent.iter().find(|(of, _)| *of == age) {
            return Arc::clone(found);
        }
        drop(recent);
        let made = Arc::new(make());
        let mut recent = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= Self::KEPT {
            recent.remove(0);
        }
        recent.push((age, Arc::clone(&made)));
        made
    }
}

/// The images of a board under the symmetries that keep its rows rows, and on square boards the others too.
fn images<const R: usize, const C: usize>(board: u64) -> Vec<u64> {
    let permuted = |place: &dyn Fn(usize, usize) -> usize| {
        (0..R * C).map(|i| (board >> (4 * i) & 15) << (4 * place(i / C, i % C))).sum::<u64>()
    };
    let mut images = vec![
        board,
        permuted(&|r, c| r * C + (C - 1 - c)),
        permuted(&|r, c| (R - 1 - r) * C + c),
        permuted(&|r, c| (R - 1 - r) * C + (C - 1 - c)),
    ];
    if R == C {
        for i in 0..4 {
            images.push(Lines::<R, C>::transpose(images[i]));
        }
    }
    images
}

/// A number from 0 to 1000 that depends on nothing but the board: splitmix64 of it.
fn meaningless(board: u64) -> f64 {
    crate::hash::splitmix64(board) as f64 / u64::MAX as f64 * 1000.0
}

impl<const R: usize, const C: usize> StateSpace for Game2048<R, C> {
    fn name(&self) -> &TableName {
        &self.name
    }

    fn layers(&self) -> &[LayerInfo] {
        &self.layers
    }

    fn stages(&self) -> &[Stage] {
        &self.stages.stages
    }

    fn task(&self, task: TaskId) -> TaskPlan {
        match self.stages.steps[task.stage as usize] {
            Step::Enumerate(_) | Step::Backward => plan::task(&self.layers, &self.stages, R == C, task),
            _ => self.task_of_part(task),
        }
    }

    fn scalar_columns(&self) -> &'static [&'static str] {
        match self.spec.keep {
            Keep::Values => &["value"],
            Keep::Play => &["move"],
            Keep::Stats => &["value", "rank"],
        }
    }

    fn dist_columns(&self) -> &'static [&'static str] {
        &[]
    }

    fn aim(&self) -> Aim {
        Aim::Most
    }

    fn run(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        let stage = task.stage as usize;
        match self.stages.steps[stage] {
            Step::Enumerate(sweep) => self.run_forward(stage, sweep != Sweep::Again, io),
            Step::Backward => self.run_backward(stage, io),
            Step::Find(_) | Step::Join(_) => self.find_part(task, io),
            Step::Value => self.value_part(task, io),
            Step::Solve => self.solve_part(task, io),
        }
    }

    fn rank(&self, position: Position) -> Option<Key> {
        let board = self.board(position)?;
        if !self.spec.keep.has_positions() {
            return None;
        }
        let layer = self.layer_of(Lines::<R, C>::age(board))?.layer;
        self.rows.knows(board).then(|| Key { layer, rank: self.ranks(layer.0).rank(board) })
    }

    fn unrank(&self, key: Key) -> Option<Position> {
        // Where samples are kept, their ranks are in a column: this is for those too.
        let info = self.layer_of(key.layer.0).filter(|info| key.rank < info.ranks())?;
        Some(Position(u128::from(self.canonical_board(self.ranks(info.layer.0).unrank(key.rank)))))
    }

    fn canonical(&self, position: Position) -> Position {
        self.board(position).map_or(position, |board| Position(u128::from(self.canonical_board(board))))
    }

    fn chosen(&self, state: Position, table: &dyn TableReader) -> Result<Option<usize>, ReadError> {
        match self.board(state) {
            Some(board) if self.spec.keep == Keep::Play => self.kept_move(board, table),
            _ => Ok(None),
        }
    }

    fn outcomes(&self, key: Position) -> Vec<Outcome> {
        self.board(key).map_or_else(Vec::new, |board| self.spawns(board))
    }

    fn choices(&self, state: Position) -> Vec<Choice> {
        self.board(state).map_or_else(Vec::new, |board| self.legal_moves(board))
    }

    fn terminal_value(&self, state: Position) -> f64 {
        self.board(state).map_or(0.0, |board| self.value_without_moves(board, Lines::<R, C>::age(board)))
    }

    fn expand(&self, key: Position, into: &mut Expansion) {
        if let Some(board) = self.board(key) {
            self.expand_board(board, into);
        }
    }

    fn starts(&self) -> Vec<Outcome> {
        let start = |(board, chance)| {
            let state = Position(u128::from(board));
            Outcome { chance, label: self.format(state), state }
        };
        self.start_boards().into_iter().map(start).collect()
    }

    fn starts_are_states(&self) -> bool {
        true
    }

    fn parse(&self, text: &str) -> Result<Position, PositionError> {
        self.parse_board(text).map(|board| Position(u128::from(board)))
    }

    fn format(&self, position: Position) -> String {
        self.board(position).map_or_else(|| "no board".into(), |board| self.format_board(board))
    }

    fn standing(&self, position: Position, table: &dyn TableReader) -> Result<Standing, ReadError> {
        match self.board(position) {
            Some(board) => self.board_standing(board, table),
            None => Ok(Standing::Impossible("it is no board of this size".into())),
        }
    }
}
