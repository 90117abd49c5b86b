//! A worker's life: introduce itself, then lease a task, run it, hand it in, and again.
//!
//! ```text
//! self-test ─▶ register ─▶ lease ─▶ run ─▶ complete ─┐      while a task runs: a heartbeat every third of the lease
//!                 ▲          ▲  └──────▶ fail ───────┤      told to stop: the kernel stops, the task goes back, the worker ends
//!                 │          └───────────────────────┤      coordinator away: wait, longer each time, up to five seconds
//!                 └── coordinator was restarted ─────┘
//! ```
//!
//! A failure of a task is the task's, not the worker's: a panic of a kernel, a full disk, a damaged input are reported and the worker
//! asks for the next task. What ends a worker early is in [`WorkerError`].

use crate::control::{Control, StopOnDrop};
use crate::convert;
use crate::error::WorkerError;
use crate::execute::{self, Ended, Job, Output};
use crate::link::{CallError, Link};
use crate::self_test;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strata_games::TableName;
use strata_proto::v1::complete_reply::Verdict;
use strata_proto::v1::fail_request::Reason;
use strata_proto::{PROTOCOL, v1};
use strata_storage::{Place, Shelf, Store, StoreError};
use tokio::sync::{oneshot, watch};
use tonic::transport::Channel;

/// Longest time a coordinator may hold a request for a task open.
const LONG_POLL: Duration = Duration::from_secs(10);
/// Longest time a call that is not held open may take.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// How long a worker that was told to stop tries to give its task back.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How long a worker that was told to stop tries to hand in a task that is just finished.
const LAST_RESULT: Duration = Duration::from_secs(15);

/// Where a table lives.
pub type Locate = Arc<dyn Fn(&TableName) -> Place + Send + Sync>;

/// Where copies of the files of an object store are kept.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The folder; made when it is needed and missing.
    pub folder: PathBuf,
    /// Bytes that may be in it.
    pub bytes: u64,
}

/// Where the tables are.
#[derive(Clone)]
pub enum Tables {
    /// Each in a place of its own. Where that is in an object store, copies are kept on the shelf.
    At(Locate, Option<Shelf>),
    /// In the directory or the object store that the coordinator names, a folder for each.
    AsTold {
        /// Where copies are kept, if it is an object store.
        cache: CacheConfig,
        /// Whether an object store without TLS will do.
        allow_http: bool,
    },
    /// In this one, whatever the coordinator calls it: the same directory may have another path here.
    Under(PathBuf),
}

impl Tables {
    /// Where a table is, when the coordinator says that they are in `store`, and where copies of its files are kept.
    async fn find(&self, store: &str) -> Result<Found, StoreError> {
        let under = |store: Store| -> Locate { Arc::new(move |name| store.place(&name.to_string())) };
        let (locate, shelf) = match self {
            Tables::At(locate, shelf) => (Arc::clone(locate), shelf.clone()),
            Tables::Under(_) if store.contains("://") => {
                let what = "it is an object store, and this worker was told of a directory; leave --store out".into();
                return Err(StoreError::BadUrl { url: store.to_owned(), what });
            }
            Tables::Under(folder) => (under(Store::Folder(folder.clone())), None),
            Tables::AsTold { cache, allow_http } => match Store::open(store, *allow_http)? {
                store @ Store::Folder(_) => (under(store), None),
                Store::Bucket(bucket) => {
                    let shelf = Shelf::open(&cache.folder, cache.bytes)?;
                    // A worker that cannot use it would fail at one task after the other.
                    bucket.reach().await?;
                    (under(Store::Bucket(bucket)), Some(shelf))
                }
            },
        };
        Ok(Found { locate, shelf })
    }
}

/// Where tables were found to be.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) locate: Locate,
    pub(crate) shelf: Option<Shelf>,
}

/// What a worker is.
#[derive(Clone)]
pub struct WorkerConfig {
    /// What people call it, for example host and process id.
    pub name: String,
    /// Version of the program, as `strata --version` prints it. The coordinator refuses another one than its own.
    pub build: String,
    /// Bytes of memory it may use.
    pub memory_bytes: u64,
    /// Threads it computes with; 0 counts as 1.
    pub threads: usize,
    /// Where the tables are.
    pub tables: Tables,
    /// How long the coordinator may be away before the worker gives up. Longer than any sensible pause by default: a day.
    pub patience: Duration,
    /// Told when the coordinator is away, when it is back, and when a task fails: a sentence for people.
    pub notice: Notice,
}

/// Says something to people.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

