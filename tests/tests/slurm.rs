//! What `strata launch slurm` writes, run by real Slurm daemons. The roots that must come out are those of undisturbed builds by one process.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use strata_tests::slurm::Slurm;
use strata_tests::{fixture, run, text};

/// Long enough to be caught in the middle.
const LONG: &str = "bearoff-9x15";
const SHORT: &str = "bearoff-8x15";

/// A folder that `strata launch` wrote, and its store.
struct Job {
    folder: PathBuf,
    store: PathBuf,
}

impl Job {
    fn write(slurm: &Slurm, table: &str, options: &[&str]) -> Self {
        let (folder, store) = (slurm.home().join("job"), slurm.home().join("store"));
        let words = ["launch", "slurm", "--table", table, "--store", text(&store), "--out", text(&folder)];
        let sizes = ["--hours", "1", "--limit", "1", "--threads", "1", "--memory", "512MiB"];
        let _ = run([&words[..], &sizes, options].concat()).ok().prints("cd ");
        // Whether the names of machines can be looked up is not what is tested.
        let common = folder.join("strata.sh");
        let script = fs::read_to_string(&common).expect("it was written");
        assert!(script.contains("\nLISTEN=0.0.0.0:0\n"));
        fs::write(common, script.replace("\nLISTEN=0.0.0.0:0\n", "\nLISTEN=127.0.0.1:0\n")).expect("it can be written");
        Self { folder, store }
    }

    fn submit(&self, slurm: &Slurm) -> String {
        slurm.submit(&self.folder, "sbatch", &["--parsable", "one-allocation.sbatch"]).trim().to_owned()
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.log(name)).unwrap_or_default()
    }

    /// Waits until a build is well under way and far from its end, and all workers are there: one that Slurm is just launching is lost with
    /// whoever launches it.
    #[track_caller]
    fn wait_for_the_middle(&self, slurm: &Slurm, job: &str, workers: usize) {
        let at = |name: &str| self.folder.join("run").join(job).join(name);
        let (address, tls) = (format!("@{}", text(&at("address"))), at("tls/client"));
        slurm.wait_for("the middle of the build", || {
            let asked = run(["status", "--json", "--coordinator", &address, "--tls", text(&tls)]);
            let status: Value = serde_json::from_str(&asked.out).unwrap_or_default();
            let list = |name: &str| status[name].as_array().cloned().unwrap_or_default();
            let has_done = |job: &Value| job["table"] == LONG && job["tasks_done"].as_u64().is_some_and(|done| done >= 2);
            list("workers").len() == workers && list("jobs").iter().any(has_done)
        });
    }

    #[track_caller]
    fn assert_built(&self, table: &str) {
        assert_root(&self.store.join(table), fixture(table).root());
    }
}

#[track_caller]
fn assert_root(table: &Path, root: &str) {
    let info = run(["info", text(table), "--json"]).ok().json();
    assert_eq!(info["root"], root);
    assert!(!table.join("build").exists(), "working files are left");
    let _ = run(["verify", text(table), "--level", "hash"]).ok();
}

#[test]
#[ignore = "half a minute with the daemons of Slurm"]
fn one_allocation_builds_a_table_and_ends() {
    let Some(slurm) = Slurm::start() else { return };
    let job = Job::write(&slurm, SHORT, &["--workers", "3"]);
    let id = job.submit(&slurm);
    slurm.assert_completes(&id, &job.log(&format!("strata-{id}")));
    job.assert_built(SHORT);
    assert_eq!(job.said(&format!("strata-{id}")).matches("there is nothing left to do").count(), 3, "a worker on each node");
}

#[test]
#[ignore = "a minute with the daemons of Slurm"]
fn a_job_whose_time_is_up_goes_back_into_the_queue_and_resumes() {
    let Some(slurm) = Slurm::start() else { return };
    let job = Job::write(&slurm, LONG, &["--workers", "2"]);
    let id = job.submit(&slurm);
    job.wait_for_the_middle(&slurm, &id, 2);
    // As Slurm does two minutes before the limit: the script alone hears it.
    let _ = slurm.said("scancel", &["--batch", "--signal=TERM", &id]);
    slurm.wait_for("a second start", || slurm.field(&id, "Restarts") == "1");
    let log = format!("strata-{id}");
    slurm.assert_completes(&id, &job.log(&log));
    job.assert_built(LONG);
    let said = job.said(&log);
    assert_eq!(said.matches("stopping: handing the task back").count(), 2, "{said}");
    assert!(said.contains(&format!("going on with {LONG}")), "{said}");
}

#[test]
#[ignore = "a minute with the daemons of Slurm"]
fn a_node_that_is_lost_takes_its_worker_and_nobody_else() {
    let Some(mut slurm) = Slurm::start() else { return };
    let job = Job::write(&slurm, LONG, &["--workers", "3"]);
    let id = job.submit(&slurm);
    job.wait_for_the_middle(&slurm, &id, 3);
    assert_eq!(slurm.field(&id, "BatchHost"), "n1");
    slurm.kill_node("n3");
    let log = format!("strata-{id}");
    slurm.assert_completes(&id, &job.log(&log));
    job.assert_built(LONG);
    assert_eq!(slurm.field(&id, "Restarts"), "0", "the job went on");
    assert_eq!(job.said(&log).matches("there is nothing left to do").count(), 2, "{}", job.said(&log));
}

#[test]
#[ignore = "a minute with the daemons of Slurm"]
fn workers_of_an_array_come_and_go_and_a_job_that_is_ended_stays_ended() {
    let Some(slurm) = Slurm::start() else { return };
    let job = Job::write(&slurm, LONG, &["--workers", "2", "--array"]);
    let said = slurm.submit(&job.folder, "bash", &["submit.sh"]);
    let numbers: Vec<&str> = said.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).collect();
    let [coordinator, array] = numbers[..] else { panic!("{said}") };
    job.wait_for_the_middle(&slurm, coordinator, 2);
    let (first, second) = (format!("{array}_1"), format!("{array}_2"));
    let _ = slurm.said("scancel", &["--batch", "--signal=TERM", &first]);
    let _ = slurm.said("scancel", &[&second]);
    slurm.assert_completes(coordinator, &job.log(&format!("strata-coordinator-{coordinator}")));
    job.assert_built(LONG);
    let log = format!("strata-worker-{array}_1");
    slurm.assert_completes(&first, &job.log(&log));
    assert_eq!(slurm.field(&first, "Restarts"), "1", "{}", job.said(&log));
    assert_eq!(slurm.field(&second, "JobState"), "CANCELLED");
}
