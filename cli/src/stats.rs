//! `strata stats`: what each layer is like to play in, as a table, as CSV and as charts.
//!
//! Everything comes from the manifest: counts of the forward pass, and sums that the backward pass kept beside the values. So the answer
//! takes milliseconds, whatever the size of the table. Tables of games without states to choose in (bearoff), and those of builds
//! that kept no statistics, have the counts alone.

use crate::charts;
use crate::failure::Failure;
use crate::output;
use crate::samples;
use crate::table;
use crate::units;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use strata_games::TableName;
use strata_storage::{Manifest, ManifestLayer};

/// Which table, and in which form.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata stats tables/2048-3x3
  strata stats tables/2048-3x3 --csv > stats.csv
  strata stats tables/2048-3x3 --charts figures
  strata stats tables/2048-4x3-stats --samples > samples.csv

With --csv there is a line for every layer; the columns are
  age            sum of the tiles (pips in a bearoff table)
  states         positions with the player to act
  afterstates    positions after the move, before the new tile
  terminal       states without a legal move
  legal_moves    pairs of a state and a legal move
  mean_value     mean over the states, terminal ones included
  mean_gap       action gap: best move minus second best; mean over the states with two or more moves
  largest_gap    the largest action gap
  single_best_share  share of the states that are not terminal in which one move is better than all others
A cell is empty where nothing is known, or there is nothing to take the mean of.

With --samples there is a line for every sampled position of a table that keeps statistics alone (+keep=stats): up to 256
of each age, after the move and before the new tile. The columns are age,position,value,error; error is how far the
value can be from the one that was computed.

With --charts two files are written: states-by-age.svg and action-gap-by-age.svg.")]
pub struct Args {
    /// The directory of a finished table
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print comma-separated values, all layers and all digits
    #[arg(long)]
    csv: bool,
    /// Draw charts into this directory (SVG)
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
    /// Print the sampled positions of a table of statistics, as comma-separated values
    #[arg(long, conflicts_with_all = ["csv", "charts"])]
    samples: bool,
}

/// Most rows of the table for people.
const MOST_ROWS: usize = 40;

const HEADER: [&str; 8] =
    ["states", "afterstates", "terminal", "legal_moves", "mean_value", "mean_gap", "largest_gap", "single_best_share"];

/// One layer.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Row {
    /// Its age, or its pip count.
    pub layer: u32,
    /// Positions with the player to act.
    pub states: u64,
    /// Positions after the move.
    pub afterstates: u64,
    /// States without a legal move.
    pub terminal: u64,
    /// Pairs of a state and a legal move.
    pub legal_moves: Option<u64>,
    /// Mean over the states.
    pub mean_value: Option<f64>,
    /// Mean over the states with two or more moves of best minus second best.
    pub mean_gap: Option<f64>,
    /// The largest action gap.
    pub largest_gap: Option<f64>,
    /// Of the states that are not terminal, the share with one move better than all others: 0 to 1.
    pub single_best_share: Option<f64>,
}

impl Row {
    fn of(layer: &ManifestLayer) -> Self {
        let stats = layer.stats.as_ref();
        let ratio = |sum: f64, count: u64| (count > 0).then(|| sum / count as f64);
        let with_choices = stats.filter(|s| s.choices > 0);
        Self {
            layer: layer.layer,
            states: layer.states,
            afterstates: layer.afterstates,
            terminal: layer.terminal,
            legal_moves: stats.map(|s| s.legal_moves),
            mean_value: stats.and_then(|s| ratio(s.value_sum, layer.states)),
            mean_gap: with_choices.and_then(|s| ratio(s.gap_sum, s.choices)),
            largest_gap: with_choices.map(|s| s.gap_most),
            single_best_share: stats.and_then(|s| ratio(s.single_best as f64, layer.states - layer.terminal)),
        }
    }
}

/// What the layers of a table are counted in, and its values.
pub struct Units {
    /// `age` or `pips`.
    pub layer: &'static str,
    /// The layers, along the axis of a chart.
    pub x_axis: &'static str,
    /// Of the differences of values.
    pub gap: &'static str,
}

