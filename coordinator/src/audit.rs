//! Which of the finished tasks in a store can be taken as finished.
//!
//! A record says what was done; whether its files are still what was written is another question, answered by hashing them. Not all of
//! them: working values are removed once nobody reads them, and what no unfinished task reads need not be sound. So the audit starts
//! from what must be sound (every published shard, and everything that a task which must run reads) and goes on from there: a file that
//! is not sound means that its task must run again, which has inputs of its own, and so on until nothing new turns up.
//!
//! ```text
//!     must run ──reads──▶ file ──sound?──▶ kept
//!        ▲                  │ no
//!        └── its producer ◀─┘
//! ```
//!
//! This file decides; `replay.rs` reads and hashes.

use crate::content::check_content;
use crate::plan::{Plan, TaskIndex};
use crate::record::{Commit, RECORD_FORMAT, artifact_of, artifact_of_input, named};
use crate::scheduler::Evidence;
use std::collections::{BTreeMap, BTreeSet};
use strata_games::{ArtifactId, ArtifactKind, TaskId};
use strata_storage::FileRecord;

/// A record that was not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// The task; it will run again.
    pub id: TaskId,
    /// Why, for people.
    pub why: String,
}

/// What an audit found.
#[derive(Clone, Default, Debug)]
pub struct Audited {
    /// The tasks that are finished.
    pub commits: BTreeMap<TaskIndex, Commit>,
    /// Those that were said to be, and are not.
    pub rejected: Vec<Rejection>,
    /// What is known of the files that will be made again.
    pub expected: BTreeMap<ArtifactId, Evidence>,
    /// The records of tasks that must run again because a file of theirs is damaged.
    pub former: BTreeMap<TaskIndex, Commit>,
}

enum Standing {
    /// No record.
    Unknown,
    /// Accepted so far.
    Accepted(Commit),
    /// The record is of no use, so neither are those of tasks that read what it made.
    Void,
    /// A file of it is damaged; what the record says remains true.
    Damaged(Commit),
    /// Who made it, or what, is not trusted: it is made again, and what others made of it stands if it comes out the same.
    Doubted,
}

/// An audit under way.
pub struct Audit<'p> {
    plan: &'p Plan,
    tasks: Vec<Standing>,
    rejected: Vec<Rejection>,
    to_ask: BTreeSet<ArtifactId>,
    asked: BTreeSet<ArtifactId>,
    /// Results were taken out of this build, now or before: lost ones may come out otherwise than they were read.
    had_doubts: bool,
}

impl<'p> Audit<'p> {
    /// Starts from the records found, judged by what they say.
    pub fn new(plan: &'p Plan, found: BTreeMap<TaskIndex, Commit>) -> Self {
        Self::with_doubts(plan, found, &BTreeSet::new(), false)
    }

    /// The same, where some of the finished tasks are not trusted, or were not before (`had_doubts`).
    pub fn with_doubts(
        plan: &'p Plan,
        mut found: BTreeMap<TaskIndex, Commit>,
        doubted: &BTreeSet<TaskIndex>,
        had_doubts: bool,
    ) -> Self {
        let mut audit = Audit {
            plan,
            tasks: Vec::new(),
            rejected: Vec::new(),
            to_ask: BTreeSet::new(),
            asked: BTreeSet::new(),
            had_doubts: had_doubts || !doubted.is_empty(),
        };
        for task in 0..plan.tasks.len() {
            let standing = match found.remove(&task) {
                _ if doubted.contains(&task) => Standing::Doubted,
                None => Standing::Unknown,
                Some(commit) => match audit.judge(task, &commit) {
                    Ok(()) => Standing::Accepted(commit),
                    Err(why) => {
                        audit.rejected.push(Rejection { id: plan.tasks[task].id, why });
                        Standing::Void
                    }
                },
            };
            audit.tasks.push(standing);
        }
        for task in 0..plan.tasks.len() {
            if matches!(audit.tasks[task], Standing::Accepted(_)) {
                audit.to_ask.extend(plan.tasks[task].plan.outputs.iter().filter(|output| output.kind == ArtifactKind::Shard));
            } else {
                audit.must_run(task);
            }
        }
        audit
    }

