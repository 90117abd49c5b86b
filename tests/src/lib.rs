//! What the whole-system tests share: the real binary, tables to test on, golden values, and ways to do harm.
//!
//! The tests in `tests/tests` start real processes and look at what a user sees: exit codes, what is said, bytes on the disk. What they
//! expect comes from `tests/golden` (published, or computed by other programs), from the rules written a second time, or from a law;
//! never from what Strata printed once.
//!
//! Tests that take minutes are marked `#[ignore]`; `cargo test -p strata-tests --release -- --ignored` runs them.

pub mod binary;
pub mod cluster;
pub mod command;
pub mod fixture;
pub mod golden;
pub mod harm;
pub mod hosts;
pub mod place;
pub mod reading;
pub mod rules2048;
pub mod s3;
pub mod slurm;

pub use command::{Ran, Running, run, start, strata};
pub use fixture::{Fixture, copy_table, fixture};

use std::path::Path;

/// A path as text.
///
/// # Panics
/// When it is not UTF-8: the tests choose plain names.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("the tests choose plain names")
}
