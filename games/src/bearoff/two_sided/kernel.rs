//! Computing the pairs of a task: shard by shard, in tiles that do not depend on each other.

use super::geometry::{Block, Geometry};
use super::plan::{Plan, Run, ShardShape, sources};
use super::sweep::{PLANES, Piece, Row, Rules, Sources, Tiles};
use super::{COLUMNS, TwoSided};
use crate::array::Array;
use crate::bearoff::dice::MOST_PIPS;
use crate::bearoff::plan::{small, whole};
use crate::columns::ColumnsView;
use crate::keys::{Bitmap, Keys};
use crate::space::*;
use rayon::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;

/// The rows of a shard: mapped from a file, or made by this task.
enum Rows {
    Mapped(Box<dyn Numbers<f32>>),
    Made(Array<Row>),
}

impl Rows {
    fn rows(&self) -> &[Row] {
        match self {
            Rows::Mapped(numbers) => bytemuck::cast_slice(numbers.numbers()),
            Rows::Made(rows) => rows,
        }
    }
}

/// The rows of the layers that a task reads: by layer and shard.
pub(super) struct Window<'s> {
    space: &'s TwoSided,
    shards: BTreeMap<(usize, usize), Rows>,
    /// Bytes that were read of it since it was last let go of, at most.
    read: Cell<u64>,
}

impl<'s> Window<'s> {
    /// Nothing is known yet.
    pub fn new(space: &'s TwoSided) -> Self {
        Self { space, shards: BTreeMap::new(), read: Cell::new(0) }
    }

    /// Adds a shard that was computed.
    pub fn add(&mut self, layer: usize, shard: usize, rows: Array<Row>) {
        self.shards.insert((layer, shard), Rows::Made(rows));
    }

    /// The rows of one strip of a block.
    fn strip(&self, layer: usize, block: &Block, number: usize) -> &[Row] {
        let strip = block.strip(number);
        if strip.rows == 0 {
            return &[];
        }
        let shards = self.space.plan.shards(layer);
        let shard = shards.partition_point(|shard| shard.rows.end <= strip.first_row);
        let rows = self.shards[&(layer, shard)].rows();
        let first = whole(strip.first_row - shards[shard].rows.start);
        &rows[first..first + strip.rows]
    }

    /// The rows that a block's plays lead to, against one strip of the other side.
    fn sources(&self, geometry: &Geometry, block: &Block, number: usize) -> Sources<'_> {
        let mut all: Sources<'_> = [&[]; MOST_PIPS];
        for (layer, source) in sources(geometry, block) {
            all[block.pips - source.others_pips - 1] = self.strip(layer, source, number);
        }
        all
    }

    /// Lets go of the layers before one.
    pub fn forget_before(&mut self, layer: usize) {
        self.shards = self.shards.split_off(&(layer, 0));
    }

    fn release(&self) {
        self.read.set(0);
        for rows in self.shards.values() {
            if let Rows::Mapped(numbers) = rows {
                numbers.release();
            }
        }
    }
}

/// Memory for the results of a shard, used again for the next: fresh pages cost a fifth of the time.
#[derive(Default)]
pub(super) struct Memory {
    pub rows: Array<Row>,
    pub stored: [Array<f32>; PLANES],
}

impl Memory {
    /// Gives each run of a shard its part.
    fn pieces(&mut self, shard: &ShardShape, is_needed: bool) -> Vec<Piece<'_>> {
        let pairs = whole(shard.ranks.end - shard.ranks.start);
        let rows = if is_needed { whole(shard.rows.end - shard.rows.start) } else { 0 };
        self.make_room(pairs, rows);
        let mut rows = is_needed.then(|| &mut self.rows[..rows]);
        let mut stored = self.stored.each_mut().map(|column| &mut column[..pairs]);
        let piece = |Run { block, strips }: &Run| {
            let (mut pairs, mut count) = (0, 0);
            for strip in strips.clone().map(|number| block.strip(number)) {
                pairs += strip.width * strip.rows;
                count += strip.rows;
            }
            let rows = rows.as_mut().map(|rows| rows.split_off_mut(..count).expect("the rows of the shard"));
            let stored = stored.each_mut().map(|all| all.split_off_mut(..pairs).expect("the pairs of the shard"));
            Piece { block: *block, strips: strips.clone(), rows, stored }
        };
        shard.runs.iter().map(piece).collect()
    }

    fn make_room(&mut self, pairs: usize, rows: usize) {
        if self.rows.len() < rows {
            self.rows = Array::zeroed(rows);
        }
        for column in &mut self.stored {
            if column.len() < pairs {
                *column = Array::zeroed(pairs);
            }
        }
    }
}

