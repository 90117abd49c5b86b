//! What goes where: results on stdout, everything said on the way on stderr, colour only where a person looks.
//!
//! A reader that goes away (`strata info DIR --layers | head`) is no error: nothing more is written, the exit code stays.

use crate::failure::Failure;
use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};

/// One of the two streams.
#[derive(Clone, Copy)]
pub enum Stream {
    /// Results.
    Out,
    /// Everything else.
    Err,
}

/// Writes to stdout. A closed pipe is silence, any other failure is an error.
pub fn result(text: &str) -> Result<(), Failure> {
    piece(text).map(|_| ())
}

/// Writes a piece of a long result to stdout. Whether anybody still reads.
pub fn piece(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::failed(format!("the result cannot be written to standard output: {e}"))),
    }
}

/// Writes a value to stdout as one line of JSON.
pub fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(value).map_err(|e| Failure::failed(format!("the result is not JSON: {e}")))?;
    text.push('\n');
    result(&text)
}

/// Writes a line to stderr. There is nobody to tell when that fails.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Whether a stream is a terminal that understands more than plain lines.
pub fn is_terminal(stream: Stream) -> bool {
    let terminal = match stream {
        Stream::Out => std::io::stdout().is_terminal(),
        Stream::Err => std::io::stderr().is_terminal(),
    };
    terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether colour is welcome on a stream (<https://no-color.org>).
pub fn is_coloured(stream: Stream) -> bool {
    is_terminal(stream) && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// The text in a style (the number of an ANSI escape), where colour is welcome.
pub fn paint<'a>(stream: Stream, style: &str, text: &'a str) -> Cow<'a, str> {
    if is_coloured(stream) { Cow::Owned(format!("\x1b[{style}m{text}\x1b[0m")) } else { Cow::Borrowed(text) }
}

/// Lines of `name  value`, the values in one column.
pub fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().fold(String::new(), |text, (name, value)| {
        let pad = " ".repeat(width - name.chars().count() + 2);
        text + &paint(Stream::Out, "2", name) + &pad + value + "\n"
    })
}

/// A table without frames, its numbers to the right. The first `left` columns are text.
pub fn table(header: &[&str], left: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if i == 0 { 0 } else { 2 }, 0));
        if i >= left {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// An argument as a shell would have to be given it.
pub fn shell_quote(argument: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+,:@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        Cow::Borrowed(argument)
    } else {
        Cow::Owned(format!("'{}'", argument.replace('\'', "'\\''")))
    }
}

/// The command line that is running, to be pasted into a shell.
pub fn this_command() -> String {
    let mut words = std::env::args_os();
    words.next();
    words.fold("strata".to_string(), |text, word| text + " " + &shell_quote(&word.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_a_shell() {
        assert_eq!(shell_quote("tables/2048-3x3+tile=64"), "tables/2048-3x3+tile=64");
        assert_eq!(shell_quote("my tables"), "'my tables'");
        assert_eq!(shell_quote("it's"), "'it'\\''s'");
        assert_eq!(shell_quote(""), "''");
        assert_eq!(shell_quote("$HOME"), "'$HOME'");
    }

    #[test]
    fn tables_have_no_trailing_blanks_and_numbers_to_the_right() {
        let text = table(&["move", "value"], 1, [vec!["left".into(), "1.5".into()], vec!["up".into(), "12.25".into()]]);
        assert_eq!(text, "move  value\nleft    1.5\nup    12.25\n");
    }

    #[test]
    fn facts_line_up() {
        assert_eq!(facts(&[("root", "ab".into()), ("states", "110".into())]), "root    ab\nstates  110\n");
    }
}