impl WorkerConfig {
    /// A worker with the default patience.
    pub fn new(name: impl Into<String>, build: impl Into<String>, memory_bytes: u64, threads: usize, tables: Tables) -> Self {
        let patience = Duration::from_secs(24 * 3600);
        Self { name: name.into(), build: build.into(), memory_bytes, threads, tables, patience, notice: Arc::new(|_| {}) }
    }
}

/// Runs tasks until the coordinator has no more for ever, or `stop` becomes true (or its sender is dropped).
///
/// Told to stop, it asks the running kernel to stop, which takes until the kernel's next report of progress, gives the task back and
/// returns `Ok`. All outputs of a task are durable before it is handed in. Must be called inside a tokio runtime with timers.
///
/// # Errors
/// See [`WorkerError`]. Failures of tasks are not errors of the worker.
pub async fn run_worker(channel: Channel, config: WorkerConfig, stop: watch::Receiver<bool>) -> Result<(), WorkerError> {
    run_with(channel, config, stop, execute::all_games()).await
}

/// [`run_worker`] with games of the caller's.
pub(crate) async fn run_with(
    channel: Channel,
    config: WorkerConfig,
    stop: watch::Receiver<bool>,
    games: execute::Games,
) -> Result<(), WorkerError> {
    let threads = config.threads.max(1);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("strata-compute-{i}"))
        .build()
        .map_err(|error| WorkerError::Threads { threads, cause: error.to_string() })?;
    let pool = Arc::new(pool);
    let tested = blocking({
        let pool = Arc::clone(&pool);
        move || pool.install(self_test::run)
    });
    tested.await.unwrap_or_else(Err).map_err(WorkerError::SelfTest)?;
    let link = Link::new(channel, stop, config.patience, Arc::clone(&config.notice));
    let tables = Arc::new(execute::Tables::new(games));
    let worker = Worker { link, config, pool, tables, known_as: AtomicU64::new(NOBODY) };
    let lived = worker.live().await;
    if worker.link.stopping() {
        worker.leave().await;
    }
    match lived {
        Ok(()) | Err(CallError::Stopped) => Ok(()),
        Err(CallError::Refused(why)) => Err(WorkerError::Refused(why)),
        Err(CallError::Quarantined(why)) => Err(WorkerError::Quarantined(why)),
        Err(CallError::Store(error)) => Err(WorkerError::Store(error)),
        Err(CallError::Away { waited, last }) => Err(WorkerError::Away { waited, last }),
        // `live` registers again; only a registration that is itself answered so ends here.
        Err(CallError::Unknown) => Err(WorkerError::Refused("it does not accept registrations".into())),
    }
}

/// Runs something on a thread that may block; a panic becomes the error.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

struct Worker {
    link: Link,
    config: WorkerConfig,
    pool: Arc<rayon::ThreadPool>,
    tables: Arc<execute::Tables>,
    /// Its number with the coordinator.
    known_as: AtomicU64,
}

/// No number of a worker.
const NOBODY: u64 = u64::MAX;

/// What the loop does after a task.
enum Next {
    Lease,
    Register,
    Leave,
}

impl Worker {
    async fn live(&self) -> Result<(), CallError> {
        // A store is opened once: its shelf has this process's name on it.
        let mut opened: Option<(String, Found)> = None;
        loop {
            let registered = self.register().await?;
            self.known_as.store(registered.worker_id, Ordering::Relaxed);
            let lease = Duration::from_millis(registered.lease_ms.max(1));
            let found = match opened.take() {
                Some((store, found)) if store == registered.store => found,
                _ => {
                    self.tables.forget();
                    self.config.tables.find(&registered.store).await.map_err(CallError::Store)?
                }
            };
            opened = Some((registered.store, found.clone()));
            loop {
                let task = match self.lease(registered.worker_id).await {
                    Ok(Some(task)) => task,
                    Ok(None) => return Ok(()),
                    Err(CallError::Unknown) => break,
                    Err(other) => return Err(other),
                };
                match self.work(registered.worker_id, lease, task, &found).await {
                    Next::Lease => {}
                    Next::Register => break,
                    Next::Leave => return Ok(()),
                }
            }
            tracing::info!(worker = %self.config.name, "the coordinator was restarted; registering again");
        }
    }

    /// Says that it leaves: a task that was on its way here must not wait until the lease is over.
    async fn leave(&self) {
        let worker_id = self.known_as.load(Ordering::Relaxed);
        if worker_id != NOBODY {
            let call = |mut client: v1::work_client::WorkClient<Channel>| async move {
                client.leave(v1::LeaveRequest { worker_id }).await
            };
            // Nobody there: the lease will run out.
            let _ = self.link.last_words(LAST_WORDS, call).await;
        }
    }

