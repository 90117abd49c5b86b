//! Storms of events, seeded: workers that die, answer late, twice or in the wrong order, records that cannot be written, coordinators
//! killed at any moment, files that vanish. Whatever the order, the invariants at the head of the scheduler hold and the plan ends.

use super::*;
use crate::audit::{Audit, files_to_keep};
use crate::plan::Plan;
use crate::testing::{FakeSpace, content_of};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use strata_proto::v1::fail_request::Reason;

const POLICY: Policy = Policy { lease: Duration::from_secs(30), max_failures: 3, checks_percent: 0 };

/// What survives a kill.
#[derive(Default)]
struct Store {
    commits: BTreeMap<TaskIndex, Commit>,
    stages: BTreeSet<u32>,
    files: BTreeSet<ArtifactId>,
}

struct World {
    plan: Arc<Plan>,
    rng: StdRng,
    now: Duration,
    epoch: u32,
    store: Store,
    scheduler: Scheduler,
    /// What each worker thinks it is doing.
    busy: Vec<Option<Assignment>>,
    /// Results that are still somewhere in the network, or will be sent again.
    late: Vec<(Assignment, String)>,
    /// Records and stages that the coordinator is writing just now.
    writing: Vec<Arc<Commit>>,
    stitching: Vec<u32>,
    highest_token: u64,
    runs: u64,
    /// Steps at which some task had two workers.
    copies: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let space = FakeSpace::new("2048-2x2", rng.random_range(1..6), rng.random_range(1..4), rng.random_range(1..3));
        let plan = Arc::new(Plan::of(&space).unwrap());
        let scheduler = Scheduler::new(Arc::clone(&plan), POLICY, Restored { epoch: 1, ..Restored::default() });
        World {
            plan,
            rng,
            now: Duration::ZERO,
            epoch: 1,
            store: Store::default(),
            scheduler,
            busy: vec![None; 3],
            late: Vec::new(),
            writing: Vec::new(),
            stitching: Vec::new(),
            highest_token: 0,
            copies: 0,
            runs: 0,
        }
    }

    fn worker(at: usize) -> Worker {
        Worker { id: at as u64, name: format!("worker-{at}"), memory_bytes: 2000 }
    }

    fn lease(&mut self, at: usize) {
        let others: Vec<Worker> = (0..self.busy.len()).filter(|&other| other != at).map(Self::worker).collect();
        let given = self.scheduler.lease_among(self.now, &Self::worker(at), &others);
        let Some(assignment) = given.or_else(|| self.scheduler.lease_copy(self.now, &Self::worker(at))) else { return };
        assert!(assignment.token > self.highest_token, "tokens strictly increase");
        self.highest_token = assignment.token;
        let task = self.plan.index_of(assignment.id).unwrap();
        assert!(!self.store.commits.contains_key(&task), "{} is finished and durable, yet given out", assignment.id);
        for (input, file) in self.plan.tasks[task].plan.inputs.iter().zip(&assignment.inputs) {
            assert_eq!(artifact_of(file), *input);
            assert!(self.store.files.contains(input), "{} was given out, but {input:?} is gone", assignment.id);
        }
        for &before in &self.plan.stages[assignment.id.stage as usize].after {
            assert!(self.store.stages.contains(&before), "{} was given out before stage {before} was stitched", assignment.id);
        }
        self.runs += 1;
        self.busy[at] = Some(assignment);
    }

    /// A worker has written its files and sends its result; which may be lost, or sent twice.
    fn complete(&mut self, at: usize) {
        let Some(assignment) = self.busy[at].take() else { return };
        let task = self.plan.index_of(assignment.id).unwrap();
        let is_heard = self.rng.random_bool(0.8);
        // What a worker writes that is too late to matter, and dies before it says so, goes when the table is published.
        if is_heard || !self.store.commits.contains_key(&task) {
            self.store.files.extend(&self.plan.tasks[task].plan.outputs);
        }
        let result = (assignment, Self::worker(at).name);
        if self.rng.random_bool(0.3) {
            self.late.push(result.clone());
        }
        if is_heard {
            self.deliver(&result);
        }
    }

    fn deliver(&mut self, (assignment, worker): &(Assignment, String)) {
        let task = self.plan.index_of(assignment.id).unwrap();
        let durable = self.store.commits.contains_key(&task);
        let elapsed = self.rng.random_range(1..6000);
        match self.scheduler.offer(self.now, assignment.id, assignment.token, worker, &content_of(&self.plan, task), elapsed) {
            Offer::Commit(commit) => {
                assert!(!durable, "a finished task took a second result");
                assert_eq!(commit.token, assignment.token);
                self.writing.push(commit);
            }
            Offer::AlreadyDone => {
                assert!(durable, "a worker was told that {} is done, but no record is durable", assignment.id);
                for file in self.scheduler.leftovers(assignment.id, &content_of(&self.plan, task).outputs) {
                    self.store.files.remove(&artifact_of(&file));
                }
            }
            Offer::Pending => assert!(self.writing.iter().any(|commit| commit.id() == assignment.id)),
            Offer::Stale => assert!(!durable),
            Offer::Doubt(message) | Offer::Conflict(message) => panic!("equal results conflict: {message}"),
        }
    }

    fn fail(&mut self, at: usize) {
        let Some(assignment) = self.busy[at].take() else { return };
        let reasons = [Reason::Error, Reason::DiskFull, Reason::Leaving, Reason::BadInput];
        let reason = *reasons.choose(&mut self.rng).unwrap();
        if let FailAction::CheckInputs(task) = self.scheduler.fail(assignment.id, assignment.token, reason, "it broke") {
            self.scheduler.inputs_are_sound(task, "worker", "it broke");
        }
    }

    /// One of the records under way becomes durable, or cannot be written.
    fn write(&mut self) {
        if self.writing.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.writing.len());
        let commit = self.writing.swap_remove(at);
        if self.rng.random_bool(0.1) {
            let failure = CommitFailure { disk_full: self.rng.random(), message: "no space".into() };
            self.scheduler.commit_failed(self.now, commit.id(), &failure);
            return;
        }
        self.store.commits.insert(self.plan.index_of(commit.id()).unwrap(), Commit::clone(&commit));
        self.scheduler.committed(commit.id());
    }

    fn stitch(&mut self) {
        if let Some(job) = self.scheduler.next_stitch() {
            assert_eq!(job.commits.len(), self.plan.stages[job.stage as usize].tasks.len());
            self.stitching.push(job.stage);
        } else if !self.stitching.is_empty() {
            let at = self.rng.random_range(0..self.stitching.len());
            let stage = self.stitching.swap_remove(at);
            if self.rng.random_bool(0.1) {
                self.scheduler.stitch_failed(stage, true, "no space".into());
                return;
            }
            self.store.stages.insert(stage);
            for file in self.scheduler.stitched(stage) {
                self.store.files.remove(&artifact_of(&file));
            }
        }
    }

    /// Kill -9 of the coordinator, and a new one on the same store. Says how many tasks the store had lost.
    fn crash(&mut self) -> usize {
        for commit in std::mem::take(&mut self.writing) {
            if self.rng.random() {
                self.store.commits.insert(self.plan.index_of(commit.id()).unwrap(), Commit::clone(&commit));
            }
        }
        for stage in std::mem::take(&mut self.stitching) {
            if self.rng.random() {
                self.store.stages.insert(stage);
            }
        }
        let plan = Arc::clone(&self.plan);
        let mut audit = Audit::new(&plan, self.store.commits.clone());
        loop {
            let files = audit.wanted();
            if files.is_empty() {
                break;
            }
            for file in files {
                let sound = self.store.files.contains(&artifact_of(&file));
                audit.answer(&file, if sound { Ok(()) } else { Err("missing".into()) });
            }
        }
        let audited = audit.finish();
        self.store.commits = audited.commits.clone();
        let whole = |stage: &u32| plan.stages[*stage as usize].tasks.clone().all(|task| audited.commits.contains_key(&task));
        self.store.stages.retain(whole);
        let keep = files_to_keep(&plan, &audited.commits, &self.store.stages);
        let made = |artifact: &ArtifactId| crate::testing::file_of(*artifact, &crate::testing::bytes_of(&plan.table, *artifact));
        self.store.files.retain(|artifact| keep.contains(&made(artifact).path));
        self.epoch += 1;
        let stitched = self.store.stages.clone();
        let (commits, expected) = (audited.commits, audited.expected);
        let restored = Restored { epoch: self.epoch, commits, stitched, expected, ..Restored::default() };
        self.scheduler = Scheduler::new(plan, POLICY, restored);
        audited.rejected.len()
    }

    fn step(&mut self) {
        let at = self.rng.random_range(0..self.busy.len());
        match self.rng.random_range(0..100) {
            0..30 if self.busy[at].is_none() => self.lease(at),
            0..30 => {
                let assignment = self.busy[at].clone().unwrap();
                let layer = self.rng.random_range(0..20);
                if !self.scheduler.heartbeat(self.now, assignment.id, assignment.token, 3, layer) {
                    self.busy[at] = None;
                }
            }
            30..55 => self.complete(at),
            55..70 => self.write(),
            70..85 => self.stitch(),
            85..89 => {
                let result = self.late.choose(&mut self.rng).cloned();
                result.into_iter().for_each(|result| self.deliver(&result));
            }
            89..91 => self.fail(at),
            // The worker is killed: nobody hears of it.
            91..93 => self.busy[at] = None,
            93..96 => {
                self.now += Duration::from_secs(self.rng.random_range(1..20));
                self.scheduler.expire(self.now);
            }
            96..97 => self.scheduler.pause(PauseCause::Asked, "asked to".into()),
            _ => self.scheduler.resume(),
        }
        let progress = self.scheduler.progress();
        assert!(progress.tasks_done <= progress.tasks && progress.cost_done <= progress.cost);
        let leases = self.scheduler.leases.values();
        let holders: BTreeSet<(TaskIndex, u64)> = leases.clone().map(|lease| (lease.task, lease.worker.id)).collect();
        let tasks: BTreeSet<TaskIndex> = leases.map(|lease| lease.task).collect();
        assert!(tasks.iter().all(|&task| holders.range((task, 0)..=(task, u64::MAX)).count() <= 2), "a third copy of a task");
        self.copies += u64::from(tasks.len() < self.scheduler.leases.len());
    }

    fn check_end(&self) {
        for (artifact, _) in self.plan.artifacts() {
            let there = self.store.files.contains(&artifact);
            match artifact.kind {
                strata_games::ArtifactKind::Shard => assert!(there, "{artifact:?} is missing from a finished table"),
                strata_games::ArtifactKind::Index => {}
                _ => assert!(!there, "{artifact:?} was not removed"),
            }
        }
        assert_eq!(self.store.commits.len(), self.plan.tasks.len());
        assert_eq!(self.scheduler.progress().cost_done, self.plan.cost);
    }
}

