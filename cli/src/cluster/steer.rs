//! What `strata pause`, `strata resume` and `strata cancel` have in common: a table, one call, and its answer.

use super::client::ConnectArgs;
use super::view;
use crate::args::table_name;
use crate::failure::Failure;
use strata_proto::v1::JobRequest;

/// Which table.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Name of the table
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// No more tasks; those that run stop.
    Pause,
    /// On again.
    Resume,
    /// An end; the files stay.
    Cancel,
}

/// Asks for it.
pub fn run(args: &Args, ask: Ask) -> Result<(), Failure> {
    let request = JobRequest { table: table_name(&args.name)?.to_string() };
    let status = args.connect.ask(|mut jobs| async move {
        match ask {
            Ask::Pause => jobs.pause(request).await,
            Ask::Resume => jobs.resume(request).await,
            Ask::Cancel => jobs.cancel(request).await,
        }
    })?;
    view::show(status, args.json)
}
