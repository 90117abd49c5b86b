//! Runs the tasks of a table, and reads, checks and forecasts whole tables.
//!
//! * [`run_worker`] is a worker: it leases tasks from a coordinator, runs their kernels over the files of a table, and hands in
//!   what they wrote;
//! * [`GameTable`] lets a game's rules read a finished table;
//! * [`bellman`] recomputes the values of a finished table from the values they depend on;
//! * [`estimate`] says before a build what it will take.

pub mod bellman;
mod control;
mod convert;
mod error;
pub mod estimate;
mod execute;
mod file_io;
mod game_table;
mod link;
mod relief;
mod run;
mod self_test;
#[cfg(test)]
mod testing;
mod verified;
mod writer;

#[cfg(feature = "fault-injection")]
mod faulty;

#[cfg(feature = "fault-injection")]
pub use faulty::run_faulty_worker;

pub use error::{IoFault, WorkerError};
pub use game_table::GameTable;
pub use run::{CacheConfig, Locate, Notice, Tables, WorkerConfig, run_worker};
