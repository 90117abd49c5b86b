//! A worker with a broken machine: `strata-faulty-worker ADDRESS-FILE NAME LAYER` works for the coordinator that wrote its address to a file,
//! and gets one bit of the first value of a layer wrong. It ends as `strata worker` does: with 0, with 1, and with 79 when it is quarantined.

use std::process::ExitCode;
use strata_worker::{CacheConfig, Tables, WorkerConfig, WorkerError, run_faulty_worker};
use tokio::sync::watch;
use tonic::transport::Endpoint;

/// Memory that it may use, in bytes.
const MEMORY: u64 = 512 << 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, name, layer] = words.as_slice() else { return wrong("three words are wanted: ADDRESS-FILE NAME LAYER") };
    let Ok(layer) = layer.parse() else { return wrong("LAYER is no number") };
    let Ok(address) = std::fs::read_to_string(file) else { return wrong("there is no such file") };
    let Ok(endpoint) = Endpoint::from_shared(format!("http://{}", address.trim())) else { return wrong("it has no address") };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return wrong(&error.to_string()),
    };
    // The store of these tests is a directory.
    let cache = CacheConfig { folder: std::env::temp_dir(), bytes: 0 };
    let tables = Tables::AsTold { cache, allow_http: false };
    let config = WorkerConfig::new(name, env!("CARGO_PKG_VERSION"), MEMORY, 1, tables);
    // Nobody tells it to stop.
    let (_stop, stopped) = watch::channel(false);
    let worked = runtime.block_on(async { run_faulty_worker(endpoint.connect_lazy(), config, stopped, layer).await });
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if matches!(error, WorkerError::Quarantined(_)) { 79 } else { 1 })
        }
    }
}

fn wrong(why: &str) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::from(2)
}
