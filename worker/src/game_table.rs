//! A finished table on disk, as the rules of a game read it.

use strata_games::{Bounded, Key, ReadError, Slot, TableReader};
use strata_storage::Table;

/// Lets probing and a game's own questions read a [`Table`].
///
/// An error is a boxed [`strata_storage::ShardError`]: downcast it to learn which file and which section are damaged.
#[derive(Clone, Copy, Debug)]
pub struct GameTable<'a>(pub &'a Table);

impl TableReader for GameTable<'_> {
    fn find(&self, key: Key) -> Result<Option<Slot>, ReadError> {
        let found = self.0.find(key.layer.0, key.rank)?;
        Ok(found.map(|(shard, ordinal)| Slot { layer: key.layer, shard, ordinal }))
    }

    fn scalar(&self, slot: Slot, column: usize) -> Result<Bounded, ReadError> {
        let read = self.0.scalar(slot.layer.0, slot.shard, column, slot.ordinal)?;
        Ok(Bounded { value: read.value, error: read.error })
    }

    fn dist(&self, slot: Slot, column: usize) -> Result<(usize, Vec<f64>), ReadError> {
        Ok(self.0.dist(slot.layer.0, slot.shard, column, slot.ordinal)?)
    }
}
