//! Rules and state spaces of the games that Strata solves: pure functions of a table's name, no input or output.
//!
//! [`TableName`] says which table; [`open`] gives its [`StateSpace`]: layers, plan, kernels, and the rules for probing.

mod array;
pub mod bearoff;
mod columns;
pub mod conformance;
mod floats;
pub mod game2048;
mod hash;
mod hooked;
mod keys;
pub mod memory;
mod name;
mod space;

pub use array::{Array, Releaser, Scratch};
pub use columns::{Columns, ColumnsView, Dists};
pub use hooked::{Hook, Hooked};
pub use keys::{Bitmap, Keys};
pub use name::{FAIR_DOUBLES, Keep, MOST_PARTS, NameError, PUBLISHED_FOUR, Spec2048, SpecBearoff, SpecTwoSided, TableName};
pub use space::*;

/// A table whose state space cannot be handled, with the numbers.
#[derive(thiserror::Error, Clone, PartialEq, Debug)]
#[error("{table} is too large: {problem}")]
pub struct OpenError {
    /// The table.
    pub table: TableName,
    /// What is too large, and by how much.
    pub problem: String,
    /// What to ask for instead.
    pub help: String,
}

/// Opens the state space of a table: plans it, builds its tables of moves and ranks. Takes milliseconds for small tables and about a
/// second for the largest.
pub fn open(name: &TableName) -> Result<Box<dyn StateSpace>, OpenError> {
    match name {
        TableName::Game2048(spec) => game2048::open(spec),
        TableName::Bearoff(spec) => Ok(Box::new(bearoff::Bearoff::new(spec))),
        TableName::TwoSided(spec) => Ok(Box::new(bearoff::TwoSided::open(spec)?)),
    }
}
