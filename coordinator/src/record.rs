//! What the coordinator writes down, and how it tells a sound record from a damaged one.
//!
//! A record is one JSON object on one line. Its member `blake3` is the hash of the same object without that member, so that a
//! flipped bit, a cut-off end, or a helpful editor is noticed: [`open`] seals again what it read and wants the same bytes. A record that
//! does not pass is treated as if it were not there; what it said is worked out again. Records say what was done, and never that a
//! file is still sound: that is checked against its hash.
//!
//! ```text
//! build/job.json                        Job: which table is built here
//! build/epoch.json                      Epoch: how often a coordinator has started on it
//! build/wish.json                       Wish: what people asked of it
//! build/doubts.json                     Doubts: results that are not trusted
//! build/commits/<stage>.<part>.json     Commit: one finished task
//! build/layers/<stage>.json             StageRecord: all commits of a finished stage; replaces them
//! ```

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strata_games::{ArtifactId, ArtifactKind, Counts, Layer, LayerStats, TaskId};
use strata_storage::{Digest, FileKind, FileRecord};

/// Number of the form of these records. A store written in another form is refused.
pub const RECORD_FORMAT: u32 = 1;

/// Where the table's name is kept.
pub const JOB_PATH: &str = "build/job.json";
/// Where the number of starts is kept.
pub const EPOCH_PATH: &str = "build/epoch.json";
/// Where results that are not trusted are kept.
pub const DOUBTS_PATH: &str = "build/doubts.json";
/// Folder of the commit records.
pub const COMMITS: &str = "build/commits";
/// Folder of the stage records.
pub const LAYERS: &str = "build/layers";

/// `build/job.json`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`RECORD_FORMAT`].
    pub format: u32,
    /// Name of the table.
    pub table: String,
    /// Version of the program that started the build.
    pub build: String,
}

/// `build/epoch.json`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// Number of starts so far; the upper half of every fencing token.
    pub epoch: u32,
}

/// A file that a task read, with the hash it had.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct InputRecord {
    /// What it holds.
    pub kind: FileKind,
    /// Of which layer.
    pub layer: u32,
    /// Of which shard.
    pub shard: u32,
    /// Its hash.
    pub blake3: Digest,
}

/// What was counted in one shard of one layer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct CountRecord {
    /// The layer.
    pub layer: u32,
    /// The shard.
    pub shard: u32,
    /// Positions with the player to act.
    pub states: u64,
    /// Positions after the move.
    pub afterstates: u64,
    /// States without a move.
    pub terminal: u64,
}

impl CountRecord {
    /// The counts alone.
    pub fn counts(&self) -> Counts {
        Counts { states: self.states, afterstates: self.afterstates, terminal: self.terminal }
    }
}

/// What was found about the states of one shard of one layer.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct StatsRecord {
    /// The layer.
    pub layer: u32,
    /// The shard.
    pub shard: u32,
    /// Pairs of a state and a legal move.
    pub legal_moves: u64,
    /// States with one best move.
    pub single_best: u64,
    /// States with at least two legal moves.
    pub choices: u64,
    /// Sum of the values of the states, finite.
    pub value_sum: f64,
    /// Sum of the action gaps, finite and not negative.
    pub gap_sum: f64,
    /// The largest action gap, finite and not negative.
    pub gap_most: f64,
}

impl StatsRecord {
    /// The statistics alone.
    pub fn stats(&self) -> LayerStats {
        LayerStats {
            legal_moves: self.legal_moves,
            single_best: self.single_best,
            choices: self.choices,
            value_sum: self.value_sum,
            gap_sum: self.gap_sum,
            gap_most: self.gap_most,
        }
    }
}

/// A number about the whole table.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct FactRecord {
    /// Its name.
    pub name: String,
    /// The number, finite.
    pub value: f64,
}

/// What a task makes: a pure function of the task and of the table's name, so that two results can be compared.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Its files, by kind, layer and shard.
    pub outputs: Vec<FileRecord>,
    /// What it counted, by layer and shard.
    pub counts: Vec<CountRecord>,
    /// What it found about states, by layer and shard. Left out where there is nothing, as in games without states to choose in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<StatsRecord>,
    /// What it found, by name.
    pub facts: Vec<FactRecord>,
}

/// `build/commits/<stage>.<part>.json`: a finished task.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// [`RECORD_FORMAT`].
    pub format: u32,
    /// Name of the table.
    pub table: String,
    /// The stage.
    pub stage: u32,
    /// The part.
    pub part: u32,
    /// What was made.
    pub content: Content,
    /// From what, by kind, layer and shard.
    pub inputs: Vec<InputRecord>,
    /// By whom.
    pub worker: String,
    /// In the how manieth attempt.
    pub attempt: u32,
    /// Under which lease.
    pub token: u64,
    /// In what time.
    pub elapsed_ms: u64,
}

impl Commit {
    /// The task.
    pub fn id(&self) -> TaskId {
        TaskId { stage: self.stage, part: self.part }
    }
}