impl Units {
    fn of(manifest: &Manifest) -> Self {
        let age = "age (sum of the tiles)";
        let (layer, x_axis, gap) = match manifest.table.parse() {
            Ok(TableName::Game2048(spec)) if spec.tile.is_some() => ("age", age, "probability"),
            Ok(TableName::Game2048(_)) => ("age", age, "points"),
            Ok(TableName::Bearoff(_)) => ("pips", "pips", "rolls"),
            Ok(TableName::TwoSided(_)) => ("pips", "pips of both sides", "points"),
            Err(_) => ("layer", "layer", "value"),
        };
        Self { layer, x_axis, gap }
    }
}

/// Prints the statistics, and draws them.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.samples {
        return samples::print(&args.dir);
    }
    let table = table::open_files(&args.dir).map_err(|e| e.into_failure(&args.dir))?;
    let manifest = table.manifest();
    let units = Units::of(manifest);
    let rows: Vec<Row> = manifest.layers.iter().map(Row::of).collect();
    if let Some(charts) = &args.charts {
        draw(&args.dir, charts, &manifest.table, &units, reached(&rows))?;
    }
    output::result(&if args.csv { csv(&units, &rows) } else { for_people(&units, &rows) })
}

/// The rows up to the last that play reaches. Where it stops at a tile, the plan has many layers after that.
fn reached(rows: &[Row]) -> &[Row] {
    let last = rows.iter().rposition(|row| row.states > 0 || row.afterstates > 0);
    last.map_or(rows, |last| &rows[..=last])
}

fn csv(units: &Units, rows: &[Row]) -> String {
    fn cell(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let mut text = format!("{},{}\n", units.layer, HEADER.join(","));
    for row in rows {
        let Row { layer, states, afterstates, terminal, .. } = row;
        let (moves, value, share) = (cell(row.legal_moves), cell(row.mean_value), cell(row.single_best_share));
        let (mean, largest) = (cell(row.mean_gap), cell(row.largest_gap));
        // A String takes all.
        let _ = writeln!(text, "{layer},{states},{afterstates},{terminal},{moves},{value},{mean},{largest},{share}");
    }
    text
}

/// A table that fits on a screen.
fn for_people(units: &Units, rows: &[Row]) -> String {
    let header = HEADER.map(|name| if name == "single_best_share" { "single best".into() } else { name.replace('_', " ") });
    let header: Vec<&str> = [units.layer].into_iter().chain(header.iter().map(String::as_str)).collect();
    let number = |value: Option<f64>| value.map_or_else(String::new, digits);
    let shown = spread(reached(rows).len(), MOST_ROWS);
    let cells = shown.iter().map(|&at| &rows[at]).map(|row| {
        vec![
            row.layer.to_string(),
            units::count(row.states),
            units::count(row.afterstates),
            units::count(row.terminal),
            row.legal_moves.map_or_else(String::new, units::count),
            number(row.mean_value),
            number(row.mean_gap),
            number(row.largest_gap),
            row.single_best_share.map_or_else(String::new, |share| format!("{:.2} %", share * 100.0)),
        ]
    });
    let mut text = output::table(&header, 0, cells);
    if shown.len() < rows.len() {
        let _ = write!(text, "\n{} of {}; --csv has all\n", shown.len(), units::plural(rows.len() as u64, "layer"));
    }
    text
}

/// At most `most` of `count` rows, evenly spread, the first and the last among them.
fn spread(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|i| (i * (count - 1) + (most - 1) / 2) / (most - 1)).collect()
}

/// Five significant digits, or all before the decimal point.
fn digits(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:.4e}");
    }
    let decimals = if value == 0.0 { 0.0 } else { (4.0 - value.abs().log10().floor()).clamp(0.0, 7.0) };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped above
    let text = format!("{value:.*}", decimals as usize);
    text
}

fn draw(table: &Path, charts: &Path, name: &str, units: &Units, rows: &[Row]) -> Result<(), Failure> {
    if is_within(charts, table) {
        return Err(Failure::usage(format!("--charts {} is inside the table", quoted(charts)))
            .help("a table holds nothing but its own files; choose a directory outside of it"));
    }
    std::fs::create_dir_all(charts).map_err(|e| {
        Failure::failed(format!("cannot make the directory {}: {e}", quoted(charts))).help("choose another place")
    })?;
    write(charts, "states-by-age.svg", &charts::states(name, units, rows)?)?;
    if rows.iter().any(|row| row.mean_gap.is_some()) {
        return write(charts, "action-gap-by-age.svg", &charts::action_gap(name, units, rows)?);
    }
    output::note("note: the table has no statistics of moves, so there is no action-gap-by-age.svg");
    Ok(())
}

