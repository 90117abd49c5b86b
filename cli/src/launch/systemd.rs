//! `strata launch systemd`: services of this machine, which go on after it has been restarted.

use super::job::{Engine, Job, JobArgs, Sizes, Store, fill};
use crate::failure::Failure;
use crate::output::shell_quote;

/// What to build, with how many, and where.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata launch systemd --table 2048-3x3
  sudo strata launch systemd --table bearoff-12x15 --workers 2 --store /data/tables --apply
  strata launch systemd --table 2048-3x3 --dry-run

Installing units takes root. README.md in the folder says how to watch and stop them, and how other machines join.")]
pub struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// The directory of the tables
    #[arg(long, value_name = "DIR", default_value = "/var/lib/strata")]
    store: String,
}

/// Writes it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Store::Folder(store) = Store::parse(&args.store)? else {
        return Err(Failure::usage(format!("--store {}: the units build in a directory", shell_quote(&args.store)))
            .help("name the whole path of one"));
    };
    if args.job.apply && !rustix::process::geteuid().is_root() {
        return Err(Failure::usage("--apply installs units, which takes root")
            .help("run it with sudo, or without --apply to see what would be installed"));
    }
    let sizes = args.job.sizes()?;
    args.job.deliver("systemd", &sizes, &job(&sizes, &store)?)
}

fn job(sizes: &Sizes, store: &str) -> Result<Job, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("cannot tell where this program is: {e}")))?;
    let install = [
        ("STRATA=", shell_quote(&program.to_string_lossy()).into_owned()),
        ("STORE=", store.to_owned()),
        ("WORKERS=", sizes.workers.to_string()),
        ("TABLE=", sizes.table.to_string()),
    ];
    let options = format!("--threads {} --memory {}MiB", sizes.threads, sizes.memory_mib);
    let files = vec![
        ("README.md", template!("systemd/README.md").to_owned()),
        ("install.sh", fill(template!("systemd/install.sh"), &install)),
        ("strata-coordinator.service", template!("systemd/strata-coordinator.service").to_owned()),
        ("strata-worker@.service", template!("systemd/strata-worker@.service").to_owned()),
        ("coordinator.conf", fill(template!("systemd/coordinator.conf"), &[("STRATA_STORE=", store.to_owned())])),
        ("worker.conf", fill(template!("systemd/worker.conf"), &[("STRATA_WORKER_OPTIONS=", options)])),
        ("store.conf", fill(template!("systemd/store.conf"), &[("ReadWritePaths=", store.to_owned())])),
        ("memory.conf", fill(template!("systemd/memory.conf"), &[("MemoryMax=", format!("{}M", sizes.limit_mib))])),
    ];
    let engines = vec![Engine { words: &["systemctl"], test: &["systemctl", "--version"] }];
    Ok(Job { files, engines, commands: vec![&["sh", "install.sh"]] })
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::{args, assert_lines, file};
    use super::*;

    #[test]
    fn services_have_the_sizes_and_the_store() {
        let job = job(&args("bearoff-8x15").sizes().unwrap(), "/data/tables").unwrap();
        assert_lines(file(&job, "install.sh"), &["STORE=/data/tables", "WORKERS=3", "TABLE=bearoff-8x15"]);
        assert_lines(file(&job, "coordinator.conf"), &["STRATA_STORE=/data/tables", "STRATA_LISTEN=127.0.0.1:7240"]);
        assert_lines(file(&job, "worker.conf"), &["STRATA_WORKER_OPTIONS=--threads 4 --memory 1024MiB"]);
        assert_lines(file(&job, "memory.conf"), &["MemoryMax=1536M"]);
        assert_lines(file(&job, "store.conf"), &["ReadWritePaths=/data/tables"]);
    }
}