/// `build/layers/<stage>.json`: a finished stage. The commits are kept whole, so that where a file comes from is known for good.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct StageRecord {
    /// [`RECORD_FORMAT`].
    pub format: u32,
    /// Name of the table.
    pub table: String,
    /// The stage.
    pub stage: u32,
    /// Its tasks in order.
    pub commits: Vec<Commit>,
}

/// What one worker made of a task, where workers do not agree.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Opinion {
    /// The worker.
    pub worker: String,
    /// What it made.
    pub content: Content,
}

/// A task of which there are different results. Its record does not count; the next worker to run it decides.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// The stage.
    pub stage: u32,
    /// The part.
    pub part: u32,
    /// What the results were made from.
    pub inputs: Vec<InputRecord>,
    /// The results.
    pub opinions: Vec<Opinion>,
}

impl Doubt {
    /// The task.
    pub fn id(&self) -> TaskId {
        TaskId { stage: self.stage, part: self.part }
    }

    /// Whether a worker of this name has made one of the results: it is not asked again.
    pub fn has_heard(&self, worker: &str) -> bool {
        self.opinions.iter().any(|opinion| opinion.worker == worker)
    }
}

/// A worker whose results were taken out of a build.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Dismissed {
    /// Its name.
    pub worker: String,
    /// How many of its results were taken out.
    pub tasks: u64,
}

/// `build/doubts.json`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Doubts {
    /// [`RECORD_FORMAT`].
    pub format: u32,
    /// Name of the table.
    pub table: String,
    /// Tasks whose results differ.
    pub open: Vec<Doubt>,
    /// Workers whose results are taken out when the store is read next.
    pub pending: Vec<String>,
    /// Those whose results were. From then on a file that is made again may differ from what others were made from.
    pub dismissed: Vec<Dismissed>,
}

impl Doubts {
    /// None yet.
    pub fn none(table: &str) -> Self {
        Self { format: RECORD_FORMAT, table: table.into(), open: Vec::new(), pending: Vec::new(), dismissed: Vec::new() }
    }

    /// Whether nothing was ever doubted.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.pending.is_empty() && self.dismissed.is_empty()
    }

    /// What a worker has made is to be taken out. Where it was the only one that disagreed, nobody does any more.
    pub fn dismiss(&mut self, worker: &str) {
        if !self.pending.iter().any(|name| name == worker) {
            self.pending.push(worker.to_owned());
        }
        for doubt in &mut self.open {
            doubt.opinions.retain(|opinion| opinion.worker != worker);
        }
        let differ = |doubt: &Doubt| doubt.opinions.windows(2).any(|pair| pair[0].content != pair[1].content);
        self.open.retain(differ);
    }

    /// The results of these workers are out of the store.
    pub fn taken_out(&mut self, counts: &[Dismissed]) {
        for of_worker in counts {
            self.pending.retain(|name| *name != of_worker.worker);
            match self.dismissed.iter_mut().find(|known| known.worker == of_worker.worker) {
                Some(known) => known.tasks += of_worker.tasks,
                None => self.dismissed.push(of_worker.clone()),
            }
        }
    }
}

/// Path of the record of a finished task.
pub fn commit_path(id: TaskId) -> String {
    format!("{COMMITS}/{}.{}.json", id.stage, id.part)
}

/// Path of the record of a finished stage.
pub fn stage_path(stage: u32) -> String {
    format!("{LAYERS}/{stage}.json")
}

/// The task whose record has this path.
pub fn commit_of_path(path: &str) -> Option<TaskId> {
    let name = path.strip_prefix(COMMITS)?.strip_prefix('/')?.strip_suffix(".json")?;
    let (stage, part) = name.split_once('.')?;
    let id = TaskId { stage: stage.parse().ok()?, part: part.parse().ok()? };
    (commit_path(id) == path).then_some(id)
}

/// The stage whose record has this path.
pub fn stage_of_path(path: &str) -> Option<u32> {
    let stage = path.strip_prefix(LAYERS)?.strip_prefix('/')?.strip_suffix(".json")?.parse().ok()?;
    (stage_path(stage) == path).then_some(stage)
}

/// Bytes that are not a record as it was sealed: no JSON, or not the JSON that its hash was made of.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[error("the record is damaged: {0}")]
pub struct Damaged(String);

/// Writes a record, with its hash in it.
pub fn seal<T: Serialize>(record: &T) -> Vec<u8> {
    let value = serde_json::to_value(record).expect("records are plain data with string keys");
    seal_value(value)
}

