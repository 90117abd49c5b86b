//! Square boards: what the passes do to them, board by board, many at a time.
//!
//! On a square board a position and the transposed one are the same, and the passes work on ranks: the smaller of both places. Stripes
//! do not help there. Their boards go to different places once they are transposed, and on three columns a stripe has two
//! reachable boards, so working out where it goes costs more than its boards do. Instead boards are collected, ranked together, and
//! their ranks are looked up or put in. Sets of states are made by giving a new tile to each afterstate.
//!
//! All sums have one order: of the boards of [`PIECE`] places, in eight columns of neighbours that are added up at the end.

use super::Game2048;
use super::after::{Children, Valued, Values};
use super::best::{Columns, Finds, Weighed};
use super::bits::{AtomicBits, Ranked, RankedBits, places};
use super::lanes::{Job, Lanes, is_wide, run};
use super::lines::Lines;
use super::moves::{Tally, insert_all};
use super::ranks::LayerRanks;
use super::room::Room;
use super::spawn::{Origin, Parent};
use super::states::{Solved, total};
use super::vertical::{FourWays, ILLEGAL, TOGETHER, ranked};
use crate::array::{Array, Releaser};
use crate::name::Keep;
use crate::space::{LayerStats, TaskError};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Places that are done in one go: whole words, the same ones whatever the threads.
const PIECE: u64 = 1 << 13;
/// Boards that are collected before they are ranked.
const BATCH: usize = 64;
/// Room for those, and for the spawns of one board more.
const ROOM: usize = BATCH + 16;

/// The pieces of so many places.
fn pieces(universe: u64) -> Vec<Range<u64>> {
    (0..universe).step_by(PIECE as usize).map(|start| start..universe.min(start + PIECE)).collect()
}

/// Boards that wait.
struct Waiting {
    boards: [u64; ROOM],
    count: usize,
}

impl Waiting {
    fn new() -> Self {
        Self { boards: [0; ROOM], count: 0 }
    }

    #[inline(always)]
    fn push(&mut self, board: u64) {
        self.boards[self.count] = board;
        self.count += 1;
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.count >= BATCH
    }

    /// Takes boards until it is full or none are left; whether any wait.
    #[inline(always)]
    fn fill(&mut self, boards: &mut impl Iterator<Item = u64>) -> bool {
        while !self.is_full()
            && let Some(board) = boards.next()
        {
            self.push(board);
        }
        self.count > 0
    }

    /// The boards, padded to whole vectors; none wait any more.
    #[inline(always)]
    fn take(&mut self) -> (&[u64], usize) {
        let count = std::mem::take(&mut self.count);
        let padded = count.next_multiple_of(TOGETHER);
        if let Some(&filler) = self.boards[..count].last() {
            self.boards[count..padded].fill(filler);
        }
        (&self.boards[..padded], count)
    }

    /// Ranks the boards, and forgets them; how many they were.
    #[inline(always)]
    fn rank<L: Lanes, const R: usize, const C: usize>(&mut self, ranks: &LayerRanks<R, C>, to: &mut [u32; ROOM]) -> usize {
        let (boards, count) = self.take();
        ranked::<L, R, C>(ranks, boards, to);
        count
    }
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// Puts in the states of a layer of square boards.
    pub(super) fn push_states(&self, origin: Origin<'_, R, C>, into: AtomicBits<'_>, done: &[Releaser]) {
        let give = |(parent, tile): (Option<Parent<'_, R, C>>, u64)| {
            let Some(parent) = parent else { return };
            pieces(parent.ranks.universe()).into_par_iter().with_max_len(1).for_each(|range| {
                run(GiveTile { origin, parent, tile, range, into });
                done.iter().for_each(Releaser::release);
            });
        };
        origin.parents.into_par_iter().zip([1, 2]).for_each(give);
        for &board in origin.starts {
            into.insert(origin.ranks.rank(board));
        }
    }

    /// Puts in what the moves of the states of a layer of square boards make; counts the states.
    pub(super) fn move_states(&self, ranks: &LayerRanks<R, C>, states: &[u64], after: AtomicBits<'_>) -> Tally {
        let pieces = pieces(ranks.universe()).into_par_iter().with_max_len(1);
        pieces.map(|range| run(MoveBoards { game: self, ranks, states, range, after })).sum()
    }

