//! `strata invalidate`: makes again what a worker has made.

use crate::cluster::client::ConnectArgs;
use crate::failure::Failure;
use crate::output::{self, shell_quote};
use crate::units;
use serde::Serialize;
use std::path::{Path, PathBuf};
use strata_coordinator::{InvalidateError, Made};
use strata_games::TableName;
use strata_proto::v1::{ArtifactKind, InvalidateRequest, MadeTask};
use strata_storage::FileKind;

/// Of which worker, and in which builds.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata invalidate --built-by node3-4711 --dry-run      what it has made in the builds of the coordinator
  strata invalidate --built-by node3-4711 2048-3x3       make all of that again in one of them
  strata invalidate --built-by node3-4711 tables/2048-3x3    in a directory that nobody builds in

For a machine that turns out to be broken. What others have made from its results stands where those come out the same, and is made again
too where they do not. The worker itself goes on if it is there: `strata drain` it first. A complete table does not say any more who
made what: `strata verify --level bellman` recomputes its values.")]
pub struct Args {
    /// Name of the worker, as `strata status` has it
    #[arg(long, value_name = "WORKER")]
    built_by: String,
    /// Names of tables, or directories of builds that are at rest [default: all builds of the coordinator]
    #[arg(value_name = "NAME|DIR")]
    what: Vec<String>,
    /// Say what would be made again, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Task {
    table: String,
    task: String,
    files: Vec<String>,
}

#[derive(Serialize)]
struct Shown<'a> {
    worker: &'a str,
    dry_run: bool,
    tasks: Vec<Task>,
}

/// Asks for it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (tables, folders): (Vec<&String>, Vec<&String>) = args.what.iter().partition(|what| what.parse::<TableName>().is_ok());
    let runtime = crate::runtime()?;
    let mut tasks = Vec::new();
    if folders.is_empty() || !tables.is_empty() {
        let tables = tables.into_iter().cloned().collect();
        tasks.extend(runtime.block_on(of_coordinator(args, tables))?);
    }
    for folder in folders {
        tasks.extend(runtime.block_on(of_folder(args, Path::new(folder)))?);
    }
    if args.json {
        return output::json(&Shown { worker: &args.built_by, dry_run: args.dry_run, tasks });
    }
    let rows = tasks.iter().map(|task| vec![task.table.clone(), task.task.clone(), some(&task.files)]);
    let mut text = output::table(&["table", "task", "files"], 3, rows);
    let count = units::plural(tasks.len() as u64, "task");
    text.push_str(&match (tasks.is_empty(), args.dry_run) {
        (true, _) => format!(
            "no finished task of an unfinished build was made by a worker {}; of complete tables nobody knows\n",
            shell_quote(&args.built_by)
        ),
        (false, true) => format!("{count} would be made again\n"),
        (false, false) => format!("{count} will be made again\n"),
    });
    output::result(&text)
}

/// The first few names, and how many others there are. JSON has them all.
fn some(files: &[String]) -> String {
    const SHOWN: usize = 3;
    let first = files.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(SHOWN) {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}

async fn of_coordinator(args: &Args, tables: Vec<String>) -> Result<Vec<Task>, Failure> {
    let request = InvalidateRequest { worker: args.built_by.clone(), tables, dry_run: args.dry_run };
    let jobs = args.connect.jobs().await?;
    let mut made = jobs.call(|mut jobs| async move { jobs.invalidate(request).await }).await?;
    let mut tasks = Vec::new();
    while let Some(MadeTask { table, stage, part, files }) = made.message().await.map_err(|status| jobs.failed(&status))? {
        let files = files.iter().map(|file| named(kind_of(file.kind()), file.layer, file.shard));
        tasks.push(Task { table, task: format!("{stage}.{part}"), files: files.collect() });
    }
    Ok(tasks)
}

async fn of_folder(args: &Args, folder: &Path) -> Result<Vec<Task>, Failure> {
    let shown = shell_quote(&folder.to_string_lossy()).into_owned();
    if !folder.is_dir() {
        return Err(Failure::usage(format!("{shown} is neither the name of a table nor a directory"))
            .help("`strata status` lists what the coordinator builds; `strata --help` shows the names of tables"));
    }
    if folder.join("table.json").exists() {
        return Err(Failure::failed(format!("{shown} is a complete table, and nothing says any more who made what of it")).help(
            "`strata verify --level bellman` recomputes its values; if it finds damage, remove the table and build it anew",
        ));
    }
    let (table, made) =
        strata_coordinator::invalidate(&PathBuf::from(folder), &args.built_by, args.dry_run).await.map_err(|error| {
            let failure = Failure::failed(format!("{shown}: {error}"));
            match error {
                InvalidateError::NoBuild => failure.help("name the directory of a build that is not finished"),
                InvalidateError::Store(_) => failure.help("while somebody builds there, name the table and not its directory"),
                _ => failure,
            }
        })?;
    let task = |Made { task, files }: Made| {
        let files = files.iter().map(|file| named(file.kind, file.layer, file.shard));
        Task { table: table.clone(), task: task.to_string(), files: files.collect() }
    };
    Ok(made.into_iter().map(task).collect())
}

fn kind_of(kind: ArtifactKind) -> FileKind {
    match kind {
        ArtifactKind::Index => FileKind::Index,
        ArtifactKind::Work => FileKind::Work,
        ArtifactKind::Checkpoint => FileKind::Checkpoint,
        ArtifactKind::Stretch => FileKind::Stretch,
        ArtifactKind::Partial => FileKind::Partial,
        ArtifactKind::Shard | ArtifactKind::Unspecified => FileKind::Shard,
    }
}

fn named(kind: FileKind, layer: u32, shard: u32) -> String {
    let kind = match kind {
        FileKind::Index => "index",
        FileKind::Work => "work",
        FileKind::Shard => "shard",
        FileKind::Checkpoint => "checkpoint",
        FileKind::Stretch => "stretch",
        FileKind::Partial => "partial",
    };
    format!("{kind} {layer}/{shard}")
}
