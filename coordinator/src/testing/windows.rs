//! Killed between any two steps: each test arranges the files as a kill at that moment leaves them, and the next start goes on.

use super::life::{Life, TABLE, TASKS, space_of};
use super::{bytes_of, file_of};
use crate::plan::Plan;
use crate::record::{self, Commit, Epoch, StageRecord, commit_path, stage_path};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use strata_games::{ArtifactId, ArtifactKind, Layer, TaskId};
use strata_proto::v1::JobState;
use strata_storage::{Manifest, ManifestStats};
use tokio::sync::OnceCell;

fn id(stage: u32, part: u32) -> TaskId {
    TaskId { stage, part }
}

fn path_of(kind: ArtifactKind, layer: u32, shard: u32) -> String {
    let artifact = ArtifactId { kind, layer: Layer(layer), shard };
    file_of(artifact, &bytes_of(TABLE, artifact)).path
}

fn stage_record(root: &Path, stage: u32) -> StageRecord {
    record::open(&fs::read(root.join(stage_path(stage))).unwrap()).unwrap()
}

fn write_commit(root: &Path, commit: &Commit) {
    fs::create_dir_all(root.join("build/commits")).unwrap();
    fs::write(root.join(commit_path(commit.id())), record::seal(commit)).unwrap();
}

/// The root of an undisturbed build.
async fn undisturbed() -> Vec<u8> {
    static ROOT: OnceCell<Vec<u8>> = OnceCell::const_new();
    let build = async || {
        let temp = tempfile::tempdir().unwrap();
        let (status, ran) = Life::start(temp.path()).finish().await;
        assert_eq!(ran.len() as u64, TASKS);
        status.root
    };
    ROOT.get_or_init(build).await.clone()
}

/// Starts again and finishes: the root is that of an undisturbed build, nothing of the build is left, and the table is whole.
/// Returns the tasks that were run, and the numbers of those that were accepted and rejected.
async fn resume(root: &Path) -> (Vec<TaskId>, u64, u64) {
    let life = Life::start(root);
    let (status, ran) = life.finish().await;
    assert_eq!(status.root, undisturbed().await);
    assert_eq!(status.tasks_done, TASKS);
    life.coordinator.shutdown().await;
    check_complete(root);
    (ran, status.tasks_resumed, status.tasks_rejected)
}

fn check_complete(root: &Path) {
    assert!(!root.join("build").exists(), "something of the build is left");
    let manifest = Manifest::parse(&fs::read(root.join("table.json")).unwrap()).unwrap();
    assert_eq!(fs::read_to_string(root.join("B3SUMS")).unwrap(), manifest.b3sums());
    assert_eq!(fs::read_to_string(root.join("SHA256SUMS")).unwrap(), manifest.sha256sums());
    let mut listed: BTreeSet<String> = ["table.json", "B3SUMS", "SHA256SUMS"].map(String::from).into();
    for layer in &manifest.layers {
        for shard in &layer.shards {
            let record = shard.record(layer.layer);
            let bytes = fs::read(root.join(&record.path)).unwrap();
            assert_eq!(strata_storage::Digest::blake3(&bytes), record.blake3);
            listed.insert(record.path);
        }
    }
    assert_eq!(files_below(root), listed, "exactly the files of the table");
}

fn files_below(root: &Path) -> BTreeSet<String> {
    fn walk(root: &Path, folder: &Path, into: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, into);
            } else {
                into.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut files = BTreeSet::new();
    walk(root, root, &mut files);
    files
}

/// Copies a directory as it is at the moment, which may be while it changes.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let Ok(entries) = fs::read_dir(from) else { return };
    for entry in entries.flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else if let Ok(bytes) = fs::read(entry.path()) {
            fs::write(target, bytes).unwrap();
        }
    }
}

#[tokio::test]
async fn a_build_that_is_left_alone_ends_with_exactly_its_table() {
    let temp = tempfile::tempdir().unwrap();
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!(ran, [id(0, 0), id(0, 1), id(1, 0), id(1, 1), id(2, 0), id(2, 1), id(3, 0), id(3, 1)]);
    assert_eq!((resumed, rejected), (0, 0));
    let manifest = Manifest::parse(&fs::read(temp.path().join("table.json")).unwrap()).unwrap();
    assert_eq!(manifest.facts["value"], 42.5);
    // Four layers (4, 6, 8, 10) of two shards; each counts its layer as states, three keys, one terminal state.
    assert_eq!((manifest.states, manifest.afterstates, manifest.terminal, manifest.keys), (56, 24, 8, 24));
    let first = ManifestStats { legal_moves: 10, single_best: 4, choices: 3, value_sum: 7.0, gap_sum: 1.5, gap_most: 0.5 };
    for layer in &manifest.layers {
        // Each shard of a layer adds its number less a half to the sum of values.
        let value_sum = 2.0 * (f64::from(layer.layer) - 0.5);
        assert_eq!(layer.stats, Some(ManifestStats { value_sum, ..first }), "layer {}", layer.layer);
    }
}

