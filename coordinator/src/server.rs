//! The services on a network: TLS with certificates on both sides, or none at all.
//!
//! A certificate names a role in a URI among its alternative names, `strata://cluster/ROLE`: a worker's opens the service of workers, a
//! client's that of clients, and neither the other. A coordinator's is known by its name, [`COORDINATOR_NAME`], not by the machine it is on. Who may listen without TLS is up to the caller.

use crate::Coordinator;
use crate::core::Core;
use crate::jobs::JobsService;
use crate::work::WorkService;
use std::sync::Arc;
use std::time::Duration;
use strata_proto::v1::jobs_server::JobsServer;
use strata_proto::v1::work_server::WorkServer;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// How often a silent connection is asked for a sign of life, and how long that may take. Workers and clients do the same.
pub const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(20));
/// Longest time that a handshake may take: a connection that says nothing is closed.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The name that a coordinator's certificate has, wherever it runs: machines come and go, and the authority signs for nobody else.
pub const COORDINATOR_NAME: &str = "strata-coordinator";
/// What roles are written behind.
pub const ROLE_URI: &str = "strata://cluster/";

/// What a certificate is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Serves both services.
    Coordinator,
    /// Leases tasks.
    Worker,
    /// Submits jobs, looks at them, stops them.
    Client,
}

impl Role {
    /// As it is written in a certificate.
    pub fn name(self) -> &'static str {
        match self {
            Role::Coordinator => "coordinator",
            Role::Worker => "worker",
            Role::Client => "client",
        }
    }
}

/// PEM texts of a process's certificate and key, and of the certificate authority of everybody.
#[derive(Clone)]
pub struct Tls {
    /// Who signed all certificates of the cluster.
    pub authority: String,
    /// Its own.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// Lets callers of one role through.
#[derive(Clone)]
pub(crate) struct Only {
    role: Role,
    /// Whether callers have certificates.
    tls: bool,
}

impl Interceptor for Only {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        if !self.tls {
            return Ok(request);
        }
        let info = request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>();
        let certificates = info.and_then(|info| info.peer_certs());
        let roles = certificates.as_ref().and_then(|all| all.first()).map(|own| roles(own)).unwrap_or_default();
        if roles.iter().any(|role| role == self.role.name()) {
            return Ok(request);
        }
        let has = if roles.is_empty() { "no role".to_owned() } else { format!("the role {}", roles.join(", ")) };
        let needs = self.role.name();
        Err(Status::permission_denied(format!(
            "your certificate has {has}, and this call takes one of a {needs} (`strata certs {needs}` makes it)"
        )))
    }
}

/// The roles that a certificate names.
fn roles(certificate: &[u8]) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return Vec::new() };
    let role = |name: &GeneralName<'_>| match name {
        GeneralName::URI(uri) => uri.strip_prefix(ROLE_URI).map(str::to_owned),
        _ => None,
    };
    names.value.general_names.iter().filter_map(role).collect()
}

impl Coordinator {
    /// Serves on a listening socket until the coordinator is shut down.
    ///
    /// # Errors
    /// When the certificates are no such, or the socket fails.
    pub async fn serve(&self, listener: TcpListener, tls: Option<Tls>) -> Result<(), tonic::transport::Error> {
        let core = self.core();
        let only = |role| Only { role, tls: tls.is_some() };
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<Guarded<WorkServer<WorkService>>>().await;
        health.set_serving::<Guarded<JobsServer<JobsService>>>().await;
        let mut server = Server::builder()
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(KEEPALIVE.0))
            .http2_keepalive_timeout(Some(KEEPALIVE.1));
        if let Some(tls) = &tls {
            let config = ServerTlsConfig::new()
                .identity(Identity::from_pem(&tls.certificate, &tls.key))
                .client_ca_root(Certificate::from_pem(&tls.authority))
                .timeout(HANDSHAKE);
            server = server.tls_config(config)?;
        }
        server
            .add_service(health_service)
            .add_service(InterceptedService::new(self.work_service(), only(Role::Worker)))
            .add_service(InterceptedService::new(self.jobs_service(), only(Role::Client)))
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stopped(core))
            .await
    }
}

type Guarded<S> = InterceptedService<S, Only>;

async fn stopped(core: Arc<Core>) {
    core.stopped().await;
}
