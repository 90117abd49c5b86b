//! `strata export`: a table as a file of another program. Today these are the bearoff databases of GNU Backgammon, one-sided and two-sided.
//!
//! What that program computes is rounded at every step, and its files are those numbers: so they are computed anew, by its
//! arithmetic ([`gnubg`](strata_games::bearoff::gnubg)), and then compared with the table, whose values are exact to the bound in its
//! manifest. The file gets its name when it is complete.

mod one_sided;
mod two_sided;

use crate::failure::Failure;
use crate::gnubg::compare::{Difference, stopped};
use crate::output;
use crate::progress::{Meter, time_left};
use crate::table::{self, Opened};
use crate::{resources, signals, units};
use clap::ValueEnum;
use md5::{Digest, Md5};
use serde::Serialize;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use strata_games::TableName;

/// Which table, as what, and where.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata export tables/bearoff-6x15 --format gnubg --out gnubg_os0.bd
  strata export tables/bearoff-10x15 --format gnubg --out gnubg_os.bd
  strata export tables/bearoff-6x15 --format gnubg --no-gammons --uncompressed --out plain.bd --json
  strata export tables/bearoff-6x6v6 --format gnubg --out gnubg_ts0.bd
  strata export tables/bearoff-6x8v8 --format gnubg --cubeless --out cubeless.bd

The file is the one that GNU Backgammon's `makebearoff -o POINTS` or `makebearoff -t POINTSxCHECKERS` writes, to the last byte;
MD5 sums of those are in its manual. It takes one-sided tables of 15 checkers on up to 13 points (10 points need half a gigabyte
of memory, 13 six), and two-sided ones of as many checkers on both sides, up to 14 (11 need four gigabytes), with fair dice.
An existing FILE is replaced when the new one is complete.")]
pub struct Args {
    /// The directory of a finished table
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What to write
    #[arg(long, value_enum)]
    format: Format,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// One-sided: leave out the rolls to the first checker off
    #[arg(long)]
    no_gammons: bool,
    /// One-sided: write all 32 chances of every position
    #[arg(long)]
    uncompressed: bool,
    /// Two-sided: write no values with the cube
    #[arg(long)]
    cubeless: bool,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A file of another program.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// The bearoff database of GNU Backgammon
    Gnubg,
}

/// `--json`.
#[derive(Serialize, Debug)]
struct Written {
    table: String,
    file: String,
    positions: u64,
    bytes: u64,
    md5: String,
    /// Where the mean number of rolls, or an equity, differs most from that of the table, and by how much.
    largest_difference: f64,
    at: String,
}

/// A file of another program.
trait Export: Send + Sync {
    /// Of which it is one, for people.
    fn what(&self) -> String;
    /// Bytes of memory that computing it takes.
    fn memory_bytes(&self) -> u64;
    /// Computes it, on the rayon pool it is called in. Whether it is complete; `progress` is told how many positions are done, and says
    /// whether to go on.
    fn compute(&mut self, progress: &(dyn Fn(u64) -> bool + Sync)) -> bool;
    /// Writes it, on the rayon pool it is called in.
    fn write(&self, to: &mut dyn Write) -> io::Result<()>;
    /// The largest difference from the table, and the position.
    fn compare(&self, opened: &Opened) -> Result<Difference, Failure>;
    /// What that difference is.
    fn rounding(&self, difference: f64, at: &str) -> String;
}

/// The file that can be made of a table.
fn export_of(name: &TableName, args: &Args) -> Result<Box<dyn Export>, Failure> {
    match name {
        TableName::Bearoff(spec) => Ok(Box::new(one_sided::File::new(spec, args)?)),
        TableName::TwoSided(spec) => Ok(Box::new(two_sided::File::new(spec, args)?)),
        TableName::Game2048(_) => Err(Failure::usage(format!("{name} is no bearoff table"))
            .help("--format gnubg is for tables like bearoff-6x15 and bearoff-6x6v6")),
    }
}

