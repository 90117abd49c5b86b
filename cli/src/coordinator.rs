//! `strata coordinator`: hands the tasks of submitted tables to workers, and writes down what they made.
//!
//! Its only memory is the store. Started again, after whatever end, it goes on with every build that is not finished there.

use crate::cluster::lead::Lead;
use crate::cluster::tls::{self, expect_safe};
use crate::cluster::{self, LISTEN, metrics};
use crate::failure::{Failure, chain};
use crate::output::{self, shell_quote};
use crate::resources;
use crate::signals;
use crate::units;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strata_coordinator::{Coordinator, CoordinatorConfig, Tls};
use strata_storage::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Where it works and who reaches it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata coordinator --store tables
  strata coordinator --store /shared/tables --listen 0.0.0.0:7240 --tls tls/coordinator
  strata coordinator --store tables --listen 127.0.0.1:0 --address-file address --idle-exit
  strata coordinator --store s3://bucket/tables --listen 0.0.0.0:7240 --tls tls/coordinator

The store has a folder for each table. A directory workers must see under the same path, or say where it is with their
--store. Of s3://, gs:// and az:// the credentials, the region and the endpoint are in the environment (AWS_*, GOOGLE_*, AZURE_*), of the
workers too; it must have conditional writes, which is tried first. One coordinator leads a store at a time. SIGTERM and Ctrl-C stop it, and so may kill -9: started again it goes on
with every build that is not finished. Workers wait for it meanwhile.
Exit code 75: it could not reach its object store for so long that another may lead it; starting it again is right.
Off this machine it talks TLS with certificates on both sides (`strata certs`), unless --insecure says that the network is trusted.")]
pub struct Args {
    /// Where the tables are: a directory, made when it is missing, or s3://bucket/prefix, gs:// or az://
    #[arg(long, value_name = "DIR|URL")]
    store: PathBuf,
    /// Use an object store whose endpoint has no TLS, on a network that you trust
    #[arg(long)]
    allow_http: bool,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = LISTEN)]
    listen: String,
    /// Folder with ca.pem, cert.pem and key.pem, as `strata certs coordinator` makes it
    #[arg(long, value_name = "DIR", env = "STRATA_TLS")]
    tls: Option<PathBuf>,
    /// Listen for other machines without TLS, on a network that you trust
    #[arg(long)]
    insecure: bool,
    /// Write the address to this file once it listens
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// Serve /metrics (Prometheus) and /healthz on this address, over plain HTTP
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Let --metrics listen for other machines, on a network that you trust; it tells names of tables and how far they are
    #[arg(long, requires = "metrics")]
    metrics_insecure: bool,
    /// End when all jobs are over: there was one, and none is left. With 0 if all tables are complete
    #[arg(long)]
    idle_exit: bool,
    /// A worker that is silent for so long loses its task to another, for example 30s
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_duration)]
    lease: Duration,
    /// Share of the work, in percent, that is done a second time by other workers to find those that compute wrong numbers; at 100 nothing
    /// is built on a task before two workers have made it
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=100))]
    double_check: u8,
    /// With less free space than this builds rest until there is more, for example 10GiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_size)]
    low_water: u64,
}

/// The lead was lost: started again it has it, or says who does.
const LOST: u8 = 75;
/// How often it is looked whether all jobs are over.
const LOOK: Duration = Duration::from_millis(100);
/// How long workers may take to hear that there is nothing left.
const FAREWELL: Duration = Duration::from_secs(15);
/// How long calls that are under way may take at the end.
const LAST_CALLS: Duration = Duration::from_secs(3);

/// Runs until it is stopped, or idle.
pub fn run(args: &Args) -> Result<(), Failure> {
    cluster::end_with_parent();
    let runtime = crate::runtime()?;
    let ended = runtime.block_on(lead(args));
    runtime.shutdown_timeout(Duration::from_millis(200));
    ended
}

