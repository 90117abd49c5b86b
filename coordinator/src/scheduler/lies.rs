//! Storms of events, seeded, in which one of the workers computes wrong numbers. What is right is known, because here a task makes
//! nothing but a hash of what it reads; so it is also known what became of every lie.

use super::*;
use crate::audit::{Audit, files_to_keep};
use crate::record::{Content, Doubts};
use crate::testing::{FakeSpace, content_of, file_of};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use strata_games::ArtifactKind;

/// The worker that lies.
const LIAR: &str = "liar";
const WORKERS: [&str; 4] = ["anna", "bert", "carl", LIAR];
const STEPS: usize = 200_000;

/// What a task makes of files with these hashes.
fn made(plan: &Plan, task: TaskIndex, inputs: &[Digest], lie: u64) -> Content {
    let mut content = content_of(plan, task);
    for file in &mut content.outputs {
        let bytes = format!("{task} {:?} {} {} {inputs:?} {lie}", file.kind, file.layer, file.shard);
        *file = file_of(artifact_of(file), bytes.as_bytes());
    }
    content
}

/// What all tasks make where nobody lies.
fn truth(plan: &Plan) -> Vec<Content> {
    let mut truth: Vec<Content> = Vec::new();
    for task in 0..plan.tasks.len() {
        let hash = |input: &ArtifactId| {
            let producer = &truth[plan.producer(*input).unwrap()];
            producer.outputs.iter().find(|file| artifact_of(file) == *input).unwrap().blake3
        };
        let inputs: Vec<Digest> = plan.tasks[task].plan.inputs.iter().map(hash).collect();
        truth.push(made(plan, task, &inputs, 0));
    }
    truth
}

struct World {
    plan: Arc<Plan>,
    truth: Vec<Content>,
    policy: Policy,
    rng: StdRng,
    now: Duration,
    epoch: u32,
    /// What survives: records, stages, paths of files, doubts.
    commits: BTreeMap<TaskIndex, Commit>,
    stages: BTreeSet<u32>,
    files: BTreeSet<String>,
    doubts: Doubts,
    scheduler: Scheduler,
    /// What each worker is doing, and since when.
    busy: Vec<Option<Assignment>>,
    late: Vec<(Assignment, usize, Content)>,
    stitching: Vec<u32>,
    quarantined: BTreeSet<String>,
    /// The liar lies once in so many tasks.
    lies_once_in: u32,
    lies: u64,
    /// Cost of tasks given out as checks.
    checked: u64,
}