fn seal_value(mut value: Value) -> Vec<u8> {
    let hash = Digest::blake3(value.to_string().as_bytes());
    if let Value::Object(members) = &mut value {
        members.insert("blake3".into(), hash.to_string().into());
    }
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// Reads a record back, if it is the one that was sealed.
pub fn open<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Damaged> {
    let damaged = |why: &dyn std::fmt::Display| Damaged(why.to_string());
    let mut value: Value = serde_json::from_slice(bytes).map_err(|error| damaged(&error))?;
    let Some(members) = value.as_object_mut() else { return Err(damaged(&"it is not an object")) };
    members.remove("blake3");
    if seal_value(value.clone()) != bytes {
        return Err(damaged(&"its hash does not fit its content"));
    }
    serde_json::from_value(value).map_err(|error| damaged(&error))
}

/// An artifact as people call it.
pub fn named(artifact: ArtifactId) -> String {
    let kind = match artifact.kind {
        ArtifactKind::Index => "the index",
        ArtifactKind::Work => "the working values",
        ArtifactKind::Shard => "the shard file",
        ArtifactKind::Checkpoint => "the checkpoint",
        ArtifactKind::Stretch => "the keys of the stretch",
        ArtifactKind::Partial => "what a task found",
    };
    format!("{kind} of layer {} shard {}", artifact.layer, artifact.shard)
}

/// The artifact that a file is.
pub fn artifact_of(file: &FileRecord) -> ArtifactId {
    artifact(file.kind, file.layer, file.shard)
}

/// The artifact that an input is.
pub fn artifact_of_input(input: &InputRecord) -> ArtifactId {
    artifact(input.kind, input.layer, input.shard)
}

fn artifact(kind: FileKind, layer: u32, shard: u32) -> ArtifactId {
    let kind = match kind {
        FileKind::Index => ArtifactKind::Index,
        FileKind::Work => ArtifactKind::Work,
        FileKind::Shard => ArtifactKind::Shard,
        FileKind::Checkpoint => ArtifactKind::Checkpoint,
        FileKind::Stretch => ArtifactKind::Stretch,
        FileKind::Partial => ArtifactKind::Partial,
    };
    ArtifactId { kind, layer: Layer(layer), shard }
}

/// The kind of file that holds an artifact.
pub fn file_kind(kind: ArtifactKind) -> FileKind {
    match kind {
        ArtifactKind::Index => FileKind::Index,
        ArtifactKind::Work => FileKind::Work,
        ArtifactKind::Shard => FileKind::Shard,
        ArtifactKind::Checkpoint => FileKind::Checkpoint,
        ArtifactKind::Stretch => FileKind::Stretch,
        ArtifactKind::Partial => FileKind::Partial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Commit {
        Commit {
            format: RECORD_FORMAT,
            table: "2048-2x2".into(),
            stage: 3,
            part: 1,
            content: Content {
                outputs: Vec::new(),
                counts: vec![CountRecord { layer: 8, shard: 0, states: u64::MAX, afterstates: 1 << 53, terminal: 0 }],
                stats: vec![StatsRecord {
                    layer: 8,
                    shard: 0,
                    legal_moves: u64::MAX,
                    single_best: 3,
                    choices: 5,
                    value_sum: -17.25,
                    gap_sum: 0.1 + 0.2,
                    gap_most: 5e-324,
                }],
                facts: vec![FactRecord { name: "value".into(), value: 67.594_840_734_567_9 }],
            },
            inputs: Vec::new(),
            worker: "a \"quoted\" name".into(),
            attempt: 1,
            token: (7 << 32) | 5,
            elapsed_ms: 12,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let bytes = seal(&record());
        assert_eq!(open::<Commit>(&bytes), Ok(record()));
        assert_eq!(bytes.iter().filter(|&&b| b == b'\n').count(), 1, "one line");
    }

    /// A build that was begun before there were statistics goes on, and games without them have the records that they always had.
    #[test]
    fn a_record_without_statistics_does_not_mention_them() {
        let mut commit = record();
        commit.content.stats.clear();
        let bytes = seal(&commit);
        assert!(!String::from_utf8_lossy(&bytes).contains("stats"));
        assert_eq!(open::<Commit>(&bytes), Ok(commit));
    }

    #[test]
    fn no_flipped_bit_and_no_lost_end_of_a_record_goes_unnoticed() {
        let sound = seal(&record());
        for at in 0..sound.len() {
            for bit in 0..8 {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                assert!(open::<Commit>(&bytes).is_err(), "bit {bit} of byte {at}");
            }
            assert!(open::<Commit>(&sound[..at]).is_err(), "cut at {at}");
        }
        assert!(open::<Commit>(&[sound.as_slice(), b" "].concat()).is_err());
    }

    #[test]
    fn paths_name_their_records_in_one_way_only() {
        let id = TaskId { stage: 12, part: 3 };
        assert_eq!(commit_path(id), "build/commits/12.3.json");
        assert_eq!(commit_of_path("build/commits/12.3.json"), Some(id));
        assert_eq!(stage_of_path("build/layers/7.json"), Some(7));
        for odd in ["build/commits/012.3.json", "build/commits/12.3", "build/commits/x.3.json", "build/commits/+1.3.json"] {
            assert_eq!(commit_of_path(odd), None, "{odd}");
        }
        assert_eq!(stage_of_path("build/layers/07.json"), None);
    }
}
