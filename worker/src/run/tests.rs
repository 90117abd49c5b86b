//! The worker against a coordinator that follows a script, over the same transport as an embedded build.

use super::*;
use crate::testing::{hooked, space};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use strata_games::{Layer, StateSpace, TaskError};
use strata_proto::v1::work_server::{Work, WorkServer};
use tonic::{Request, Response, Status};

/// What the worker said.
#[derive(Default)]
struct Heard {
    registered: Vec<v1::RegisterRequest>,
    beats: Vec<v1::HeartbeatRequest>,
    completed: Vec<v1::CompleteRequest>,
    failed: Vec<v1::FailRequest>,
    left: Vec<u64>,
}

#[derive(Default)]
struct Script {
    tasks: Mutex<VecDeque<v1::Task>>,
    heard: Mutex<Heard>,
    refuse: bool,
    /// Heartbeats are answered with "do not go on".
    dismiss: bool,
    /// Calls that are answered with this status first.
    stumble: Mutex<VecDeque<Status>>,
    /// Whether the worker is drained when no task is left.
    drains: bool,
}

#[derive(Clone)]
struct Scripted(Arc<Script>);

impl Scripted {
    fn stumble(&self) -> Result<(), Status> {
        self.0.stumble.lock().unwrap().pop_front().map_or(Ok(()), Err)
    }
}

#[tonic::async_trait]
impl Work for Scripted {
    async fn register(&self, request: Request<v1::RegisterRequest>) -> Result<Response<v1::RegisterReply>, Status> {
        if self.0.refuse {
            return Err(Status::failed_precondition("this coordinator is strata 2, the worker is strata 1"));
        }
        let mut heard = self.0.heard.lock().unwrap();
        heard.registered.push(request.into_inner());
        Ok(Response::new(v1::RegisterReply { worker_id: heard.registered.len() as u64, lease_ms: 60, store: String::new() }))
    }

    async fn lease(&self, _: Request<v1::LeaseRequest>) -> Result<Response<v1::LeaseReply>, Status> {
        self.stumble()?;
        let task = self.0.tasks.lock().unwrap().pop_front();
        let drained = task.is_none() && self.0.drains;
        if task.is_none() && !drained {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Response::new(v1::LeaseReply { task, drained }))
    }

    async fn heartbeat(&self, request: Request<v1::HeartbeatRequest>) -> Result<Response<v1::HeartbeatReply>, Status> {
        self.0.heard.lock().unwrap().beats.push(request.into_inner());
        Ok(Response::new(v1::HeartbeatReply { go_on: !self.0.dismiss }))
    }

    async fn complete(&self, request: Request<v1::CompleteRequest>) -> Result<Response<v1::CompleteReply>, Status> {
        self.stumble()?;
        self.0.heard.lock().unwrap().completed.push(request.into_inner());
        Ok(Response::new(v1::CompleteReply { verdict: Verdict::Accepted.into() }))
    }

    async fn fail(&self, request: Request<v1::FailRequest>) -> Result<Response<v1::FailReply>, Status> {
        self.0.heard.lock().unwrap().failed.push(request.into_inner());
        Ok(Response::new(v1::FailReply {}))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveReply>, Status> {
        self.0.heard.lock().unwrap().left.push(request.into_inner().worker_id);
        Ok(Response::new(v1::LeaveReply {}))
    }
}

/// A channel to the script; the first `absent` connections are refused.
async fn channel(script: &Arc<Script>, absent: u32) -> Channel {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    let served = tokio_stream::wrappers::UnboundedReceiverStream::new(receive);
    let service = WorkServer::new(Scripted(Arc::clone(script)));
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(served));
    let tries = Arc::new(AtomicU32::new(0));
    let connect = tower::service_fn(move |_: tonic::transport::Uri| {
        let answer = if tries.fetch_add(1, Ordering::Relaxed) < absent {
            Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
        } else {
            let (here, there) = tokio::io::duplex(1 << 16);
            send.send(Ok::<_, std::io::Error>(there)).map(|()| hyper_util::rt::TokioIo::new(here)).map_err(std::io::Error::other)
        };
        std::future::ready(answer)
    });
    tonic::transport::Endpoint::from_static("http://in.process").connect_with_connector_lazy(connect)
}

fn config(root: &std::path::Path) -> WorkerConfig {
    let root = root.to_owned();
    WorkerConfig::new(
        "a worker",
        "strata test",
        1 << 30,
        2,
        Tables::At(Arc::new(move |name| root.join(name.to_string()).into()), None),
    )
}