/// Whether a place, which need not exist yet, is in a directory that does.
fn is_within(place: &Path, dir: &Path) -> bool {
    let (Ok(place), Ok(dir)) = (std::path::absolute(place), dir.canonicalize()) else { return false };
    place.ancestors().find_map(|part| part.canonicalize().ok()).is_some_and(|existing| existing.starts_with(dir))
}

/// Writes a file under another name first, so that nobody sees half of it.
fn write(dir: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let (path, unfinished) = (dir.join(name), dir.join(format!(".{name}.{}", std::process::id())));
    let written = std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, &path));
    written.map_err(|e| {
        let _ = std::fs::remove_file(&unfinished); // it may not be there, and the error is said anyway
        Failure::failed(format!("cannot write {}: {e}", quoted(&path))).help("choose another place")
    })?;
    output::note(&format!("wrote {}", quoted(&path)));
    Ok(())
}

fn quoted(path: &Path) -> String {
    output::shell_quote(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_storage::ManifestStats;

    #[test]
    fn means_are_over_what_they_say_and_missing_where_that_is_nothing() {
        let stats = ManifestStats { legal_moves: 21, single_best: 6, choices: 5, value_sum: 25.0, gap_sum: 7.5, gap_most: 4.25 };
        let layer =
            ManifestLayer { layer: 8, universe: 0, states: 10, afterstates: 7, terminal: 2, stats: Some(stats), shards: vec![] };
        let row = Row::of(&layer);
        assert_eq!((row.mean_value, row.mean_gap, row.largest_gap), (Some(2.5), Some(1.5), Some(4.25)));
        assert_eq!((row.single_best_share, row.legal_moves), (Some(0.75), Some(21)));
        let over = ManifestStats { legal_moves: 0, single_best: 0, choices: 0, value_sum: 0.0, gap_sum: 0.0, gap_most: 0.0 };
        let row = Row::of(&ManifestLayer { states: 2, stats: Some(over), ..layer.clone() });
        assert_eq!((row.mean_value, row.mean_gap, row.largest_gap, row.single_best_share), (Some(0.0), None, None, None));
        let row = Row::of(&ManifestLayer { stats: None, ..layer });
        assert_eq!((row.legal_moves, row.mean_value, row.single_best_share), (None, None, None));
    }

    #[test]
    fn rows_are_spread_evenly_from_the_first_to_the_last() {
        assert!(spread(0, 4).is_empty());
        assert_eq!(spread(4, 4), [0, 1, 2, 3]);
        assert_eq!(spread(10, 4), [0, 3, 6, 9]);
        assert_eq!(spread(5, 4), [0, 1, 3, 4]);
        let many = spread(2012, 40);
        assert_eq!((many.len(), many[0], many[39]), (40, 0, 2011));
        assert!(many.windows(2).all(|pair| (51..=52).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn layers_after_the_end_of_play_are_left_out_for_people_only() {
        let layer = |layer, states| ManifestLayer {
            layer,
            universe: 0,
            states,
            afterstates: 0,
            terminal: 0,
            stats: None,
            shards: vec![],
        };
        let rows: Vec<Row> = [layer(4, 0), layer(6, 2), layer(8, 0), layer(10, 1), layer(12, 0)].iter().map(Row::of).collect();
        assert_eq!(reached(&rows), &rows[..4]);
        assert_eq!(reached(&rows[..1]), &rows[..1]);
        let units = Units { layer: "age", x_axis: "", gap: "" };
        assert_eq!(csv(&units, &rows).lines().count(), 6);
        assert!(for_people(&units, &rows).ends_with("\n4 of 5 layers; --csv has all\n"));
    }

    #[test]
    fn people_get_five_digits() {
        for (value, text) in [
            (0.0, "0"),
            (5_468.486_797, "5468.5"),
            (123_456.7, "123457"),
            (0.012_345_67, "0.012346"),
            (1.615_5e-9, "1.6155e-9"),
            (-2.5, "-2.5000"),
        ] {
            assert_eq!(digits(value), text);
        }
    }
}
