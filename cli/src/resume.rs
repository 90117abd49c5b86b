//! `strata resume`: goes on with a build that is paused.

use crate::cluster::steer::{self, Ask};
use crate::failure::Failure;

/// Which table.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata resume 2048-3x3
  strata resume 2048-3x3 --coordinator node1:7240 --tls tls/client

Failures that were counted are forgotten.")]
pub struct Args {
    #[command(flatten)]
    job: steer::Args,
}

/// Asks for it.
pub fn run(args: &Args) -> Result<(), Failure> {
    steer::run(&args.job, Ask::Resume)
}