impl World {
    fn new(seed: u64, checks_percent: u8) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let space = FakeSpace::new("2048-2x2", rng.random_range(3..12), rng.random_range(1..4), rng.random_range(1..3));
        let plan = Arc::new(Plan::of(&space).unwrap());
        let policy = Policy { lease: Duration::from_secs(30), max_failures: 3, checks_percent };
        World {
            truth: truth(&plan),
            policy,
            now: Duration::ZERO,
            epoch: 1,
            commits: BTreeMap::new(),
            stages: BTreeSet::new(),
            files: BTreeSet::new(),
            doubts: Doubts::none(&plan.table),
            scheduler: Scheduler::new(Arc::clone(&plan), policy, Restored { epoch: 1, ..Restored::default() }),
            busy: vec![None; WORKERS.len()],
            late: Vec::new(),
            stitching: Vec::new(),
            quarantined: BTreeSet::new(),
            lies_once_in: rng.random_range(1..6),
            lies: 0,
            checked: 0,
            plan,
            rng,
        }
    }

    fn worker(at: usize) -> Worker {
        Worker { id: at as u64, name: WORKERS[at].into(), memory_bytes: 2000 }
    }

    fn lease(&mut self, at: usize) {
        if self.quarantined.contains(WORKERS[at]) {
            return;
        }
        let trusted = |&other: &usize| other != at && !self.quarantined.contains(WORKERS[other]);
        let others: Vec<Worker> = (0..WORKERS.len()).filter(trusted).map(Self::worker).collect();
        let given = self.scheduler.lease_among(self.now, &Self::worker(at), &others);
        let Some(assignment) = given.or_else(|| self.scheduler.lease_copy(self.now, &Self::worker(at))) else { return };
        let task = self.plan.index_of(assignment.id).unwrap();
        if let Some(commit) = self.commits.get(&task) {
            assert_ne!(commit.worker, WORKERS[at], "a worker checks itself");
            self.checked += self.plan.tasks[task].plan.cost;
        }
        for file in &assignment.inputs {
            assert!(self.files.contains(&file.path), "{} was given out, but {} is gone", assignment.id, file.path);
        }
        self.busy[at] = Some(assignment);
    }

    /// A worker writes its files and sends its result, now or late.
    fn complete(&mut self, at: usize) {
        let Some(assignment) = self.busy[at].take() else { return };
        let task = self.plan.index_of(assignment.id).unwrap();
        let inputs: Vec<Digest> = assignment.inputs.iter().map(|file| file.blake3).collect();
        let mut lie = 0;
        if WORKERS[at] == LIAR && self.rng.random_ratio(1, self.lies_once_in) {
            self.lies += 1;
            lie = self.lies;
        }
        let content = made(&self.plan, task, &inputs, lie);
        self.files.extend(content.outputs.iter().map(|file| file.path.clone()));
        match self.rng.random_range(0..10) {
            0 => self.late.push((assignment, at, content)),
            1 => {}
            _ => self.deliver(&assignment, at, &content),
        }
    }

    fn deliver(&mut self, assignment: &Assignment, at: usize, content: &Content) {
        if self.quarantined.contains(WORKERS[at]) || self.scheduler.wants_recheck() {
            return;
        }
        match self.scheduler.offer(self.now, assignment.id, assignment.token, WORKERS[at], content, 1) {
            Offer::Commit(commit) => {
                let task = self.plan.index_of(commit.id()).unwrap();
                // The files of a late result may be gone; the services look for them before they offer.
                if commit.content.outputs.iter().any(|file| !self.files.contains(&file.path)) {
                    let failure = CommitFailure { disk_full: false, message: "gone".into() };
                    self.scheduler.commit_failed(self.now, commit.id(), &failure);
                    self.scheduler.resume();
                    self.scheduler.take_back(at as u64);
                    return;
                }
                self.commits.insert(task, Commit::clone(&commit));
                if let Some(settled) = self.scheduler.committed(commit.id()).settled {
                    for wrong in settled.wrong {
                        assert_eq!(wrong, LIAR, "an honest worker is quarantined: {:?}", settled.right);
                        self.scheduler.take_back(WORKERS.len() as u64 - 1);
                        self.scheduler.dismiss(&wrong);
                        self.quarantined.insert(wrong);
                    }
                }
            }
            Offer::AlreadyDone => {
                for file in self.scheduler.leftovers(assignment.id, &content.outputs) {
                    self.files.remove(&file.path);
                }
            }
            Offer::Conflict(message) => panic!("the job stops: {message}"),
            Offer::Doubt(_) | Offer::Pending | Offer::Stale => {}
        }
    }

    fn stitch(&mut self) {
        if let Some(job) = self.scheduler.next_stitch() {
            self.stitching.push(job.stage);
        } else if let Some(stage) = self.stitching.pop() {
            self.stages.insert(stage);
            for file in self.scheduler.stitched(stage) {
                self.files.remove(&file.path);
            }
        }
    }

    /// The store is read, by the same coordinator or, after a kill, by another one, which knows only what was written down.
    fn read_again(&mut self, is_killed: bool) {
        let plan = Arc::clone(&self.plan);
        self.doubts = self.scheduler.doubts().clone();
        self.stitching.clear();
        let is_pending = |commit: &Commit| self.doubts.pending.contains(&commit.worker);
        let by_pending = self.commits.iter().filter(|(_, commit)| is_pending(commit)).map(|(&task, _)| task);
        let open = self.doubts.open.iter().filter_map(|doubt| plan.index_of(doubt.id()));
        let doubted: BTreeSet<TaskIndex> = by_pending.chain(open).collect();
        let mut audit = Audit::with_doubts(&plan, self.commits.clone(), &doubted, !self.doubts.dismissed.is_empty());
        loop {
            let files = audit.wanted();
            if files.is_empty() {
                break;
            }
            for file in files {
                audit.answer(&file, if self.files.contains(&file.path) { Ok(()) } else { Err("missing".into()) });
            }
        }
        let audited = audit.finish();
        let taken: Vec<crate::record::Dismissed> =
            self.doubts.pending.iter().map(|worker| crate::record::Dismissed { worker: worker.clone(), tasks: 1 }).collect();
        self.doubts.taken_out(&taken);
        self.commits = audited.commits.clone();
        let whole = |stage: &u32| plan.stages[*stage as usize].tasks.clone().all(|task| audited.commits.contains_key(&task));
        self.stages.retain(whole);
        let keep = files_to_keep(&plan, &audited.commits, &self.stages);
        self.files.retain(|path| keep.contains(path));
        self.epoch += 1;
        let tally = if is_killed { Tally::default() } else { self.scheduler.tally() };
        let restored = Restored {
            epoch: self.epoch,
            commits: audited.commits,
            stitched: self.stages.clone(),
            expected: audited.expected,
            former: audited.former,
            doubts: Some(self.doubts.clone()),
            tally,
        };
        self.scheduler = Scheduler::new(plan, self.policy, restored);
        if is_killed {
            self.quarantined.clear();
        }
    }

    fn step(&mut self) {
        if self.scheduler.wants_recheck() {
            return self.read_again(false);
        }
        let at = self.rng.random_range(0..WORKERS.len());
        match self.rng.random_range(0..100) {
            0..35 if self.busy[at].is_none() => self.lease(at),
            0..35 => {
                let assignment = self.busy[at].clone().unwrap();
                if !self.scheduler.heartbeat(self.now, assignment.id, assignment.token, 3, 4) {
                    self.busy[at] = None;
                }
            }
            35..65 => self.complete(at),
            65..85 => self.stitch(),
            85..89 => {
                if let Some((assignment, at, content)) = self.late.choose(&mut self.rng).cloned() {
                    self.deliver(&assignment, at, &content);
                }
            }
            89..91 => self.busy[at] = None,
            91..94 => {
                self.now += Duration::from_secs(self.rng.random_range(1..20));
                self.scheduler.expire(self.now);
            }
            _ => self.scheduler.resume(),
        }
    }

    /// Runs to the end, with so many kills of the coordinator. After each the liar is back.
    fn run(&mut self, seed: u64, mut kills: u32) {
        let end = (0..STEPS).find(|_| {
            self.step();
            if kills > 0 && self.rng.random_bool(0.005) {
                kills -= 1;
                self.read_again(true);
            }
            self.scheduler.is_finished() && !self.scheduler.wants_recheck()
        });
        assert!(end.is_some(), "seed {seed} does not end: {:?}", self.scheduler.phase());
    }

    /// Whether every published file is the right one, and there.
    fn is_true(&self) -> bool {
        self.truth.iter().flat_map(|content| &content.outputs).filter(|file| artifact_of(file).kind == ArtifactKind::Shard).all(
            |file| {
                let task = self.plan.producer(artifact_of(file)).unwrap();
                self.files.contains(&file.path) && self.commits[&task].content.outputs.contains(file)
            },
        )
    }
}

