//! Rules and state spaces of the games that Strata solves: pure functions of a table's name, no input or output.
//!
//! [`TableName`] says which table; [`open`] gives its [`StateSpace`]: layers, plan, kernels, and the rules for probing.

mod columns;
mod keys;
pub mod memory;
mod name;
mod space;

pub use columns::{Columns, Dists};
pub use keys::{Bitmap, Keys};
pub use name::{FAIR_DOUBLES, NameError, PUBLISHED_FOUR, Spec2048, SpecBearoff, TableName};
pub use space::*;
