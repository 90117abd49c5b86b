//! The same calls without a network: a pipe in memory instead of a socket. Requests and replies are encoded, framed and decoded as on
//! a wire, so an embedded build runs through everything that a cluster does.

use hyper_util::rt::TokioIo;
use std::io;
use strata_proto::v1::jobs_server::JobsServer;
use strata_proto::v1::work_server::WorkServer;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint, Server, Uri};

use crate::jobs::JobsService;
use crate::work::WorkService;

/// Bytes that fit into a pipe before the writer waits.
const PIPE_BYTES: usize = 64 << 10;
/// Connections that wait to be accepted.
const WAITING: usize = 16;

/// Makes channels to a coordinator in the same process.
#[derive(Clone, Debug)]
pub struct InProcess {
    connections: mpsc::Sender<io::Result<DuplexStream>>,
}

impl InProcess {
    /// Serves until `stopped` resolves, on the tokio runtime it is called in.
    pub(crate) fn serve(
        work: WorkServer<WorkService>,
        jobs: JobsServer<JobsService>,
        stopped: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (connections, incoming) = mpsc::channel(WAITING);
        let incoming = tokio_stream::wrappers::ReceiverStream::new(incoming);
        let server = Server::builder().add_service(work).add_service(jobs);
        tokio::spawn(async move {
            if let Err(error) = server.serve_with_incoming_shutdown(incoming, stopped).await {
                tracing::error!(%error, "the in-process service has ended");
            }
        });
        Self { connections }
    }

    /// A new channel, which connects at its first call. Every worker and every client should have its own.
    pub fn channel(&self) -> Channel {
        let connections = self.connections.clone();
        let connect = tower::service_fn(move |_: Uri| {
            let connections = connections.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
                let gone = |_| io::Error::new(io::ErrorKind::ConnectionRefused, "the coordinator has ended");
                connections.send(Ok(theirs)).await.map_err(gone)?;
                Ok::<_, io::Error>(TokioIo::new(ours))
            }
        });
        Endpoint::from_static("http://coordinator.in-process").connect_with_connector_lazy(connect)
    }
}
