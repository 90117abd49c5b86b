//! What is looked at before a build starts: the directory, the disk, the memory. Nothing is written until all of it is in order.

use crate::failure::{FAILED, Failure, USAGE};
use crate::forecast::Forecast;
use crate::output::{self, shell_quote};
use crate::predict::{disk, positions};
use crate::resources;
use crate::table;
use crate::units;
use std::io::ErrorKind;
use std::path::Path;
use strata_games::{Keep, TableName};
use strata_storage::{Manifest, Table, TableDir};

/// What the directory holds.
pub enum Found {
    /// Nothing, or nothing yet of the table.
    Nothing,
    /// A part of this table, from a build that was begun under this name.
    Part(TableName),
    /// All of it.
    Complete(Box<Manifest>),
}

/// Looks at the directory. All that may change is that what a build left which was killed after it had published goes.
pub async fn directory(dir: &Path, name: &TableName) -> Result<Found, Failure> {
    let shown = shell_quote(&dir.to_string_lossy()).into_owned();
    let other = "choose another directory with --out";
    match std::fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(Failure::failed(format!("{shown} is a file, and a table is a directory")).help(other)),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) if e.kind() == ErrorKind::NotADirectory => {
            return Err(Failure::failed(format!("{shown} cannot be a directory: a part of its path is a file")).help(other));
        }
        Err(e) if e.kind() == ErrorKind::InvalidFilename => {
            return Err(Failure::failed(format!("the name {shown} is too long for this file system")).help(other));
        }
        Err(e) => return Err(Failure::failed(format!("cannot look at {shown}: {e}")).help(other)),
    }
    let store = |e: strata_storage::StoreError| Failure::failed(e.to_string());
    let files = TableDir::open(dir).map_err(store)?;
    let foreign = files.foreign_files().map_err(store)?;
    if !foreign.is_empty() {
        return Err(Failure::failed(format!("{shown} holds files that are no part of a table: {}", list(&foreign)))
            .help("move them away, or choose another directory with --out; nothing was changed"));
    }
    let another = |there: &str| {
        Failure::failed(format!("{shown} holds the table {there}, not {}", name.published()))
            .help("give each table a directory of its own with --out")
    };
    if files.get("table.json").await.map_err(store)?.is_some() {
        let table = table::open_files(dir).map_err(|e| e.into_failure(dir))?;
        let manifest = table.manifest().clone();
        return match manifest.table.parse::<TableName>() {
            Ok(there) if there == name.published() => {
                tidy(&files);
                Ok(Found::Complete(Box::new(manifest)))
            }
            _ => Err(another(&manifest.table)),
        };
    }
    let Some(job) = files.get("build/job.json").await.map_err(store)? else { return Ok(Found::Nothing) };
    match serde_json::from_slice::<serde_json::Value>(&job).ok().as_ref().and_then(|job| job.get("table")?.as_str()) {
        Some(there) => match there.parse::<TableName>() {
            // Another stretch, or other parts, are another way to the same table; a build that is under way keeps to its own.
            Ok(begun) if begun.published() == name.published() => Ok(Found::Part(begun)),
            _ => Err(another(there)),
        },
        None => Ok(Found::Part(name.clone())), // the coordinator judges it
    }
}

/// Removes what only building needed from a table that is complete. It is complete with or without it, so a failure is only told.
fn tidy(files: &TableDir) {
    if !files.path("build").exists() {
        return;
    }
    // Whoever has the lock is tidying up already.
    let Ok(lock) = files.lock() else { return };
    if let Err(e) = files.clean_tmp().and_then(|()| files.remove_build()) {
        output::note(&format!("note: what the build left cannot be removed: {}", crate::failure::chain(&e)));
    }
    drop(lock);
}

/// At most five names.
fn list(names: &[String]) -> String {
    let shown = names.iter().take(5).map(|n| shell_quote(n)).collect::<Vec<_>>().join(", ");
    if names.len() > 5 { format!("{shown} and {} more", names.len() - 5) } else { shown }
}

/// Memory for each worker.
pub fn memory(given: Option<u64>, workers: u64, plan: &Forecast, name: &TableName) -> Result<u64, Failure> {
    let all = resources::memory(given);
    let each = all / workers;
    if each >= plan.estimate.memory_bytes {
        return Ok(each);
    }
    let needed = plan.estimate.memory_bytes.saturating_mul(workers);
    let rounded = needed.div_ceil(1 << 20);
    let (code, what) = match given {
        Some(size) => (USAGE, format!("--memory {} is too little", units::bytes(size))),
        None => (FAILED, format!("three quarters of the free memory, {}, are too little", units::bytes(all))),
    };
    let among = if workers == 1 { String::new() } else { format!(" and is shared by {workers} workers") };
    let message = format!("{what}: the largest task of {name} needs {}{among}", units::bytes(plan.estimate.memory_bytes));
    let fewer = if workers == 1 { "" } else { ", or use fewer workers with --workers" };
    Err(Failure { code, message, help: Some(format!("give at least --memory {rounded}MiB{fewer}")) })
}

