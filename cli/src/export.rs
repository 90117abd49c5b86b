//! `strata export`: a table as a file of another program. Today that is the one-sided bearoff database of GNU Backgammon.
//!
//! What that program computes is rounded to 65,535ths at every step, and its files are those numbers: so they are computed anew, by its
//! arithmetic ([`gnubg`]), and then compared with the table, whose means are exact to the bound in its manifest. The file gets its
//! name when it is complete.

use crate::failure::{Failure, chain};
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
use strata_games::bearoff::gnubg::{self, Chances, MOST_ROLLS, OneSided};
use strata_games::{FAIR_DOUBLES, Key, Layer, TableName};

/// Which table, as what, and where.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata export tables/bearoff-6x15 --format gnubg --out gnubg_os0.bd
  strata export tables/bearoff-10x15 --format gnubg --out gnubg_os.bd
  strata export tables/bearoff-6x15 --format gnubg --no-gammons --uncompressed --out plain.bd --json

The file is the one that GNU Backgammon's `makebearoff -o POINTS` writes, to the last byte; MD5 sums of those are in its
manual. It takes tables of 15 checkers on up to 13 points, with fair dice; 10 points need half a gigabyte of memory, 13 six.
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
    /// Leave out the rolls to the first checker off
    #[arg(long)]
    no_gammons: bool,
    /// Write all 32 chances of every position
    #[arg(long)]
    uncompressed: bool,
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
    /// Where the mean number of rolls differs most from that of the table, and by how much.
    largest_difference: f64,
    at: String,
}

/// Writes the file.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Format::Gnubg = args.format;
    let opened = table::open(&args.dir).map_err(|e| e.into_failure(&args.dir))?;
    let points = exportable(opened.space.name())?;
    let runtime = crate::runtime()?;
    let _context = runtime.enter();
    signals::listen(|| {}).map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let pool = resources::pool(args.threads.map_or_else(resources::threads, usize::from))?;
    let shown = output::shell_quote(&args.out.to_string_lossy()).into_owned();
    let cannot = |e: io::Error| Failure::failed(format!("cannot write {shown}: {e}"));
    let folder = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    replaceable(&args.out, folder, opened.table.root(), &shown)?;
    enough_memory(points)?;
    // Made before anything is computed, in the same folder: whether it can be written is known at once, and renaming it is one step.
    let mode = Permissions::from_mode(0o666); // less what the user's mask takes
    let file = tempfile::Builder::new().prefix(".strata-export-").permissions(mode).tempfile_in(folder).map_err(cannot)?;
    let meter = Meter::new("computing", opened.table.manifest().keys, time_left);
    let database = pool.install(|| OneSided::compute(points, &|done| meter.reach(done)));
    meter.end();
    let Some(database) = database else { return Err(stopped()) };
    let layout = Layout { points, gammons: !args.no_gammons, compressed: !args.uncompressed };
    let written = layout.write_to(&database, file.as_file());
    let (md5, bytes) = written.map_err(|e| if signals::received().is_some() { stopped() } else { cannot(e) })?;
    let (largest_difference, at) = compare(&opened, &database)?;
    if signals::received().is_some() {
        return Err(stopped());
    }
    file.as_file().sync_all().map_err(cannot)?;
    file.persist(&args.out).map_err(|e| cannot(e.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(cannot)?;
    let written = Written {
        table: opened.space.name().to_string(),
        file: args.out.display().to_string(),
        positions: database.count() as u64,
        bytes,
        md5,
        largest_difference,
        at,
    };
    if args.json { output::json(&written) } else { output::result(&text(&written)) }
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

/// Refuses what certainly does not fit in memory.
fn enough_memory(points: usize) -> Result<(), Failure> {
    let needed = OneSided::memory_bytes(points);
    match resources::available_memory() {
        Some(free) if free < needed => {
            let (needed, free) = (units::bytes(needed), units::bytes(free));
            Err(Failure::failed(format!("{points} points take {needed} of memory, and {free} are free"))
                .help("export a table of fewer points, or use a machine with more memory"))
        }
        _ => Ok(()),
    }
}

fn stopped() -> Failure {
    let message = "stopped before the file was written".into();
    Failure { code: signals::received().unwrap_or(1), message, help: Some("run the same command again".into()) }
}

/// How many points the table has, if the format has room for it.
fn exportable(name: &TableName) -> Result<usize, Failure> {
    let refuse = |what: String, help: String| Err(Failure::usage(what).help(help));
    let TableName::Bearoff(spec) = name else {
        return refuse(format!("{name} is no bearoff table"), "--format gnubg is for tables like bearoff-6x15".into());
    };
    let most = gnubg::MOST_POINTS;
    match spec {
        _ if spec.checkers != 15 => refuse(
            format!("{name} has {} checkers, and GNU Backgammon's one-sided files have 15", spec.checkers),
            format!("build bearoff-{}x15", spec.points),
        ),
        _ if spec.points > most => refuse(
            format!("{name} has {} points; makebearoff goes up to {most}", spec.points),
            format!("build bearoff-{most}x15"),
        ),
        _ if spec.doubles != FAIR_DOUBLES || spec.meaningless => {
            refuse(format!("GNU Backgammon's files are of fair dice, {name} is not"), format!("build bearoff-{}x15", spec.points))
        }
        _ => Ok(spec.points),
    }
}

/// The largest difference between the means of the file and of the table, and the position.
fn compare(opened: &Opened, database: &OneSided) -> Result<(f64, String), Failure> {
    let mut worst = (0.0, Key { layer: Layer(0), rank: 0 });
    for layer in &opened.table.manifest().layers {
        if signals::received().is_some() {
            return Err(stopped());
        }
        for shard in &layer.shards {
            let read = opened.table.shard(layer.layer, shard.shard).and_then(|file| {
                let ranks: Vec<u64> = file.index()?.iter().collect();
                Ok((ranks, file.scalars(0)?))
            });
            let (ranks, means) = read.map_err(|e| table::OpenError::Damaged(chain(&e)).into_failure(opened.table.root()))?;
            for (rank, mean) in ranks.into_iter().zip(means) {
                let rank = shard.first_rank + rank;
                let Some(index) = usize::try_from(rank).ok().filter(|&index| index < database.count()) else {
                    let what = format!("layer {} has a key of rank {rank}, and there is no such position", layer.layer);
                    return Err(table::OpenError::Damaged(what).into_failure(opened.table.root()));
                };
                let off = (gnubg::mean(database.win(index)) - mean).abs();
                if off > worst.0 {
                    worst = (off, Key { layer: Layer(layer.layer), rank });
                }
            }
        }
    }
    let at = opened.space.unrank(worst.1).map_or_else(String::new, |position| opened.space.format(position));
    Ok((worst.0, at))
}

/// Positions that are written between two looks for a signal.
const LOOK_UP: usize = 1 << 16;

/// How the file is laid out: 40 bytes of header; then, compressed, 8 bytes for each position (6 without gammons) that say where its chances
/// are, and the chances from the first to the last that is not 0; or all 32 of each. All numbers are little-endian.
struct Layout {
    points: usize,
    gammons: bool,
    compressed: bool,
}

impl Layout {
    fn header(&self) -> [u8; 40] {
        let flag = |set: bool| if set { '1' } else { '0' };
        let start = format!("gnubg-OS-{:02}-15-{}-{}-0", self.points, flag(self.gammons), flag(self.compressed));
        let mut header = [b'x'; 40];
        header[..start.len()].copy_from_slice(start.as_bytes());
        header[39] = b'\n';
        header
    }

    /// The distributions of a position that the file has.
    fn of<'d>(&self, database: &'d OneSided, index: usize) -> impl Iterator<Item = &'d Chances> {
        std::iter::once(database.win(index)).chain(self.gammons.then(|| database.gammon(index)))
    }

    /// Writes the file; its MD5 sum and length.
    fn write_to(&self, database: &OneSided, file: &File) -> io::Result<(String, u64)> {
        let mut sums = Summed { to: BufWriter::new(file), md5: Md5::new(), bytes: 0 };
        self.write(database, &mut sums)?;
        sums.flush()?;
        Ok((sums.md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), sums.bytes))
    }

    fn write(&self, database: &OneSided, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.header())?;
        let mut offset = 0u32;
        for index in (0..database.count()).filter(|_| self.compressed) {
            to.write_all(&offset.to_le_bytes())?;
            for chances in self.of(database, index) {
                let (first, span) = span(chances);
                // Both below 32.
                #[allow(clippy::cast_possible_truncation)]
                to.write_all(&[span.len() as u8, first as u8])?;
                #[allow(clippy::cast_possible_truncation)]
                let length = span.len() as u32;
                offset = offset.checked_add(length).ok_or_else(|| io::Error::other("its offsets do not fit in 32 bits"))?;
            }
        }
        for index in 0..database.count() {
            if index % LOOK_UP == 0 && signals::received().is_some() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            for chances in self.of(database, index) {
                let chances = if self.compressed { span(chances).1 } else { &chances[..] };
                for chance in chances {
                    to.write_all(&chance.to_le_bytes())?;
                }
            }
        }
        Ok(())
    }
}

