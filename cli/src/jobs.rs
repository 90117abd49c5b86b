//! `strata jobs`: what a coordinator builds.

use crate::cluster::client::ConnectArgs;
use crate::cluster::view;
use crate::failure::Failure;
use crate::output;
use strata_proto::v1::ListRequest;

/// Of which coordinator.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata jobs
  strata jobs --coordinator node1:7240 --tls tls/client --json

In the order in which they get workers.")]
pub struct Args {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Lists them.
pub fn run(args: &Args) -> Result<(), Failure> {
    let jobs = args.connect.ask(|mut jobs| async move { jobs.list(ListRequest {}).await })?;
    if args.json {
        output::json(&jobs.jobs.iter().map(view::Job::from).collect::<Vec<_>>())
    } else {
        output::result(&view::jobs(&jobs.jobs))
    }
}
