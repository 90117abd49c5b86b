//! A game whose kernels are something else: for tests of what runs them.

use crate::name::TableName;
use crate::space::*;

/// What is done for a task instead of the game's own kernel, which it may call.
pub type Hook = Box<dyn Fn(&dyn StateSpace, TaskId, &dyn TaskIo) -> Result<(), TaskError> + Send + Sync>;

/// A game in everything but its kernels.
pub struct Hooked {
    game: Box<dyn StateSpace>,
    hook: Hook,
}

impl Hooked {
    /// Runs `hook` for every task.
    pub fn new(game: Box<dyn StateSpace>, hook: Hook) -> Self {
        Self { game, hook }
    }
}

impl StateSpace for Hooked {
    fn run(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        (self.hook)(&*self.game, task, io)
    }
    fn name(&self) -> &TableName {
        self.game.name()
    }
    fn layers(&self) -> &[LayerInfo] {
        self.game.layers()
    }
    fn stages(&self) -> &[Stage] {
        self.game.stages()
    }
    fn task(&self, task: TaskId) -> TaskPlan {
        self.game.task(task)
    }
    fn scalar_columns(&self) -> &'static [&'static str] {
        self.game.scalar_columns()
    }
    fn dist_columns(&self) -> &'static [&'static str] {
        self.game.dist_columns()
    }
    fn aim(&self) -> Aim {
        self.game.aim()
    }
    fn recursions(&self) -> &'static [Recursion] {
        self.game.recursions()
    }
    fn number_bytes(&self) -> Option<u64> {
        self.game.number_bytes()
    }
    fn published_bytes(&self, layer: Layer) -> Option<u64> {
        self.game.published_bytes(layer)
    }
    fn precision(&self) -> Precision {
        self.game.precision()
    }
    fn rank(&self, position: Position) -> Option<Key> {
        self.game.rank(position)
    }
    fn unrank(&self, key: Key) -> Option<Position> {
        self.game.unrank(key)
    }
    fn canonical(&self, position: Position) -> Position {
        self.game.canonical(position)
    }
    fn outcomes(&self, key: Position) -> Vec<Outcome> {
        self.game.outcomes(key)
    }
    fn choices(&self, state: Position) -> Vec<Choice> {
        self.game.choices(state)
    }
    fn terminal_value(&self, state: Position) -> f64 {
        self.game.terminal_value(state)
    }
    fn starts(&self) -> Vec<Outcome> {
        self.game.starts()
    }
    fn starts_are_states(&self) -> bool {
        self.game.starts_are_states()
    }
    fn parse(&self, text: &str) -> Result<Position, PositionError> {
        self.game.parse(text)
    }
    fn roll_in(&self, text: &str) -> Option<(u8, u8)> {
        self.game.roll_in(text)
    }
    fn format(&self, position: Position) -> String {
        self.game.format(position)
    }
    fn standing(&self, position: Position, table: &dyn TableReader) -> Result<Standing, ReadError> {
        self.game.standing(position, table)
    }
}