#[tokio::test]
async fn killed_when_files_are_written_but_not_the_commit() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::start(temp.path());
    life.submit().await.unwrap();
    let mut worker = life.worker("killed").await;
    for _ in 0..3 {
        let task = worker.lease(5000).await.unwrap();
        worker.run(&task).await.unwrap();
    }
    let task = worker.lease(5000).await.unwrap();
    worker.write(&task);
    life.coordinator.shutdown().await;
    fs::create_dir_all(temp.path().join("build/tmp")).unwrap();
    fs::write(temp.path().join("build/tmp/77-1"), "half a file").unwrap();
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!(ran, [id(1, 1), id(2, 0), id(2, 1), id(3, 0), id(3, 1)], "only the task in flight runs again");
    assert_eq!((resumed, rejected), (3, 0));
}

#[tokio::test]
async fn a_file_that_is_there_without_a_commit_is_not_trusted() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(2).await;
    let path = temp.path().join(path_of(ArtifactKind::Index, 8, 0));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "the right name, another content").unwrap();
    let (ran, resumed, _) = resume(temp.path()).await;
    assert_eq!((ran.len(), resumed), (6, 2));
}

#[tokio::test]
async fn killed_while_a_commit_was_being_written() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(3).await;
    let record = fs::read(temp.path().join("build/commits/1.0.json")).unwrap();
    fs::write(temp.path().join("build/commits/1.1.json#1"), &record[..record.len() / 2]).unwrap();
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!((ran.len(), resumed, rejected), (5, 3, 0));
}

#[tokio::test]
async fn killed_when_all_commits_are_written_but_not_the_record_of_the_stage() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(4).await;
    for stage in [0, 1] {
        stage_record(temp.path(), stage).commits.iter().for_each(|commit| write_commit(temp.path(), commit));
        fs::remove_file(temp.path().join(stage_path(stage))).unwrap();
    }
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!((ran.len(), resumed, rejected), (4, 4, 0), "nothing runs again");
}

#[tokio::test]
async fn killed_when_the_record_of_the_stage_is_written_but_its_commits_are_still_there() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(4).await;
    stage_record(temp.path(), 1).commits.iter().for_each(|commit| write_commit(temp.path(), commit));
    let life = Life::start(temp.path());
    life.submit().await.unwrap();
    life.wait_for(JobState::Running).await;
    assert_eq!(life.status().await.tasks_resumed, 4);
    life.coordinator.shutdown().await;
    assert!(files_below(temp.path()).iter().all(|file| !file.starts_with("build/commits/")), "the commits are gone");
    let (ran, ..) = resume(temp.path()).await;
    assert_eq!(ran.len(), 4);
}

#[tokio::test]
async fn working_values_that_nobody_reads_any_more_may_be_gone_or_still_there() {
    // After stage 2 (layers 8 and 10) is stitched, the values of layer 10 are garbage; those of layer 8 are needed by stage 3.
    let gone = path_of(ArtifactKind::Work, 10, 0);
    let needed = path_of(ArtifactKind::Work, 8, 0);
    for still_there in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        Life::start(temp.path()).run_some(6).await;
        assert!(!temp.path().join(&gone).exists() && temp.path().join(&needed).exists());
        if still_there {
            let artifact = ArtifactId { kind: ArtifactKind::Work, layer: Layer(10), shard: 0 };
            fs::create_dir_all(temp.path().join(&gone).parent().unwrap()).unwrap();
            fs::write(temp.path().join(&gone), bytes_of(TABLE, artifact)).unwrap();
        }
        let (ran, resumed, rejected) = resume(temp.path()).await;
        assert_eq!((ran, resumed, rejected), (vec![id(3, 0), id(3, 1)], 6, 0));
    }
}

#[tokio::test]
async fn working_values_that_are_still_needed_are_made_again() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(6).await;
    fs::remove_file(temp.path().join(path_of(ArtifactKind::Work, 8, 0))).unwrap();
    // A start that does not come to making them leaves no record that says they are there.
    let life = Life::start(temp.path());
    life.submit().await.unwrap();
    assert_eq!(life.wait_for(JobState::Running).await.tasks_rejected, 1);
    life.coordinator.shutdown().await;
    let there = |path: String| temp.path().join(path).exists();
    assert!(!there(stage_path(2)) && there(commit_path(id(2, 1))) && !there(commit_path(id(2, 0))));
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!((ran, resumed, rejected), (vec![id(2, 0), id(3, 0), id(3, 1)], 5, 0));
}

