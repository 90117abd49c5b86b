//! Builds that are killed, resumed, and given other threads, workers and memory: always the same root.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use strata_tests::place::scratch;
use strata_tests::{Ran, fixture, run, start, strata, text};

fn build(name: &str, dir: &Path, options: &[&str]) -> Command {
    strata([&["build", name, "--out", text(dir), "--json"], options].concat())
}

/// Builds to the end and asserts that the table is the one of that root, whole, and nothing else is left.
#[track_caller]
fn assert_finishes(command: Command, dir: &Path, root: &str) -> Ran {
    let ran = start(command).wait().ok();
    assert_eq!(ran.json()["root"], root, "{ran:#?}");
    assert!(!dir.join("build").exists(), "working files are left");
    let _ = run(["verify", text(dir), "--level", "hash"]).ok();
    ran
}

/// Tasks with a durable record: those of stages that are stitched, and the others.
fn recorded_tasks(dir: &Path) -> usize {
    let list = |folder: &str| fs::read_dir(dir.join(folder)).into_iter().flatten().flatten().map(|entry| entry.path());
    let records = |folder| list(folder).filter(|path| path.extension().is_some_and(|e| e == "json"));
    let number = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    let stitched: Vec<String> = records("build/layers").map(|path| number(&path)).collect();
    let in_stages: usize = records("build/layers")
        .map(|path| {
            let json: serde_json::Value = serde_json::from_slice(&fs::read(path).expect("a record")).expect("a record is JSON");
            json["commits"].as_array().map_or(0, Vec::len)
        })
        .sum();
    // Between stitching a stage and tidying up a task has both.
    let alone =
        records("build/commits").filter(|path| !stitched.iter().any(|stage| number(path).starts_with(&format!("{stage}."))));
    in_stages + alone.count()
}

/// The number of tasks that a resumed build took over, as it says itself.
fn resumed_tasks(ran: &Ran) -> usize {
    let line = ran.err.lines().find_map(|line| line.strip_prefix("going on: "));
    line.and_then(|line| line.split_whitespace().next()).map_or(0, |n| n.replace(',', "").parse().expect("a number"))
}