async fn lead(args: &Args) -> Result<(), Failure> {
    let store = store(&args.store, args.allow_http)?;
    let shown = shell_quote(&store.shown()).into_owned();
    let tls = args.tls.as_deref().map(tls::read).transpose()?;
    expect_safe(&args.listen, tls.is_some(), args.insecure)?;
    args.metrics.iter().try_for_each(|address| metrics::expect_told(address, args.insecure || args.metrics_insecure))?;
    let cannot = |e: std::io::Error| {
        Failure::failed(format!("cannot listen on {}: {e}", args.listen))
            .help("--listen HOST:PORT names another address; port 0 takes a free one")
    };
    let listener = TcpListener::bind(&args.listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let host = resources::host();
    let leader = format!("process {} on {host}, listening on {address}", std::process::id());
    let mut lead = Lead::take(&store, &leader).await.map_err(|e| Failure::failed(chain(&e)))?;
    let mut signal = signals::listen(|| output::note("stopping; workers wait for the next start"))
        .map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let config = CoordinatorConfig {
        lease: args.lease,
        low_water: args.low_water,
        checks_percent: args.double_check,
        ..CoordinatorConfig::of_store(env!("CARGO_PKG_VERSION"), store)
    };
    let coordinator = Coordinator::start(config);
    // Who listens on all addresses is reached under the machine's name.
    let reached = if address.ip().is_unspecified() { format!("{host}:{}", address.port()) } else { address.to_string() };
    let served = serve_until_over(args, coordinator, listener, tls, (address, &shown, &reached), &mut signal);
    let ended = tokio::select! {
        ended = served => ended,
        // At once, and nothing is given back: somebody else may have it.
        lost = lead.keep() => return Err(Failure { code: LOST, message: chain(&lost), help: None }),
    };
    if let Some(file) = &args.address_file {
        // Nobody listens there any more, unless it is another that has written its own address meanwhile.
        let is_ours = std::fs::read_to_string(file).is_ok_and(|text| text.trim_end() == reached);
        if is_ours {
            let _ = std::fs::remove_file(file);
        }
    }
    lead.give_back().await;
    ended
}

/// Serves until it is told to stop, or all jobs are over. Nothing is written any more when it returns.
async fn serve_until_over(
    args: &Args,
    coordinator: Coordinator,
    listener: TcpListener,
    tls: Option<Tls>,
    (address, shown, reached): (SocketAddr, &str, &str),
    signal: &mut watch::Receiver<Option<u8>>,
) -> Result<(), Failure> {
    let serving = tokio::spawn({
        let coordinator = coordinator.clone();
        async move { coordinator.serve(listener, tls).await }
    });
    output::note(&format!("listening on {address}; the tables are in {shown}"));
    if let Some(address) = &args.metrics {
        metrics::serve(&coordinator, address).await?;
    }
    let taken = coordinator.take_up().await.map_err(|e| Failure::failed(chain(&e)))?;
    for (table, went) in taken {
        match went {
            Ok(()) => output::note(&format!("going on with {table}")),
            Err(why) => output::note(&format!("note: {table} does not go on: {why}")),
        }
    }
    if let Some(file) = &args.address_file {
        write_address(file, reached)?;
    }
    let mut serving = std::pin::pin!(serving);
    let ended = loop {
        tokio::select! {
            _ = signal.wait_for(Option::is_some) => break Ok(()),
            served = &mut serving => {
                let why = match served {
                    Ok(Ok(())) => "the service ended".to_owned(),
                    Ok(Err(e)) => chain(&e),
                    Err(e) => e.to_string(),
                };
                break Err(Failure::failed(format!("cannot serve on {address}: {why}")));
            }
            () = tokio::time::sleep(LOOK) => {
                if args.idle_exit && coordinator.is_idle() {
                    output::note("all jobs are over");
                    coordinator.dismiss_workers(FAREWELL).await;
                    break match coordinator.failed().first() {
                        None => Ok(()),
                        Some((table, why)) if why.is_empty() => Err(Failure::failed(format!("{table} was cancelled"))),
                        Some((table, why)) => Err(Failure::failed(format!("{table} is not complete: {why}"))),
                    };
                }
            }
        }
    };
    coordinator.shutdown().await;
    if ended.is_ok() {
        let _ = tokio::time::timeout(LAST_CALLS, serving).await;
    }
    ended
}

/// Where the tables are: an object store, or a directory with its whole path, made when it is missing.
fn store(given: &Path, allow_http: bool) -> Result<Store, Failure> {
    let shown = shell_quote(&given.to_string_lossy()).into_owned();
    let opened = match given.to_str() {
        Some(text) => Store::open(text, allow_http).map_err(|e| Failure::usage(chain(&e)))?,
        None => Store::Folder(given.to_owned()),
    };
    let Store::Folder(folder) = opened else { return Ok(opened) };
    let cannot = |e: std::io::Error| Failure::failed(format!("cannot use {shown} as a store: {e}"));
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    folder.canonicalize().map(Store::Folder).map_err(cannot)
}

/// Written under another name first: whoever reads it finds all of it.
fn write_address(file: &Path, address: &str) -> Result<(), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut temporary, format!("{address}\n").as_bytes())?;
        temporary.persist(file).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|e| Failure::failed(format!("cannot write {}: {e}", shell_quote(&file.to_string_lossy()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stores_are_directories_and_object_stores() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        let folder = |given: &Path| store(given, false).map(|store| store.shown());
        assert_eq!(folder(&made).unwrap(), made.canonicalize().unwrap().to_str().unwrap());
        let url = format!("file://{}", made.display());
        assert_eq!(folder(Path::new(&url)).unwrap(), made.canonicalize().unwrap().to_str().unwrap());
        assert_eq!(folder(Path::new("s3://bucket/prefix/")).unwrap(), "s3://bucket/prefix");
        for (bad, why) in
            [("ftp://x/y", "s3://, gs:// or az://"), ("s3://key:secret@bucket/x", "environment"), ("s3://", "s3://")]
        {
            let refused = folder(Path::new(bad)).unwrap_err();
            assert!(refused.code == 2 && refused.message.contains(why), "{bad}: {refused:?}");
            assert!(!refused.message.contains("secret"), "{refused:?}");
        }
    }
}
