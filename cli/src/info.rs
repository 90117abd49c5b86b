//! `strata info`: the facts of a finished table, and its layers.

use crate::failure::Failure;
use crate::output;
use crate::table::{self, Summary};
use crate::units;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use strata_games::Keep;
use strata_storage::{Manifest, ManifestLayer};

/// Which table, and in which form.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata info tables/2048-3x3
  strata info tables/2048-3x3 --layers
  strata info tables/2048-3x3 --layers --csv > layers.csv
  strata info tables/2048-3x3 --json | jq -r .root

The keys of a table of moves (+keep=play) are its states, those of one of statistics (+keep=stats) the sampled positions.
With --csv the columns are layer,states,afterstates,terminal,index_bytes,value_bytes.")]
pub struct Args {
    /// The directory of a finished table
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Show every layer
    #[arg(long)]
    layers: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the layers as comma-separated values
    #[arg(long, requires = "layers")]
    csv: bool,
}

/// One layer, as `--layers` shows it.
#[derive(Serialize, Clone, Copy, Debug)]
struct LayerRow {
    layer: u32,
    states: u64,
    afterstates: u64,
    terminal: u64,
    index_bytes: u64,
    value_bytes: u64,
}

impl LayerRow {
    fn of(layer: &ManifestLayer) -> Self {
        Self {
            layer: layer.layer,
            states: layer.states,
            afterstates: layer.afterstates,
            terminal: layer.terminal,
            index_bytes: layer.shards.iter().map(|s| s.index_bytes).sum(),
            value_bytes: layer.shards.iter().map(|s| s.value_bytes).sum(),
        }
    }

    fn numbers(self) -> [u64; 6] {
        [u64::from(self.layer), self.states, self.afterstates, self.terminal, self.index_bytes, self.value_bytes]
    }
}

/// `--json`.
#[derive(Serialize)]
struct Info<'a> {
    #[serde(flatten)]
    summary: Summary,
    format: u32,
    /// As in names of tables: `values`, `play` or `stats`.
    keep: &'static str,
    terminal: u64,
    keys: u64,
    files: u64,
    index_bytes: u64,
    value_bytes: u64,
    scalar_columns: &'a [String],
    dist_columns: &'a [String],
    error_bounds: &'a [f64],
    facts: &'a std::collections::BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<Vec<LayerRow>>,
}

const HEADER: [&str; 6] = ["layer", "states", "afterstates", "terminal", "index_bytes", "value_bytes"];

/// Prints the facts.
pub fn run(args: &Args) -> Result<(), Failure> {
    let table = table::open_files(&args.dir).map_err(|e| e.into_failure(&args.dir))?;
    let manifest = table.manifest();
    let rows = || manifest.layers.iter().map(LayerRow::of);
    if args.csv {
        return output::result(&csv(rows()));
    }
    if args.json {
        return output::json(&Info {
            summary: Summary::of(manifest),
            format: manifest.format,
            keep: table::keep(manifest).name(),
            terminal: manifest.terminal,
            keys: manifest.keys,
            files: files(manifest),
            index_bytes: manifest.index_bytes,
            value_bytes: manifest.value_bytes,
            scalar_columns: &manifest.scalar_columns,
            dist_columns: &manifest.dist_columns,
            error_bounds: &manifest.error_bounds,
            facts: &manifest.facts,
            layer: args.layers.then(|| rows().collect()),
        });
    }
    let mut text = facts(manifest);
    if args.layers {
        let header = HEADER.map(|h| h.replace('_', " "));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let cells = rows().map(|row| {
            let mut cells: Vec<String> = row.numbers().iter().map(|&n| units::count(n)).collect();
            cells[0] = row.layer.to_string();
            cells
        });
        text.push('\n');
        text.push_str(&output::table(&header, 0, cells));
    }
    output::result(&text)
}

fn csv(rows: impl Iterator<Item = LayerRow>) -> String {
    let mut text = HEADER.join(",") + "\n";
    for row in rows {
        let [layer, states, afterstates, terminal, index, value] = row.numbers();
        let _ = writeln!(text, "{layer},{states},{afterstates},{terminal},{index},{value}"); // a String takes all
    }
    text
}

fn files(manifest: &Manifest) -> u64 {
    manifest.layers.iter().map(|l| l.shards.len() as u64).sum()
}

/// The facts for people.
fn facts(manifest: &Manifest) -> String {
    let mut rows = Summary::of(manifest).rows();
    let size = |bytes: u64| match table::bits_per_key(manifest, bytes) {
        Some(bits) => format!("{} ({bits:.2} bits a position)", units::bytes(bytes)),
        None => units::bytes(bytes),
    };
    let kept = match table::keep(manifest) {
        Keep::Values => ("stored", units::plural(manifest.keys, "position")),
        Keep::Play => ("stored", format!("{}, each with its best move", units::plural(manifest.keys, "state"))),
        Keep::Stats => ("kept", format!("statistics, and {}", units::plural(manifest.keys, "sampled position"))),
    };
    rows.extend([
        ("terminal", units::count(manifest.terminal)),
        kept,
        ("index", size(manifest.index_bytes)),
        ("values", size(manifest.value_bytes)),
        ("columns", manifest.scalar_columns.iter().chain(&manifest.dist_columns).cloned().collect::<Vec<_>>().join(", ")),
        ("files", units::count(files(manifest))),
        ("format", manifest.format.to_string()),
    ]);
    output::facts(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_the_promised_header_and_plain_numbers() {
        let row = LayerRow { layer: 4, states: 1_234, afterstates: 9, terminal: 0, index_bytes: 16, value_bytes: 36 };
        assert_eq!(csv([row].into_iter()), "layer,states,afterstates,terminal,index_bytes,value_bytes\n4,1234,9,0,16,36\n");
    }
}
