//! One life of a coordinator in a test: started on a directory, served by fake workers over the in-process transport, ended.

use super::{FakeSpace, bytes_of, content_of};
use crate::content::message_of_file;
use crate::plan::Plan;
use crate::record::artifact_of;
use crate::{Coordinator, CoordinatorConfig, InProcess};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use strata_games::TaskId;
use strata_proto::PROTOCOL;
use strata_proto::v1::complete_reply::Verdict;
use strata_proto::v1::fail_request::Reason;
use strata_proto::v1::jobs_client::JobsClient;
use strata_proto::v1::work_client::WorkClient;
use strata_proto::v1::*;
use tonic::Status;
use tonic::transport::Channel;

/// The table of most tests: four layers of two shards, two layers a stage; 2 + 2 stages of 2 tasks.
pub const TABLE: &str = "2048-2x2";
/// Its tasks.
pub const TASKS: u64 = 8;
const BUILD: &str = "test build";

/// The game of most tests.
pub fn space_of(name: &str) -> FakeSpace {
    FakeSpace::new(name, 4, 2, 2)
}

/// A running coordinator.
pub struct Life {
    pub coordinator: Coordinator,
    pub in_process: InProcess,
    pub root: PathBuf,
    checks: bool,
}

impl Life {
    /// Starts one; every table is built in `root`.
    pub fn start(root: &Path) -> Life {
        Self::with_lease(root, Duration::from_secs(30))
    }

    /// With leases of this length.
    pub fn with_lease(root: &Path, lease: Duration) -> Life {
        Self::with(root, lease, 0)
    }

    /// With this share of the work done twice.
    pub fn with_checks(root: &Path, checks_percent: u8) -> Life {
        Self::with(root, Duration::from_secs(30), checks_percent)
    }

    fn with(root: &Path, lease: Duration, checks_percent: u8) -> Life {
        let dir = root.to_owned();
        let config = CoordinatorConfig::new(BUILD, Arc::new(move |_| dir.clone().into()));
        let config = CoordinatorConfig { lease, checks_percent, ..config };
        let coordinator = Coordinator::start_with(config, Arc::new(|name| Ok(Box::new(space_of(&name.to_string())))));
        let in_process = coordinator.serve_in_process();
        Life { coordinator, in_process, root: root.to_owned(), checks: checks_percent > 0 }
    }

    /// A client.
    pub fn jobs(&self) -> JobsClient<Channel> {
        JobsClient::new(self.in_process.channel())
    }

    /// Submits the table.
    pub async fn submit(&self) -> Result<JobStatus, Status> {
        self.submit_table(TABLE).await
    }

    /// Submits a table.
    pub async fn submit_table(&self, table: &str) -> Result<JobStatus, Status> {
        let request = SubmitRequest { table: table.into(), priority: 0 };
        self.jobs().submit(request).await.map(|reply| reply.into_inner())
    }

    /// A registered worker.
    pub async fn worker(&self, name: &str) -> FakeWorker {
        self.register(name).await.unwrap()
    }

    /// A worker that is registered, unless it is refused.
    pub async fn register(&self, name: &str) -> Result<FakeWorker, Status> {
        let mut client = WorkClient::new(self.in_process.channel());
        let request =
            RegisterRequest { protocol: PROTOCOL, build: BUILD.into(), name: name.into(), memory_bytes: 1000, threads: 1 };
        let id = client.register(request).await?.into_inner().worker_id;
        Ok(FakeWorker { client, id, root: self.root.clone(), plan: Arc::new(Plan::of(&space_of(TABLE)).unwrap()) })
    }

    /// The job as it is now.
    pub async fn status(&self) -> JobStatus {
        self.jobs().list(ListRequest {}).await.unwrap().into_inner().jobs.remove(0)
    }

