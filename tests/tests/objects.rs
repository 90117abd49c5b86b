//! Tables in object stores: in the memory of a process, in a real S3 server, and in one that ignores conditions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;
use strata_coordinator::{Coordinator, CoordinatorConfig, Locate};
use strata_games::TableName;
use strata_proto::v1::jobs_client::JobsClient;
use strata_proto::v1::{JobState, SubmitRequest, WatchRequest};
use strata_storage::{Bucket, ColumnRef, FileKind, ShardSpec, Shelf, Store, check_file, write_shard};
use strata_tests::cluster::{Cluster, ends_well};
use strata_tests::s3::{BUCKET, Forgetful, RealS3};
use strata_tests::{fixture, run, start, strata, text};
use strata_worker::{Tables, WorkerConfig, run_worker};
use tokio::sync::watch;

const TABLE: &str = "bearoff-8x15";

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_two_workers_with_small_caches_make_the_same_table() {
    let root = tokio::task::spawn_blocking(|| fixture(TABLE).root().to_owned()).await.expect("it is built");
    let store = Store::Bucket(Bucket::in_memory());
    let config = CoordinatorConfig::of_store("test", store.clone());
    let coordinator = Coordinator::start(config);
    let service = coordinator.serve_in_process();
    let home = tempfile::tempdir().expect("a temporary directory");
    let (stop, stopped) = watch::channel(false);
    let places = store.clone();
    let locate: Locate = Arc::new(move |name: &TableName| places.place(&name.to_string()));
    let mut workers = tokio::task::JoinSet::new();
    for name in ["one", "two"] {
        // Less than the working values of a step, so that copies come and go.
        let shelf = Shelf::open(home.path(), 4 << 20).expect("there is room for a cache");
        let tables = Tables::At(Arc::clone(&locate), Some(shelf));
        workers.spawn(run_worker(service.channel(), WorkerConfig::new(name, "test", 1 << 30, 1, tables), stopped.clone()));
    }
    let mut jobs = JobsClient::new(service.channel());
    jobs.submit(SubmitRequest { table: TABLE.into(), priority: 0 }).await.expect("it is taken");
    let watch = WatchRequest { table: TABLE.into(), interval_ms: 100 };
    let mut updates = jobs.watch(watch).await.expect("it can be watched").into_inner();
    let mut last = None;
    while let Some(status) = updates.message().await.expect("it goes on") {
        last = Some(status);
    }
    let last = last.expect("there is a last state");
    assert_eq!(last.state(), JobState::Complete, "{last:?}");
    let hex: String = last.root.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, root);
    let place = store.place(TABLE);
    assert_eq!(place.list("build").await.expect("it can be listed"), Vec::<String>::new(), "working files are left");
    let manifest = place.get("table.json").await.expect("it can be read").expect("it is there");
    assert_eq!(manifest, fs::read(fixture_dir().join("table.json")).expect("it is there"));
    stop.send(true).expect("the workers listen");
    while let Some(left) = workers.join_next().await {
        left.expect("it does not panic").expect("it leaves in order");
    }
    coordinator.shutdown().await;
}

fn fixture_dir() -> PathBuf {
    std::thread::spawn(|| fixture(TABLE).dir).join().expect("it is built")
}

/// A cluster on an object store. Workers have caches of 64 MiB.
fn cluster(environment: Vec<(String, String)>, prefix: &str) -> Cluster {
    let mut cluster = Cluster::new("2s");
    cluster.store = PathBuf::from(format!("s3://{BUCKET}/{prefix}"));
    cluster.environment = environment;
    cluster.coordinator_options.push("--allow-http".into());
    let cache = cluster.home().join("cache");
    let options = ["--allow-http", "--cache", text(&cache), "--cache-size", "64MiB"];
    cluster.worker_options = options.map(str::to_owned).into();
    cluster
}

#[test]
fn a_store_that_ignores_conditions_is_refused() {
    let server = Forgetful::start();
    let cluster = cluster(server.environment(), "x");
    let command = |options: &[&str]| {
        let always = ["coordinator", "--store", "s3://tables/x", "--listen", "127.0.0.1:0"];
        let mut command = strata(always.into_iter().chain(options.iter().copied()));
        command.envs(cluster.environment.clone());
        start(command).wait()
    };
    let _ = command(&["--allow-http"]).code(1).one_clear_error().says("If-None-Match is ignored").says("conditional writes");
    // Without TLS only when that is asked for.
    let _ = command(&[]).code(2).one_clear_error().says("no TLS").says("--allow-http");
    let _ = run(["coordinator", "--store", "s3://key:secret@tables/x"]).code(2).one_clear_error().says("environment");
}

