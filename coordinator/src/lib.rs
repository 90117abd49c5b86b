//! The coordinator of a build: gives the tasks of a table's plan to workers, writes down what they made, and publishes the table.
//!
//! It knows no game and computes nothing. Its only memory is the store: every finished task has a record there, created durably
//! before the worker hears that its result was taken, and a coordinator that is killed at any moment is simply started again. The main
//! path is one screen, in `drive`:
//!
//! ```text
//!   submit ─▶ lock ─▶ replay: read records, hash what must be sound ─▶ Scheduler
//!                                                                        │  lease, heartbeat, complete, fail (work)
//!                       publish ◀─ all stages stitched ◀─ stitch ◀───────┘
//! ```
//!
//! * [`plan`]: the dependency graph of a table, and its laws;
//! * [`scheduler`]: who does what next, a pure state machine;
//! * [`audit`]: which finished tasks of a store are still finished, also pure;
//! * [`record`]: what is written down, and how damage to it is noticed;
//! * [`Coordinator`]: all of it behind the messages of `strata-proto`.
//!
//! A coordinator serves in its own process ([`Coordinator::serve_in_process`]) or on a network ([`Coordinator::serve`]).
//!
//! Deliberately absent: a database, an election (a directory has a lock), and any judgement by the existence of a file.

pub mod audit;
pub mod content;
mod coordinator;
mod core;
mod doubts;
mod drive;
mod job;
mod jobs;
mod metrics;
pub mod plan;
mod publish;
pub mod record;
mod replay;
mod room;
pub mod scheduler;
mod server;
#[cfg(test)]
mod testing;
mod transport;
mod wish;
mod work;

pub use crate::core::{Locate, OpenSpace};
pub use coordinator::{Coordinator, CoordinatorConfig};
pub use doubts::{InvalidateError, Made, invalidate};
pub use job::is_final;
pub use jobs::JobsService;
pub use server::{COORDINATOR_NAME, KEEPALIVE, ROLE_URI, Role, Tls};
pub use transport::InProcess;
pub use wish::{FoundBuild, found};
pub use work::WorkService;
