//! Starting the command, stopping it in friendly and unfriendly ways, and reading what it said.

use crate::binary::strata_binary;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// No command of these tests may take longer. One that does hangs.
const HANGS: Duration = Duration::from_secs(600);

/// What no user should ever see.
const UGLY: [&str; 8] =
    ["panicked", "RUST_BACKTRACE", "stack backtrace", "this is a bug", "unwrap()", "Err(", "Some(", "memory allocation of"];

/// The command, without anything in the environment that changes what it prints.
pub fn strata<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(strata_binary());
    command.args(arguments);
    for variable in ["STRATA_LOG", "NO_COLOR", "RUST_BACKTRACE", "RUST_LIB_BACKTRACE"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the command to its end.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ran {
    start(strata(arguments)).wait()
}

/// Starts a command; its output is collected while it runs.
///
/// # Panics
/// When it cannot be started.
pub fn start(mut command: Command) -> Running {
    let shown = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
    let out = child.stdout.take().map(collect);
    let err = child.stderr.take().map(collect);
    Running { child, out, err, shown, ended: false }
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes); // what was read so far is what there is
        bytes
    })
}

/// A command that runs. It is killed when this is dropped.
pub struct Running {
    child: Child,
    out: Option<JoinHandle<Vec<u8>>>,
    err: Option<JoinHandle<Vec<u8>>>,
    shown: String,
    ended: bool,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a signal, by name: `INT`, `TERM`, `STOP`, `CONT`.
    ///
    /// # Panics
    /// When there is no `kill` command.
    pub fn signal(&self, name: &str) {
        // It may have ended meanwhile; whoever asks for its exit code will notice.
        let _ =
            Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).output().expect("there is a kill command");
    }

    /// `kill -9`. Whether it was still running.
    pub fn kill(mut self) -> bool {
        let was_running = self.is_running();
        let _ = self.child.kill();
        let ran = self.wait();
        was_running && ran.signal == Some(9)
    }

    /// Waits for its end.
    pub fn wait(self) -> Ran {
        self.wait_at_most(HANGS)
    }

    /// Waits for its end, which must come soon.
    ///
    /// # Panics
    /// When it goes on longer than that, or says what no user should see.
    pub fn wait_at_most(mut self, longest: Duration) -> Ran {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("the process can be waited for") {
                Some(status) => break status,
                None if begun.elapsed() > longest => panic!("{} has not ended after {longest:?}", self.shown),
                None => thread::sleep(Duration::from_millis(if begun.elapsed().as_millis() < 500 { 2 } else { 20 })),
            }
        };
        self.ended = true;
        let text = |stream: Option<JoinHandle<Vec<u8>>>| {
            let bytes = stream.and_then(|thread| thread.join().ok()).unwrap_or_default();
            String::from_utf8(bytes).expect("the command prints UTF-8")
        };
        let (out, err) = (text(self.out.take()), text(self.err.take()));
        let ran = Ran { command: self.shown.clone(), code: status.code(), signal: status.signal(), out, err };
        ran.assert_decent();
        ran
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// What was started.
    pub command: String,
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Asserts that there is no panic, backtrace or debug output, and that no crash ended it.
    #[track_caller]
    fn assert_decent(&self) {
        for ugly in UGLY {
            assert!(!self.err.contains(ugly) && !self.out.contains(ugly), "{ugly:?} is said: {self:#?}");
        }
        assert!(matches!(self.signal, None | Some(2 | 9 | 15)), "it crashed: {self:#?}");
    }

    /// Asserts the exit code.
    #[track_caller]
    #[must_use]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts that it ended well.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Asserts that stderr has a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.err.contains(text), "{text:?} is not said: {self:#?}");
        self
    }

    /// Asserts that stdout has a text.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.out.contains(text), "{text:?} is not printed: {self:#?}");
        self
    }

    /// Asserts one error on stderr, with what to do about it, and nothing on stdout.
    #[track_caller]
    pub fn one_clear_error(self) -> Self {
        assert_eq!(self.out, "", "{self:#?}");
        assert_eq!(self.err.matches("error: ").count(), 1, "{self:#?}");
        self
    }

    /// Stdout as one JSON object on one line.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.out.matches('\n').count(), 1, "{self:#?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}
