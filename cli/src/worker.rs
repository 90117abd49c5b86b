//! `strata worker`: computes the tasks that a coordinator gives out, until it is stopped or there are none left.

use crate::cluster;
use crate::cluster::client::ConnectArgs;
use crate::failure::{Failure, chain};
use crate::output::{self, shell_quote};
use crate::resources;
use crate::signals;
use crate::units;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use strata_worker::{CacheConfig, Tables, WorkerConfig, WorkerError, run_worker};
use tokio::sync::watch;

/// For whom it works, and with what.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata worker
  strata worker --coordinator node1:7240 --tls tls/worker --memory 8GiB --threads 4
  strata worker --coordinator @/shared/address --store /mnt/tables
  strata worker --coordinator node1:7240 --tls tls/worker --cache /ssd/strata --cache-size 200GiB

Workers may come and go at any time. SIGTERM and Ctrl-C hand the task back, and the worker exits with 0; one that is killed loses what it
was computing and nothing else. While the coordinator is away a worker waits for it.
Exit code 78: the coordinator refuses this worker (another version, a certificate of another role); starting it again is no use. 79: it has found that
this worker computes wrong numbers; its machine should be left out.")]
pub struct Args {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Threads to compute with [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory it may use, for example 8GiB [default: three quarters of what is free]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
    /// What people call it [default: host and process number]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where the coordinator's store is on this machine, when the path is another here
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Where copies of files are kept when the store is an object store; best on a local SSD [default: strata in the user's cache folder]
    #[arg(long, value_name = "DIR", env = "STRATA_CACHE")]
    cache: Option<PathBuf>,
    /// Space that they may take, for example 200GiB [default: half of what is free there]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    cache_size: Option<u64>,
    /// Use an object store whose endpoint has no TLS, on a network that you trust
    #[arg(long)]
    allow_http: bool,
}

/// Starting it again is no use.
const REFUSED: u8 = 78;
/// Starting any other on this machine is no use either.
const QUARANTINED: u8 = 79;
/// How long a coordinator may take to write its address.
const FIRST_ADDRESS: Duration = Duration::from_secs(600);

/// Works.
pub fn run(args: &Args) -> Result<(), Failure> {
    cluster::end_with_parent();
    let runtime = crate::runtime()?;
    let ended = runtime.block_on(work(args));
    // A kernel that does not stop in time is cut off: its outputs have no record yet.
    runtime.shutdown_timeout(Duration::from_millis(200));
    ended
}

/// Where copies are kept.
fn cache(args: &Args) -> CacheConfig {
    let home = || {
        let of = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        of("XDG_CACHE_HOME")
            .or_else(|| of("HOME").map(|home| home.join(".cache")))
            .unwrap_or_else(std::env::temp_dir)
            .join("strata")
    };
    let folder = args.cache.clone().unwrap_or_else(home);
    let bytes = args.cache_size.unwrap_or_else(|| resources::free_disk(&folder).map_or(u64::MAX, |free| free / 2));
    CacheConfig { folder, bytes }
}

async fn work(args: &Args) -> Result<(), Failure> {
    let (stop, stopped) = watch::channel(false);
    let mut signal = signals::listen(|| output::note("stopping: handing the task back (a second signal stops at once)"))
        .map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    if let Some(dir) = args.store.as_deref().filter(|dir| !dir.is_dir()) {
        return Err(Failure::usage(format!("--store {} is no directory", shell_quote(&dir.to_string_lossy())))
            .help("it names the directory that the coordinator uses as its store, as this machine sees it"));
    }
    if args.name.as_deref().is_some_and(|name| name.is_empty() || name.chars().any(char::is_control)) {
        return Err(
            Failure::usage("--name is empty, or has characters that cannot be printed").help("for example --name node3-1")
        );
    }
    if let Some(file) = args.connect.coordinator.strip_prefix('@').filter(|file| !Path::new(file).exists()) {
        output::note(&format!("waiting for a coordinator that writes its address to {}", shell_quote(file)));
    }
    let found = tokio::select! {
        found = args.connect.channel(FIRST_ADDRESS) => found?,
        _ = signal.wait_for(Option::is_some) => return Ok(()),
    };
    let (channel, address) = found;
    let name = args.name.clone().unwrap_or_else(|| format!("{}-{}", resources::host(), std::process::id()));
    let memory = resources::memory(args.memory);
    let threads = args.threads.map_or_else(resources::threads, usize::from);
    let tables = match &args.store {
        Some(store) => Tables::Under(store.clone()),
        None => Tables::AsTold { cache: cache(args), allow_http: args.allow_http },
    };
    let notice = Arc::new(|what: &str| output::note(&format!("note: {what}")));
    let config = WorkerConfig { notice, ..WorkerConfig::new(&name, env!("CARGO_PKG_VERSION"), memory, threads, tables) };
    let with = units::plural(threads as u64, "thread");
    output::note(&format!("worker {name} with {with} and {} works for {address}", units::bytes(memory)));
    let mut working = std::pin::pin!(run_worker(channel, config, stopped));
    let ended = tokio::select! {
        ended = &mut working => ended,
        _ = signal.wait_for(Option::is_some) => {
            let _ = stop.send(true); // it listens as long as it works
            working.await
        }
    };
    match ended {
        Ok(()) if signals::received().is_some() => Ok(()),
        Ok(()) => {
            output::note("there is nothing left to do");
            Ok(())
        }
        Err(error @ WorkerError::Refused(_)) => {
            let message = chain(&error);
            Err(Failure { code: REFUSED, message, help: Some("see `strata worker --help` about exit code 78".into()) })
        }
        Err(error @ WorkerError::Quarantined(_)) => {
            let help = "test the memory and the processor of this machine before it works again".into();
            Err(Failure { code: QUARANTINED, message: chain(&error), help: Some(help) })
        }
        Err(error) => Err(Failure::failed(chain(&error))),
    }
}