    async fn register(&self) -> Result<v1::RegisterReply, CallError> {
        let request = v1::RegisterRequest {
            protocol: PROTOCOL,
            build: self.config.build.clone(),
            name: self.config.name.clone(),
            memory_bytes: self.config.memory_bytes,
            threads: u32::try_from(self.config.threads.max(1)).unwrap_or(u32::MAX),
        };
        self.link
            .call(CALL_LIMIT, |mut client| {
                let request = request.clone();
                async move { client.register(request).await }
            })
            .await
    }

    /// The next task; `None` when there will never be one.
    async fn lease(&self, worker_id: u64) -> Result<Option<v1::Task>, CallError> {
        let wait_ms = u64::try_from(LONG_POLL.as_millis()).unwrap_or(u64::MAX);
        loop {
            let asked = Instant::now();
            let reply =
                self.link
                    .call(LONG_POLL + CALL_LIMIT, |mut client| async move {
                        client.lease(v1::LeaseRequest { worker_id, wait_ms }).await
                    })
                    .await?;
            match reply.task {
                Some(task) => return Ok(Some(task)),
                None if reply.drained => return Ok(None),
                // A coordinator that does not hold the call open is not asked in a tight loop.
                None if asked.elapsed() < Duration::from_millis(20) => tokio::time::sleep(Duration::from_millis(50)).await,
                None => {}
            }
        }
    }