#[test]
#[ignore = "starts a real S3 server"]
fn a_real_s3_server_holds_tables_whoever_is_killed() {
    let Some(server) = RealS3::start() else { return };
    eprintln!("large files");
    large_files(&server);
    eprintln!("lost processes");
    processes_are_lost(&server);
    eprintln!("damage");
    damage_is_found(&server);
}

/// What is longer than one request holds goes in parts, and comes back as it was.
fn large_files(server: &RealS3) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let _inside = runtime.enter();
    let numbers: Vec<f64> = (0..6_000_000u32).map(|n| f64::from(n).sqrt()).collect();
    let home = tempfile::tempdir().expect("a temporary directory");
    let bucket = server.bucket("large");
    let store = Store::Bucket(bucket);
    let open = |name: &str| {
        let shelf = Shelf::open(&home.path().join(name), 1 << 30).expect("there is room for a cache");
        store.place("2048-2x2").open(Some(&shelf)).expect("it can be opened")
    };
    let (one, two) = (open("one"), open("two"));
    let spec = ShardSpec {
        table: "2048-2x2",
        kind: FileKind::Work,
        layer: 4,
        shard: 0,
        first_rank: 0,
        universe: numbers.len() as u64,
        blocks: 1,
    };
    let record = write_shard(&one, &spec, None, &[ColumnRef::Scalar { name: "value", values: &numbers }]).expect("it is written");
    assert!(record.bytes > 40 << 20, "{}", record.bytes);
    check_file(&one, &record).expect("it is what was written");
    assert!(two.fetch(&record).expect("it can be copied"));
    let mut read = Vec::with_capacity(numbers.len());
    let file = two.open_shard("2048-2x2", &record).expect("it can be opened");
    file.each_scalars(0, &mut |values: &[f64]| read.extend_from_slice(values)).expect("it can be read");
    assert!(read == numbers);
}

fn processes_are_lost(server: &RealS3) {
    let root = fixture(TABLE).root().to_owned();
    let cluster = cluster(server.environment(), "lost");
    let coordinator = cluster.coordinator(&[]);
    // One that comes while another leads waits for as long as a lease lasts, and says who that is.
    let url = text(&cluster.store).to_owned();
    let mut other = strata(["coordinator", "--store", &url, "--listen", "127.0.0.1:0", "--allow-http"]);
    other.envs(server.environment());
    let leads = format!("is led by process {} on", coordinator.pid());
    let _ = start(other).wait().code(1).one_clear_error().says(&leads);
    cluster.submit(TABLE);
    let (first, second) = (cluster.worker("first"), cluster.worker("second"));
    cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() > Some(3));
    first.kill();
    sleep(Duration::from_millis(300));
    coordinator.kill();
    let again = cluster.coordinator(&[]);
    let third = cluster.worker("third");
    cluster.assert_complete(TABLE, &root);
    for worker in [second, third] {
        let _ = ends_well(worker);
    }
    let _ = ends_well(again);
    let mut status = strata(["status", &format!("{url}/{TABLE}"), "--allow-http", "--json"]);
    status.envs(server.environment());
    let status = start(status).wait().ok().json();
    assert_eq!((status["state"].as_str(), status["root"].as_str()), (Some("complete"), Some(root.as_str())));
}

/// A shard that the store has lost, and a copy that went bad, are made again.
fn damage_is_found(server: &RealS3) {
    let root = fixture(TABLE).root().to_owned();
    let cluster = cluster(server.environment(), "damage");
    let coordinator = cluster.coordinator(&[]);
    let worker = cluster.worker("before");
    cluster.submit(TABLE);
    cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() > Some(8));
    let _ = ends_well(worker);
    let _ = ends_well(coordinator);
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let damaged = runtime.block_on(async {
        let dir = Store::Bucket(server.bucket("damage")).place(TABLE).open(None).expect("it can be opened");
        let works = dir.list("build/work").await.expect("it can be listed");
        let last = works.last().expect("there are working files").clone();
        dir.put_over(&last, "not what it was").await.expect("it can be written");
        last
    });
    let mut copies = Vec::new();
    find(&cluster.home().join("cache"), &mut copies);
    assert!(!copies.is_empty());
    for copy in copies.iter().step_by(2) {
        let length = fs::metadata(copy).expect("it is there").len();
        fs::write(copy, vec![0; usize::try_from(length).expect("it is small")]).expect("it can be written");
    }
    let coordinator = cluster.coordinator(&[]);
    let worker = cluster.worker("after");
    cluster.assert_complete(TABLE, &root);
    let rejected = cluster.job(TABLE)["tasks_rejected"].as_u64();
    assert!(rejected > Some(0), "{damaged} was damaged, and {rejected:?} tasks were done again");
    let _ = ends_well(worker);
    let _ = ends_well(coordinator);
}

/// The shard files below a folder.
fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => find(&path, found),
            path if path.extension().is_some_and(|extension| extension == "shard") => found.push(path),
            _ => {}
        }
    }
}
