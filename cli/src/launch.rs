//! `strata launch`: starts a cluster where it is to run.

mod local;

use crate::failure::Failure;

/// Where.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata launch local --store tables --table 2048-3x3
  strata launch local --store tables --table bearoff-10x15 --workers 4 --memory 8GiB

What is stopped goes on with the same command.")]
pub struct Args {
    #[command(subcommand)]
    place: Place,
}

#[derive(clap::Subcommand, Debug)]
enum Place {
    /// A coordinator and workers as processes of this machine
    Local(local::Args),
}

/// Starts it.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.place {
        Place::Local(args) => local::run(args),
    }
}