fn task(stage: u32) -> v1::Task {
    v1::Task { table: "2048-2x2".into(), stage, part: 0, token: 7, attempt: 1, inputs: Vec::new(), memory_bytes: 0 }
}

fn games(game: impl StateSpace + 'static) -> execute::Games {
    let game: Arc<dyn StateSpace> = Arc::new(game);
    Arc::new(move |_| Ok(Arc::clone(&game)))
}

fn plain() -> execute::Games {
    games(hooked("2048-2x2", |_, _| Ok(())))
}

fn script(tasks: impl Into<VecDeque<v1::Task>>) -> Script {
    Script { tasks: Mutex::new(tasks.into()), drains: true, ..Script::default() }
}

/// A game whose kernel works until it is told to stop, and the line that says it has begun.
fn endless() -> (execute::Games, Arc<AtomicBool>) {
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let game = hooked("2048-2x2", move |_, io| {
        loop {
            io.progress(Layer(20), 100)?;
            begins.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    (games(game), begun)
}

async fn until(what: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < limit, "it never happened");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_run_and_handed_in_with_durable_files() {
    let (script, dir) = (Arc::new(script([task(0)])), tempfile::tempdir().unwrap());
    let (_keep, stop) = watch::channel(false);
    run_with(channel(&script, 0).await, config(dir.path()), stop, plain()).await.unwrap();
    let heard = script.heard.lock().unwrap();
    assert_eq!((heard.registered[0].protocol, heard.registered[0].threads), (PROTOCOL, 2));
    let completed = &heard.completed[0];
    assert_eq!((completed.worker_id, completed.token, completed.stage), (1, 7, 0));
    let planned = space("2048-2x2").task(strata_games::TaskId { stage: 0, part: 0 }).outputs.len();
    assert_eq!(completed.outputs.len(), planned);
    for file in &completed.outputs {
        assert_eq!(std::fs::metadata(dir.path().join("2048-2x2").join(&file.path)).unwrap().len(), file.bytes);
    }
    assert!(heard.failed.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_kernel_is_reported_and_the_worker_goes_on() {
    let (script, dir) = (Arc::new(script([task(0), task(0)])), tempfile::tempdir().unwrap());
    let (_keep, stop) = watch::channel(false);
    let first = AtomicBool::new(true);
    let game = hooked("2048-2x2", move |_, _| if first.swap(false, Ordering::Relaxed) { panic!("boom") } else { Ok(()) });
    run_with(channel(&script, 0).await, config(dir.path()), stop, games(game)).await.unwrap();
    let heard = script.heard.lock().unwrap();
    assert_eq!(heard.failed[0].reason(), Reason::Error);
    assert!(heard.failed[0].message.contains("boom"), "{}", heard.failed[0].message);
    assert_eq!(heard.completed.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_from_the_coordinator_is_a_failed_task_not_a_dead_worker() {
    let artifact = v1::Artifact { kind: v1::ArtifactKind::Index.into(), blake3: vec![1, 2], ..v1::Artifact::default() };
    let tasks = [
        v1::Task { table: "chess".into(), ..task(0) },
        v1::Task { stage: 1_000_000, ..task(0) },
        v1::Task { inputs: vec![artifact], ..task(0) },
        task(0),
    ];
    let (script, dir) = (Arc::new(script(tasks)), tempfile::tempdir().unwrap());
    let (_keep, stop) = watch::channel(false);
    run_worker(channel(&script, 0).await, config(dir.path()), stop).await.unwrap();
    let heard = script.heard.lock().unwrap();
    let said: Vec<_> = heard.failed.iter().map(|fail| fail.message.as_str()).collect();
    assert!(
        said[0].contains("chess") && said[1].contains("no task 1000000.0") && said[2].contains("hash of 2 bytes"),
        "{said:?}"
    );
    assert_eq!((said.len(), heard.completed.len()), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_a_worker_gives_its_task_back_and_ends() {
    let (script, dir) = (Arc::new(script([task(0)])), tempfile::tempdir().unwrap());
    let (say, stop) = watch::channel(false);
    let (games, begun) = endless();
    let worker = tokio::spawn(run_with(channel(&script, 0).await, config(dir.path()), stop, games));
    until(|| begun.load(Ordering::Relaxed)).await;
    say.send(true).unwrap();
    worker.await.unwrap().unwrap();
    let heard = script.heard.lock().unwrap();
    assert_eq!((heard.failed.len(), heard.completed.len()), (1, 0));
    assert_eq!((heard.failed[0].reason(), heard.failed[0].token), (Reason::Leaving, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_stops_at_once() {
    let (script, dir) = (Arc::new(Script::default()), tempfile::tempdir().unwrap());
    let (say, stop) = watch::channel(false);
    let worker = tokio::spawn(run_with(channel(&script, 0).await, config(dir.path()), stop, plain()));
    until(|| !script.heard.lock().unwrap().registered.is_empty()).await;
    say.send(true).unwrap();
    tokio::time::timeout(Duration::from_secs(5), worker).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_carry_progress_and_a_dismissed_task_is_dropped() {
    let (script, dir) = (Arc::new(Script { dismiss: true, ..script([task(0)]) }), tempfile::tempdir().unwrap());
    let (_keep, stop) = watch::channel(false);
    let (games, _) = endless();
    run_with(channel(&script, 0).await, config(dir.path()), stop, games).await.unwrap();
    let heard = script.heard.lock().unwrap();
    assert_eq!((heard.beats[0].token, heard.beats[0].layer, heard.beats[0].worker_id), (7, 20, 1));
    assert!(heard.beats[0].positions >= 100);
    assert!(heard.failed.is_empty() && heard.completed.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_refused_says_why() {
    let (script, dir) = (Arc::new(Script { refuse: true, ..Script::default() }), tempfile::tempdir().unwrap());
    let (_keep, stop) = watch::channel(false);
    let error = run_with(channel(&script, 0).await, config(dir.path()), stop, plain()).await.unwrap_err();
    assert!(matches!(&error, WorkerError::Refused(why) if why.contains("strata 2")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_away_is_waited_for() {
    let (script, dir) = (Arc::new(script([task(0)])), tempfile::tempdir().unwrap());
    script.stumble.lock().unwrap().push_back(Status::unavailable("restarting"));
    let (_keep, stop) = watch::channel(false);
    run_with(channel(&script, 3).await, config(dir.path()), stop, plain()).await.unwrap();
    assert_eq!(script.heard.lock().unwrap().completed.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn patience_has_an_end() {
    let (script, dir) = (Arc::new(Script::default()), tempfile::tempdir().unwrap());
    let (_keep, stop) = watch::channel(false);
    let config = WorkerConfig { patience: Duration::from_millis(200), ..config(dir.path()) };
    let error = run_with(channel(&script, u32::MAX).await, config, stop, plain()).await.unwrap_err();
    assert!(matches!(error, WorkerError::Away { waited, .. } if waited >= Duration::from_millis(200)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_was_restarted_is_told_again_who_the_worker_is() {
    let (script, dir) = (Arc::new(script([task(0)])), tempfile::tempdir().unwrap());
    script.stumble.lock().unwrap().push_back(Status::not_found("there is no worker 1"));
    let (_keep, stop) = watch::channel(false);
    run_with(channel(&script, 0).await, config(dir.path()), stop, plain()).await.unwrap();
    let heard = script.heard.lock().unwrap();
    assert_eq!((heard.registered.len(), heard.completed[0].worker_id), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_says_that_it_leaves() {
    let (script, dir) = (Arc::new(Script::default()), tempfile::tempdir().unwrap());
    let (stop, stopped) = watch::channel(false);
    let worker = tokio::spawn(run_with(channel(&script, 0).await, config(dir.path()), stopped, plain()));
    // It waits for a task, which may be on its way just when it is told.
    until(|| !script.heard.lock().unwrap().registered.is_empty()).await;
    stop.send(true).unwrap();
    worker.await.unwrap().unwrap();
    assert_eq!(script.heard.lock().unwrap().left, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_worker_stops_its_kernel() {
    let (script, dir) = (Arc::new(script([task(0)])), tempfile::tempdir().unwrap());
    let (_keep, stop) = watch::channel(false);
    let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
    let game = hooked("2048-2x2", move |_, io| {
        loop {
            begins.store(true, Ordering::Relaxed);
            if let Err(TaskError::Stopped) = io.progress(Layer(4), 1) {
                ends.store(true, Ordering::Relaxed);
                return Err(TaskError::Stopped);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let worker = tokio::spawn(run_with(channel(&script, 0).await, config(dir.path()), stop, games(game)));
    until(|| begun.load(Ordering::Relaxed)).await;
    worker.abort();
    until(|| ended.load(Ordering::Relaxed)).await;
}
