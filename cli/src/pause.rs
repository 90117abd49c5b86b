//! `strata pause`: stops the build of a table for now.

use crate::cluster::steer::{self, Ask};
use crate::failure::Failure;

/// Which table.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata pause 2048-3x3
  strata pause 2048-3x3 --coordinator node1:7240 --tls tls/client

Tasks that run are told to stop; what is finished stays. A coordinator that is started again remembers the pause.
`strata resume` goes on.")]
pub struct Args {
    #[command(flatten)]
    job: steer::Args,
}

/// Asks for it.
pub fn run(args: &Args) -> Result<(), Failure> {
    steer::run(&args.job, Ask::Pause)
}
