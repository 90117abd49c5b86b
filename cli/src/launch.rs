//! `strata launch`: starts a cluster where it is to run, or writes the job that does.

/// A file of `deploy/`.
macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../../deploy/", $path))
    };
}

mod compose;
mod job;
mod k8s;
mod local;
mod slurm;
mod systemd;

use crate::failure::Failure;

/// Where.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata launch local --store tables --table 2048-3x3
  strata launch local --store tables --table bearoff-10x15 --workers 4 --memory 8GiB
  strata launch slurm --store /shared/tables --table bearoff-12x15 --workers 8 --dry-run
  strata launch k8s --store s3://bucket/tables --table 2048-3x3 --image registry.example.org/strata:0.1.0

`local` runs the cluster itself. The others write a folder with a job, sized from what `strata predict` says, and print the commands that
start it; with --apply they run those. What is stopped goes on with the same command.")]
pub struct Args {
    #[command(subcommand)]
    place: Place,
}

#[derive(clap::Subcommand, Debug)]
enum Place {
    /// A coordinator and workers as processes of this machine
    Local(local::Args),
    /// Jobs of a Slurm cluster
    Slurm(slurm::Args),
    /// Objects of a Kubernetes cluster
    K8s(k8s::Args),
    /// Containers of this machine, by Docker or Podman
    Compose(compose::Args),
    /// Services of this machine
    Systemd(systemd::Args),
}

/// Starts it.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.place {
        Place::Local(args) => local::run(args),
        Place::Slurm(args) => slurm::run(args),
        Place::K8s(args) => k8s::run(args),
        Place::Compose(args) => compose::run(args),
        Place::Systemd(args) => systemd::run(args),
    }
}
