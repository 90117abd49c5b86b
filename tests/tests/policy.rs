//! Playing by the table: simulated games score on average what the table promises. The rules are those of `rules2048`, written for the tests.

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use strata_games::{StateSpace, TableReader};
use strata_storage::Table;
use strata_tests::fixture;
use strata_tests::golden::on_2048;
use strata_tests::rules2048::{Board, Rules};
use strata_worker::GameTable;

/// Plays games on one board, by the table or by chance.
struct Player<'a> {
    rules: Rules,
    space: &'a dyn StateSpace,
    table: &'a Table,
    /// For every board met so far the reward of the best move, and the board after it; `None` when the game is over.
    policy: HashMap<Board, Option<(u32, Board)>>,
}

impl Player<'_> {
    /// The stored value of a board after a move.
    fn value(&self, board: &Board) -> f64 {
        let position = self.space.parse(&self.rules.text(board)).expect("a board of this size");
        let key = self.space.rank(self.space.canonical(position)).expect("a board that play leads to");
        let reader = GameTable(self.table);
        let slot = reader.find(key).expect("a sound table").expect("the table holds every board that play leads to");
        reader.scalar(slot, 0).expect("a sound table").value
    }

    fn best(&mut self, board: &Board) -> Option<(u32, Board)> {
        if let Some(known) = self.policy.get(board) {
            return *known;
        }
        let moves = self.rules.moves(board).map(|(reward, next)| (f64::from(reward) + self.value(&next), reward, next));
        let best = moves.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, reward, next)| (reward, next));
        self.policy.insert(*board, best);
        best
    }

    fn spawn(&self, board: &mut Board, random: &mut StdRng) {
        let cell = self.rules.empty(board).choose(random).expect("a move leaves an empty cell");
        board[cell] = if random.random_bool(0.1) { 2 } else { 1 };
    }

    /// The score of one game.
    fn play(&mut self, random: &mut StdRng, by_table: bool) -> f64 {
        let mut board = [0; 16];
        self.spawn(&mut board, random);
        self.spawn(&mut board, random);
        let mut score = 0;
        loop {
            let chosen = if by_table { self.best(&board) } else { self.rules.moves(&board).choose(random) };
            let Some((reward, next)) = chosen else { return f64::from(score) };
            score += reward;
            board = next;
            self.spawn(&mut board, random);
        }
    }

    /// Mean and standard error of many games.
    fn mean(&mut self, games: u32, seed: u64, by_table: bool) -> (f64, f64) {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..games {
            let score = self.play(&mut random, by_table);
            sum += score;
            squares += score * score;
        }
        let n = f64::from(games);
        let mean = sum / n;
        (mean, ((squares / n - mean * mean) / (n - 1.0)).sqrt())
    }
}

fn with_player(name: &str, rules: Rules, test: impl FnOnce(&mut Player<'_>, f64)) {
    let fixture = fixture(name);
    let table = Table::open(&fixture.dir).expect("the table is sound");
    let space = strata_games::open(&name.parse().expect("a name")).expect("it opens");
    let value = fixture.built["value"].as_f64().expect("a value");
    test(&mut Player { rules, space: space.as_ref(), table: &table, policy: HashMap::new() }, value);
}

#[test]
fn two_hundred_thousand_games_by_the_table_score_what_it_promises() {
    with_player("2048-2x3", Rules { rows: 2, cols: 3 }, |player, value| {
        let (mean, error) = player.mean(200_000, 2048, true);
        eprintln!("{mean} +- {error}, promised {value}");
        assert!((mean - value).abs() < 4.0 * error, "{mean} +- {error}, promised {value}");
        assert!((mean - on_2048("480.258271775958036646629397")).abs() < 4.0 * error);
        assert!(error < 1.0, "{error} is too much to tell anything");
    });
}

#[test]
fn games_by_chance_score_far_less() {
    // So the test above can fail.
    with_player("2048-2x3", Rules { rows: 2, cols: 3 }, |player, value| {
        let (mean, error) = player.mean(20_000, 1, false);
        assert!(mean + 20.0 * error < value, "{mean} +- {error}");
    });
}

#[test]
fn two_by_two_has_four_hundred_thousand_games_of_its_own() {
    with_player("2048-2x2", Rules { rows: 2, cols: 2 }, |player, value| {
        let (mean, error) = player.mean(400_000, 22, true);
        assert!((mean - value).abs() < 4.0 * error, "{mean} +- {error}, promised {value}");
        // Every state that occurs under best play was met, each in all its mirror images at most.
        assert!(player.policy.len() <= 110 * 8);
    });
}
