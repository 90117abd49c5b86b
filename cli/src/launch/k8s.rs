//! `strata launch k8s`: plain manifests, put together by kustomize.

use super::job::{Engine, Job, JobArgs, Sizes, Store, cache_mib, fill};
use crate::failure::Failure;
use crate::output::shell_quote;
use crate::units;

/// What to build, with how many, and where.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata launch k8s --table 2048-3x3 --image registry.example.org/strata:0.1.0 --storage-class cephfs
  strata launch k8s --table bearoff-12x15 --workers 8 --image IMAGE --store s3://bucket/tables --cache-class local-ssd --apply
  strata launch k8s --table 2048-3x3 --dry-run

The tables are in a claim that all pods mount unless --store names a bucket. deploy/Containerfile makes the image. README.md in the
folder says how to watch and stop it, and how to get the table out.")]
pub struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// A store of objects, s3://BUCKET/PREFIX [default: a claim]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Storage class of the tables' claim: volumes that several nodes mount at once
    #[arg(long, value_name = "CLASS", default_value = "nfs", value_parser = parse_class)]
    storage_class: String,
    /// Storage class of the workers' caches, such as local disks (only with s3://) [default: the disk of the node]
    #[arg(long, value_name = "CLASS", value_parser = parse_class, requires = "store")]
    cache_class: Option<String>,
    /// Room for the cache of a worker (only with s3://) [default: that of the store, at most 256GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    cache_size: Option<u64>,
    /// The image of the containers, as the cluster pulls it
    #[arg(long, value_name = "IMAGE", default_value = "strata:latest", value_parser = super::job::parse_image)]
    image: String,
}

/// Reads the name of a storage class: a DNS name.
fn parse_class(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("it is no name of a storage class; `kubectl get storageclass` lists them".into()),
    }
}

/// Writes it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let store = super::job::volume_or_bucket(args.store.as_deref())?;
    let sizes = args.job.sizes()?;
    args.job.deliver("k8s", &sizes, &job(args, &sizes, &store)?)
}

/// Files whose systems and caches need a little more than what is in them.
fn with_room(mib: u64) -> String {
    format!("{}Mi", mib + mib / 10)
}

