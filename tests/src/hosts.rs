//! Machines with a network between them that can be cut: network namespaces, joined by a bridge in one of their own.

use std::ffi::OsString;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Some hosts, 10.77.0.1 and up. Everything goes when it is dropped.
pub struct Hosts {
    id: String,
    count: usize,
}

impl Hosts {
    /// Sets them up. Says why, and gives `None`, where that is not allowed or the tools are missing.
    pub fn new(count: usize) -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let hosts = Self { id: format!("strata{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed)), count };
        let steps = || -> Result<(), String> {
            let switch = hosts.switch();
            run("ip", &["netns", "add", &switch])?;
            run("ip", &["-n", &switch, "link", "add", "bridge", "type", "bridge"])?;
            run("ip", &["-n", &switch, "link", "set", "bridge", "up"])?;
            for host in 0..count {
                let (name, plug) = (hosts.name(host), format!("port{host}"));
                run("ip", &["netns", "add", &name])?;
                run("ip", &["-n", &switch, "link", "add", &plug, "type", "veth", "peer", "name", "net", "netns", &name])?;
                run("ip", &["-n", &switch, "link", "set", &plug, "master", "bridge"])?;
                run("ip", &["-n", &switch, "link", "set", &plug, "up"])?;
                run("ip", &["-n", &name, "address", "add", &format!("{}/24", hosts.address(host)), "dev", "net"])?;
                run("ip", &["-n", &name, "link", "set", "net", "up"])?;
                run("ip", &["-n", &name, "link", "set", "lo", "up"])?;
                hosts.iptables(host, &["-L", "OUTPUT"])?;
            }
            Ok(())
        };
        match steps() {
            Ok(()) => Some(hosts),
            Err(why) => {
                eprintln!("skipped: no network namespaces with iptables here: {why}");
                None
            }
        }
    }

    fn switch(&self) -> String {
        format!("{}-switch", self.id)
    }

    fn name(&self, host: usize) -> String {
        format!("{}-{host}", self.id)
    }

    /// The address of a host.
    pub fn address(&self, host: usize) -> String {
        format!("10.77.0.{}", host + 1)
    }

    /// A command, to be run on a host.
    pub fn on(&self, host: usize, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.name(host)]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    fn iptables(&self, host: usize, words: &[&str]) -> Result<(), String> {
        run("ip", &[&["netns", "exec", &self.name(host), "iptables"], words].concat())
    }

    /// What leaves a host is dropped without a word; with `both` also what comes.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn cut(&self, host: usize, both: bool) {
        for chain in [Some("OUTPUT"), both.then_some("INPUT")].into_iter().flatten() {
            self.iptables(host, &["-A", chain, "-d", "10.77.0.0/24", "-j", "DROP"]).expect("a rule");
        }
    }

    /// One packet in ten that leaves a host is lost.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn lose_a_tenth(&self, host: usize) {
        let words = ["-A", "OUTPUT", "-m", "statistic", "--mode", "random", "--probability", "0.1", "-j", "DROP"];
        self.iptables(host, &words).expect("a rule");
    }

    /// Everything passes again.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn heal(&self, host: usize) {
        self.iptables(host, &["-F"]).expect("the rules go");
    }

    /// Pulls the plug of a host, or puts it back.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn link(&self, host: usize, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        run("ip", &["-n", &self.switch(), "link", "set", &format!("port{host}"), state]).expect("the link changes");
    }

    /// Nothing faster than 20 Mbit/s leaves a host.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn slow(&self, host: usize) {
        let words = ["qdisc", "add", "dev", "net", "root", "tbf", "rate", "20mbit", "burst", "32kbit", "latency", "400ms"];
        run("ip", &[&["netns", "exec", &self.name(host), "tc"], &words[..]].concat()).expect("a rate");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in (0..self.count).map(|host| self.name(host)).chain([self.switch()]) {
            let _ = run("ip", &["netns", "delete", &name]); // it may never have been there
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let ran = Command::new(program).args(&arguments).output().map_err(|error| format!("{program}: {error}"))?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr).trim())),
    }
}
