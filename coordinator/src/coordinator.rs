//! The coordinator as other crates see it.

use crate::core::{Core, Locate, OpenSpace};
use crate::job::is_final;
use crate::jobs::{JobsService, submit};
use crate::room;
use crate::scheduler::Policy;
use crate::transport::InProcess;
use crate::wish::{Unfinished, Wanted, unfinished};
use crate::work::WorkService;
use std::sync::Arc;
use std::time::Duration;
use strata_proto::MAX_MESSAGE_BYTES;
use strata_proto::v1::JobState;
use strata_proto::v1::jobs_server::JobsServer;
use strata_proto::v1::work_server::WorkServer;
use strata_storage::{Store, StoreError};
use tonic::codec::CompressionEncoding;

/// What a coordinator must be told.
#[derive(Clone)]
pub struct CoordinatorConfig {
    /// Version of this build, as `strata --version` prints it. Workers must have the same.
    pub build: String,
    /// A lease that is not renewed for this long is given to somebody else.
    pub lease: Duration,
    /// After this many failures of one task its job pauses.
    pub max_failures: u32,
    /// Where the directory of a table is.
    pub locate: Locate,
    /// The store that has one folder for each table, for workers that are told where they are; none where they know.
    pub store: Option<Store>,
    /// Share of the work, in percent, that is done a second time by other workers to find those that compute wrong numbers. At 100
    /// nothing is built on a task before two workers have made it.
    pub checks_percent: u8,
    /// With less free space than this where a table is built its job rests until there is more. 0: it goes on until the disk is full.
    pub low_water: u64,
}

impl CoordinatorConfig {
    /// With the tables of a store: a folder for each, of its name.
    pub fn of_store(build: impl Into<String>, store: Store) -> Self {
        let places = store.clone();
        let locate: Locate = Arc::new(move |name| places.place(&name.to_string()));
        Self { store: Some(store), checks_percent: 3, ..Self::new(build, locate) }
    }

    /// The usual patience: leases of 30 seconds, three failures. No checks: the workers of one process are one machine.
    pub fn new(build: impl Into<String>, locate: Locate) -> Self {
        Self {
            build: build.into(),
            lease: Duration::from_secs(30),
            max_failures: 3,
            locate,
            store: None,
            checks_percent: 0,
            low_water: 0,
        }
    }
}

/// A coordinator. Clones are the same one.
#[derive(Clone)]
pub struct Coordinator {
    core: Arc<Core>,
}

impl Coordinator {
    /// Starts a coordinator without jobs, on the tokio runtime it is called in.
    pub fn start(config: CoordinatorConfig) -> Self {
        let open = |name: &strata_games::TableName| strata_games::open(name).map_err(|error| format!("{error}; {}", error.help));
        Self::start_with(config, Arc::new(open))
    }

    /// Like [`start`](Self::start), with other games than the built-in ones. For tests.
    pub fn start_with(config: CoordinatorConfig, open: OpenSpace) -> Self {
        let policy = Policy {
            lease: config.lease,
            max_failures: config.max_failures.max(1),
            checks_percent: config.checks_percent.min(100),
        };
        let core = Arc::new(Core::new(config.build, policy, config.locate, open, config.store));
        tokio::spawn(Arc::clone(&core).watch_leases());
        if config.low_water > 0 {
            tokio::spawn(room::watch(Arc::clone(&core), config.low_water));
        }
        Self { core }
    }

    /// The service that workers talk to.
    pub fn work_service(&self) -> WorkServer<WorkService> {
        WorkServer::new(WorkService::new(Arc::clone(&self.core)))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
            .accept_compressed(CompressionEncoding::Zstd)
            .send_compressed(CompressionEncoding::Zstd)
    }

    /// The service that clients talk to.
    pub fn jobs_service(&self) -> JobsServer<JobsService> {
        JobsServer::new(JobsService::new(Arc::clone(&self.core)))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
            .accept_compressed(CompressionEncoding::Zstd)
            .send_compressed(CompressionEncoding::Zstd)
    }

    pub(crate) fn core(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }

    /// Takes up the unfinished builds of the store, but for those that were cancelled. Says of each whether it goes on.
    ///
    /// # Errors
    /// When the store cannot be listed.
    pub async fn take_up(&self) -> Result<Vec<(String, Result<(), String>)>, StoreError> {
        let Some(store) = &self.core.store else { return Ok(Vec::new()) };
        let found = unfinished(store).await?;
        let mut taken = Vec::new();
        for Unfinished { table, wish } in found.into_iter().filter(|build| build.wish.wanted != Wanted::Cancelled) {
            // A complete table whose build folder was not removed is tidied up by that.
            let submitted = submit(&self.core, &table, wish.priority, wish.wanted == Wanted::Paused).await;
            taken.push((table, submitted.map(|_| ()).map_err(|status| status.message().to_owned())));
        }
        Ok(taken)
    }

    /// Tells all workers that they may leave; returns when they have heard it, or after so long.
    pub async fn dismiss_workers(&self, limit: Duration) {
        self.core.dismiss(limit).await;
    }

    /// Whether a job is there, and all of them are over.
    pub fn is_idle(&self) -> bool {
        let jobs = self.core.jobs();
        !jobs.is_empty() && jobs.iter().all(|job| is_final(job.status().state()) && job.is_released())
    }

    /// The jobs that are over without a table, and why.
    pub fn failed(&self) -> Vec<(String, String)> {
        let jobs = self.core.jobs().into_iter().map(|job| job.status());
        let failed = jobs.filter(|status| matches!(status.state(), JobState::Failed | JobState::Cancelled));
        failed.map(|status| (status.table, status.message)).collect()
    }

    /// Serves both within this process; makes as many channels as are asked for.
    pub fn serve_in_process(&self) -> InProcess {
        let core = Arc::clone(&self.core);
        InProcess::serve(self.work_service(), self.jobs_service(), async move { core.stopped().await })
    }

    /// Gives out nothing more, waits for the records that are being written, and lets go of all directories. Workers hear that they
    /// may leave; their tasks in flight are lost, and done again by the next start.
    pub async fn shutdown(&self) {
        self.core.stop().await;
    }
}