const STEPS: usize = 200_000;

#[test]
fn every_storm_of_events_ends_with_a_finished_table() {
    let mut copies = 0;
    for seed in 0..1000 {
        let mut world = World::new(seed);
        let end = (0..STEPS).find(|_| {
            world.step();
            world.scheduler.is_finished()
        });
        assert!(end.is_some(), "seed {seed} does not end");
        world.check_end();
        copies += world.copies;
    }
    assert!(copies > 1000, "hardly a task had two workers");
}

#[test]
fn a_coordinator_killed_at_any_moment_loses_no_finished_task() {
    for seed in 0..1000 {
        let mut world = World::new(seed);
        let mut crashes = 0;
        let end = (0..STEPS).find(|_| {
            world.step();
            if world.rng.random_bool(0.02) {
                crashes += 1;
                assert_eq!(world.crash(), 0, "seed {seed}: a sound store was not accepted whole");
            }
            world.scheduler.is_finished()
        });
        assert!(end.is_some(), "seed {seed} does not end after {crashes} crashes");
        assert_eq!(world.crash(), 0);
        assert!(world.scheduler.is_finished(), "seed {seed}: a finished job is finished when it is read again");
        world.check_end();
    }
}

#[test]
fn files_that_vanish_are_made_again_with_all_that_they_need() {
    let mut rejected = 0;
    for seed in 0..1000 {
        let mut world = World::new(seed);
        let end = (0..STEPS).find(|_| {
            world.step();
            if world.rng.random_bool(0.01) {
                let files: Vec<ArtifactId> = world.store.files.iter().copied().collect();
                if let Some(lost) = files.choose(&mut world.rng) {
                    world.store.files.remove(lost);
                }
                // Workers that run on are the other storms' matter; here they would write the lost file again behind our back.
                world.busy.fill(None);
                world.late.clear();
                rejected += world.crash();
            }
            world.scheduler.is_finished()
        });
        assert!(end.is_some(), "seed {seed} does not end");
        world.check_end();
    }
    assert!(rejected > 100, "the storm did no damage");
}