    /// Whether a record fits the plan and what its inputs' producers made. Those are judged before it.
    fn judge(&self, task: TaskIndex, commit: &Commit) -> Result<(), String> {
        let planned = &self.plan.tasks[task];
        if commit.format != RECORD_FORMAT || commit.table != self.plan.table || commit.id() != planned.id {
            return Err(format!("it is a record of task {} of {} in format {}", commit.id(), commit.table, commit.format));
        }
        check_content(self.plan, task, &commit.content)?;
        if !commit.inputs.iter().map(artifact_of_input).eq(planned.plan.inputs.iter().copied()) {
            return Err("it was made from other inputs than the plan says".into());
        }
        for input in &commit.inputs {
            let artifact = artifact_of_input(input);
            match self.plan.producer(artifact).and_then(|producer| self.tasks.get(producer)) {
                Some(Standing::Void) => return Err(format!("{}, which it was made from, is not accepted", named(artifact))),
                Some(Standing::Accepted(producer))
                    if output(producer, artifact).is_none_or(|file| file.blake3 != input.blake3) =>
                {
                    return Err(format!("{}, which it was made from, is another one now", named(artifact)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A task must run: what it reads must be sound.
    fn must_run(&mut self, task: TaskIndex) {
        let inputs = self.plan.tasks[task].plan.inputs.iter().copied();
        self.to_ask.extend(inputs.filter(|input| !self.asked.contains(input)));
    }

    /// The files whose content is to be looked at now. None: the audit is over.
    pub fn wanted(&mut self) -> Vec<FileRecord> {
        let asked = std::mem::take(&mut self.to_ask);
        let mut files = Vec::new();
        for artifact in asked {
            // A file whose producer must run anyway is made again, sound or not.
            if let Some(Standing::Accepted(commit)) = self.plan.producer(artifact).map(|producer| &self.tasks[producer])
                && self.asked.insert(artifact)
            {
                files.extend(output(commit, artifact).cloned());
            }
        }
        files
    }

    /// What was found of a file.
    pub fn answer(&mut self, file: &FileRecord, verdict: Result<(), String>) {
        let artifact = artifact_of(file);
        let (Err(why), Some(task)) = (verdict, self.plan.producer(artifact)) else { return };
        match std::mem::replace(&mut self.tasks[task], Standing::Void) {
            Standing::Accepted(commit) => {
                self.rejected.push(Rejection { id: commit.id(), why: format!("{}: {why}", file.path) });
                self.tasks[task] = Standing::Damaged(commit);
                self.must_run(task);
            }
            // A second damaged file of the same task.
            other => self.tasks[task] = other,
        }
    }

    /// The result.
    pub fn finish(self) -> Audited {
        let mut audited = Audited { rejected: self.rejected, ..Audited::default() };
        for standing in &self.tasks {
            let Standing::Accepted(commit) = standing else { continue };
            for input in &commit.inputs {
                let artifact = artifact_of_input(input);
                let made_again = self.plan.producer(artifact).is_some_and(|p| !matches!(self.tasks[p], Standing::Accepted(_)));
                if made_again {
                    let is_firm = !self.had_doubts;
                    let evidence = Evidence { blake3: input.blake3, worker: commit.worker.clone(), is_firm };
                    audited.expected.entry(artifact).or_insert(evidence);
                }
            }
        }
        for (task, standing) in self.tasks.into_iter().enumerate() {
            match standing {
                Standing::Accepted(commit) => drop(audited.commits.insert(task, commit)),
                Standing::Damaged(commit) => drop(audited.former.insert(task, commit)),
                _ => {}
            }
        }
        audited
    }
}

/// The paths of the files that stay: what accepted tasks made, but those of passing kinds only while a stage that is not stitched reads them.
pub fn files_to_keep(plan: &Plan, commits: &BTreeMap<TaskIndex, Commit>, stitched: &BTreeSet<u32>) -> BTreeSet<String> {
    let wanted = |file: &FileRecord| {
        let artifact = artifact_of(file);
        let open = |task: &TaskIndex| !stitched.contains(&plan.tasks[*task].id.stage);
        !artifact.kind.is_passing() || plan.readers(artifact).any(|task| open(&task))
    };
    commits
        .values()
        .flat_map(|commit| &commit.content.outputs)
        .filter(|file| wanted(file))
        .map(|file| file.path.clone())
        .collect()
}

fn output(commit: &Commit, artifact: ArtifactId) -> Option<&FileRecord> {
    commit.content.outputs.iter().find(|file| artifact_of(file) == artifact)
}
