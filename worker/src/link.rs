//! The worker's side of the conversation: calls that are repeated until they are answered.
//!
//! A coordinator may be away for a while (restarted, cut off) and a worker must neither give up nor hammer it. Calls fail in four ways:
//! the coordinator is *away* (tried again, with pauses that double up to five seconds), it is *in trouble* (tried a few times
//! more), it does not *know* this worker (it was restarted: register again), or it *refuses* (no use trying again).

use crate::run::Notice;
use std::future::Future;
use std::time::{Duration, Instant};
use strata_proto::v1::work_client::WorkClient;
use strata_proto::{MAX_MESSAGE_BYTES, QUARANTINED, reason};
use strata_storage::StoreError;
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a call is tried that the coordinator answers with an internal error.
const TRIES_IN_TROUBLE: u32 = 5;

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The worker was told to stop, or the time for this call is over.
    Stopped,
    /// The coordinator does not know this worker any more.
    Unknown,
    /// It answered that the call is wrong, or is in trouble for good.
    Refused(String),
    /// It has found this worker to compute wrong numbers.
    Quarantined(String),
    /// What it names as the store cannot be used from here.
    Store(StoreError),
    /// It was away for longer than the worker's patience.
    Away { waited: Duration, last: String },
}

enum Class {
    Away,
    Trouble,
    Unknown,
    Refused,
}

fn class(status: &Status) -> Class {
    // What a transport says: whoever listens there is no coordinator, or not yet.
    if std::error::Error::source(status).is_some() {
        return Class::Away;
    }
    match status.code() {
        // Broken transports surface as Unknown and Internal too, depending on which layer noticed.
        // A store that is full takes a result when there is room again.
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::ResourceExhausted => Class::Away,
        Code::Internal | Code::Aborted | Code::DataLoss => Class::Trouble,
        Code::NotFound | Code::Unauthenticated => Class::Unknown,
        _ => Class::Refused,
    }
}

/// A client that repeats its calls.
#[derive(Clone)]
pub(crate) struct Link {
    client: WorkClient<Channel>,
    stop: watch::Receiver<bool>,
    patience: Duration,
    notice: Notice,
}

/// A coordinator that is away for so long is worth a word.
const WORTH_A_WORD: Duration = Duration::from_secs(3);

impl Link {
    pub(crate) fn new(channel: Channel, stop: watch::Receiver<bool>, patience: Duration, notice: Notice) -> Self {
        let client =
            WorkClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES);
        Self { client, stop, patience, notice }
    }

    /// Whether the worker was told to stop. Also true when the other end of the line is gone: then nobody could tell.
    pub(crate) fn stopping(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    /// Returns when the worker is told to stop.
    pub(crate) async fn told_to_stop(&self) {
        let mut stop = self.stop.clone();
        // An error means that the sender is gone, which counts as being told.
        let _ = stop.wait_for(|&stop| stop).await;
    }

    /// One try of a call, at most `limit` long.
    pub(crate) async fn once<T, F, Fut>(&self, limit: Duration, call: F) -> Result<T, Status>
    where
        F: FnOnce(WorkClient<Channel>) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        match tokio::time::timeout(limit, call(self.client.clone())).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!("no answer within {} ms", limit.as_millis()))),
        }
    }

    /// Tries until there is an answer, or the worker is told to stop.
    pub(crate) async fn call<T, F, Fut>(&self, limit: Duration, call: F) -> Result<T, CallError>
    where
        F: FnMut(WorkClient<Channel>) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        tokio::select! {
            biased;
            () = self.told_to_stop() => Err(CallError::Stopped),
            answer = self.repeat(limit, self.patience, call) => answer,
        }
    }

    /// Tries for `time` at most, whether the worker was told to stop or not: the last words of a worker that leaves.
    pub(crate) async fn last_words<T, F, Fut>(&self, time: Duration, call: F) -> Result<T, CallError>
    where
        F: FnMut(WorkClient<Channel>) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        tokio::time::timeout(time, self.repeat(time, self.patience, call)).await.unwrap_or(Err(CallError::Stopped))
    }

    async fn repeat<T, F, Fut>(&self, limit: Duration, patience: Duration, mut call: F) -> Result<T, CallError>
    where
        F: FnMut(WorkClient<Channel>) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        let (mut troubles, mut said) = (0, false);
        loop {
            let status = match self.once(limit, &mut call).await {
                Ok(answer) => {
                    if said {
                        (self.notice)("the coordinator answers again");
                    }
                    return Ok(answer);
                }
                Err(status) => status,
            };
            match class(&status) {
                Class::Unknown => return Err(CallError::Unknown),
                Class::Refused if status.metadata().contains_key(QUARANTINED) => {
                    return Err(CallError::Quarantined(status.message().to_owned()));
                }
                Class::Refused => return Err(CallError::Refused(status.message().to_owned())),
                Class::Trouble => {
                    troubles += 1;
                    if troubles == TRIES_IN_TROUBLE {
                        return Err(CallError::Refused(status.message().to_owned()));
                    }
                }
                Class::Away => {
                    let waited = start.elapsed();
                    if waited >= WORTH_A_WORD && !said {
                        said = true;
                        (self.notice)(&format!("the coordinator does not answer ({}); waiting for it", reason(&status)));
                    }
                    if waited >= patience {
                        return Err(CallError::Away { waited, last: reason(&status) });
                    }
                }
            }
            tracing::debug!(error = %status, pause_ms = pause.as_millis(), "the coordinator does not answer; trying again");
            tokio::time::sleep(pause + jitter(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Up to a quarter of the pause, so that workers that lost their coordinator together do not come back together.
fn jitter(pause: Duration) -> Duration {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    (pause / 4).mul_f64(f64::from(nanos % 1024) / 1024.0)
}