    /// Runs one task and reports how it ended.
    async fn work(&self, worker_id: u64, lease: Duration, task: v1::Task, found: &Found) -> Next {
        let ticket = Ticket { worker_id, table: task.table.clone(), stage: task.stage, part: task.part, token: task.token };
        tracing::debug!(task = %ticket, attempt = task.attempt, "task leased");
        let started = Instant::now();
        let control = Arc::new(Control::default());
        let _stop_on_drop = StopOnDrop(Arc::clone(&control));
        let mut running = self.start(task, Arc::clone(&control), found);
        let mut beating = std::pin::pin!(self.heartbeats(&ticket, lease, &control));
        let mut silent = false;
        let mut leaving = false;
        let mut forgotten = false;
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                known = &mut beating, if !silent => {
                    silent = true;
                    forgotten = !known;
                    control.stop();
                }
                () = self.link.told_to_stop(), if !leaving => {
                    leaving = true;
                    control.stop();
                }
            }
        };
        let ended = ended.unwrap_or_else(|_| Ended::failed(Reason::Error, "the thread that ran the task died"));
        let elapsed = started.elapsed();
        let leaving = leaving || self.link.stopping();
        let said = match ended {
            Ended::Finished(output) => {
                // The lease is kept alive meanwhile: a full store may take a while.
                let mut completing = std::pin::pin!(self.complete(&ticket, output, elapsed, leaving));
                loop {
                    tokio::select! {
                        said = &mut completing => break said,
                        known = &mut beating, if !silent => {
                            silent = true;
                            forgotten = !known;
                        }
                    }
                }
            }
            // The coordinator has said that it does not want this task any more.
            Ended::Stopped if silent => Ok(()),
            Ended::Stopped => self.fail(&ticket, Reason::Leaving, "the worker was told to stop", leaving).await,
            Ended::Failed { reason, message } => {
                tracing::warn!(task = %ticket, ?reason, message, "task failed");
                (self.config.notice)(&format!("task {ticket} failed: {message}"));
                self.fail(&ticket, reason, &message, leaving).await
            }
        };
        match said {
            _ if leaving => Next::Leave,
            Err(CallError::Stopped) => Next::Leave,
            Err(CallError::Unknown) => Next::Register,
            _ if forgotten => Next::Register,
            Err(CallError::Refused(why) | CallError::Quarantined(why)) => {
                tracing::warn!(task = %ticket, why, "the coordinator refuses the report about the task; dropping it");
                Next::Lease
            }
            // The next lease says whether the coordinator is really gone.
            Err(CallError::Away { .. } | CallError::Store(_)) | Ok(()) => Next::Lease,
        }
    }

    /// Starts the kernel on a thread of its own.
    fn start(&self, task: v1::Task, control: Arc<Control>, found: &Found) -> oneshot::Receiver<Ended> {
        let (send, receive) = oneshot::channel();
        let memory_bytes = match task.memory_bytes {
            0 => self.config.memory_bytes,
            less => less.min(self.config.memory_bytes),
        };
        let job = Job {
            task,
            control,
            pool: Arc::clone(&self.pool),
            tables: Arc::clone(&self.tables),
            found: found.clone(),
            memory_bytes,
        };
        let spawned = std::thread::Builder::new().name("strata-task".into()).spawn(move || {
            // Nobody listens any more when the worker was dropped; then the result is not wanted.
            let _ = send.send(job.run());
        });
        if let Err(error) = spawned {
            let (send, receive) = oneshot::channel();
            let _ = send.send(Ended::failed(Reason::Error, &format!("cannot start a thread: {error}")));
            return receive;
        }
        receive
    }

    /// Keeps the lease alive; returns when the task is not to go on, with whether the coordinator still knows this worker.
    async fn heartbeats(&self, ticket: &Ticket, lease: Duration, control: &Control) -> bool {
        let period = (lease / 3).max(Duration::from_millis(1));
        loop {
            tokio::time::sleep(period).await;
            let request = ticket.heartbeat(control);
            // One try: when it fails the next period tries again, and the kernel goes on meanwhile. If the lease is lost by
            // then, the coordinator will say so.
            match self
                .link
                .once(lease.max(Duration::from_millis(100)), |mut client| async move { client.heartbeat(request).await })
                .await
            {
                Ok(reply) if reply.go_on => {}
                Ok(_) => return true,
                Err(status) if matches!(status.code(), tonic::Code::NotFound | tonic::Code::Unauthenticated) => return false,
                Err(status) => tracing::debug!(task = %ticket, error = %status, "heartbeat not answered"),
            }
        }
    }

    async fn complete(&self, ticket: &Ticket, output: Output, elapsed: Duration, leaving: bool) -> Result<(), CallError> {
        let request = v1::CompleteRequest {
            worker_id: ticket.worker_id,
            table: ticket.table.clone(),
            stage: ticket.stage,
            part: ticket.part,
            token: ticket.token,
            outputs: output.files.iter().map(convert::to_message).collect(),
            counts: output.counts,
            stats: output.stats,
            facts: output.facts,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        };
        let call = |mut client: v1::work_client::WorkClient<Channel>| {
            let request = request.clone();
            async move { client.complete(request).await }
        };
        let mut reply = if leaving { Err(CallError::Stopped) } else { self.link.call(CALL_LIMIT, call).await };
        if matches!(reply, Err(CallError::Stopped)) {
            // The result is there: throwing it away would cost more than a moment.
            reply = self.link.last_words(LAST_RESULT, call).await;
        }
        match reply?.verdict() {
            Verdict::Accepted => tracing::debug!(task = %ticket, ms = elapsed.as_millis(), "task done"),
            Verdict::AlreadyDone => tracing::info!(task = %ticket, "somebody else had handed in the same result"),
            Verdict::Stale => tracing::info!(task = %ticket, "the lease had expired; the result is dropped"),
            Verdict::Conflict => tracing::error!(task = %ticket, "somebody else handed in another result for the same task"),
            Verdict::Unspecified => tracing::warn!(task = %ticket, "the coordinator gives a verdict this build does not know"),
        }
        Ok(())
    }

    async fn fail(&self, ticket: &Ticket, reason: Reason, message: &str, leaving: bool) -> Result<(), CallError> {
        let request = v1::FailRequest {
            worker_id: ticket.worker_id,
            table: ticket.table.clone(),
            stage: ticket.stage,
            part: ticket.part,
            token: ticket.token,
            reason: reason.into(),
            message: shortened(message),
        };
        let call = |mut client: v1::work_client::WorkClient<Channel>| {
            let request = request.clone();
            async move { client.fail(request).await }
        };
        let mut reply = if leaving { Err(CallError::Stopped) } else { self.link.call(CALL_LIMIT, call).await };
        if matches!(reply, Err(CallError::Stopped)) {
            reply = self.link.last_words(LAST_WORDS, call).await;
        }
        reply.map(|_| ())
    }
}

/// Messages are for people; a page is enough.
fn shortened(message: &str) -> String {
    const LONGEST: usize = 4000;
    if message.chars().count() <= LONGEST {
        message.to_owned()
    } else {
        message.chars().take(LONGEST).chain("...".chars()).collect()
    }
}

/// What every call about a task carries.
struct Ticket {
    worker_id: u64,
    table: String,
    stage: u32,
    part: u32,
    token: u64,
}

impl Ticket {
    fn heartbeat(&self, control: &Control) -> v1::HeartbeatRequest {
        v1::HeartbeatRequest {
            worker_id: self.worker_id,
            table: self.table.clone(),
            stage: self.stage,
            part: self.part,
            token: self.token,
            positions: control.positions(),
            layer: control.layer().0,
        }
    }
}

impl std::fmt::Display for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}.{}", self.table, self.stage, self.part)
    }
}

#[cfg(test)]
mod tests;