#[test]
fn where_every_task_is_made_twice_no_lie_is_published() {
    let (mut lies, mut found) = (0, 0);
    for seed in 0..1000 {
        let mut world = World::new(seed, 100);
        world.run(seed, if seed % 2 == 1 { 10 } else { 0 });
        assert!(world.is_true(), "seed {seed}: something wrong is in the table");
        lies += world.lies;
        found += usize::from(!world.doubts.dismissed.is_empty());
    }
    assert!(lies > 1000 && found > 500, "{lies} lies, and the liar was found {found} times");
}

#[test]
fn a_liar_that_a_check_finds_leaves_nothing_behind() {
    let (mut found, mut missed, mut harmed) = (0, 0, 0);
    for seed in 0..1000 {
        let mut world = World::new(seed, 20);
        world.run(seed, 0);
        let is_found = world.quarantined.contains(LIAR);
        assert!(!is_found || world.is_true(), "seed {seed}: something of the liar is left");
        found += usize::from(is_found);
        missed += usize::from(!is_found && world.lies > 0);
        harmed += usize::from(!world.is_true());
        assert!(world.checked * 100 <= world.plan.cost * 20, "seed {seed}: checks cost {} of {}", world.checked, world.plan.cost);
    }
    assert!(found > 100 && harmed <= missed, "found {found} times, missed {missed} times, wrong in the end {harmed} times");
}

