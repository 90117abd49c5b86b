//! What the services, the drivers of the jobs and the clock share.

use crate::job::Job;
use crate::metrics::Metrics;
use crate::replay::blocking;
use crate::scheduler::{PauseCause, Phase, Policy, Worker};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use strata_games::{StateSpace, TableName};
use strata_storage::{Place, Store, StoreError};
use tokio::sync::{Notify, watch};
use tonic::Status;

/// Says where a table's directory is.
pub type Locate = Arc<dyn Fn(&TableName) -> Place + Send + Sync>;
/// Opens the state space of a table; the sentence says why it cannot be done.
pub type OpenSpace = Arc<dyn Fn(&TableName) -> Result<Box<dyn StateSpace>, String> + Send + Sync>;

/// A worker that has been silent for so many leases does not count any more when memory is judged.
const LEASES_UNTIL_GONE: u32 = 4;
/// A worker that has been silent for this long must register again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// Bits of a worker's number that count the workers of one life of a coordinator; the bits above are the time of its start.
const WORKER_BITS: u32 = 20;

struct Known {
    worker: Worker,
    threads: u32,
    seen: Duration,
    tasks_done: u64,
    draining: bool,
}

/// A worker, as people see it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Who it is.
    pub worker: Worker,
    /// Threads it computes with.
    pub threads: u32,
    /// For how long it has been silent.
    pub silent: Duration,
    /// Results of its that were taken.
    pub tasks_done: u64,
    /// Whether it is to get no more tasks.
    pub draining: bool,
    /// Why it is not trusted; empty where it is.
    pub quarantined: String,
}

/// See the head of this file.
pub struct Core {
    /// Version of this build; workers must have the same.
    pub build: String,
    /// How patient the schedulers are.
    pub policy: Policy,
    /// Where tables are.
    pub locate: Locate,
    /// How games are opened.
    pub open: OpenSpace,
    /// Where the tables of a cluster are, which workers are told; none in a build within one process.
    pub store: Option<Store>,
    /// One submission at a time.
    pub submitting: tokio::sync::Mutex<()>,
    /// What is counted.
    pub metrics: Metrics,
    started: Instant,
    jobs: Mutex<BTreeMap<String, Arc<Job>>>,
    workers: Mutex<BTreeMap<u64, Known>>,
    /// By name: workers that were found to be wrong, as they were when that was found.
    quarantined: Mutex<BTreeMap<String, Seen>>,
    next_worker: AtomicU64,
    next_job: AtomicU64,
    ready: Notify,
    stopping: watch::Sender<bool>,
    /// All jobs are over, and workers may leave.
    dismissing: AtomicBool,
    busy: watch::Sender<usize>,
}

/// A worker that waits for a task is silent for ten seconds at most.
const LONGEST_SILENCE: Duration = Duration::from_secs(12);

/// While one exists, a shutdown waits.
pub struct Busy(Arc<Core>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|count| *count -= 1);
    }
}

