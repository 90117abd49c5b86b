//! Reaching the coordinator.

use super::tls;
use crate::failure::{Failure, chain};
use crate::output::shell_quote;
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strata_coordinator::{COORDINATOR_NAME, KEEPALIVE};
use strata_proto::v1::jobs_client::JobsClient;
use strata_proto::{MAX_MESSAGE_BYTES, reason};
use tokio::net::TcpStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tonic::{Code, Response, Status};

/// How the coordinator is reached.
#[derive(clap::Args, Clone, Debug)]
pub struct ConnectArgs {
    /// The coordinator: HOST:PORT, or @FILE that it wrote with --address-file
    #[arg(long, value_name = "ADDR", env = "STRATA_COORDINATOR", default_value = super::LISTEN)]
    pub coordinator: String,
    /// Folder with ca.pem, cert.pem and key.pem, as `strata certs` makes it
    #[arg(long, value_name = "DIR", env = "STRATA_TLS")]
    pub tls: Option<PathBuf>,
    /// Talk to another machine without TLS, on a network that you trust
    #[arg(long)]
    pub insecure: bool,
}

/// Longest time that connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest time that a call may take which is not held open. Submitting a table whose ages are cut takes a coordinator ten seconds and more; one that is
/// gone is noticed by keepalive.
const CALL: Duration = Duration::from_secs(120);
/// How often a file with an address is looked for.
const LOOK: Duration = Duration::from_millis(50);

impl ConnectArgs {
    /// A channel, which connects at its first call, and the address. A file that has the address is waited for for so long, and read again
    /// whenever the connection is lost: a coordinator that is started again may have another.
    pub async fn channel(&self, wait: Duration) -> Result<(Channel, String), Failure> {
        let file = self.coordinator.strip_prefix('@').map(PathBuf::from);
        let address = match &file {
            Some(file) => address_in(file, wait).await?,
            None => self.coordinator.clone(),
        };
        if !address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok())
        {
            return Err(no_such_address(&address));
        }
        tls::expect_safe(&address, self.tls.is_some(), self.insecure)?;
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(|_| no_such_address(&address))?;
        let mut endpoint =
            endpoint.http2_keep_alive_interval(KEEPALIVE.0).keep_alive_timeout(KEEPALIVE.1).keep_alive_while_idle(true);
        if let Some(dir) = &self.tls {
            let folder = tls::read(dir)?;
            let config = ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(folder.authority))
                .domain_name(COORDINATOR_NAME)
                .identity(Identity::from_pem(folder.certificate, folder.key));
            endpoint = endpoint.tls_config(config).map_err(|e| {
                let shown = shell_quote(&dir.to_string_lossy()).into_owned();
                Failure::failed(format!("the certificates in {shown} cannot be used: {}", chain(&e)))
                    .help("make new ones with `strata certs`")
            })?;
        }
        let (first, (safe, insecure)) = (address.clone(), (self.tls.is_some(), self.insecure));
        let connect = tower::service_fn(move |_: Uri| {
            let address = file
                .as_ref()
                .and_then(|file| std::fs::read_to_string(file).ok())
                .map_or(first.clone(), |text| text.trim().to_owned());
            async move {
                // A file may come to name another machine.
                tls::expect_safe(&address, safe, insecure).map_err(|failure| io::Error::other(failure.message))?;
                let stream = tokio::time::timeout(CONNECT, TcpStream::connect(&address)).await??;
                stream.set_nodelay(true)?;
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
        Ok((endpoint.connect_with_connector_lazy(connect), address))
    }

    /// Makes one call, for a verb that makes no other.
    pub fn ask<T, F>(&self, call: impl FnOnce(JobsClient<Channel>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        crate::runtime()?.block_on(async { self.jobs().await?.call(call).await })
    }

    /// A client of the coordinator's jobs.
    pub async fn jobs(&self) -> Result<Jobs, Failure> {
        let (channel, address) = self.channel(Duration::ZERO).await?;
        let client =
            JobsClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Jobs { client, address, tls: self.tls.is_some() })
    }
}

/// Reads the address that a coordinator wrote, when it is there.
async fn address_in(file: &Path, wait: Duration) -> Result<String, Failure> {
    let start = Instant::now();
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
            _ if start.elapsed() < wait => tokio::time::sleep(LOOK).await,
            Ok(_) => return Err(no_address(file, "it is empty")),
            Err(e) => return Err(no_address(file, &e.to_string())),
        }
    }
}

fn no_such_address(address: &str) -> Failure {
    Failure::usage(format!("{} is no address", shell_quote(address))).help("--coordinator HOST:PORT, for example 127.0.0.1:7240")
}

fn no_address(file: &Path, why: &str) -> Failure {
    let shown = shell_quote(&file.to_string_lossy()).into_owned();
    Failure::failed(format!("no coordinator has written its address to {shown}: {why}"))
        .help("start one: `strata coordinator --store DIR --address-file FILE`")
}

/// A client of the coordinator's jobs.
pub struct Jobs {
    /// Makes the calls.
    pub client: JobsClient<Channel>,
    address: String,
    tls: bool,
}

impl Jobs {
    /// Makes one call, with a deadline.
    pub async fn call<T, F>(&self, call: impl FnOnce(JobsClient<Channel>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        match tokio::time::timeout(CALL, call(self.client.clone())).await {
            Ok(answer) => answer.map(Response::into_inner).map_err(|status| self.failed(&status)),
            Err(_) => Err(self.failed(&Status::deadline_exceeded(format!("no answer within {} s", CALL.as_secs())))),
        }
    }

    /// What a call that failed means.
    pub fn failed(&self, status: &Status) -> Failure {
        match status.code() {
            _ if !self.tls && status.message().contains("h2 protocol error") => {
                Failure::failed(format!("what listens at {} does not talk in the clear", self.address))
                    .help("if it is a coordinator with certificates, --tls DIR names yours (`strata certs client`)")
            }
            Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Cancelled => Failure::failed(format!(
                "the coordinator at {} does not answer: {}",
                self.address,
                reason(status)
            ))
            .help(match self.tls {
                true => "is it running? `strata coordinator --store DIR --tls DIR` starts one; --coordinator says where it is",
                false => {
                    "is it running? `strata coordinator --store DIR` starts one, --coordinator says where it is; if it has \
                             certificates, --tls DIR names yours"
                }
            }),
            Code::InvalidArgument => Failure::usage(status.message()),
            Code::NotFound => Failure::failed(status.message()).help("`strata jobs` lists the jobs, `strata status` the workers"),
            Code::Unimplemented => Failure::failed(format!("what listens at {} is no coordinator of this version", self.address)),
            _ => Failure::failed(status.message()),
        }
    }
}