fn job(args: &Args, sizes: &Sizes, store: &Store) -> Result<Job, Failure> {
    let cache = cache_mib(store, args.cache_size, sizes)?;
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("cannot tell where this program is: {e}")))?;
    let (image, limit) = (("image: ", args.image.clone()), format!("{}Mi", sizes.limit_mib));
    let which = match (&cache, &args.cache_class) {
        (None, _) => "base",
        (Some(_), None) => "overlays/s3",
        (Some(_), Some(_)) => "overlays/local-ssd",
    };
    let worker = [
        image.clone(),
        ("parallelism: ", sizes.workers.to_string()),
        ("- --threads=", sizes.threads.to_string()),
        ("- --memory=", format!("{}MiB", sizes.memory_mib)),
        ("cpu: ", sizes.threads.to_string()),
        ("memory: ", limit),
    ];
    let tables = [("storage: ", format!("{}Gi", sizes.disk_gib)), ("storageClassName: ", args.storage_class.clone())];
    let mut files = vec![
        ("README.md", template!("kubernetes/README.md").to_owned()),
        ("kustomization.yaml", fill(template!("kubernetes/kustomization.yaml"), &[("- ", which.into())])),
        (
            "secrets.sh",
            fill(template!("kubernetes/secrets.sh"), &[("STRATA=", shell_quote(&program.to_string_lossy()).into_owned())]),
        ),
        ("base/kustomization.yaml", template!("kubernetes/base/kustomization.yaml").to_owned()),
        ("base/namespace.yaml", template!("kubernetes/base/namespace.yaml").to_owned()),
        ("base/network.yaml", template!("kubernetes/base/network.yaml").to_owned()),
        ("base/tables.yaml", fill(template!("kubernetes/base/tables.yaml"), &tables)),
        ("base/coordinator.yaml", fill(template!("kubernetes/base/coordinator.yaml"), std::slice::from_ref(&image))),
        ("base/worker.yaml", fill(template!("kubernetes/base/worker.yaml"), &worker)),
        ("base/submit.yaml", fill(template!("kubernetes/base/submit.yaml"), &[image, ("value: ", sizes.table.to_string())])),
    ];
    match (&cache, store.text().strip_prefix("s3://")) {
        (Some(mib), Some(bucket)) => {
            let store = [("value: --store=s3://", bucket.to_owned())];
            let cache = [("value: --cache-size=", format!("{mib}MiB")), ("sizeLimit: ", with_room(*mib))];
            files.extend([
                ("overlays/s3/kustomization.yaml", template!("kubernetes/overlays/s3/kustomization.yaml").to_owned()),
                ("overlays/s3/store.yaml", fill(template!("kubernetes/overlays/s3/store.yaml"), &store)),
                ("overlays/s3/cache.yaml", fill(template!("kubernetes/overlays/s3/cache.yaml"), &cache)),
            ]);
        }
        _ => files.push(("copy-out.yaml", template!("kubernetes/copy-out.yaml").to_owned())),
    }
    if let (Some(mib), Some(class)) = (&cache, &args.cache_class) {
        let volume = [("storageClassName: ", class.clone()), ("storage: ", with_room(*mib))];
        files.extend([
            ("overlays/local-ssd/kustomization.yaml", template!("kubernetes/overlays/local-ssd/kustomization.yaml").to_owned()),
            ("overlays/local-ssd/volume.yaml", fill(template!("kubernetes/overlays/local-ssd/volume.yaml"), &volume)),
        ]);
    }
    let engines = vec![Engine { words: &["kubectl"], test: &["kubectl", "version", "--client"] }];
    Ok(Job { files, engines, commands: vec![&["sh", "secrets.sh"], &["kubectl", "apply", "-k", "."]] })
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::{args as job_args, assert_lines, file};
    use super::*;

    fn made(store: Option<&str>, cache_class: Option<&str>) -> Job {
        let args = Args {
            job: job_args("2048-3x3"),
            store: store.map(Into::into),
            storage_class: "cephfs".into(),
            cache_class: cache_class.map(Into::into),
            cache_size: Some(10 << 30).filter(|_| store.is_some()),
            image: "registry.example.org/strata:1".into(),
        };
        job(&args, &args.job.sizes().unwrap(), &super::super::job::volume_or_bucket(store).unwrap()).unwrap()
    }

    #[test]
    fn pods_have_the_sizes() {
        let job = made(None, None);
        let worker = file(&job, "base/worker.yaml");
        assert_lines(worker, &["parallelism: 3", "- --threads=4", "- --memory=1024MiB", "cpu: 4"]);
        assert_eq!(worker.matches("memory: 1536Mi\n").count(), 2, "requested and allowed are the same");
        assert_lines(file(&job, "base/tables.yaml"), &["storage: 2Gi", "storageClassName: cephfs"]);
        assert_lines(file(&job, "base/submit.yaml"), &["value: 2048-3x3"]);
        for name in ["base/worker.yaml", "base/submit.yaml", "base/coordinator.yaml"] {
            assert_lines(file(&job, name), &["image: registry.example.org/strata:1"]);
        }
        assert_lines(file(&job, "kustomization.yaml"), &["- base"]);
    }

    #[test]
    fn a_bucket_is_an_overlay_and_so_are_local_disks() {
        let job = made(Some("s3://mine/tables"), None);
        assert_lines(file(&job, "kustomization.yaml"), &["- overlays/s3"]);
        assert_lines(file(&job, "overlays/s3/store.yaml"), &["value: --store=s3://mine/tables", "value: --store=/tables"]);
        assert_lines(file(&job, "overlays/s3/cache.yaml"), &["value: --cache-size=10240MiB", "sizeLimit: 11264Mi"]);
        let job = made(Some("s3://mine/tables"), Some("fast"));
        assert_lines(file(&job, "kustomization.yaml"), &["- overlays/local-ssd"]);
        assert_lines(file(&job, "overlays/local-ssd/volume.yaml"), &["storageClassName: fast", "storage: 11264Mi"]);
    }

    #[test]
    fn classes_are_names_that_kubernetes_takes() {
        assert_eq!(parse_class("local-ssd").unwrap(), "local-ssd");
        assert!(parse_class("a: b").is_err() && parse_class("").is_err());
    }
}
