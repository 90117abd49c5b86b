//! `strata launch slurm`: one job with coordinator and workers, or a coordinator's job and an array of workers.

use super::job::{COORDINATOR_MIB, Engine, Job, JobArgs, Sizes, Store, fill};
use crate::failure::Failure;
use crate::output::shell_quote;
use crate::units;

/// What to build, with how many, and where.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata launch slurm --store /shared/tables --table bearoff-12x15 --workers 8 --threads 16
  strata launch slurm --store /shared/tables --table bearoff-12x15 --workers 50 --array --hours 12 --apply
  strata launch slurm --store /shared/tables --table 2048-3x3 --dry-run

The store is a directory that all nodes see, or s3://BUCKET/PREFIX. Partition and account come from SBATCH_PARTITION and SBATCH_ACCOUNT, or from
lines that you add. A job whose time is up goes back into the queue and resumes. README.md in the folder says how to watch and stop it.")]
pub struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// The directory of the tables, as all nodes see it, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR")]
    store: String,
    /// The workers as a job array, which may start and be preempted one by one
    #[arg(long)]
    array: bool,
    /// Longest time of one run of a job, in hours
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Room for the cache of a worker, in its node's TMPDIR (only with s3://) [default: that of the store, at most 256GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    cache_size: Option<u64>,
}

/// Writes it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let store = Store::parse(&args.store)?;
    let sizes = args.job.sizes()?;
    args.job.deliver("slurm", &sizes, &job(args, &sizes, &store)?)
}

fn job(args: &Args, sizes: &Sizes, store: &Store) -> Result<Job, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("cannot tell where this program is: {e}")))?;
    let cache = super::job::cache_mib(store, args.cache_size, sizes)?
        .map_or("()".to_owned(), |mib| format!("(--cache \"${{TMPDIR:-/tmp}}/strata-$SLURM_JOB_ID\" --cache-size {mib}MiB)"));
    let common = fill(
        template!("slurm/strata.sh"),
        &[
            ("STRATA=", shell_quote(&program.to_string_lossy()).into_owned()),
            ("STORE=", store.text().to_owned()),
            ("TABLE=", sizes.table.to_string()),
            ("MEMORY=", format!("{}MiB", sizes.memory_mib)),
            ("CACHE=", cache),
        ],
    );
    // Twice what is expected, as nodes differ.
    let hours = sizes.hours.map_or(args.limit, |hours| hours.saturating_mul(2).min(args.limit));
    let time = ("#SBATCH --time=", format!("{hours}:00:00"));
    let node = |template, count: (&'static str, String), mib: u64| {
        let threads = ("#SBATCH --cpus-per-task=", sizes.threads.to_string());
        let memory = ("#SBATCH --mem=", format!("{mib}M"));
        fill(template, &[count, threads, memory, time.clone()])
    };
    let sbatch: &[&str] = &["sbatch", "--version"];
    let readme = ("README.md", template!("slurm/README.md").to_owned());
    let (files, command): (_, &[&str]) = if args.array {
        let workers = ("#SBATCH --array=", format!("1-{}", sizes.workers));
        let files = vec![
            ("coordinator.sbatch", fill(template!("slurm/coordinator.sbatch"), std::slice::from_ref(&time))),
            ("workers.sbatch", node(template!("slurm/workers.sbatch"), workers, sizes.limit_mib)),
            ("submit.sh", template!("slurm/submit.sh").to_owned()),
        ];
        (files, &["bash", "submit.sh"])
    } else {
        let workers = ("#SBATCH --nodes=", sizes.workers.to_string());
        let files = vec![
            ("one-allocation.sbatch", node(template!("slurm/one-allocation.sbatch"), workers, sizes.limit_mib + COORDINATOR_MIB)),
            ("worker.sh", template!("slurm/worker.sh").to_owned()),
        ];
        (files, &["sbatch", "one-allocation.sbatch"])
    };
    let files = [("strata.sh", common), readme].into_iter().chain(files).collect();
    Ok(Job { files, engines: vec![Engine { words: &["sbatch"], test: sbatch }], commands: vec![command] })
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::{args as job_args, assert_lines, file};
    use super::*;

    fn args(store: &str, array: bool) -> Args {
        Args { job: job_args("2048-3x3"), store: store.into(), array, limit: 24, cache_size: None }
    }

    fn made(args: &Args) -> Job {
        job(args, &args.job.sizes().unwrap(), &Store::parse(&args.store).unwrap()).unwrap()
    }

    #[test]
    fn one_job_has_a_node_for_each_worker() {
        let job = made(&args("/shared/tables", false));
        let expected = ["#SBATCH --nodes=3", "#SBATCH --cpus-per-task=4", "#SBATCH --mem=2048M", "#SBATCH --time=10:00:00"];
        assert_lines(file(&job, "one-allocation.sbatch"), &expected);
        assert_lines(file(&job, "strata.sh"), &["STORE=/shared/tables", "TABLE=2048-3x3", "MEMORY=1024MiB", "CACHE=()"]);
        assert_eq!(job.commands, [["sbatch", "one-allocation.sbatch"]]);
    }

    #[test]
    fn an_array_has_an_element_for_each_worker_and_no_run_is_longer_than_the_limit() {
        let job = made(&Args { limit: 8, ..args("/shared/tables", true) });
        assert_lines(
            file(&job, "workers.sbatch"),
            &["#SBATCH --array=1-3", "#SBATCH --time=8:00:00", "#SBATCH --nodes=1", "#SBATCH --mem=1536M"],
        );
        assert_lines(file(&job, "coordinator.sbatch"), &["#SBATCH --time=8:00:00", "#SBATCH --nodes=1"]);
        assert_eq!(job.commands, [["bash", "submit.sh"]]);
    }

    #[test]
    fn workers_of_a_bucket_have_a_cache() {
        let job = made(&Args { cache_size: Some(5 << 30), ..args("s3://bucket/tables", false) });
        let cache = "CACHE=(--cache \"${TMPDIR:-/tmp}/strata-$SLURM_JOB_ID\" --cache-size 5120MiB)";
        assert_lines(file(&job, "strata.sh"), &["STORE=s3://bucket/tables", cache]);
        let without = Args { cache_size: Some(1 << 30), ..args("/shared/tables", false) };
        let failure = job_of_folder_with_cache(&without);
        assert!(failure.code == 2 && failure.message.contains("--cache-size"), "{failure:?}");
    }

    fn job_of_folder_with_cache(args: &Args) -> Failure {
        job(args, &args.job.sizes().unwrap(), &Store::parse(&args.store).unwrap()).unwrap_err()
    }
}