#[tokio::test]
async fn a_damaged_shard_is_made_again_with_the_working_values_that_takes() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(7).await;
    // Layer 4 is in stage 3, part 0, which is done; it reads the working values of both parts of stage 2. Those are still there.
    let path = temp.path().join(path_of(ArtifactKind::Shard, 4, 0));
    let mut bytes = fs::read(&path).unwrap();
    bytes[3] ^= 1;
    fs::write(&path, bytes).unwrap();
    // One of them is not, and of the indexes it is made from, one is damaged too.
    fs::remove_file(temp.path().join(path_of(ArtifactKind::Work, 8, 1))).unwrap();
    fs::write(temp.path().join(path_of(ArtifactKind::Index, 10, 1)), "").unwrap();
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!(ran, [id(1, 1), id(2, 1), id(3, 0), id(3, 1)]);
    assert_eq!((resumed, rejected), (4, 3));
}

#[tokio::test]
async fn killed_while_a_damaged_stage_was_taken_apart() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(6).await;
    fs::remove_file(temp.path().join(path_of(ArtifactKind::Work, 8, 0))).unwrap();
    // The record of the sound part is written, that of the stage not yet removed.
    write_commit(temp.path(), &stage_record(temp.path(), 2).commits[1]);
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!((ran, resumed, rejected), (vec![id(2, 0), id(3, 0), id(3, 1)], 5, 1));
}

#[tokio::test]
async fn damaged_records_are_removed_and_what_they_said_is_done_again() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(5).await;
    for (path, what) in [("build/commits/2.0.json", "a bit"), ("build/layers/0.json", "the end")] {
        let mut bytes = fs::read(temp.path().join(path)).unwrap();
        match what {
            "a bit" => bytes[100] ^= 4,
            _ => bytes.truncate(50),
        }
        fs::write(temp.path().join(path), bytes).unwrap();
    }
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!(ran, [id(0, 0), id(0, 1), id(2, 0), id(2, 1), id(3, 0), id(3, 1)]);
    assert_eq!((resumed, rejected), (2, 3));
}

#[tokio::test]
async fn a_commit_made_from_another_input_is_rejected_with_all_that_follows_from_it() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(4).await;
    let mut record = stage_record(temp.path(), 1);
    record.commits[0].inputs[0].blake3 = strata_storage::Digest::blake3(b"another input");
    fs::write(temp.path().join(stage_path(1)), record::seal(&record)).unwrap();
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!(ran, [id(1, 0), id(2, 0), id(2, 1), id(3, 0), id(3, 1)]);
    assert_eq!((resumed, rejected), (3, 1));
}

#[tokio::test]
async fn killed_when_the_sums_are_written_but_not_the_manifest() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(7).await;
    fs::write(temp.path().join("B3SUMS"), "sums of an earlier try").unwrap();
    fs::write(temp.path().join("SHA256SUMS"), "").unwrap();
    fs::write(temp.path().join("table.json#1"), "{").unwrap();
    let (ran, ..) = resume(temp.path()).await;
    assert_eq!(ran.len(), 1);
}

#[tokio::test]
async fn killed_when_all_is_stitched_but_not_published() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(7).await;
    // The last task, by hand.
    let plan = Plan::of(&space_of(TABLE)).unwrap();
    let last = plan.index_of(id(3, 1)).unwrap();
    let content = super::content_of(&plan, last);
    for file in &content.outputs {
        let path = temp.path().join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes_of(TABLE, record::artifact_of(file))).unwrap();
    }
    let earlier: Commit = record::open(&fs::read(temp.path().join("build/commits/3.0.json")).unwrap()).unwrap();
    let mut inputs = earlier.inputs.clone();
    for input in inputs.iter_mut().filter(|input| input.kind == strata_storage::FileKind::Index) {
        let artifact = ArtifactId { kind: ArtifactKind::Index, layer: Layer(input.layer), shard: 1 };
        input.shard = 1;
        input.blake3 = file_of(artifact, &bytes_of(TABLE, artifact)).blake3;
    }
    let commit = Commit { part: 1, content, inputs, ..earlier.clone() };
    let record = StageRecord { format: earlier.format, table: TABLE.into(), stage: 3, commits: vec![earlier, commit] };
    fs::write(temp.path().join(stage_path(3)), record::seal(&record)).unwrap();
    let (ran, resumed, rejected) = resume(temp.path()).await;
    assert_eq!((ran.len(), resumed, rejected), (0, 8, 0), "nothing is left but to publish");
}