#[test]
fn two_different_results_are_held_until_the_store_is_read_without_them_and_both_workers_are_named() {
    let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 2, 2, 1)).unwrap());
    for durable in [false, true] {
        let mut scheduler = Scheduler::new(Arc::clone(&plan), POLICY, Restored { epoch: 1, ..Restored::default() });
        let first = scheduler.lease(Duration::ZERO, &World::worker(1)).unwrap();
        assert_eq!(scheduler.expire(POLICY.lease), 1);
        let second = scheduler.lease(POLICY.lease, &World::worker(2)).unwrap();
        assert_eq!((second.id, second.attempt), (first.id, 2));
        let content = content_of(&plan, 0);
        let Offer::Commit(_) = scheduler.offer(POLICY.lease, second.id, second.token, "worker-2", &content, 1) else { panic!() };
        assert!(scheduler.heartbeat(POLICY.lease, second.id, second.token, 1, 4), "its result is just being recorded");
        assert!(!scheduler.heartbeat(POLICY.lease, first.id, first.token, 1, 4));
        if durable {
            scheduler.committed(second.id);
        }
        let mut other = content.clone();
        other.counts[0].states += 1;
        let Offer::Doubt(message) = scheduler.offer(POLICY.lease, first.id, first.token, "worker-1", &other, 1) else { panic!() };
        assert!(message.contains("worker-1") && message.contains("worker-2") && message.contains("0.0"), "{message}");
        assert!(scheduler.wants_recheck());
        assert_eq!(scheduler.lease(POLICY.lease, &World::worker(3)), None, "nothing is built on either");
        let heard: Vec<&str> = scheduler.doubts().open[0].opinions.iter().map(|opinion| opinion.worker.as_str()).collect();
        assert_eq!(heard, ["worker-2", "worker-1"]);
    }
}

