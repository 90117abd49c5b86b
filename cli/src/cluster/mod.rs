//! What the verbs of a cluster share: how to reach the coordinator, and what is said of jobs and workers.

pub mod client;
pub mod lead;
pub mod metrics;
pub mod steer;
pub mod tls;
pub mod view;

/// Names the process that started this one and must not be outlived by it.
pub const PARENT: &str = "STRATA_PARENT";

/// Ends this process in order when the one that started it, and said so, ends.
pub fn end_with_parent() {
    let parent = std::env::var(PARENT).ok().and_then(|text| text.parse::<i32>().ok());
    let Some(parent) = parent else { return };
    #[cfg(target_os = "linux")]
    {
        // Where it cannot be arranged the process lives on, as it would without.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
        if rustix::process::getppid().is_none_or(|now| now.as_raw_nonzero().get() != parent) {
            std::process::exit(i32::from(crate::failure::FAILED)); // it ended meanwhile
        }
    }
    let _ = parent;
}

/// Where a coordinator listens when nothing else is said.
pub const LISTEN: &str = "127.0.0.1:7240";