#[tokio::test]
async fn killed_when_the_table_is_published_but_the_build_is_still_there() {
    let temp = tempfile::tempdir().unwrap();
    let (root, copy) = (temp.path().join("table"), temp.path().join("copy"));
    Life::start(&root).run_some(7).await;
    copy_tree(&root.join("build"), &copy);
    resume(&root).await;
    copy_tree(&copy, &root.join("build"));
    let life = Life::start(&root);
    let status = life.submit().await.unwrap();
    assert_eq!((status.state(), status.root), (JobState::Complete, undisturbed().await));
    check_complete(&root);
    // And once more, with nothing to tidy up.
    assert_eq!(life.submit().await.unwrap().state(), JobState::Complete);
    check_complete(&root);
}

#[tokio::test]
async fn tokens_grow_over_every_start_even_when_their_record_is_damaged_or_lost() {
    let temp = tempfile::tempdir().unwrap();
    let mut highest = 0;
    for start in 0..6 {
        let life = Life::start(temp.path());
        life.submit().await.unwrap();
        let mut worker = life.worker("w").await;
        let task = worker.lease(5000).await.unwrap();
        assert!(task.token > highest, "start {start}");
        highest = task.token;
        worker.run(&task).await.unwrap();
        life.coordinator.shutdown().await;
        let path = temp.path().join("build/epoch.json");
        let epoch: Epoch = record::open(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(u64::from(epoch.epoch), highest >> 32);
        match start {
            2 => fs::write(&path, "{\"epoch\":1}").unwrap(),
            3 => fs::remove_file(&path).unwrap(),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_directory_of_another_table_is_refused_and_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).run_some(3).await;
    let before = files_below(temp.path());
    let refuse = async |part: &str| {
        let life = Life::start(temp.path());
        let message = match life.submit_table("2048-2x3").await {
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::FailedPrecondition);
                status.message().to_owned()
            }
            Ok(_) => life.wait_for(JobState::Failed).await.message,
        };
        assert!(message.contains(part) && message.contains(TABLE) && message.contains("2048-2x3"), "{message}");
        life.coordinator.shutdown().await;
    };
    refuse("unfinished build").await;
    assert_eq!(files_below(temp.path()), before);
    // Even when the record that says so is damaged.
    fs::write(temp.path().join("build/job.json"), "{}").unwrap();
    refuse("belongs to a build of").await;
    let missing: Vec<_> = before.iter().filter(|file| !temp.path().join(file).exists()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The next start for the right table takes it back.
    fs::remove_file(temp.path().join("build/job.json")).unwrap();
    let (ran, ..) = resume(temp.path()).await;
    assert_eq!(ran.len(), 5);
    let status = Life::start(temp.path()).submit_table("2048-2x3").await.unwrap_err();
    assert!(status.message().contains("holds the table 2048-2x2"), "{status}");
}

#[tokio::test]
async fn a_table_goes_by_the_name_that_is_published_and_a_build_by_its_own() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::start(temp.path());
    life.submit_table("2048-2x2+keep=stats+stretch=40").await.unwrap();
    // While it is being built, it is one plan.
    let other = Life::start(temp.path());
    let status = other.submit_table("2048-2x2+keep=stats").await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    other.coordinator.shutdown().await;
    let mut worker = life.worker("anna").await;
    while let Some(task) = worker.lease(500).await {
        worker.run(&task).await.unwrap();
    }
    let root = life.wait_for(JobState::Complete).await.root;
    let manifest = Manifest::parse(&fs::read(temp.path().join("table.json")).unwrap()).unwrap();
    assert_eq!(manifest.table, "2048-2x2+keep=stats");
    // Once it is complete nobody can tell in which stretches it was built.
    for name in ["2048-2x2+keep=stats", "2048-2x2+keep=stats+stretch=16"] {
        let status = Life::start(temp.path()).submit_table(name).await.unwrap();
        assert_eq!((status.state(), &status.root), (JobState::Complete, &root), "{name}");
    }
    let status = Life::start(temp.path()).submit_table(TABLE).await.unwrap_err();
    assert!(status.message().contains("holds the table 2048-2x2+keep=stats, not 2048-2x2;"), "{status}");
}

/// Copies the directory while a build runs: the copies hold what a kill leaves, and worse, since copying is not instantaneous.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_goes_on_from_any_snapshot_of_its_directory() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("table");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let copier = std::thread::spawn({
        let (root, temp) = (root.clone(), temp.path().to_owned());
        move || {
            let mut made = Vec::new();
            while stopped.try_recv().is_err() && made.len() < 40 {
                let to = temp.join(format!("copy-{}", made.len()));
                copy_tree(&root, &to);
                made.push(to);
            }
            made
        }
    });
    Life::start(&root).finish().await;
    let _ = stop.send(());
    let mut snapshots = copier.join().unwrap();
    // The manifest comes last, so a copy that has it and lacks a shard is no state that a kill leaves.
    snapshots.retain(|snapshot| !snapshot.join("table.json").exists());
    assert!(snapshots.len() > 3, "the build was too fast to be copied");
    for snapshot in snapshots {
        resume(&snapshot).await;
    }
}