    /// Solves a set of states of square boards.
    pub(super) fn value_square_states(
        &self,
        room: &Room<'_>,
        ranks: &Arc<LayerRanks<R, C>>,
        set: RankedBits,
        after: &Valued<R, C>,
    ) -> Result<Solved<R, C>, TaskError> {
        let n = set.count() as usize;
        let mut values = room.array::<f64>(n)?;
        let mut chosen = room.array::<u8>(if self.spec.keep == Keep::Play { n } else { 0 })?;
        let done = [values.releaser(), set.releaser(), chosen.releaser()];
        let finds = Finds { values: &mut values, chosen: &mut chosen, ..Finds::default() };
        let found: Vec<LayerStats> = finds
            .split(set.view(), pieces(ranks.universe()), Range::clone)
            .into_par_iter()
            .with_max_len(1)
            .map(|(range, finds)| {
                let found = run(ValueBoards { game: self, ranks, set: set.view(), after: after.view(), range, finds });
                done.iter().for_each(Releaser::release);
                found
            })
            .collect();
        let stats = total(found);
        Ok(Solved { states: Valued { ranks: Arc::clone(ranks), set, values }, chosen, stats: vec![stats] })
    }

    /// The values of a set of afterstates of square boards, in its order.
    pub(super) fn value_square_afterstates(
        &self,
        ranks: &LayerRanks<R, C>,
        set: Ranked<'_>,
        children: Children<'_, R, C>,
        values: &mut [f64],
        release: &(dyn Fn() + Sync),
    ) {
        let of_pieces = Finds { values, ..Finds::default() }.split(set, pieces(ranks.universe()), Range::clone);
        of_pieces.into_par_iter().with_max_len(1).for_each(|(range, finds)| {
            run(MeanOfBoards { game: self, ranks, set, children, range, values: finds.values });
            release();
        });
    }

    /// The set of states of a layer of square boards, as words.
    pub(super) fn square_states(
        &self,
        room: &Room<'_>,
        origin: Origin<'_, R, C>,
        done: &[Releaser],
    ) -> Result<Array<u64>, TaskError> {
        let mut words = room.array::<u64>(origin.ranks.universe().div_ceil(64) as usize)?;
        self.push_states(origin, AtomicBits::over(&mut words, 0), done);
        Ok(words)
    }
}

/// Gives a new tile to the afterstates of some places, in every empty cell.
struct GiveTile<'a, const R: usize, const C: usize> {
    origin: Origin<'a, R, C>,
    parent: Parent<'a, R, C>,
    tile: u64,
    range: Range<u64>,
    into: AtomicBits<'a>,
}

impl<const R: usize, const C: usize> Job for GiveTile<'_, R, C> {
    type Output = ();
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { origin, parent, tile, range, into } = self;
        let (mut waiting, mut to) = (Waiting::new(), [0; ROOM]);
        for board in parent.ranks.boards(places(|at| parent.words[at], range)) {
            if origin.goal.is_some_and(|goal| Lines::<R, C>::largest(board) >= goal) {
                continue;
            }
            let mut cells = Lines::<R, C>::empty(board);
            while cells != 0 {
                waiting.push(board | tile << cells.trailing_zeros());
                cells &= cells - 1;
            }
            if waiting.is_full() {
                let n = waiting.rank::<L, R, C>(origin.ranks, &mut to);
                insert_all(&to[..n], into);
            }
        }
        let n = waiting.rank::<L, R, C>(origin.ranks, &mut to);
        insert_all(&to[..n], into);
    }
}

/// What all four moves of a batch of boards lead to.
struct Ways {
    waiting: Waiting,
    to: [[u32; ROOM]; 4],
    /// What the rows earned before, after a move to the side, after a move up or down.
    earned: [[u32; ROOM]; 3],
}

impl Ways {
    fn new() -> Self {
        Self { waiting: Waiting::new(), to: [[0; ROOM]; 4], earned: [[0; ROOM]; 3] }
    }

    /// Moves the next boards; how many they are, `None` when none are left.
    #[inline(always)]
    fn next<L: Lanes, const R: usize, const C: usize>(
        &mut self,
        game: &Game2048<R, C>,
        ranks: &LayerRanks<R, C>,
        boards: &mut impl Iterator<Item = u64>,
    ) -> Option<usize> {
        if !self.waiting.fill(boards) {
            return None;
        }
        let (boards, n) = self.waiting.take();
        FourWays { ranks, lines: &game.lines, boards, to: &mut self.to, earned: &mut self.earned }.compute::<L>();
        Some(n)
    }
}

/// The forward pass over the states of some places.
struct MoveBoards<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    ranks: &'a LayerRanks<R, C>,
    states: &'a [u64],
    range: Range<u64>,
    after: AtomicBits<'a>,
}