#[test]
fn a_file_made_again_must_have_the_hash_that_others_were_made_from() {
    let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 2, 1, 1)).unwrap());
    let output = plan.tasks[0].plan.outputs[0];
    let evidence =
        Evidence { blake3: Digest::blake3(b"something else"), worker: "the worker of yesterday".into(), is_firm: true };
    let restored = Restored { epoch: 1, expected: BTreeMap::from([(output, evidence)]), ..Restored::default() };
    let mut scheduler = Scheduler::new(Arc::clone(&plan), POLICY, restored);
    let given = scheduler.lease(Duration::ZERO, &World::worker(1)).unwrap();
    let offer = scheduler.offer(Duration::ZERO, given.id, given.token, "worker-1", &content_of(&plan, 0), 1);
    let Offer::Conflict(message) = offer else { panic!("{offer:?}") };
    assert!(message.contains("the worker of yesterday") && message.contains("worker-1"), "{message}");
}

#[test]
fn a_task_that_keeps_failing_pauses_the_job_and_a_resume_gives_it_new_tries() {
    let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 2, 1, 1)).unwrap());
    let mut scheduler = Scheduler::new(plan, POLICY, Restored { epoch: 1, ..Restored::default() });
    for round in 0..2 {
        for attempt in 1..=3 {
            assert_eq!(scheduler.phase(), &Phase::Running, "attempt {attempt}");
            let given = scheduler.lease(Duration::ZERO, &World::worker(1)).unwrap();
            assert_eq!(given.attempt, round * 3 + attempt);
            assert_eq!(scheduler.fail(given.id, given.token, Reason::Error, "row 7 is odd"), FailAction::Noted);
        }
        let Phase::Paused(PauseCause::Failures, message) = scheduler.phase() else { panic!() };
        assert!(message.contains("task 0.0") && message.contains("3 times") && message.contains("row 7 is odd"), "{message}");
        assert_eq!(scheduler.lease(Duration::ZERO, &World::worker(1)), None);
        scheduler.resume();
    }
    // Leaving is not a failure.
    for _ in 0..10 {
        let given = scheduler.lease(Duration::ZERO, &World::worker(1)).unwrap();
        scheduler.fail(given.id, given.token, Reason::Leaving, "");
    }
    assert_eq!(scheduler.phase(), &Phase::Running);
}

