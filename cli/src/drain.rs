//! `strata drain`: lets a worker finish its task and leave.

use crate::cluster::client::ConnectArgs;
use crate::cluster::view;
use crate::failure::Failure;
use crate::output;
use strata_proto::v1::DrainRequest;

/// Which worker.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata drain node3-4711
  strata drain node3-4711 --coordinator node1:7240 --tls tls/client

`strata status` lists the workers. A drained worker finishes the task it has, gets no other, and exits with 0.")]
pub struct Args {
    /// Name of the worker, or its number
    #[arg(value_name = "WORKER")]
    worker: String,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Asks for it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let request = DrainRequest { worker: args.worker.clone() };
    let drained = args.connect.ask(|mut jobs| async move { jobs.drain(request).await })?;
    if args.json {
        output::json(&drained.workers.iter().map(view::Worker::from).collect::<Vec<_>>())
    } else {
        match drained.workers.is_empty() {
            true => output::result("it gets no more tasks; it has not been heard of lately\n"),
            false => output::result(&view::workers(&drained.workers)),
        }
    }
}
