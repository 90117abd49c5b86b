//! The coordinator: plans a table's tasks, leases them to workers, stitches the results, publishes the table.
//!
//! placeholder

pub mod audit;
pub mod content;
pub mod plan;
pub mod record;
pub mod scheduler;
#[cfg(test)]
mod testing;
