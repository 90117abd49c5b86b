//! The messages between Strata's coordinator, its workers and its clients.
//!
//! The `.proto` files beside this crate document every message and field; the code here is generated from them at build time by
//! `protox`, in pure Rust. An embedded build (`strata build`) sends exactly these messages over an in-process transport.

/// Version 1 of the protocol: package `strata.v1`.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("strata.v1");
}

/// Why a call has no answer. Transports wrap what happened several times: what the system said is inside.
pub fn reason(status: &tonic::Status) -> String {
    let mut cause = std::error::Error::source(status);
    let mut text = status.message().to_owned();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

/// Metadata of a refusal that is about this worker alone: it was found to compute wrong numbers.
pub const QUARANTINED: &str = "strata-quarantined";

/// Number of the protocol spoken by this build. A coordinator refuses a worker that speaks another one.
pub const PROTOCOL: u32 = 1;

/// Largest message either side accepts, in bytes. Shards never travel inside messages, so nothing legitimate comes near it: the
/// largest is a commit of a stage of a thousand layers, at about 200 bytes an output.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