#[test]
fn a_task_that_one_worker_fails_at_is_left_to_the_others_until_all_have_failed() {
    let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 1, 2, 1)).unwrap());
    let mut scheduler = Scheduler::new(plan, POLICY, Restored { epoch: 1, ..Restored::default() });
    let (bad, good) = (World::worker(1), World::worker(2));
    for part in 0..2 {
        let given = scheduler.lease_among(Duration::ZERO, &bad, std::slice::from_ref(&good)).unwrap();
        assert_eq!(given.id.part, part, "what it has failed at is not given to it again");
        scheduler.fail(given.id, given.token, Reason::Error, "no directory");
    }
    assert_eq!(scheduler.lease_among(Duration::ZERO, &bad, std::slice::from_ref(&good)), None);
    assert_eq!(scheduler.phase(), &Phase::Running, "the other worker can do it");
    let given = scheduler.lease_among(Duration::ZERO, &good, std::slice::from_ref(&bad)).unwrap();
    scheduler.fail(given.id, given.token, Reason::Error, "no directory");
    // One that is too small for the task is none that could do it.
    let small = Worker { memory_bytes: 999, ..World::worker(3) };
    assert!(scheduler.clone().lease_among(Duration::ZERO, &bad, &[small]).is_some());
    // Both have failed at part 0, so either may try again; once more, and the job names it.
    let again = scheduler.lease_among(Duration::ZERO, &bad, std::slice::from_ref(&good)).unwrap();
    assert_eq!(again.id, given.id);
    scheduler.fail(again.id, again.token, Reason::Error, "no directory");
    let Phase::Paused(PauseCause::Failures, message) = scheduler.phase() else { panic!() };
    assert!(message.contains("task 0.0 has failed 3 times"), "{message}");
}

#[test]
fn a_worker_that_is_too_small_gets_nothing_and_when_all_are_the_job_says_so() {
    let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 2, 2, 1)).unwrap());
    let mut scheduler = Scheduler::new(plan, POLICY, Restored { epoch: 1, ..Restored::default() });
    let small = Worker { memory_bytes: 999, ..World::worker(1) };
    assert_eq!(scheduler.lease(Duration::ZERO, &small), None);
    let given = scheduler.lease(Duration::ZERO, &World::worker(2)).unwrap();
    scheduler.check_memory(999);
    assert_eq!(scheduler.phase(), &Phase::Running, "the other worker is still at it");
    scheduler.fail(given.id, given.token, Reason::Leaving, "");
    scheduler.check_memory(1000);
    assert_eq!(scheduler.phase(), &Phase::Running);
    scheduler.check_memory(999);
    let Phase::Paused(PauseCause::Memory(1000), message) = scheduler.phase() else { panic!() };
    assert!(message.contains("1000 bytes") && message.contains("999"), "{message}");
}

#[test]
fn a_paused_job_stops_its_workers_at_the_next_heartbeat_but_takes_what_is_finished() {
    let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 2, 2, 1)).unwrap());
    let mut scheduler = Scheduler::new(Arc::clone(&plan), POLICY, Restored { epoch: 1, ..Restored::default() });
    let one = scheduler.lease(Duration::ZERO, &World::worker(1)).unwrap();
    let two = scheduler.lease(Duration::ZERO, &World::worker(2)).unwrap();
    scheduler.pause(PauseCause::Asked, "asked to".into());
    assert!(!scheduler.heartbeat(Duration::ZERO, one.id, one.token, 1, 4));
    let content = |id| content_of(&plan, plan.index_of(id).unwrap());
    assert!(matches!(scheduler.offer(Duration::ZERO, one.id, one.token, "worker-1", &content(one.id), 1), Offer::Stale));
    assert!(matches!(scheduler.offer(Duration::ZERO, two.id, two.token, "worker-2", &content(two.id), 1), Offer::Commit(_)));
}
