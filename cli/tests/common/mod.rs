//! What the tests of the command share: starting it, and reading what it says.

use std::path::Path;
use std::process::{Command, Output};

/// The command, without anything in the environment that changes what it prints.
pub fn strata(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("strata"));
    command.args(arguments).env_remove("STRATA_LOG").env_remove("NO_COLOR").env_remove("RUST_BACKTRACE");
    command
}

/// Runs the command to its end.
pub fn run(arguments: &[&str]) -> Ran {
    Ran::of(strata(arguments).output().expect("the command starts"))
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// From the output of a process.
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the command prints UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Asserts that stderr has a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.err.contains(text), "{text:?} is not said: {self:#?}");
        self
    }

    /// Asserts that stdout has a text.
    #[track_caller]
    #[allow(dead_code)]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.out.contains(text), "{text:?} is not printed: {self:#?}");
        self
    }

    /// Asserts one error on stderr, with what to do, without backtrace, Debug output or colours, and nothing on stdout.
    #[track_caller]
    pub fn one_clear_error(self) -> Self {
        assert_eq!(self.out, "", "{self:#?}");
        assert_eq!(self.err.matches("error: ").count(), 1, "{self:#?}");
        for ugly in ["panicked", "RUST_BACKTRACE", "stack backtrace", "Err(", "Some(", "Error {", "\u{1b}", "os error 0"] {
            assert!(!self.err.contains(ugly), "{ugly:?} in {self:#?}");
        }
        self
    }

    /// Stdout as one JSON object on one line.
    #[track_caller]
    #[allow(dead_code)]
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.out.matches('\n').count(), 1, "{self:#?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have plain names")
}