/// Pairs of positions: stages of several layers and of one, work files of rows, and whatever memory and threads.
#[test]
fn a_two_sided_table_killed_at_random_moments_has_the_same_root() {
    const NAME: &str = "bearoff-6x8v8";
    let undisturbed = fixture(NAME);
    let mut random = StdRng::seed_from_u64(68);
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("table");
    let mut kills = 0;
    for options in [&["--threads", "1"][..], &["--memory", "512MiB"], &["--threads", "2", "--workers", "2"], &["--threads", "2"]]
    {
        let building = start(build(NAME, &dir, options));
        sleep(Duration::from_secs_f64(random.random_range(0.1..0.8)));
        kills += usize::from(building.kill());
    }
    assert!(kills > 0, "it was always faster");
    let _ = assert_finishes(build(NAME, &dir, &["--memory", "256MiB"]), &dir, undisturbed.root());
    fs::remove_dir_all(&dir).expect("the table can be removed");
    let _ = assert_finishes(build(NAME, &dir, &["--threads", "1", "--memory", "512MiB"]), &dir, undisturbed.root());
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn three_by_three_killed_at_twenty_random_moments_has_the_same_root() {
    let undisturbed = fixture("2048-3x3");
    let mut random = StdRng::seed_from_u64(20);
    let home = tempfile::tempdir().expect("a temporary directory");
    let (mut kills, mut round) = (0, 0);
    while kills < 20 {
        let dir = home.path().join(format!("round {round}"));
        round += 1;
        loop {
            let building = start(build("2048-3x3", &dir, &["--threads", "2"]));
            sleep(Duration::from_secs_f64(random.random_range(0.05..4.0)));
            if !building.kill() {
                break; // it was faster
            }
            kills += 1;
            assert!(!dir.join("table.json").exists() || dir.join("B3SUMS").exists(), "table.json is written last");
            if kills == 20 {
                break;
            }
        }
        let recorded = recorded_tasks(&dir);
        let complete = dir.join("table.json").exists();
        let ran = assert_finishes(build("2048-3x3", &dir, &["--threads", "2"]), &dir, undisturbed.root());
        if !complete {
            // Only what was in flight is done again. (A stage whose working values are gone needs no more than its record.)
            assert_eq!(resumed_tasks(&ran), recorded, "{ran:#?}");
            assert!(!ran.err.contains("damaged or missing"), "{ran:#?}");
        }
        fs::remove_dir_all(&dir).expect("the table can be removed");
    }
}

#[test]
fn a_small_table_killed_at_forty_moments_from_its_start_to_its_publication() {
    let undisturbed = fixture("2048-2x3");
    let home = scratch();
    let begun = Instant::now();
    let dir = home.path().join("whole");
    let _ = assert_finishes(build("2048-2x3", &dir, &[]), &dir, undisturbed.root());
    let whole = begun.elapsed();
    let mut killed = 0;
    for moment in 0..40 {
        let dir = home.path().join(format!("{moment}"));
        let building = start(build("2048-2x3", &dir, &["--threads", "1"]));
        sleep(whole * moment / 36);
        killed += u32::from(building.kill());
        let _ = assert_finishes(build("2048-2x3", &dir, &["--threads", "1"]), &dir, undisturbed.root());
    }
    assert!(killed >= 8, "only {killed} of 40 builds were killed before their end");
}

#[test]
fn a_build_that_is_killed_again_and_again_gets_there_in_the_end() {
    let undisturbed = fixture("2048-3x3+tile=64");
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let mut random = StdRng::seed_from_u64(7);
    let mut recorded = 0;
    for _ in 0..12 {
        let building = start(build("2048-3x3+tile=64", &dir, &["--threads", "2", "--workers", "2"]));
        sleep(Duration::from_millis(random.random_range(20..400)));
        if !building.kill() || dir.join("table.json").exists() {
            break; // it was faster
        }
        let now = recorded_tasks(&dir);
        assert!(now >= recorded, "records are lost: {recorded} before, {now} now");
        recorded = now;
    }
    let _ = assert_finishes(build("2048-3x3+tile=64", &dir, &[]), &dir, undisturbed.root());
}

#[test]
fn threads_workers_and_memory_do_not_matter() {
    let undisturbed = fixture("2048-3x3+tile=64");
    let home = scratch();
    for threads in ["1", "2", "7"] {
        for workers in ["1", "2", "3"] {
            let dir = home.path().join(format!("{threads} {workers}"));
            let options = ["--threads", threads, "--workers", workers, "--memory", "256MiB"];
            let _ = assert_finishes(build("2048-3x3+tile=64", &dir, &options), &dir, undisturbed.root());
        }
    }
    let bearoff = fixture("bearoff-6x15");
    for options in [&["--threads", "1"][..], &["--threads", "7", "--workers", "3"]] {
        let dir = home.path().join(format!("bearoff {}", options.len()));
        let _ = assert_finishes(build("bearoff-6x15", &dir, options), &dir, bearoff.root());
    }
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn threads_workers_and_memory_do_not_matter_on_three_by_three() {
    let undisturbed = fixture("2048-3x3");
    let home = tempfile::tempdir().expect("a temporary directory");
    let settings: [&[&str]; 3] = [
        &["--threads", "1", "--workers", "1"],
        &["--threads", "2", "--workers", "2", "--memory", "256MiB"],
        &["--threads", "7", "--workers", "3"],
    ];
    for options in settings {
        let dir = home.path().join("t");
        let _ = assert_finishes(build("2048-3x3", &dir, options), &dir, undisturbed.root());
        fs::remove_dir_all(&dir).expect("the table can be removed");
    }
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn a_build_that_was_stopped_for_longer_than_its_leases_goes_on() {
    let undisturbed = fixture("2048-3x3+tile=128");
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let building = start(build("2048-3x3+tile=128", &dir, &["--threads", "2", "--workers", "2"]));
    sleep(Duration::from_millis(700));
    building.signal("STOP");
    sleep(Duration::from_secs(20));
    building.signal("CONT");
    assert_eq!(building.wait().ok().json()["root"], undisturbed.root());
}

/// What is done to a file of an unfinished build.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Cut,
    Empty,
    Remove,
    Zero,
}

impl Damage {
    fn apply(self, path: &Path, random: &mut StdRng) {
        let mut bytes = fs::read(path).expect("the file is there");
        match self {
            Damage::Flip => {
                let at = random.random_range(0..bytes.len());
                bytes[at] ^= 1 << random.random_range(0..8);
            }
            Damage::Cut => bytes.truncate(bytes.len() / 2),
            Damage::Empty => bytes.clear(),
            Damage::Zero => bytes.fill(0),
            Damage::Remove => return fs::remove_file(path).expect("the file can be removed"),
        }
        fs::write(path, bytes).expect("the file can be written");
    }
}

/// A build that was killed as soon as `done` said so.
fn killed_when(name: &str, dir: &Path, done: impl Fn() -> bool) {
    let mut building = start(build(name, dir, &["--threads", "2"]));
    while !done() {
        assert!(building.is_running(), "it ended too early");
        sleep(Duration::from_millis(2));
    }
    assert!(building.kill(), "it ended too early");
}

/// A file of a kind that counts as finished: a record, or an artifact that a record names and that is there.
fn some_finished(dir: &Path, folder: &str, random: &mut StdRng) -> Option<String> {
    let all = strata_tests::harm::files(dir);
    let records: String = all
        .iter()
        .filter(|path| path.starts_with("build/commits/") || path.starts_with("build/layers/"))
        .filter(|path| path.ends_with(".json"))
        .filter_map(|path| fs::read_to_string(dir.join(path)).ok())
        .collect();
    let counts = |path: &&String| path.starts_with(folder) && (path.ends_with(".json") || records.contains(path.as_str()));
    let finished: Vec<&String> = all.iter().filter(counts).collect();
    (!finished.is_empty()).then(|| finished[random.random_range(0..finished.len())].clone())
}

/// Damages a build that was killed in its backward pass in every way, and resumes it each time. How often it was noticed, by folder.
fn damage_and_resume(name: &str, folders: &[&'static str]) -> BTreeMap<&'static str, u32> {
    let undisturbed = fixture(name);
    let home = scratch();
    let killed = home.path().join("killed");
    loop {
        // As soon as a task with shards is recorded, and before the table is.
        let mut building = start(build(name, &killed, &["--threads", "2"]));
        while building.is_running() && some_finished(&killed, "shards/", &mut StdRng::seed_from_u64(0)).is_none() {
            sleep(Duration::from_millis(1));
        }
        if building.kill() && !killed.join("table.json").exists() {
            break;
        }
        fs::remove_dir_all(&killed).expect("it can be removed"); // too late: once more
    }
    let mut random = StdRng::seed_from_u64(5);
    let mut noticed = BTreeMap::new();
    for &folder in folders {
        for damage in [Damage::Flip, Damage::Cut, Damage::Empty, Damage::Remove, Damage::Zero] {
            let dir = home.path().join("t");
            strata_tests::copy_table(&killed, &dir);
            let Some(path) = some_finished(&dir, folder, &mut random) else { continue };
            damage.apply(&dir.join(&path), &mut random);
            let ran = assert_finishes(build(name, &dir, &["--threads", "2"]), &dir, undisturbed.root());
            let says = ran.err.contains("damaged or missing, and is made again");
            // A shard is looked at whatever happens. Nobody can miss a record that is not there, and what no task reads is not read.
            assert!(says || folder != "shards/", "{damage:?} of {path} went unnoticed: {ran:#?}");
            *noticed.entry(folder).or_insert(0) += u32::from(says);
            fs::remove_dir_all(&dir).expect("it can be removed");
        }
    }
    noticed
}

#[test]
fn shards_damaged_between_kill_and_resumption_are_noticed_and_made_again() {
    let noticed = damage_and_resume("2048-3x3+tile=64", &["shards/"]);
    assert_eq!(noticed["shards/"], 5);
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn artifacts_and_records_damaged_between_kill_and_resumption_are_noticed_and_made_again() {
    let noticed =
        damage_and_resume("2048-3x3+tile=256", &["shards/", "build/work/", "build/index/", "build/layers/", "build/commits/"]);
    assert_eq!(noticed["shards/"], 5, "{noticed:?}");
    assert!(noticed["build/work/"] >= 1 && noticed["build/index/"] >= 1 && noticed["build/layers/"] >= 3, "{noticed:?}");
}

#[test]
fn records_of_the_build_itself_damaged_lead_to_the_right_table_or_a_clear_refusal() {
    const NAME: &str = "2048-2x3";
    let undisturbed = fixture(NAME);
    let home = scratch();
    let killed = home.path().join("killed");
    killed_when(NAME, &killed, || recorded_tasks(&killed) > 0);
    let mut random = StdRng::seed_from_u64(6);
    for path in ["build/job.json", "build/epoch.json", "build/lock"] {
        for damage in [Damage::Flip, Damage::Flip, Damage::Flip, Damage::Cut, Damage::Empty, Damage::Remove, Damage::Zero] {
            let dir = home.path().join("t");
            strata_tests::copy_table(&killed, &dir);
            if fs::metadata(dir.join(path)).map_or(0, |meta| meta.len()) == 0 {
                fs::remove_dir_all(&dir).expect("it can be removed");
                continue;
            }
            damage.apply(&dir.join(path), &mut random);
            let ran = start(build(NAME, &dir, &[])).wait();
            if ran.code == Some(0) {
                assert_eq!(ran.json()["root"], undisturbed.root());
            } else {
                assert_eq!(path, "build/job.json", "{damage:?}: {ran:#?}");
                assert!(!dir.join("table.json").exists());
                let _ = ran.code(1).one_clear_error();
            }
            fs::remove_dir_all(&dir).expect("it can be removed");
        }
    }
}

#[test]
fn what_is_left_by_a_build_killed_after_publication_goes_when_it_is_run_again() {
    // Once `build` said that such a table is complete, and left build/ where it was, while verify advised to run `build` to remove it.
    let undisturbed = fixture("2048-2x2");
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    strata_tests::copy_table(&undisturbed.dir, &dir);
    fs::create_dir_all(dir.join("build/commits")).expect("it can be made");
    fs::create_dir_all(dir.join("build/tmp")).expect("it can be made");
    fs::write(dir.join("build/tmp/77-3"), "half").expect("it can be written");
    let ran = start(build("2048-2x2", &dir, &[])).wait().ok();
    assert_eq!(ran.json()["root"], undisturbed.root());
    let _ = run(["verify", text(&dir)]).ok();
}
