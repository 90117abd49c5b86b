//! `strata`: builds, verifies and probes game tablebases that do not fit in memory. One verb a file.
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0 done; 1 failed (the sentence on stderr says what to do);
//! 2 the command line, or text given on it, is wrong; 130 and 143 stopped by Ctrl-C and SIGTERM.

mod args;
mod build;
mod cancel;
mod certs;
mod charts;
mod cluster;
mod completions;
mod coordinator;
mod drain;
mod export;
mod failure;
mod forecast;
mod gnubg;
mod import;
mod info;
mod invalidate;
mod jobs;
mod keep;
mod launch;
mod output;
mod pause;
mod predict;
mod preflight;
mod probe;
mod progress;
mod resources;
mod resume;
mod samples;
mod signals;
mod stats;
mod status;
mod study;
mod submit;
mod table;
mod units;
mod verify;
mod worker;

use args::{Cli, Verb};
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    failure::install_panic_hook();
    let cli = Cli::parse();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(cli.verb)));
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        Err(_) => ExitCode::from(failure::FAILED), // the hook has said it
    }
}

fn run(verb: Verb) -> Result<(), Failure> {
    start_log();
    match verb {
        Verb::Build(args) => build::run(&args),
        Verb::Info(args) => info::run(&args),
        Verb::Stats(args) => stats::run(&args),
        Verb::Probe(args) => probe::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Predict(args) => predict::run(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Import(args) => import::run(&args),
        Verb::Study(args) => study::run(&args),
        Verb::Coordinator(args) => coordinator::run(&args),
        Verb::Worker(args) => worker::run(&args),
        Verb::Submit(args) => submit::run(&args),
        Verb::Jobs(args) => jobs::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::Pause(args) => pause::run(&args),
        Verb::Resume(args) => resume::run(&args),
        Verb::Cancel(args) => cancel::run(&args),
        Verb::Drain(args) => drain::run(&args),
        Verb::Invalidate(args) => invalidate::run(&args),
        Verb::Launch(args) => launch::run(&args),
        Verb::Certs(args) => certs::run(&args),
        Verb::Completions(args) => completions::run(&args),
    }
}

/// The threads that wait for messages, timers and signals. Kernels have their own.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("cannot start threads: {e}")))
}

/// Logs go to stderr when STRATA_LOG asks for them; otherwise what matters is said by the verbs.
fn start_log() {
    let Ok(filter) = std::env::var("STRATA_LOG") else { return };
    match tracing_subscriber::EnvFilter::try_new(&filter) {
        Ok(filter) => {
            let ansi = output::is_coloured(output::Stream::Err);
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
        }
        Err(e) => output::note(&format!("note: STRATA_LOG={filter} is not understood ({e}); for example STRATA_LOG=info")),
    }
}