impl Core {
    /// A coordinator without jobs.
    pub fn new(build: String, policy: Policy, locate: Locate, open: OpenSpace, store: Option<Store>) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_ms = u64::try_from(since_1970.as_millis()).unwrap_or(0);
        Core {
            build,
            policy,
            locate,
            open,
            store,
            submitting: tokio::sync::Mutex::new(()),
            metrics: Metrics::default(),
            started: Instant::now(),
            jobs: Mutex::new(BTreeMap::new()),
            workers: Mutex::new(BTreeMap::new()),
            quarantined: Mutex::default(),
            next_worker: AtomicU64::new((start_ms << WORKER_BITS) + 1),
            next_job: AtomicU64::new(0),
            ready: Notify::new(),
            stopping: watch::Sender::new(false),
            dismissing: AtomicBool::new(false),
            busy: watch::Sender::new(0),
        }
    }

    /// The time, as schedulers count it.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn jobs_map(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job of a table.
    pub fn job(&self, table: &str) -> Option<Arc<Job>> {
        self.jobs_map().get(table).cloned()
    }

    /// All jobs, in the order in which they are served.
    pub fn jobs(&self) -> Vec<Arc<Job>> {
        let mut jobs: Vec<Arc<Job>> = self.jobs_map().values().cloned().collect();
        jobs.sort_by_key(|job| (std::cmp::Reverse(job.priority()), job.number));
        jobs
    }

    /// Adds a job, or replaces the one that was over.
    pub fn insert(&self, job: Arc<Job>) {
        self.jobs_map().insert(job.table.clone(), job);
    }

    /// Number for a new job.
    pub fn job_number(&self) -> u64 {
        self.next_job.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a worker in. Jobs that waited for one as large as this go on.
    pub fn register(&self, name: String, memory_bytes: u64, threads: u32) -> u64 {
        let id = self.next_worker.fetch_add(1, Ordering::Relaxed);
        let now = self.now();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|_, known| now.saturating_sub(known.seen) < FORGOTTEN_AFTER);
        let worker = Worker { id, name, memory_bytes };
        workers.insert(id, Known { worker, threads, seen: now, tasks_done: 0, draining: false });
        drop(workers);
        for job in self.jobs() {
            job.schedule(|scheduler| match scheduler.phase() {
                Phase::Paused(PauseCause::Memory(need), _) if *need <= memory_bytes => scheduler.resume(),
                Phase::Paused(PauseCause::Opinion, _) => scheduler.resume(),
                _ => {}
            });
        }
        self.wake();
        id
    }

    /// A worker that is known; it has just been heard of.
    pub fn worker(&self, id: u64) -> Option<Worker> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = workers.get_mut(&id)?;
        known.seen = self.now();
        Some(known.worker.clone())
    }

    /// Trusts the workers of a name no more, until this coordinator ends, and takes back what they hold.
    pub fn quarantine(&self, name: &str, reason: &str) {
        let now = self.now();
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_name: Vec<Seen> =
            workers.values().filter(|known| known.worker.name == name).map(|known| seen_of(known, now)).collect();
        drop(workers);
        for seen in &of_name {
            self.take_back(seen.worker.id);
        }
        // One that has left may come back.
        let worker = Worker { id: 0, name: name.into(), memory_bytes: 0 };
        let unknown =
            Seen { worker, threads: 0, silent: Duration::ZERO, tasks_done: 0, draining: false, quarantined: String::new() };
        let seen = Seen { quarantined: reason.into(), ..of_name.into_iter().next_back().unwrap_or(unknown) };
        self.quarantine_list().entry(name.into()).or_insert(seen);
    }

    fn quarantine_list(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.quarantined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the workers of a name are not trusted; `None` where they are.
    pub fn distrusts(&self, name: &str) -> Option<String> {
        self.quarantine_list().get(name).map(|seen| format!("worker {name} is quarantined, because {}", seen.quarantined))
    }

    /// The workers that were found to be wrong.
    pub fn quarantined(&self) -> Vec<Seen> {
        self.quarantine_list().values().cloned().collect()
    }

    /// The workers that were heard of within a few leases, by number. Without those that are quarantined.
    pub fn seen(&self) -> Vec<Seen> {
        let now = self.now();
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = self.quarantine_list();
        let seen = workers.values().filter(|known| !wrong.contains_key(&known.worker.name)).map(|known| seen_of(known, now));
        seen.filter(|seen| seen.silent < self.policy.lease * LEASES_UNTIL_GONE).collect()
    }

    /// The other workers that were heard of lately and get tasks.
    pub fn others(&self, id: u64) -> Vec<Worker> {
        let now = self.now();
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = self.quarantine_list();
        let is_trusted = |known: &Known| !known.draining && !wrong.contains_key(&known.worker.name);
        let lately = self.policy.lease.max(LONGEST_SILENCE);
        let is_there = |known: &&Known| is_trusted(known) && now.saturating_sub(known.seen) < lately;
        workers.values().filter(is_there).map(|known| known.worker.clone()).filter(|other| other.id != id).collect()
    }

    /// Counts a result that was taken.
    pub fn did_a_task(&self, id: u64) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = workers.get_mut(&id) {
            known.tasks_done += 1;
        }
    }

    /// Whether a worker is to get no more tasks.
    pub fn is_draining(&self, id: u64) -> bool {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).get(&id).is_some_and(|known| known.draining)
    }

    /// Gives no more tasks to the workers of this name, or to the one of this number; says their numbers.
    pub fn drain(&self, name: &str) -> Vec<u64> {
        let number = name.parse().ok();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_name = workers.values_mut().filter(|known| known.worker.name == name || number == Some(known.worker.id));
        let drain = |known: &mut Known| {
            known.draining = true;
            known.worker.id
        };
        let drained = of_name.map(drain).collect();
        drop(workers);
        self.wake();
        drained
    }

    /// What people call a worker, known or not.
    pub fn worker_name(&self, id: u64) -> String {
        self.worker(id).map_or_else(|| format!("number {id}, of an earlier start"), |worker| worker.name)
    }

    /// The largest memory of the workers that are there.
    pub fn largest_memory(&self) -> u64 {
        let now = self.now();
        let there = |known: &&Known| now.saturating_sub(known.seen) < self.policy.lease * LEASES_UNTIL_GONE;
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.values().filter(there).map(|known| known.worker.memory_bytes).max().unwrap_or(0)
    }

    /// Tells waiting workers that there may be something for them.
    pub fn wake(&self) {
        self.ready.notify_waiters();
    }

    /// Resolves when there may be something for a worker. Begins to listen when it is created and enabled.
    pub fn woken(&self) -> tokio::sync::futures::Notified<'_> {
        self.ready.notified()
    }

    /// Whether the coordinator is being shut down.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when it is.
    pub async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // An error means that this core is gone.
        let _ = stopping.wait_for(|&stop| stop).await;
    }

    /// Shuts down: nothing more is given out; returns when nothing more is written and all locks are free.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
        self.wake();
        let mut busy = self.busy.subscribe();
        let _ = busy.wait_for(|&count| count == 0).await;
    }

    /// A worker that does not count any more.
    pub fn forget(&self, id: u64) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Takes back all leases of a worker, which has nothing to answer for; says how many.
    pub fn take_back(&self, id: u64) -> usize {
        let taken = self.jobs().iter().filter_map(|job| job.schedule(|scheduler| scheduler.take_back(id))).sum();
        self.wake();
        taken
    }

    /// Whether a worker that asks for a task may leave for good. Then it does not count any more.
    pub fn lets_go(&self, id: u64) -> bool {
        // A build within one process ends with its coordinator; workers of a network wait for the next one.
        let over = self.dismissing.load(Ordering::Relaxed) || self.is_stopping() && self.store.is_none();
        if over || self.is_draining(id) {
            self.forget(id);
            return true;
        }
        false
    }

    /// Lets all workers go. Returns when they have heard it, or after so long.
    pub async fn dismiss(&self, limit: Duration) {
        self.dismissing.store(true, Ordering::Relaxed);
        let end = Instant::now() + limit;
        while !self.seen().is_empty() && Instant::now() < end {
            self.wake();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Makes a shutdown wait. `None` when it has begun.
    pub fn busy(self: &Arc<Self>) -> Option<Busy> {
        self.busy.send_modify(|count| *count += 1);
        let busy = Busy(Arc::clone(self));
        (!self.is_stopping()).then_some(busy)
    }

    /// Takes back leases whose time is over, now and again, until the coordinator stops.
    pub async fn watch_leases(self: Arc<Self>) {
        let pause = (self.policy.lease / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
        loop {
            tokio::select! {
                () = self.stopped() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let now = self.now();
            for job in self.jobs() {
                let due = job.peek(|scheduler| scheduler.next_expiry()).is_some_and(|expiry| expiry <= now);
                if job.peek(|scheduler| scheduler.has_straggler(now).then_some(())).is_some() {
                    self.wake();
                }
                let late = if due { job.schedule(|scheduler| scheduler.expire(now)).unwrap_or(0) } else { 0 };
                self.metrics.expired.inc_by(late as u64);
                if late > 0 {
                    tracing::warn!(table = %job.table, "a lease was not renewed in time; its task is given out again");
                    self.wake();
                }
            }
        }
    }
}

fn seen_of(known: &Known, now: Duration) -> Seen {
    Seen {
        worker: known.worker.clone(),
        threads: known.threads,
        silent: now.saturating_sub(known.seen),
        tasks_done: known.tasks_done,
        draining: known.draining,
        quarantined: String::new(),
    }
}

/// What a client or a worker hears of a failure of the store.
pub fn status_of(error: &StoreError) -> Status {
    let message = error.to_string();
    match error {
        StoreError::NotPermitted { .. } | StoreError::ReadOnly { .. } => Status::permission_denied(message),
        StoreError::DiskFull { .. } => Status::resource_exhausted(message),
        // Whoever leads now takes it.
        StoreError::NotLeading { .. } => Status::unavailable(message),
        StoreError::BadName { .. } => Status::invalid_argument(message),
        // It may pass: credentials are renewed.
        StoreError::Other { .. } | StoreError::Refused { .. } => Status::internal(message),
        _ => Status::failed_precondition(message),
    }
}

/// Runs something that blocks, for a call.
pub async fn blocking_call<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    blocking(work).await.map_err(|error| Status::internal(error.to_string()))
}
