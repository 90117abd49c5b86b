//! Everything that a table answers, read once while it is sound, and the question asked again after harm was done to it.

use std::collections::BTreeMap;
use std::path::Path;
use strata_games::{Key, Layer, StateSpace, TableReader};
use strata_storage::{ShardError, Table};
use strata_worker::GameTable;

/// One key with all that is stored for it, floats as their bits: an answer is the same or it is not.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    key: Key,
    shard: u32,
    ordinal: u64,
    scalars: Vec<(u64, u64)>,
    dists: Vec<(usize, Vec<u64>)>,
}

/// What a sound table answers, by the path of the shard that answers it.
pub struct Truth {
    /// The rules.
    pub space: Box<dyn StateSpace>,
    shards: BTreeMap<String, Vec<Known>>,
}

/// What became of the questions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Answers {
    /// Answered as before.
    pub right: u64,
    /// Refused with an error that names the file.
    pub refused: u64,
}

impl std::ops::AddAssign for Answers {
    fn add_assign(&mut self, other: Self) {
        self.right += other.right;
        self.refused += other.refused;
    }
}

impl Truth {
    /// Reads a sound table.
    ///
    /// # Panics
    /// When it is not sound.
    pub fn read(dir: &Path) -> Self {
        let table = Table::open(dir).expect("the table is sound");
        let name = table.manifest().table.parse().expect("its name is one");
        let space = strata_games::open(&name).expect("its space opens");
        let mut shards = BTreeMap::new();
        for layer in &table.manifest().layers {
            for shard in &layer.shards {
                let file = table.shard(layer.layer, shard.shard).expect("the shard is sound");
                let index = file.index().expect("the index is sound");
                let ranks = index.iter().map(|rank| Key { layer: Layer(layer.layer), rank: shard.first_rank + rank });
                let known: Vec<Known> = ranks
                    .map(|key| ask(space.as_ref(), &table, key).expect("the shard is sound").expect("its keys are found"))
                    .collect();
                assert_eq!(known.len() as u64, shard.keys);
                shards.insert(shard.path.clone(), known);
            }
        }
        Self { space, shards }
    }

    /// The shards' paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.shards.keys().map(String::as_str)
    }

    /// Number of keys of a shard; 0 for other files.
    pub fn keys(&self, path: &str) -> u64 {
        self.shards.get(path).map_or(0, |known| known.len() as u64)
    }

    /// Asks a table for every key of a shard. Whatever was done to it, an answer is right, or an error that names a file.
    ///
    /// # Panics
    /// When an answer is wrong, or an error does not say where.
    pub fn ask_shard(&self, table: &Table, path: &str) -> Answers {
        let mut answers = Answers::default();
        for known in &self.shards[path] {
            match ask(self.space.as_ref(), table, known.key) {
                Ok(Some(found)) => {
                    assert_eq!(found, *known, "{path}: a wrong value");
                    answers.right += 1;
                }
                Ok(None) => panic!("{path}: {:?} is said not to be in the table", known.key),
                Err(error) => {
                    let error = error.downcast_ref::<ShardError>().expect("errors of a table are typed");
                    assert!(error.path.ends_with(path), "{error} does not name {path}");
                    answers.refused += 1;
                }
            }
        }
        answers
    }

    /// Opens the table and asks for every key of all shards, or of those given.
    pub fn ask(&self, table: &Table, only: Option<&str>) -> Answers {
        let mut answers = Answers::default();
        for path in self.shards.keys().filter(|path| only.is_none_or(|only| only == path.as_str())) {
            answers += self.ask_shard(table, path);
        }
        answers
    }
}

/// All that is stored for a key; `None` when the table says that it does not hold it.
fn ask(space: &dyn StateSpace, table: &Table, key: Key) -> Result<Option<Known>, strata_games::ReadError> {
    let reader = GameTable(table);
    let Some(slot) = reader.find(key)? else { return Ok(None) };
    let mut known = Known { key, shard: slot.shard, ordinal: slot.ordinal, scalars: Vec::new(), dists: Vec::new() };
    for column in 0..space.scalar_columns().len() {
        let read = reader.scalar(slot, column)?;
        known.scalars.push((read.value.to_bits(), read.error.to_bits()));
    }
    for column in 0..space.dist_columns().len() {
        let (first, entries) = reader.dist(slot, column)?;
        known.dists.push((first, entries.into_iter().map(f64::to_bits).collect()));
    }
    Ok(Some(known))
}
