//! What the verbs of a cluster share: how to reach the coordinator, and what is said of jobs and workers.

pub mod client;
pub mod steer;
pub mod tls;
pub mod view;

/// Where a coordinator listens when nothing else is said.
pub const LISTEN: &str = "127.0.0.1:7240";
