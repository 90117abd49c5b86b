//! The coordinator as other crates see it.

use crate::core::{Core, Locate, OpenSpace};
use crate::jobs::JobsService;
use crate::scheduler::Policy;
use crate::transport::InProcess;
use crate::work::WorkService;
use std::sync::Arc;
use std::time::Duration;
use strata_proto::MAX_MESSAGE_BYTES;
use strata_proto::v1::jobs_server::JobsServer;
use strata_proto::v1::work_server::WorkServer;
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
}

impl CoordinatorConfig {
    /// The usual patience: leases of 30 seconds, three failures.
    pub fn new(build: impl Into<String>, locate: Locate) -> Self {
        Self { build: build.into(), lease: Duration::from_secs(30), max_failures: 3, locate }
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
        let policy = Policy { lease: config.lease, max_failures: config.max_failures.max(1) };
        let core = Arc::new(Core::new(config.build, policy, config.locate, open));
        tokio::spawn(Arc::clone(&core).watch_leases());
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
