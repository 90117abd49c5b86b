//! A Slurm cluster of three nodes on this machine: the real daemons, on loopback, under a configuration of their own.

use crate::text;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything that must happen may take: Slurm looks at much of it once in half a minute.
const SOON: Duration = Duration::from_secs(180);
/// Marks the daemons of a node, and what they start for themselves.
const NODE: &str = "STRATA_TEST_NODE";

/// The daemons, in the order in which they were started. They end when this is dropped, with all jobs.
pub struct Slurm {
    home: TempDir,
    daemons: Vec<(String, Child)>,
    // Dropped last: one at a time, as each takes all cores.
    _alone: MutexGuard<'static, ()>,
}

impl Slurm {
    /// Starts it. Says why, and gives `None`, where Slurm is not installed or may not run.
    ///
    /// # Panics
    /// When the daemons are there and do not come up.
    pub fn start() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        for program in ["slurmctld", "slurmd", "munged", "sbatch"] {
            // Without a configuration some of them only complain.
            if Command::new(program).arg("--version").output().is_err() {
                eprintln!("skipped: {program} is not installed here");
                return None;
            }
        }
        if fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).ok() != Some(0) {
            eprintln!("skipped: the daemons of Slurm need root");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let home = tempfile::tempdir().expect("a temporary directory");
        let mut slurm = Self { home, daemons: Vec::new(), _alone: alone };
        slurm.configure();
        slurm.munge();
        slurm.daemon("slurmctld", &["-D", "-i"]);
        for node in ["n1", "n2", "n3"] {
            slurm.daemon(node, &["-D", "-N", node]);
        }
        slurm.wait_for("three idle nodes", || slurm.said("sinfo", &["-h", "-N", "-t", "idle", "-o", "%N"]).lines().count() == 3);
        Some(slurm)
    }

    fn configure(&self) {
        // The daemon of munge wants every folder above its socket to be open to all, and its own closed.
        fs::set_permissions(self.home(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        for folder in ["munge", "state", "spool-n1", "spool-n2", "spool-n3"] {
            fs::create_dir(self.home().join(folder)).expect("there is room");
        }
        let listeners: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports = listeners.iter().map(|listener| listener.local_addr().expect("an address").port());
        let conf = include_str!("../slurm/slurm.conf").replace("HOME", text(self.home()));
        let conf = ports.enumerate().fold(conf, |conf, (i, port)| conf.replace(&format!("PORT{i}"), &port.to_string()));
        fs::write(self.conf(), conf).expect("there is room");
    }

    fn munge(&mut self) {
        let at = |name: &str| self.home().join("munge").join(name);
        fs::write(at("key"), std::array::from_fn::<u8, 128, _>(|_| rand::random())).expect("there is room");
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o400)).expect("it is ours");
        let options =
            [("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")];
        let mut words: Vec<String> = options.iter().map(|(name, file)| format!("--{name}={}", text(&at(file)))).collect();
        words.push("--foreground".into());
        let socket = at("socket");
        self.daemon("munged", &words.iter().map(String::as_str).collect::<Vec<_>>());
        self.wait_for("munge", || socket.exists());
    }

    fn daemon(&mut self, name: &str, arguments: &[&str]) {
        let program = if name.starts_with('n') { "slurmd" } else { name };
        let log = || fs::File::create(self.home().join(format!("{name}.said"))).expect("there is room");
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.conf()).env(NODE, self.mark(name));
        let child = command.stdin(Stdio::null()).stdout(log()).stderr(log()).spawn().expect("it is installed");
        self.daemons.push((name.to_owned(), child));
    }

    fn mark(&self, name: &str) -> String {
        format!("{}/{name}", text(self.home()))
    }

    /// The folder that everything is in.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    fn conf(&self) -> PathBuf {
        self.home().join("slurm.conf")
    }

    fn run(&self, program: &str, arguments: &[&str], folder: &Path) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.conf()).current_dir(folder);
        command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    /// What a command of Slurm prints; nothing when it fails.
    pub fn said(&self, program: &str, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.run(program, arguments, self.home()).stdout).into_owned()
    }

    /// Runs what submits a job, in a folder, and gives what it printed.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn submit(&self, folder: &Path, program: &str, arguments: &[&str]) -> String {
        let output = self.run(program, arguments, folder);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("it prints UTF-8")
    }

    /// A field of what Slurm knows of a job, such as `JobState`.
    pub fn field(&self, job: &str, name: &str) -> String {
        let all = self.said("scontrol", &["show", "job", "--oneliner", job]);
        let value = |word: &str| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        all.split_whitespace().find_map(value).unwrap_or_default()
    }

    /// Waits until a job is over, and asserts that it ended well.
    #[track_caller]
    pub fn assert_completes(&self, job: &str, log: &Path) {
        self.wait_for("the end of a job", || {
            ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"].contains(&&*self.field(job, "JobState"))
        });
        let said = fs::read_to_string(log).unwrap_or_default();
        assert_eq!(self.field(job, "JobState"), "COMPLETED", "{said}");
    }

    /// Waits until something is so.
    ///
    /// # Panics
    /// When that takes too long.
    #[track_caller]
    pub fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            if begun.elapsed() > SOON {
                let log = fs::read_to_string(self.home().join("slurmctld.log")).unwrap_or_default();
                panic!("{what} does not come; {}{log}", self.said("squeue", &[]));
            }
            sleep(Duration::from_millis(100));
        }
    }

    /// Ends a node as if its power had gone: its daemon, what watches over its jobs, and their processes, all at once.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn kill_node(&mut self, node: &str) {
        let daemon = self.daemons.iter().position(|(name, _)| name == node).expect("there is such a node");
        let (_, mut daemon) = self.daemons.remove(daemon);
        let _ = daemon.kill();
        let _ = daemon.wait();
        let (mark, conf, name) = (self.mark(node), self.conf(), format!("SLURMD_NODENAME={node}"));
        kill(|environment| {
            let has = |variable: &str| environment.split('\0').any(|there| there == variable);
            has(&format!("{NODE}={mark}")) || has(&name) && has(&format!("SLURM_CONF={}", text(&conf)))
        });
    }
}

/// Kills every process whose environment is such.
fn kill(is_such: impl Fn(&str) -> bool) {
    for entry in fs::read_dir("/proc").expect("there is /proc").flatten() {
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if is_such(&String::from_utf8_lossy(&environment)) {
            // It may have ended meanwhile.
            let _ = Command::new("kill").arg("-9").arg(entry.file_name()).output();
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for (_, daemon) in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // What they started has the folder of this cluster in its environment.
        let home = text(self.home()).to_owned();
        kill(|environment| {
            environment
                .split('\0')
                .any(|there| ["SLURM_CONF=", NODE].iter().any(|name| there.starts_with(name)) && there.contains(&home))
        });
    }
}
