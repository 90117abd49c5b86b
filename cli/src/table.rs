//! Opening a finished table, and the facts that several verbs print about it.

use crate::args::open_space;
use crate::failure::{Failure, chain};
use crate::output;
use crate::units;
use serde::Serialize;
use std::path::Path;
use strata_games::{Keep, StateSpace, TableName};
use strata_storage::{Manifest, Table, TableError};

/// A finished table and its rules.
pub struct Opened {
    /// The files.
    pub table: Table,
    /// The rules.
    pub space: Box<dyn StateSpace>,
}

/// Why a table cannot be opened.
pub enum OpenError {
    /// It is there, and broken.
    Damaged(String),
    /// There is none, or it cannot be read.
    Other(Failure),
}

impl OpenError {
    /// For verbs to which both are the same.
    pub fn into_failure(self, dir: &Path) -> Failure {
        match self {
            OpenError::Damaged(what) => Failure::failed(format!("the table is damaged: {what}"))
                .help(format!("`strata verify {}` names all that is damaged", output::shell_quote(&dir.to_string_lossy()))),
            OpenError::Other(failure) => failure,
        }
    }
}

/// Opens a table and its rules.
pub fn open(dir: &Path) -> Result<Opened, OpenError> {
    let table = open_files(dir)?;
    let space = space_of(table.manifest())?;
    Ok(Opened { table, space })
}

/// The rules of the table that a manifest describes.
pub fn space_of(manifest: &Manifest) -> Result<Box<dyn StateSpace>, OpenError> {
    let name: TableName =
        manifest.table.parse().map_err(|e: strata_games::NameError| OpenError::Damaged(format!("table.json: {e}")))?;
    open_space(&name).map_err(OpenError::Other)
}

/// Opens the files of a table.
pub fn open_files(dir: &Path) -> Result<Table, OpenError> {
    let quoted = output::shell_quote(&dir.to_string_lossy()).into_owned();
    let build = "build one with `strata build NAME --out DIR`";
    match std::fs::metadata(dir) {
        Ok(meta) if !meta.is_dir() => {
            return Err(OpenError::Other(
                Failure::failed(format!("{quoted} is not a directory")).help("name the directory of a table"),
            ));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(OpenError::Other(Failure::failed(format!("there is no directory {quoted}")).help(build)));
        }
        Err(e) => return Err(OpenError::Other(Failure::failed(format!("cannot read {quoted}: {e}")))),
        Ok(_) => {}
    }
    Table::map(dir).map_err(|e| match e {
        TableError::Manifest { .. } => OpenError::Damaged(chain(&e)),
        TableError::NotATable { .. } => OpenError::Other(Failure::failed(e.to_string()).help(build)),
        _ => OpenError::Other(Failure::failed(chain(&e))),
    })
}

/// The facts of a finished table.
#[derive(Serialize, Clone, Debug)]
pub struct Summary {
    /// Its name.
    pub table: String,
    /// The hash that stands for all of it.
    pub root: String,
    /// Positions with the player to act.
    pub states: u64,
    /// Positions after the move, before chance.
    pub afterstates: u64,
    /// Number of layers.
    pub layers: u64,
    /// Value over the random start.
    pub value: Option<f64>,
    /// How far a published value can be from the value that was computed.
    pub error_bound: f64,
    /// Bytes of the shards.
    pub bytes: u64,
    /// Bits of the index for each stored position; absent where none are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_bits_per_key: Option<f64>,
}

/// How much of what was computed a table has.
pub fn keep(manifest: &Manifest) -> Keep {
    manifest.table.parse().map_or(Keep::Values, |name: TableName| name.keep())
}

/// Bits for each stored position; `None` where none are kept.
pub fn bits_per_key(manifest: &Manifest, bytes: u64) -> Option<f64> {
    keep(manifest).has_positions().then(|| bytes as f64 * 8.0 / manifest.keys.max(1) as f64)
}

impl Summary {
    /// From the manifest.
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            table: manifest.table.clone(),
            root: manifest.root.to_string(),
            states: manifest.states,
            afterstates: manifest.afterstates,
            layers: manifest.layers.len() as u64,
            value: manifest.facts.get("value").copied(),
            error_bound: manifest.error_bounds.first().copied().unwrap_or(0.0),
            bytes: manifest.bytes,
            index_bits_per_key: bits_per_key(manifest, manifest.index_bytes),
        }
    }

    /// For people: names and values.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("table", self.table.clone()),
            ("root", self.root.clone()),
            ("layers", units::count(self.layers)),
            ("states", units::count(self.states)),
        ];
        if self.afterstates > 0 {
            rows.push(("afterstates", units::count(self.afterstates)));
        }
        if let Some(value) = self.value {
            let start = match self.table.parse() {
                Ok(TableName::Bearoff(_) | TableName::TwoSided(_)) => "at the start",
                _ => "over the random start",
            };
            let bound = units::bound(self.error_bound);
            let off = match self.table.parse().map(|name: TableName| name.keep()) {
                Ok(Keep::Play) => String::new(),
                _ => format!("; published values are off by at most {bound}"),
            };
            rows.push(("value", format!("{value} {start}{off}")));
        }
        rows.push(("size", format!("{} ({} bytes)", units::bytes(self.bytes), units::count(self.bytes))));
        rows
    }
}