/// Writes the file.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Format::Gnubg = args.format;
    let opened = table::open(&args.dir).map_err(|e| e.into_failure(&args.dir))?;
    let mut export = export_of(opened.space.name(), args)?;
    let runtime = crate::runtime()?;
    let _context = runtime.enter();
    signals::listen(|| {}).map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let pool = resources::pool(args.threads.map_or_else(resources::threads, usize::from))?;
    let shown = output::shell_quote(&args.out.to_string_lossy()).into_owned();
    let cannot = |e: io::Error| Failure::failed(format!("cannot write {shown}: {e}"));
    let folder = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    replaceable(&args.out, folder, opened.table.root(), &shown)?;
    let help = "export a smaller table, or use a machine with more memory";
    resources::expect_memory(export.memory_bytes(), &format!("{} take", export.what()), help)?;
    // Made before anything is computed, in the same folder: whether it can be written is known at once, and renaming it is one step.
    let mode = Permissions::from_mode(0o666); // less what the user's mask takes
    let file = tempfile::Builder::new().prefix(".strata-export-").permissions(mode).tempfile_in(folder).map_err(cannot)?;
    let meter = Meter::new("computing", opened.table.manifest().keys, time_left);
    let is_complete = pool.install(|| export.compute(&|done| meter.reach(done)));
    meter.end();
    if !is_complete {
        return Err(stopped());
    }
    let written = pool.install(|| write_to(export.as_ref(), file.as_file()));
    let (md5, bytes) = written.map_err(|e| if signals::received().is_some() { stopped() } else { cannot(e) })?;
    let (synced, difference) = std::thread::scope(|scope| {
        let synced = scope.spawn(|| file.as_file().sync_all());
        let difference = pool.install(|| export.compare(&opened));
        (synced.join(), difference)
    });
    let difference = difference?;
    if signals::received().is_some() {
        return Err(stopped());
    }
    synced.unwrap_or_else(|_| Err(io::Error::other("the thread that waits for the disk ended"))).map_err(cannot)?;
    file.persist(&args.out).map_err(|e| cannot(e.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(cannot)?;
    let written = Written {
        table: opened.space.name().to_string(),
        file: args.out.display().to_string(),
        positions: opened.table.manifest().keys,
        bytes,
        md5,
        largest_difference: difference.largest,
        at: difference.at,
    };
    if args.json { output::json(&written) } else { output::result(&text(&written, export.as_ref())) }
}

/// Refuses to write over anything but a file of its own.
fn replaceable(out: &Path, folder: &Path, table: &Path, shown: &str) -> Result<(), Failure> {
    let refuse = |what: &str| Err(Failure::usage(format!("--out {shown} {what}")).help("name the file to write"));
    match out.symlink_metadata() {
        Ok(there) if there.is_dir() => return refuse("is a directory"),
        Ok(there) if !there.is_file() => return refuse("is no ordinary file, and would be replaced by one"),
        _ => {}
    }
    match folder.canonicalize() {
        Ok(folder) if folder.starts_with(table) => refuse("is in the directory of the table, where nothing else belongs"),
        _ => Ok(()),
    }
}

/// Writes the file; its MD5 sum and length.
fn write_to(export: &dyn Export, file: &File) -> io::Result<(String, u64)> {
    // Sums are of large pieces: a number at a time would cost more than writing it.
    let mut to = BufWriter::with_capacity(1 << 20, Summed { to: file, md5: Md5::new(), bytes: 0 });
    export.write(&mut to)?;
    let sums = to.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok((sums.md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), sums.bytes))
}

/// Writes, counts and sums up.
struct Summed<W> {
    to: W,
    md5: Md5,
    bytes: u64,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.md5.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn text(written: &Written, export: &dyn Export) -> String {
    output::facts(&[
        ("table", written.table.clone()),
        ("file", written.file.clone()),
        ("positions", units::count(written.positions)),
        ("size", format!("{} ({} bytes)", units::bytes(written.bytes), units::count(written.bytes))),
        ("md5", written.md5.clone()),
        ("rounding", export.rounding(written.largest_difference, &written.at)),
    ])
}
