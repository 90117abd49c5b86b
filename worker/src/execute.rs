//! Runs one task from its message to its outputs, and turns every way it can end into one of three.

use crate::control::Control;
use crate::convert;
use crate::error::{IoFault, panic_message};
use crate::file_io::FileIo;
use crate::run::Found;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use strata_games::{StateSpace, TableName, TaskError, TaskId, TaskPlan};
use strata_proto::v1;
use strata_proto::v1::fail_request::Reason;
use strata_storage::{FileRecord, TableDir};

/// What a finished task hands in.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) files: Vec<FileRecord>,
    pub(crate) counts: Vec<v1::LayerCounts>,
    pub(crate) stats: Vec<v1::LayerStats>,
    pub(crate) facts: Vec<v1::Fact>,
}

/// How a task ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Its outputs are durable.
    Finished(Output),
    /// It was told to stop, and did.
    Stopped,
    /// It failed.
    Failed { reason: Reason, message: String },
}

impl Ended {
    pub(crate) fn failed(reason: Reason, message: &str) -> Self {
        Ended::Failed { reason, message: message.to_owned() }
    }
}

/// A table that a worker has work for.
#[derive(Clone)]
struct OpenTable {
    space: Arc<dyn StateSpace>,
    dir: TableDir,
}

/// Gives the state space of a table.
pub(crate) type Games = Arc<dyn Fn(&TableName) -> Result<Arc<dyn StateSpace>, String> + Send + Sync>;

/// The games of this build.
pub(crate) fn all_games() -> Games {
    Arc::new(|name| strata_games::open(name).map(Arc::from).map_err(|error| error.to_string()))
}

/// The tables a worker opened last. Opening one computes its plan, so the last few are kept.
pub(crate) struct Tables {
    games: Games,
    opened: Mutex<Vec<(String, OpenTable)>>,
}

impl Tables {
    const KEPT: usize = 4;

    pub(crate) fn new(games: Games) -> Self {
        Self { games, opened: Mutex::default() }
    }

    /// Forgets them: they are somewhere else now.
    pub(crate) fn forget(&self) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn open(&self, name: &str, found: &Found) -> Result<OpenTable, String> {
        let mut tables = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = tables.iter().position(|(known, _)| known == name) {
            let table = tables.remove(at);
            let open = table.1.clone();
            tables.push(table);
            return Ok(open);
        }
        let parsed: TableName =
            name.parse().map_err(|error| format!("the coordinator names a table this build does not know: {error}"))?;
        let space = (self.games)(&parsed)?;
        let dir = (found.locate)(&parsed).open(found.shelf.as_ref()).map_err(|error| error.to_string())?;
        let open = OpenTable { space, dir };
        if tables.len() == Self::KEPT {
            tables.remove(0);
        }
        tables.push((name.to_owned(), open.clone()));
        Ok(open)
    }
}

/// One task to run.
pub(crate) struct Job {
    pub(crate) task: v1::Task,
    pub(crate) control: Arc<Control>,
    pub(crate) pool: Arc<rayon::ThreadPool>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) found: Found,
    pub(crate) memory_bytes: u64,
}

impl Job {
    /// Runs it. Never panics: panics of games and kernels become failures.
    pub(crate) fn run(&self) -> Ended {
        catch_unwind(AssertUnwindSafe(|| self.prepare_and_run())).unwrap_or_else(|panic| {
            let message =
                format!("task {}.{} of {}: {}", self.task.stage, self.task.part, self.task.table, panic_message(&*panic));
            Ended::failed(Reason::Error, &message)
        })
    }

    fn prepare_and_run(&self) -> Ended {
        let table = match self.tables.open(&self.task.table, &self.found) {
            Ok(table) => table,
            Err(why) => return Ended::failed(Reason::Error, &why),
        };
        let inputs: Result<Vec<FileRecord>, String> = self.task.inputs.iter().map(convert::from_message).collect();
        let inputs = match inputs {
            Ok(inputs) => inputs,
            Err(why) => return Ended::failed(Reason::BadInput, &why),
        };
        let id = TaskId { stage: self.task.stage, part: self.task.part };
        let known = usize::try_from(id.stage)
            .ok()
            .and_then(|stage| table.space.stages().get(stage))
            .is_some_and(|stage| id.part < stage.parts);
        if !known {
            return Ended::failed(
                Reason::Error,
                &format!("the plan of {} has no task {id}; is this the coordinator's build?", self.task.table),
            );
        }
        run_task(&*table.space, id, &table.dir, inputs, &self.control, &self.pool, self.memory_bytes)
    }
}

/// Runs one task of a plan over a directory, on the threads of `pool`.
pub(crate) fn run_task(
    space: &dyn StateSpace,
    id: TaskId,
    dir: &TableDir,
    inputs: Vec<FileRecord>,
    control: &Control,
    pool: &rayon::ThreadPool,
    memory_bytes: u64,
) -> Ended {
    let plan = space.task(id);
    let io = FileIo::new(space, dir, inputs, control, memory_bytes);
    let kernel = io.with_writers(|| pool.install(|| catch_unwind(AssertUnwindSafe(|| space.run(id, &io)))));
    // An error of a file explains whatever else happened, so it comes first.
    if let Some(fault) = io.first_fault() {
        return Ended::Failed { reason: fault.reason(dir.is_far()), message: format!("task {id} of {}: {fault}", space.name()) };
    }
    match kernel {
        Err(panic) => {
            let message = format!("task {id} of {}: the kernel panicked: {}", space.name(), panic_message(&*panic));
            Ended::Failed { reason: Reason::Error, message }
        }
        Ok(Err(TaskError::Stopped)) => Ended::Stopped,
        Ok(Err(TaskError::Io(error))) => {
            Ended::Failed { reason: Reason::Error, message: format!("task {id} of {}: {error}", space.name()) }
        }
        Ok(Ok(())) => match outputs_of(io, &plan) {
            Ok(output) => Ended::Finished(output),
            Err(fault) => {
                Ended::Failed { reason: fault.reason(dir.is_far()), message: format!("task {id} of {}: {fault}", space.name()) }
            }
        },
    }
}

/// What the task wrote, in the order of layer, shard and kind; it must be what the plan says.
fn outputs_of(io: FileIo<'_>, plan: &TaskPlan) -> Result<Output, IoFault> {
    let mut output = io.into_results();
    output.files.sort_by_key(|file| (file.layer, file.shard, file.kind));
    let mut written: Vec<_> = output.files.iter().map(convert::artifact_id).collect();
    let mut planned = plan.outputs.clone();
    written.sort_unstable();
    planned.sort_unstable();
    if let Some(missing) = planned.iter().find(|&id| written.binary_search(id).is_err()) {
        return Err(IoFault::Plan(format!("it did not write {missing:?}")));
    }
    if written != planned {
        return Err(IoFault::Plan("it wrote a file twice".into()));
    }
    Ok(output)
}

#[cfg(test)]
mod tests;