/// The first number of rolls that has a chance, and the chances from there to the last.
fn span(chances: &Chances) -> (usize, &[u16]) {
    let first = chances.iter().position(|&chance| chance != 0).unwrap_or(0);
    let end = chances.iter().rposition(|&chance| chance != 0).map_or(MOST_ROLLS, |last| last + 1);
    (first, &chances[first..end])
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

fn text(written: &Written) -> String {
    output::facts(&[
        ("table", written.table.clone()),
        ("file", written.file.clone()),
        ("positions", units::count(written.positions)),
        ("size", format!("{} ({} bytes)", units::bytes(written.bytes), units::count(written.bytes))),
        ("md5", written.md5.clone()),
        (
            "rounding",
            format!(
                "means are off by at most {:.5} rolls from those of the table, at {}",
                written.largest_difference, written.at
            ),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_forty_bytes_with_a_line_feed() {
        let header = |points, gammons, compressed| Layout { points, gammons, compressed }.header();
        assert_eq!(&header(6, true, true), b"gnubg-OS-06-15-1-1-0xxxxxxxxxxxxxxxxxxx\n");
        assert_eq!(&header(10, false, false), b"gnubg-OS-10-15-0-0-0xxxxxxxxxxxxxxxxxxx\n");
    }

    #[test]
    fn a_span_keeps_the_zeros_inside() {
        let mut chances = [0; MOST_ROLLS];
        (chances[2], chances[4]) = (65_534, 1);
        assert_eq!(span(&chances), (2, &[65_534, 0, 1][..]));
    }
}