    /// Waits until the job is in a state, at most ten seconds.
    pub async fn wait_for(&self, state: JobState) -> JobStatus {
        for _ in 0..5000 {
            let status = self.status().await;
            if status.state() == state {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("the job is not {state:?}: {:?}", self.status().await);
    }

    /// Submits the table and works until it is complete. Returns its last state and the tasks that were run.
    pub async fn finish(&self) -> (JobStatus, Vec<TaskId>) {
        self.submit().await.unwrap();
        let mut worker = self.worker("finisher").await;
        let mut ran = Vec::new();
        loop {
            let status = self.status().await;
            match status.state() {
                JobState::Complete => return (status, ran),
                JobState::Checking | JobState::Running | JobState::Publishing => {}
                state => panic!("{state:?}: {}", status.message),
            }
            if let Some(task) = worker.lease(20).await {
                // One that somebody else has finished is a check.
                match worker.run(&task).await.unwrap() {
                    Verdict::Accepted => ran.push(TaskId { stage: task.stage, part: task.part }),
                    verdict => assert!(self.checks && verdict == Verdict::AlreadyDone, "{verdict:?}"),
                }
            }
        }
    }

    /// Submits the table, runs so many tasks, waits until all that can be stitched is, and ends.
    pub async fn run_some(self, tasks: usize) {
        self.submit().await.unwrap();
        let mut worker = self.worker("first").await;
        for _ in 0..tasks {
            let task = worker.lease(5000).await.unwrap();
            assert_eq!(worker.run(&task).await.unwrap(), Verdict::Accepted);
        }
        // The next task is ready only when the stages before it are stitched.
        assert!(worker.lease(5000).await.is_some());
        self.coordinator.shutdown().await;
    }
}

/// A worker that knows what the kernels would make, and writes it.
pub struct FakeWorker {
    pub client: WorkClient<Channel>,
    pub id: u64,
    pub root: PathBuf,
    pub plan: Arc<Plan>,
}

impl FakeWorker {
    /// Asks for a task.
    pub async fn lease(&mut self, wait_ms: u64) -> Option<Task> {
        let task = self.client.lease(LeaseRequest { worker_id: self.id, wait_ms }).await.unwrap().into_inner().task?;
        for input in &task.inputs {
            let bytes = std::fs::read(self.root.join(&input.path)).unwrap_or_else(|error| panic!("{}: {error}", input.path));
            assert_eq!(blake3_of(&bytes), input.blake3, "{}", input.path);
        }
        Some(task)
    }

    /// Writes the files of a task.
    pub fn write(&self, task: &Task) {
        let index = self.plan.index_of(TaskId { stage: task.stage, part: task.part }).unwrap();
        for file in content_of(&self.plan, index).outputs {
            let path = self.root.join(&file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes_of(&self.plan.table, artifact_of(&file))).unwrap();
        }
    }

    /// What it would hand in.
    pub fn result(&self, task: &Task) -> CompleteRequest {
        let content = content_of(&self.plan, self.plan.index_of(TaskId { stage: task.stage, part: task.part }).unwrap());
        let count = |c: &crate::record::CountRecord| LayerCounts {
            layer: c.layer,
            shard: c.shard,
            states: c.states,
            afterstates: c.afterstates,
            terminal: c.terminal,
        };
        let stats = |s: &crate::record::StatsRecord| LayerStats {
            layer: s.layer,
            shard: s.shard,
            legal_moves: s.legal_moves,
            single_best: s.single_best,
            choices: s.choices,
            value_sum: s.value_sum,
            gap_sum: s.gap_sum,
            gap_most: s.gap_most,
        };
        CompleteRequest {
            worker_id: self.id,
            table: task.table.clone(),
            stage: task.stage,
            part: task.part,
            token: task.token,
            outputs: content.outputs.iter().map(message_of_file).collect(),
            counts: content.counts.iter().map(count).collect(),
            stats: content.stats.iter().map(stats).collect(),
            facts: content.facts.into_iter().map(|f| Fact { name: f.name, value: f.value }).collect(),
            elapsed_ms: 1,
        }
    }

    /// Hands it in.
    pub async fn complete(&mut self, request: CompleteRequest) -> Result<Verdict, Status> {
        self.client.complete(request).await.map(|reply| reply.into_inner().verdict())
    }

    /// Writes and hands in.
    pub async fn run(&mut self, task: &Task) -> Result<Verdict, Status> {
        self.write(task);
        self.complete(self.result(task)).await
    }

    /// Says that the worker is still at it.
    pub async fn heartbeat(&mut self, task: &Task) -> bool {
        let request = HeartbeatRequest {
            worker_id: self.id,
            table: task.table.clone(),
            stage: task.stage,
            part: task.part,
            token: task.token,
            positions: 7,
            layer: 6,
        };
        self.client.heartbeat(request).await.unwrap().into_inner().go_on
    }

    /// Leaves.
    pub async fn leave(&mut self) {
        self.client.leave(LeaveRequest { worker_id: self.id }).await.unwrap();
    }

    /// Gives a task back.
    pub async fn fail(&mut self, task: &Task, reason: Reason, message: &str) {
        let request = FailRequest {
            worker_id: self.id,
            table: task.table.clone(),
            stage: task.stage,
            part: task.part,
            token: task.token,
            reason: reason.into(),
            message: message.into(),
        };
        self.client.fail(request).await.unwrap();
    }
}

fn blake3_of(bytes: &[u8]) -> Vec<u8> {
    strata_storage::Digest::blake3(bytes).as_bytes().to_vec()
}