impl TwoSided {
    pub(super) fn run_task(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        let layers = self.plan.outputs(task);
        let inputs: Vec<(usize, usize)> = self.plan.inputs(&self.geometry, task).into_iter().collect();
        let map = |(layer, shard): (usize, usize)| {
            let numbers = io.map_numbers(self.plan.layers[layer].layer, small(shard))?;
            Ok(((layer, shard), Rows::Mapped(numbers)))
        };
        let shards = inputs.into_par_iter().map(map).collect::<Result<BTreeMap<_, _>, TaskError>>()?;
        let mut window = Window { shards, ..Window::new(self) };
        let mut memory = Memory::default();
        for layer in layers.clone() {
            window.forget_before(layer.saturating_sub(MOST_PIPS));
            let mut numbers: Vec<usize> = self.plan.part(task, layer).collect();
            if Plan::is_backwards(layer) {
                numbers.reverse();
            }
            for number in numbers {
                let shard = &self.plan.shards(layer)[number];
                let is_needed = self.plan.is_read_later(layer) || layer + 1 < layers.end;
                self.shard(layer, number, shard, is_needed, &window, &mut memory, io)?;
                if layer + 1 < layers.end {
                    window.add(layer, number, std::mem::take(&mut memory.rows));
                }
            }
        }
        Ok(())
    }

    /// Computes a shard and writes it. Its rows, if they are needed, are left in the memory.
    #[allow(clippy::too_many_arguments)]
    fn shard(
        &self,
        layer: usize,
        number: usize,
        shard: &ShardShape,
        is_needed: bool,
        window: &Window<'_>,
        memory: &mut Memory,
        io: &dyn TaskIo,
    ) -> Result<(), TaskError> {
        let (info, shard_number) = (&self.plan.layers[layer], small(number));
        let progress = |pairs| io.progress(info.layer, pairs);
        // What is mapped counts as memory of this process until it is released.
        self.compute(&self.money, shard, is_needed, window, io.memory_bytes() / 4, memory, &progress)?;
        let pairs = whole(shard.ranks.end - shard.ranks.start);
        let stored = memory.stored.each_ref().map(|column| &column[..pairs]);
        let terminal = self.terminal(shard);
        io.put_counts(info.layer, shard_number, Counts { states: pairs as u64, afterstates: 0, terminal })?;
        if let Some(at) = self.start_in(layer, shard) {
            for (name, column) in COLUMNS.iter().zip(stored) {
                io.put_fact(name, column[at].into());
            }
            io.put_fact("value", stored[0][at].into());
        }
        if self.plan.is_read_later(layer) {
            let rows = &memory.rows[..whole(shard.rows.end - shard.rows.start)];
            io.put_numbers(info.layer, shard_number, bytemuck::cast_slice(rows))?;
        }
        let columns = ColumnsView { singles: stored.to_vec(), ..ColumnsView::default() };
        io.put_shard(info.layer, shard_number, Keys::Bits(&all(pairs as u64)), columns)
    }

    /// Computes a shard by some rules. What is read of the window is let go of whenever it is more than `most` bytes.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn compute<R: Rules>(
        &self,
        rules: &R,
        shard: &ShardShape,
        is_needed: bool,
        window: &Window<'_>,
        most: u64,
        memory: &mut Memory,
        progress: &dyn Fn(u64) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        let mut batch: Vec<Tiles<'_>> = Vec::new();
        let run = |batch: &mut Vec<Tiles<'_>>| {
            let pairs = batch.iter().map(Tiles::pairs).sum();
            std::mem::take(batch).into_par_iter().for_each(|tiles| tiles.compute(rules));
            progress(pairs)
        };
        for piece in memory.pieces(shard, is_needed) {
            let block = piece.block;
            if block.pips == 0 || block.others_pips == 0 {
                let won = if block.pips == 0 { 1.0 } else { -1.0 };
                piece.fill(&self.geometry, |is_safe| rules.over(won, is_safe));
                continue;
            }
            let plays = self.plays.of(&self.geometry.counting, &self.board, &block);
            for tiles in piece.tiles(&self.geometry, plays, |number| window.sources(&self.geometry, &block, number)) {
                let bytes = tiles.source_bytes();
                if window.read.get() + bytes > most && window.read.get() > 0 {
                    run(&mut batch)?;
                    window.release();
                }
                window.read.set(window.read.get() + bytes);
                batch.push(tiles);
            }
        }
        run(&mut batch)
    }

    /// Pairs of a shard where the game is over.
    fn terminal(&self, shard: &ShardShape) -> u64 {
        let over = |run: &&Run| run.block.pips == 0 || run.block.others_pips == 0;
        let pairs = |run: &Run| run.strips.clone().map(|number| run.block.strip(number).ranks()).sum::<u64>();
        shard.runs.iter().filter(over).map(pairs).sum()
    }

    /// Where the start is in a shard, if it is there.
    fn start_in(&self, layer: usize, shard: &ShardShape) -> Option<usize> {
        let place = self.start_place();
        (place.layer == layer && shard.ranks.contains(&place.rank)).then(|| whole(place.rank - shard.ranks.start))
    }
}

/// All of so many ranks.
fn all(ranks: u64) -> Bitmap {
    let mut words = Array::<u64>::zeroed(whole(ranks.div_ceil(64)));
    words.fill(u64::MAX);
    if let (Some(last), false) = (words.last_mut(), ranks.is_multiple_of(64)) {
        *last = (1 << (ranks % 64)) - 1;
    }
    Bitmap::from_words(words, ranks)
}
