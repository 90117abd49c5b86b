//! `strata submit`: asks a coordinator to build a table, or to go on with one.

use crate::args::table_name;
use crate::cluster::client::ConnectArgs;
use crate::cluster::view;
use crate::failure::Failure;
use strata_proto::v1::SubmitRequest;

/// Which table.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata submit 2048-3x3
  strata submit bearoff-10x15 --priority 5 --coordinator node1:7240 --tls tls/client

The table is built in the coordinator's store, in a folder of its name. Submitting a table again is harmless; it changes the priority, and
goes on with a build that was cancelled or failed. `strata status NAME --watch` follows it.")]
pub struct Args {
    /// Name of the table, for example 2048-3x3
    #[arg(value_name = "NAME")]
    name: String,
    /// Tables of higher priority get workers first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Submits it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let request = SubmitRequest { table: table_name(&args.name)?.to_string(), priority: args.priority };
    view::show(args.connect.ask(|mut jobs| async move { jobs.submit(request).await })?, args.json)
}
