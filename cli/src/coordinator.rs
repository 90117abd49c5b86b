//! `strata coordinator`: hands the tasks of submitted tables to workers, and writes down what they made.
//!
//! Its only memory is the store. Started again, after whatever end, it goes on with every build that is not finished there.

use crate::cluster::tls::{self, expect_safe};
use crate::cluster::{self, LISTEN};
use crate::failure::{Failure, chain};
use crate::output::{self, shell_quote};
use crate::resources;
use crate::signals;
use crate::units;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strata_coordinator::{Coordinator, CoordinatorConfig};
use strata_storage::StoreLock;
use tokio::net::TcpListener;

/// Where it works and who reaches it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata coordinator --store tables
  strata coordinator --store /shared/tables --listen 0.0.0.0:7240 --tls tls/coordinator
  strata coordinator --store tables --listen 127.0.0.1:0 --address-file address --idle-exit

The store is a directory, with a folder for each table; workers must see it under the same path, or say where it is with their
--store. One coordinator leads a store at a time. SIGTERM and Ctrl-C stop it, and so may kill -9: started again it goes on
with every build that is not finished. Workers wait for it meanwhile.
Off this machine it talks TLS with certificates on both sides (`strata certs`), unless --insecure says that the network is trusted.")]
pub struct Args {
    /// The directory of the tables; made when it is missing
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
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
    /// End when all jobs are over: there was one, and none is left
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
    let store = store(&args.store)?;
    let shown = shell_quote(&store.to_string_lossy()).into_owned();
    let tls = args.tls.as_deref().map(tls::read).transpose()?;
    expect_safe(&args.listen, tls.is_some(), args.insecure)?;
    let cannot = |e: std::io::Error| {
        Failure::failed(format!("cannot listen on {}: {e}", args.listen))
            .help("--listen HOST:PORT names another address; port 0 takes a free one")
    };
    let listener = TcpListener::bind(&args.listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let host = resources::host();
    let leader = format!("process {} on {host}, listening on {address}", std::process::id());
    let _lead = StoreLock::take(&store, &leader).map_err(|e| Failure::failed(chain(&e)))?;
    let mut signal = signals::listen(|| output::note("stopping; workers wait for the next start"))
        .map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let config = CoordinatorConfig {
        lease: args.lease,
        low_water: args.low_water,
        checks_percent: args.double_check,
        ..CoordinatorConfig::of_store(env!("CARGO_PKG_VERSION"), store.clone())
    };
    let coordinator = Coordinator::start(config);
    let serving = tokio::spawn({
        let coordinator = coordinator.clone();
        async move { coordinator.serve(listener, tls).await }
    });
    output::note(&format!("listening on {address}; the tables are in {shown}"));
    let taken = coordinator.take_up().await.map_err(|e| Failure::failed(chain(&e)))?;
    for (table, went) in taken {
        match went {
            Ok(()) => output::note(&format!("going on with {table}")),
            Err(why) => output::note(&format!("note: {table} does not go on: {why}")),
        }
    }
    if let Some(file) = &args.address_file {
        // Who listens on all addresses is reached under the machine's name.
        let reached = if address.ip().is_unspecified() { format!("{host}:{}", address.port()) } else { address.to_string() };
        write_address(file, &reached)?;
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
                    break Ok(());
                }
            }
        }
    };
    coordinator.shutdown().await;
    if ended.is_ok() {
        let _ = tokio::time::timeout(LAST_CALLS, serving).await;
    }
    if let Some(file) = &args.address_file {
        // Nobody listens there any more.
        let _ = std::fs::remove_file(file);
    }
    ended
}

/// The directory of the tables, made when it is missing, with its whole path.
fn store(given: &Path) -> Result<PathBuf, Failure> {
    let shown = shell_quote(&given.to_string_lossy()).into_owned();
    let path = match given.to_str().and_then(|text| text.split_once("://")) {
        Some(("file", path)) => Path::new(path),
        Some((scheme, _)) => {
            return Err(Failure::usage(format!("{shown} is a store of kind {scheme}, and tables are built in directories"))
                .help("name a directory that the coordinator and all workers see"));
        }
        None => given,
    };
    let cannot = |e: std::io::Error| Failure::failed(format!("cannot use {shown} as a store: {e}"));
    std::fs::create_dir_all(path).map_err(cannot)?;
    path.canonicalize().map_err(cannot)
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

    #[test]
    fn stores_are_directories() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        assert_eq!(store(&made).unwrap(), made.canonicalize().unwrap());
        let url = format!("file://{}", made.display());
        assert_eq!(store(Path::new(&url)).unwrap(), made.canonicalize().unwrap());
        let refused = store(Path::new("ftp://x/y")).unwrap_err();
        assert!(refused.code == 2 && refused.message.contains("kind ftp"), "{refused:?}");
    }
}