impl<const R: usize, const C: usize> Job for MoveBoards<'_, R, C> {
    type Output = Tally;
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) -> Tally {
        let Self { game, ranks, states, range, after } = self;
        let (mut ways, mut tally) = (Ways::new(), Tally::default());
        let mut boards = ranks.boards(places(|at| states[at], range));
        while let Some(n) = ways.next::<L, R, C>(game, ranks, &mut boards) {
            for to in &ways.to {
                insert_all(&to[..n], after);
            }
            tally.states += n as u64;
            for i in 0..n {
                tally.terminal += u64::from(ways.to.iter().all(|to| to[i] == ILLEGAL));
            }
        }
        tally
    }
}

/// The values of the states of some places.
struct ValueBoards<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    ranks: &'a LayerRanks<R, C>,
    set: Ranked<'a>,
    after: Values<'a, R, C>,
    range: Range<u64>,
    finds: Finds<'a>,
}

impl<const R: usize, const C: usize> Job for ValueBoards<'_, R, C> {
    type Output = LayerStats;
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) -> LayerStats {
        let Self { game, ranks, set, after, range, mut finds } = self;
        let (mut ways, mut stats) = (Ways::new(), Columns::default());
        let mut weighed = Weighed::<ROOM>::new();
        let mut boards = ranks.boards(set.places(range));
        while let Some(n) = ways.next::<L, R, C>(game, ranks, &mut boards) {
            for &place in ways.to.iter().flat_map(|to| &to[..n]) {
                after.set.prefetch(place.into());
            }
            let mut found = [[0usize; ROOM]; 4];
            for (found, to) in found.iter_mut().zip(&ways.to) {
                after.find_all(&to[..n], found);
            }
            let [before, across, along] = &ways.earned;
            for ((number, earned), (found, to)) in (0..).zip([across, across, along, along]).zip(found.iter().zip(&ways.to)) {
                weighed.add(number, &game.worth(&to[..n], found, after, earned, before));
            }
            weighed.settle(n, finds.take(n), &mut stats);
        }
        stats.sum()
    }
}

/// The values of the afterstates of some places.
struct MeanOfBoards<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    ranks: &'a LayerRanks<R, C>,
    set: Ranked<'a>,
    children: Children<'a, R, C>,
    range: Range<u64>,
    values: &'a mut [f64],
}

impl<const R: usize, const C: usize> Job for MeanOfBoards<'_, R, C> {
    type Output = ();
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { game, ranks, set, children, range, values } = self;
        let mut boards = ranks.boards(set.places(range));
        if game.is_odd() {
            for (value, board) in values.iter_mut().zip(boards) {
                *value = game.after_value(board, ranks.age(), children);
            }
            return;
        }
        let mut waiting = [Waiting::new(), Waiting::new()];
        // Number of empty cells of the boards that wait; none where the tile is there that was asked for.
        let (mut cells_of, mut count, mut done) = ([0u8; ROOM], 0, 0);
        loop {
            let next = boards.next();
            if let Some(board) = next {
                let mut cells = if game.has_won(board) { 0 } else { Lines::<R, C>::empty(board) };
                cells_of[count] = cells.count_ones() as u8;
                count += 1;
                while cells != 0 {
                    let cell = cells.trailing_zeros();
                    cells &= cells - 1;
                    waiting[0].push(board | 1 << cell);
                    waiting[1].push(board | 2 << cell);
                }
            }
            if waiting[0].is_full() || count == BATCH || next.is_none() {
                let mut of_tiles = [[0.0f64; ROOM]; 2];
                for ((waiting, child), of_tile) in waiting.iter_mut().zip(children).zip(&mut of_tiles) {
                    look_up::<L, R, C>(waiting, child, of_tile);
                }
                let mut at = 0;
                for (value, &cells) in values[done..done + count].iter_mut().zip(&cells_of) {
                    let end = at + usize::from(cells);
                    let [twos, fours] = [0, 1].map(|tile| of_tiles[tile][at..end].iter().fold(0.0, |sum, value| sum + value));
                    *value = if cells == 0 { 1.0 } else { game.mean(twos, fours, cells.into()) };
                    at = end;
                }
                (done, count) = (done + count, 0);
            }
            if next.is_none() {
                return;
            }
        }
    }
}

/// The values of the states that wait; 0 for those of an age that the table does not have.
#[inline(always)]
fn look_up<L: Lanes, const R: usize, const C: usize>(
    waiting: &mut Waiting,
    states: Option<Values<'_, R, C>>,
    values: &mut [f64; ROOM],
) {
    let Some(states) = states else {
        waiting.count = 0;
        return;
    };
    let mut to = [0; ROOM];
    let n = waiting.rank::<L, R, C>(states.ranks, &mut to);
    for &place in &to[..n] {
        states.set.prefetch(place.into());
    }
    let mut found = [0usize; ROOM];
    states.find_all(&to[..n], &mut found);
    for (value, &found) in values[..n].iter_mut().zip(&found) {
        *value = states.values[found];
    }
}