/// Says what the build will need, and refuses it when the disk is certainly too small.
pub fn needs(dir: &Path, plan: &Forecast, name: &TableName, memory: u64, crew: &str) -> Result<(), Failure> {
    let estimate = &plan.estimate;
    let free = resources::free_disk(dir);
    let free_text = free.map_or_else(String::new, |f| format!("; {} are free", units::bytes(f)));
    let (layers, tasks) = (units::plural(estimate.layers, "layer"), units::plural(estimate.tasks, "task"));
    let stored = if name.keep() == Keep::Values { "stored positions" } else { "positions to go through" };
    output::note(&format!("{name}: {layers}, {} {stored}, {tasks}", positions(estimate.keys)));
    output::note(&format!("  disk    {}{free_text}", disk(plan)));
    let largest = units::bytes(estimate.memory_bytes);
    output::note(&format!("  memory  {largest} for the largest task; {crew} may use {}", units::bytes(memory)));
    if let Some(free) = free
        && let Some(doubt) = disk_holds(plan, resources::used_by(dir), free)?
    {
        output::note(&format!("note: {doubt}"));
    }
    Ok(())
}

/// Refuses what certainly does not fit on the disk, and has a sentence for what may not. `there` are the bytes written already.
fn disk_holds(plan: &Forecast, there: u64, free: u64) -> Result<Option<&'static str>, Failure> {
    let missing = |all: u64| Some(all.saturating_sub(there)).filter(|&missing| missing > free);
    if let Some(missing) = missing(plan.certain_bytes) {
        let (missing, free) = (units::bytes(missing), units::bytes(free));
        return Err(Failure::failed(format!("the disk is too small: the build needs about {missing} more, and {free} are free"))
            .help("make room, or choose a directory on a larger disk with --out"));
    }
    let doubt = "the disk may be too small; should it fill up, the build stops, and goes on when there is room";
    Ok(missing(plan.estimate.disk_bytes).map(|_| doubt))
}

/// Makes the directory, so that what is wrong with its place is said before any work is done.
pub fn create(dir: &Path) -> Result<(), Failure> {
    TableDir::open(dir).map(|_| ()).map_err(|e| Failure::failed(e.to_string()).help("choose another directory with --out"))
}

/// Whether a table was opened whose facts can be printed.
pub fn finished(dir: &Path) -> Result<Table, Failure> {
    table::open_files(dir).map_err(|e| e.into_failure(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(certain_bytes: u64, disk_bytes: u64) -> Forecast {
        let space = strata_games::open(&name()).unwrap();
        let mut plan = crate::forecast::forecast(space.as_ref(), None);
        (plan.certain_bytes, plan.estimate.disk_bytes, plan.estimate.memory_bytes) = (certain_bytes, disk_bytes, 64 << 20);
        plan
    }

    fn name() -> TableName {
        "2048-3x3".parse().unwrap()
    }

    #[test]
    fn too_little_memory_is_refused_with_the_size_that_would_do() {
        let failure = memory(Some(1024), 1, &plan(0, 0), &name()).unwrap_err();
        assert_eq!(failure.code, 2);
        assert!(failure.message.contains("1 KiB is too little") && failure.message.contains("64 MiB"), "{}", failure.message);
        assert_eq!(failure.help.as_deref(), Some("give at least --memory 64MiB"));
        let failure = memory(Some(64 << 20), 3, &plan(0, 0), &name()).unwrap_err();
        assert_eq!(failure.help.as_deref(), Some("give at least --memory 192MiB, or use fewer workers with --workers"));
        assert_eq!(memory(Some(192 << 20), 3, &plan(0, 0), &name()).unwrap(), 64 << 20);
    }

    #[test]
    fn a_disk_that_is_certainly_too_small_is_refused_and_a_doubtful_one_is_not() {
        const GIB: u64 = 1 << 30;
        let failure = disk_holds(&plan(8 * GIB, 8 * GIB), GIB, 2 * GIB).unwrap_err();
        assert_eq!(failure.code, 1);
        assert!(failure.message.contains("7 GiB more") && failure.message.contains("2 GiB are free"), "{}", failure.message);
        assert!(disk_holds(&plan(0, 8 * GIB), GIB, 2 * GIB).unwrap().is_some(), "an upper bound only warns");
        assert!(disk_holds(&plan(8 * GIB, 8 * GIB), GIB, 7 * GIB).unwrap().is_none(), "what is there counts");
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..7).map(|i| format!("f{i}")).collect();
        assert_eq!(list(&names), "f0, f1, f2, f3, f4 and 2 more");
    }
}
