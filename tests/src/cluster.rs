//! A coordinator and workers as real processes.

use crate::command::{Ran, Running, run, start, strata};
use crate::hosts::Hosts;
use crate::text;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything that must happen may take.
const SOON: Duration = Duration::from_secs(60);

/// A store, and where its coordinator writes its address.
pub struct Cluster {
    home: TempDir,
    /// The directory of the tables.
    pub store: PathBuf,
    /// Options of every command that talks to the coordinator.
    pub options: Vec<String>,
    /// Options of the coordinator.
    pub coordinator_options: Vec<String>,
    /// Options of workers.
    pub worker_options: Vec<String>,
    /// Environment of all processes.
    pub environment: Vec<(String, String)>,
    /// Machines: the coordinator, and whoever asks it, on the first.
    pub hosts: Option<Hosts>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new("2s")
    }
}

impl Cluster {
    /// With leases of so long.
    ///
    /// # Panics
    /// When there is no room for temporary files.
    pub fn new(lease: &str) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let store = home.path().join("store");
        Self {
            home,
            store,
            options: Vec::new(),
            coordinator_options: vec!["--lease".into(), lease.into()],
            worker_options: Vec::new(),
            environment: Vec::new(),
            hosts: None,
        }
    }

    /// The folder that everything is in.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// With machines of their own for the coordinator and each of so many workers; `None` where there can be none.
    pub fn of_hosts(lease: &str, workers: usize) -> Option<Self> {
        let hosts = Some(Hosts::new(1 + workers)?);
        let mut cluster = Self { hosts, ..Self::new(lease) };
        // Keys and certificates are another test's matter.
        cluster.options.push("--insecure".into());
        cluster.coordinator_options.push("--insecure".into());
        Some(cluster)
    }

    fn on(&self, host: usize, mut command: Command) -> Command {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        match &self.hosts {
            Some(hosts) => hosts.on(host, &command),
            None => command,
        }
    }

    /// The directory of a table.
    pub fn table(&self, name: &str) -> PathBuf {
        self.store.join(name)
    }

    /// Where the coordinator writes its address.
    pub fn address_file(&self) -> PathBuf {
        self.home().join("address")
    }

    fn at(&self) -> Vec<String> {
        let at = format!("@{}", text(&self.address_file()));
        [&["--coordinator".to_owned(), at][..], &self.options].concat()
    }

    /// Starts the coordinator, and waits until it listens.
    ///
    /// # Panics
    /// When it does not.
    pub fn coordinator(&self, options: &[&str]) -> Running {
        let _ = std::fs::remove_file(self.address_file()); // one that was killed leaves it
        let file = self.address_file();
        let listen = self.hosts.as_ref().map_or("127.0.0.1".into(), |hosts| hosts.address(0)) + ":0";
        let always = ["coordinator", "--listen", &listen, "--store", text(&self.store), "--address-file", text(&file)];
        let own = self.coordinator_options.iter().map(String::as_str);
        let command = strata(always.into_iter().chain(own).chain(options.iter().copied()));
        let mut running = start(self.on(0, command));
        let begun = Instant::now();
        while !self.address_file().exists() {
            assert!(running.is_running(), "the coordinator has ended: {:#?}", running.wait());
            assert!(begun.elapsed() < SOON, "the coordinator does not listen");
            sleep(Duration::from_millis(5));
        }
        running
    }

    /// Starts a worker with one thread.
    pub fn worker(&self, name: &str) -> Running {
        self.worker_on(0, name)
    }

    /// Starts one on a host.
    pub fn worker_on(&self, host: usize, name: &str) -> Running {
        let at = self.at();
        let words = ["worker", "--name", name, "--threads", "1", "--memory", "512MiB"];
        start(self.on(host, strata(words.into_iter().chain(at.iter().chain(&self.worker_options).map(String::as_str)))))
    }

    /// Runs a verb that talks to the coordinator.
    pub fn ask(&self, words: &[&str]) -> Ran {
        let at = self.at();
        start(self.on(0, strata(words.iter().copied().chain(at.iter().map(String::as_str))))).wait()
    }

    /// Submits a table.
    #[track_caller]
    pub fn submit(&self, name: &str) {
        let _ = self.ask(&["submit", name]).ok();
    }

    /// Everything that `strata status` says.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.ask(&["status", "--json"]).ok().json()
    }

    /// One job of it.
    ///
    /// # Panics
    /// When there is no such job.
    #[track_caller]
    pub fn job(&self, table: &str) -> Value {
        let status = self.status();
        let jobs = status["jobs"].as_array().expect("an array");
        jobs.iter().find(|job| job["table"] == table).unwrap_or_else(|| panic!("no job {table}: {status}")).clone()
    }

    /// Waits until something is true of a job.
    ///
    /// # Panics
    /// When that takes too long.
    #[track_caller]
    pub fn wait_for(&self, table: &str, what: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let job = self.job(table);
            if what(&job) {
                return job;
            }
            assert!(begun.elapsed() < 2 * SOON, "it is still so: {job}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a table is complete, and asserts its root and its files.
    #[track_caller]
    pub fn assert_complete(&self, table: &str, root: &str) {
        let job = self.wait_for(table, |job| job["state"] == "complete" || job["state"] == "failed");
        assert_eq!((&job["state"], &job["root"]), (&Value::from("complete"), &Value::from(root)), "{job}");
        if text(&self.store).contains("://") {
            return;
        }
        let dir = self.table(table);
        assert!(!dir.join("build").exists(), "working files are left");
        let _ = run(["verify", text(&dir), "--level", "hash"]).ok();
    }
}

/// Ends a process in order; it must say that all is well.
#[track_caller]
pub fn ends_well(running: Running) -> Ran {
    running.signal("TERM");
    running.wait_at_most(SOON).ok()
}
