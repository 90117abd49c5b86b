//! `strata cancel`: ends the build of a table.

use crate::cluster::steer::{self, Ask};
use crate::failure::Failure;

/// Which table.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata cancel 2048-3x3
  strata cancel 2048-3x3 --coordinator node1:7240 --tls tls/client

The files stay in the store: `strata submit` goes on from them, removing the folder of the table gives the disk back.")]
pub struct Args {
    #[command(flatten)]
    job: steer::Args,
}

/// Asks for it.
pub fn run(args: &Args) -> Result<(), Failure> {
    steer::run(&args.job, Ask::Cancel)
}
