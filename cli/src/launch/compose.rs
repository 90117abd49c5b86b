//! `strata launch compose`: containers of one machine, by Docker Compose or podman-compose.

use super::job::{ENGINE, Engine, Job, JobArgs, Sizes, Store, cache_mib, fill};
use crate::failure::Failure;
use crate::units;

/// What to build, and with how many.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata launch compose --table 2048-3x3
  strata launch compose --table bearoff-12x15 --workers 4 --threads 2 --apply
  strata launch compose --store s3://bucket/tables --table 2048-3x3 --cache-size 20GiB --dry-run

The tables are in a volume unless --store names a bucket. deploy/Containerfile makes the image. README.md in the folder says how to
watch and stop it, and how to get the table out.")]
pub struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// A store of objects, s3://BUCKET/PREFIX [default: a volume]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Room for the cache of a worker (only with s3://) [default: that of the store, at most 256GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    cache_size: Option<u64>,
    /// The image of the containers
    #[arg(long, value_name = "IMAGE", default_value = "strata:latest", value_parser = super::job::parse_image)]
    image: String,
}

/// Writes it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let store = super::job::volume_or_bucket(args.store.as_deref())?;
    let sizes = args.job.sizes()?;
    args.job.deliver("compose", &sizes, &job(args, &sizes, &store)?)
}

fn job(args: &Args, sizes: &Sizes, store: &Store) -> Result<Job, Failure> {
    let cache = cache_mib(store, args.cache_size, sizes)?;
    let compose = if cache.is_some() { "compose.yaml:compose.s3.yaml" } else { "compose.yaml" };
    let mut settings = vec![
        ("COMPOSE_FILE=", compose.to_owned()),
        ("STRATA_IMAGE=", args.image.clone()),
        ("STRATA_TABLE=", sizes.table.to_string()),
        ("STRATA_STORE=", store.text().to_owned()),
        ("STRATA_WORKERS=", sizes.workers.to_string()),
        ("STRATA_THREADS=", sizes.threads.to_string()),
        ("STRATA_MEMORY=", format!("{}MiB", sizes.memory_mib)),
        ("STRATA_LIMIT=", format!("{}M", sizes.limit_mib)),
    ];
    settings.extend(cache.map(|mib| ("STRATA_CACHE=", format!("{mib}MiB"))));
    let files = vec![
        ("compose.yaml", template!("compose/compose.yaml").to_owned()),
        ("compose.s3.yaml", template!("compose/compose.s3.yaml").to_owned()),
        (".env", fill(template!("compose/.env"), &settings)),
        ("README.md", template!("compose/README.md").to_owned()),
    ];
    let engines = vec![
        Engine { words: &["docker", "compose"], test: &["docker", "compose", "version"] },
        Engine { words: &["podman-compose"], test: &["podman-compose", "version"] },
        Engine { words: &["docker-compose"], test: &["docker-compose", "version"] },
    ];
    Ok(Job { files, engines, commands: vec![&[ENGINE, "up", "-d"]] })
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::{args as job_args, assert_lines, file};
    use super::*;

    fn made(store: Option<&str>, cache_size: Option<u64>) -> Result<Job, Failure> {
        let args = Args { job: job_args("2048-3x3"), store: store.map(Into::into), cache_size, image: "strata:1".into() };
        job(&args, &args.job.sizes()?, &super::super::job::volume_or_bucket(store)?)
    }

    #[test]
    fn a_volume_needs_no_cache() {
        let job = made(None, None).unwrap();
        let expected = ["COMPOSE_FILE=compose.yaml", "STRATA_IMAGE=strata:1", "STRATA_TABLE=2048-3x3", "STRATA_STORE=/tables"];
        assert_lines(file(&job, ".env"), &expected);
        assert_lines(
            file(&job, ".env"),
            &["STRATA_WORKERS=3", "STRATA_THREADS=4", "STRATA_MEMORY=1024MiB", "STRATA_LIMIT=1536M"],
        );
        assert_eq!(made(None, Some(1 << 30)).unwrap_err().code, 2);
        assert_eq!(made(Some("/data"), None).unwrap_err().code, 2, "a directory of the machine is not in the containers");
    }

    #[test]
    fn a_bucket_takes_the_second_file_too() {
        let job = made(Some("s3://bucket/tables"), Some(3 << 30)).unwrap();
        let expected = ["COMPOSE_FILE=compose.yaml:compose.s3.yaml", "STRATA_STORE=s3://bucket/tables", "STRATA_CACHE=3072MiB"];
        assert_lines(file(&job, ".env"), &expected);
    }
}
