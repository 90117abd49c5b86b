//! How a verb ends when it does not end well: one sentence that says what is wrong, one that says what to do, and an exit code.

use crate::output::{Stream, paint};
use std::process::ExitCode;

/// Something failed: the disk, a damaged table, a position outside the table.
pub const FAILED: u8 = 1;
/// The command line, or text given on it, is not what it should be.
pub const USAGE: u8 = 2;

/// Why a verb stopped, for the person who started it.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What is wrong; empty when everything has been said already.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Failure {
    /// A failure of the work itself: exit code 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into(), help: None }
    }

    /// A mistake in what was asked for: exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into(), help: None }
    }

    /// Ends with an exit code when all that was to be said has been said.
    pub fn silent(code: u8) -> Self {
        Self { code, message: String::new(), help: None }
    }

    /// Adds what to do.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says it on stderr.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            crate::output::note(&format!("{} {}", paint(Stream::Err, "1;31", "error:"), one_line(&self.message)));
        }
        if let Some(help) = &self.help {
            crate::output::note(&format!("{} {}", paint(Stream::Err, "1;36", "help:"), one_line(help)));
        }
        ExitCode::from(self.code)
    }
}

/// Messages can hold names of files and text that somebody typed: control characters in them must not reach the terminal.
fn one_line(text: &str) -> String {
    text.trim_end().chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// The error and its causes in one line, each said once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// A panic is a bug in Strata. It is said in two lines, without a backtrace unless logs are wanted (STRATA_LOG), and the exit code is 1.
pub fn install_panic_hook() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let what = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map_or_else(String::new, |l| format!(" ({}:{})", l.file(), l.line()));
        Failure::failed(format!("this is a bug in strata {}: {what}{place}", env!("CARGO_PKG_VERSION")))
            .help("please report the line above and the command; nothing that was finished is lost, the same command goes on")
            .report();
        if std::env::var_os("STRATA_LOG").is_some() {
            previous(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(one_line("a\u{1b}[31mb\r\nc\n"), "a\u{fffd}[31mb\u{fffd}\nc");
    }

    #[test]
    fn a_cause_that_the_error_repeats_is_said_once() {
        #[derive(Debug)]
        struct Outer(std::io::Error, bool);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if self.1 { write!(f, "shard 3: {}", self.0) } else { f.write_str("shard 3") }
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        for repeats in [false, true] {
            assert_eq!(chain(&Outer(std::io::Error::other("no space"), repeats)), "shard 3: no space");
        }
    }
}