#[test]
fn checks_cost_no_more_than_their_share_and_every_worker_gets_them() {
    for percent in [1, 3, 10] {
        let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 200, 4, 1)).unwrap());
        let policy = Policy { lease: Duration::from_secs(30), max_failures: 3, checks_percent: percent };
        let mut scheduler = Scheduler::new(Arc::clone(&plan), policy, Restored { epoch: 1, ..Restored::default() });
        let (mut checks, mut makers) = ([0u64; 2], BTreeSet::new());
        let mut at = 0;
        while !scheduler.is_finished() {
            at = 1 - at;
            if let Some(given) = scheduler.lease(Duration::ZERO, &World::worker(at)) {
                let content = content_of(&plan, plan.index_of(given.id).unwrap());
                match scheduler.offer(Duration::ZERO, given.id, given.token, WORKERS[at], &content, 1) {
                    Offer::Commit(commit) => {
                        scheduler.committed(commit.id());
                    }
                    Offer::AlreadyDone => {
                        checks[at] += 1;
                        makers.insert(at);
                    }
                    other => panic!("{other:?}"),
                }
            } else if let Some(stitch) = scheduler.next_stitch() {
                scheduler.stitched(stitch.stage);
            }
        }
        // All tasks cost the same.
        let (tasks, all) = (plan.tasks.len() as u64, checks[0] + checks[1]);
        assert!(all * 100 <= tasks * u64::from(percent), "{all} checks of {tasks} tasks at {percent} %");
        assert!(all * 200 >= tasks * u64::from(percent), "{all} checks of {tasks} tasks at {percent} %");
        assert_eq!(makers.len(), 2, "{checks:?}");
    }
}

/// Working values go when they have been read. A task that is to be made again needs them, whoever made them.
#[test]
fn inputs_that_are_gone_are_made_again_for_what_is_taken_out() {
    let mut world = World::new(0, 0);
    let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 6, 1, 1)).unwrap());
    world.scheduler = Scheduler::new(Arc::clone(&plan), world.policy, Restored { epoch: 1, ..Restored::default() });
    (world.truth, world.plan) = (truth(&plan), Arc::clone(&plan));
    let run = |world: &mut World, at: usize| {
        let given = world.scheduler.lease(world.now, &World::worker(at)).unwrap();
        let inputs: Vec<Digest> = given.inputs.iter().map(|file| file.blake3).collect();
        assert!(given.inputs.iter().all(|file| world.files.contains(&file.path)), "{}", given.id);
        let content = made(&plan, plan.index_of(given.id).unwrap(), &inputs, 0);
        world.files.extend(content.outputs.iter().map(|file| file.path.clone()));
        world.deliver(&given, at, &content);
        world.stitch();
        world.stitch();
        given.id.stage
    };
    // Six stages up by anna, then down in turns, until one is left.
    let stages: Vec<u32> = [0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1].map(|at| run(&mut world, at)).into();
    assert_eq!(stages, (0..11).collect::<Vec<_>>());
    let (last, stood) = (world.scheduler.dismiss("bert").len(), world.commits.len());
    assert_eq!((last, stood), (3, 11));
    world.read_again(false);
    // Stages 6, 8 and 10 were bert's. Stages 8 and 10 read values of 7 and 9, which are gone, so anna's tasks run too.
    assert_eq!(world.scheduler.former.keys().copied().collect::<Vec<_>>(), [7, 9]);
    let again: Vec<u32> = (0..6).map(|_| run(&mut world, 2)).collect();
    assert_eq!(again, [6, 7, 8, 9, 10, 11]);
    assert!(world.scheduler.is_finished() && world.is_true());
    assert_eq!(world.commits[&0].worker, "anna", "what nobody doubts stands");
}
