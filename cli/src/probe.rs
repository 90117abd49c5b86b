//! `strata probe`: looks a position up, and ranks what the player can do there.
//!
//! Nothing here knows a game but the few lines that draw a board and turn a mean into an effective pip count: a position is either
//! a state (2048: the player moves next) or a key (bearoff: the roll comes next), and the state space says which. A table of moves
//! (`+keep=play`) answers with one.

mod chances;
mod cube;
mod text;

use crate::failure::{FAILED, Failure, USAGE, chain};
use crate::output;
use crate::table::{self, Opened};
use chances::Chances;
use cube::Cube;
use serde::Serialize;
use std::path::PathBuf;
use strata_games::{
    Aim, Bounded, Choice, Keep, Key, Position, ReadError, Recursion, Slot, Standing, StateSpace, TableName, TableReader,
};
use strata_worker::GameTable;

/// What to look up.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Positions:
  2048     rows from the top, with / between them; the faces of the tiles, 0 or . for an empty cell
  bearoff  checkers on points 1, 2, ... with commas between them; for two players the one on roll first, with a v between;
           or a position ID of GNU Backgammon, with or without the match ID, or an XGID

Examples:
  strata probe tables/2048-3x3 '2 4 0/0 8 0/0 0 2'
  strata probe tables/bearoff-6x15 0,0,0,0,0,15
  strata probe tables/bearoff-6x15 2,3,2,0,1,0 --roll 64
  strata probe tables/bearoff-6x15 '2,3,2,0,1,0 v 0,0,0,3,3,1'
  strata probe tables/bearoff-6x6v6 '0,0,0,2,2,1 v 1,1,1,0,0,2' --roll 64 --by centred
  strata probe tables/bearoff-6x7v7 cA8AAHAPAAAAAA:cAkAAAAAAAAA
  strata probe tables/2048-3x3 '2 4 0/0 8 0/0 0 2' --json | jq .moves[0]

A table of moves (+keep=play) answers with the best one: the JSON object has the members move, reward and to, and no values;
they are left out where no move is left. Positions that moves lead to are shown in one form for all their images.

Equities of two-sided tables are for the player on roll and a cube of 1: cubeless (the cube is never used), owned (the player on
roll has the cube), centred, jacoby (centred, and gammons count only after a double), opponent (the other has it), all before the
roll and without a double now. The cube action comes from them; numbers within their error bounds of each other are a tie.

Moves whose values differ by no more than the sum of their error bounds share a rank and are marked as a tie.

The member `status` of the JSON object is
  ok          the table answers (exit code 0)
  outside     the position may occur, but the table ends before it (1)
  impossible  the text is no position, or no play leads to it (2)
  damaged     the part of the table that holds the answer is broken (1)")]
pub struct Args {
    /// The directory of a finished table
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The position
    #[arg(value_name = "POSITION", allow_hyphen_values = true)]
    position: String,
    /// Rank the plays of this roll (games with dice), for example 64
    #[arg(long, value_name = "R")]
    roll: Option<String>,
    /// Rank plays by this value (two-sided bearoff) [default: the first]
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Why there is no value.
#[derive(Debug)]
enum NoAnswer {
    Outside(String),
    Impossible(String),
    Damaged(String),
    /// The command asks for something that this game or table does not have.
    Usage(Failure),
}

impl From<ReadError> for NoAnswer {
    fn from(error: ReadError) -> Self {
        NoAnswer::Damaged(chain(error.as_ref()))
    }
}

/// The value of a state or key, and all that goes with it.
#[derive(Serialize, Debug)]
struct Answer {
    status: &'static str,
    table: String,
    position: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    #[serde(flatten)]
    played: Option<Played>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<Column>,
    #[serde(flatten)]
    bearoff: Option<Bearoff>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cube: Vec<Cube>,
    #[serde(flatten)]
    chances: Option<Chances>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    distributions: Vec<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roll: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moves: Option<Vec<Move>>,
}

/// What a table of moves plays.
#[derive(Serialize, Debug)]
struct Played {
    #[serde(rename = "move")]
    label: String,
    reward: f64,
    to: String,
}

/// One stored number.
#[derive(Serialize, Debug)]
struct Column {
    name: &'static str,
    value: f64,
    error: f64,
}

/// What backgammon players call the mean. An average roll is 49/6 pips with fair dice.
#[derive(Serialize, Debug)]
struct Bearoff {
    pips: u32,
    sd: Option<f64>,
    epc: f64,
    wastage: f64,
}

/// Chances of `first`, `first + 1`, ...
#[derive(Serialize, Debug)]
struct Distribution {
    name: &'static str,
    first: usize,
    chances: Vec<f64>,
}

/// A choice of the player.
#[derive(Serialize, Debug)]
struct Move {
    /// 1 for the best; moves that tie share a rank.
    rank: usize,
    #[serde(rename = "move")]
    label: String,
    value: f64,
    error: f64,
    reward: f64,
    /// How much worse than the best.
    loss: f64,
    tie: bool,
    /// The position it leads to, in its canonical form.
    to: String,
}

/// Prints the answer.
pub fn run(args: &Args) -> Result<(), Failure> {
    let opened = match table::open(&args.dir) {
        Ok(opened) => opened,
        Err(table::OpenError::Damaged(what)) => return none(args, None, NoAnswer::Damaged(what)),
        Err(table::OpenError::Other(failure)) => return Err(failure),
    };
    match answer(&opened, args) {
        Ok(answer) if args.json => output::json(&answer),
        Ok(answer) => output::result(&text::text(opened.space.as_ref(), &answer)),
        Err(no) => none(args, Some(&opened), no),
    }
}

/// Says why there is no value, in both forms.
fn none(args: &Args, opened: Option<&Opened>, no: NoAnswer) -> Result<(), Failure> {
    let dir = output::shell_quote(&args.dir.to_string_lossy()).into_owned();
    let (status, code, message, help) = match no {
        NoAnswer::Usage(failure) => return Err(failure),
        NoAnswer::Outside(what) => ("outside", FAILED, what, format!("`strata info {dir}` shows what the table covers")),
        NoAnswer::Impossible(what) => ("impossible", USAGE, what, "`strata probe --help` shows how positions are written".into()),
        NoAnswer::Damaged(what) => ("damaged", FAILED, what, format!("`strata verify {dir}` names all that is damaged")),
    };
    if args.json {
        let name = opened.map(|o| o.space.name().to_string());
        output::json(&serde_json::json!({ "status": status, "table": name, "position": args.position, "message": message }))?;
    }
    let message = match status {
        "outside" => format!("outside the table: {message}"),
        "damaged" => format!("the table is damaged: {message}"),
        _ => message,
    };
    Err(Failure { code, message, help: Some(help) })
}

fn answer(opened: &Opened, args: &Args) -> Result<Answer, NoAnswer> {
    let space = opened.space.as_ref();
    if !space.name().keep().has_positions() {
        let dir = output::shell_quote(&args.dir.to_string_lossy()).into_owned();
        return Err(NoAnswer::Usage(
            Failure::usage(format!("{} keeps statistics and no positions, so none can be looked up", space.name()))
                .help(format!("`strata stats {dir} --samples` lists the sampled positions with their values")),
        ));
    }
    let reader = GameTable(&opened.table);
    let probe = Probe { space, reader: &reader, by: recursion(space, args.by.as_deref())? };
    let position = space.parse(&args.position).map_err(|e| NoAnswer::Impossible(e.to_string()))?;
    match space.standing(position, &reader)? {
        Standing::Inside => {}
        Standing::Outside(what) => return Err(NoAnswer::Outside(what)),
        Standing::Impossible(what) => return Err(NoAnswer::Impossible(what)),
    }
    if space.starts_are_states() {
        if args.roll.is_some() {
            return Err(NoAnswer::Usage(
                Failure::usage(format!("--roll: there are no dice in {}", space.name()))
                    .help("leave --roll out: all moves are shown"),
            ));
        }
        if space.name().keep() == Keep::Play { probe.played(position) } else { probe.state(position) }
    } else {
        // The text may name a roll beside the position.
        let is_over = space.outcomes(position).len() < 2;
        let named = space.roll_in(&args.position).filter(|_| !is_over).map(|(a, b)| format!("{a}{b}"));
        let mut answer = probe.key(position, args.roll.as_deref().or(named.as_deref()))?;
        match space.name() {
            TableName::Bearoff(spec) => {
                let game = strata_games::bearoff::Bearoff::new(spec);
                let (_, other) = game.read(&args.position).map_err(|e| NoAnswer::Impossible(e.to_string()))?;
                if let Some(other) = other {
                    if position == other && is_over {
                        let what = "both players have borne off all their checkers, and only one can be first";
                        return Err(NoAnswer::Impossible(what.into()));
                    }
                    answer.position = format!("{} v {}", answer.position, space.format(other));
                    answer.chances = Some(chances::race(&probe, &game, position, other)?);
                }
            }
            TableName::TwoSided(spec) => {
                let game = strata_games::bearoff::TwoSided::open(spec).map_err(|e| NoAnswer::Damaged(e.to_string()))?;
                answer.cube = probe.cube(position)?;
                answer.chances = Some(chances::two_sided(&probe, &game, position)?);
            }
            TableName::Game2048(_) => {}
        }
        Ok(answer)
    }
}

/// The recursion of the column that plays are ranked by.
fn recursion(space: &dyn StateSpace, by: Option<&str>) -> Result<Recursion, NoAnswer> {
    let all = space.recursions();
    let name = |recursion: &Recursion| space.scalar_columns()[recursion.column];
    let Some(by) = by else { return Ok(all[0]) };
    all.iter().copied().find(|recursion| name(recursion) == by).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(name).collect();
        NoAnswer::Usage(
            Failure::usage(format!("--by {by}: {} has no plays for it", space.name())).help(format!("use {}", names.join(", "))),
        )
    })
}

/// A table and its rules.
struct Probe<'a> {
    space: &'a dyn StateSpace,
    reader: &'a dyn TableReader,
    /// What plays are ranked by.
    by: Recursion,
}

impl Probe<'_> {
    fn slot(&self, key: Key, position: Position) -> Result<Slot, NoAnswer> {
        self.reader.find(key)?.ok_or_else(|| {
            let (text, layer) = (self.space.format(position), key.layer);
            NoAnswer::Damaged(format!("layer {layer} does not hold the position {text}, although play leads to it"))
        })
    }

    /// One value of a position before the roll.
    fn read(&self, position: Position, column: usize) -> Result<Bounded, NoAnswer> {
        let key = self.space.rank(position).ok_or_else(|| NoAnswer::Impossible(self.space.format(position)))?;
        Ok(self.reader.scalar(self.slot(key, position)?, column)?)
    }

    /// What to do with the cube, wherever it may be. Nothing when the game is over.
    fn cube(&self, position: Position) -> Result<Vec<Cube>, NoAnswer> {
        if self.space.outcomes(position).len() < 2 {
            return Ok(Vec::new());
        }
        let columns = self.space.scalar_columns();
        let value = |name: &str| {
            let column = columns.iter().position(|&column| column == name);
            column.map_or_else(
                || Err(NoAnswer::Damaged(format!("there is no column {name}"))),
                |column| self.read(position, column),
            )
        };
        let opponent = value("opponent")?;
        ["centred", "jacoby", "owned"].into_iter().map(|name| Ok(Cube::new(name, value(name)?, opponent))).collect()
    }

    /// A position where the player chooses.
    fn state(&self, state: Position) -> Result<Answer, NoAnswer> {
        let moves = self.moves(state)?;
        let value = match moves.first() {
            Some(best) => {
                let error = moves.iter().filter(|m| m.rank == 1).map(|m| m.error).fold(0.0, f64::max);
                Bounded { value: best.value, error }
            }
            None => Bounded { value: self.space.terminal_value(state), error: 0.0 },
        };
        Ok(Answer { moves: Some(moves), ..self.bare(state, None, Some(value)) })
    }

    /// A position where a table of moves has one.
    fn played(&self, state: Position) -> Result<Answer, NoAnswer> {
        let chosen = self.space.chosen(state, self.reader)?;
        let choice = chosen.map(|chosen| self.space.choices(state).swap_remove(chosen));
        let played =
            choice.map(|choice| Played { label: choice.label, reward: choice.reward, to: self.space.format(choice.position) });
        Ok(Answer { played, ..self.bare(state, None, None) })
    }

    /// A position before the roll.
    fn key(&self, position: Position, roll: Option<&str>) -> Result<Answer, NoAnswer> {
        let space = self.space;
        let key = space
            .rank(position)
            .ok_or_else(|| NoAnswer::Impossible(format!("{} is no position of {}", space.format(position), space.name())))?;
        let slot = self.slot(key, position)?;
        let mut columns = Vec::new();
        for (i, name) in space.scalar_columns().iter().enumerate() {
            let Bounded { value, error } = self.reader.scalar(slot, i)?;
            columns.push(Column { name, value, error });
        }
        let mut distributions = Vec::new();
        for (i, name) in space.dist_columns().iter().enumerate() {
            let (first, chances) = self.reader.dist(slot, i)?;
            if !chances.is_empty() {
                distributions.push(Distribution { name, first, chances });
            }
        }
        let value = columns.first().map_or(Bounded { value: 0.0, error: 0.0 }, |c| Bounded { value: c.value, error: c.error });
        let bearoff = bearoff(space.name(), key, value.value, &columns);
        let moves = roll.map(|r| self.plays(position, r)).transpose()?;
        let bare = self.bare(position, Some(key), Some(value));
        Ok(Answer { columns, distributions, bearoff, roll: roll.map(str::to_string), moves, ..bare })
    }

    fn bare(&self, position: Position, key: Option<Key>, value: Option<Bounded>) -> Answer {
        Answer {
            status: "ok",
            table: self.space.name().to_string(),
            position: self.space.format(position),
            layer: key.map(|k| k.layer.0),
            value: value.map(|v| v.value),
            error: value.map(|v| v.error),
            played: None,
            columns: Vec::new(),
            bearoff: None,
            cube: Vec::new(),
            chances: None,
            distributions: Vec::new(),
            roll: None,
            moves: None,
        }
    }

    /// The choices of one roll.
    fn plays(&self, position: Position, roll: &str) -> Result<Vec<Move>, NoAnswer> {
        let outcomes = self.space.outcomes(position);
        let wanted = dice(roll);
        let Some(outcome) = outcomes.iter().find(|o| dice(&o.label) == wanted) else {
            if outcomes.len() < 2 {
                let problem = format!("--roll {roll}: nothing is left to play in {}", self.space.format(position));
                return Err(NoAnswer::Usage(Failure::usage(problem).help("leave --roll out")));
            }
            let problem = {
                let known: Vec<&str> = outcomes.iter().map(|o| o.label.as_str()).collect();
                format!("--roll {roll}: there is no such roll; the rolls are {}", known.join(" "))
            };
            return Err(NoAnswer::Usage(Failure::usage(problem).help("write both dice, for example --roll 64")));
        };
        self.moves(outcome.state)
    }

    /// All choices, best first.
    fn moves(&self, state: Position) -> Result<Vec<Move>, NoAnswer> {
        let mut moves = Vec::new();
        for choice in self.space.choices(state) {
            let next = match choice.key {
                Some(key) => {
                    let slot = self.slot(key, choice.position)?;
                    let read = self.by.reads.iter().map(|&column| self.reader.scalar(slot, column));
                    (self.by.next)(&read.collect::<Result<Vec<_>, _>>()?)
                }
                None => Bounded { value: 0.0, error: 0.0 },
            };
            moves.push((choice, next));
        }
        Ok(rank(moves, self.space.aim(), |p| self.space.format(p)))
    }
}

/// Sorts best first and gives ranks: a move that cannot be told from the first of a rank shares it.
fn rank(moves: Vec<(Choice, Bounded)>, aim: Aim, format: impl Fn(Position) -> String) -> Vec<Move> {
    let mut moves: Vec<Move> = moves
        .into_iter()
        .map(|(choice, next)| Move {
            rank: 0,
            label: choice.label,
            value: aim.worth(choice.reward, next.value),
            error: next.error,
            reward: choice.reward,
            loss: 0.0,
            tie: false,
            to: format(choice.position),
        })
        .collect();
    moves.sort_by(|a, b| match aim {
        Aim::Most | Aim::Rival => b.value.total_cmp(&a.value),
        Aim::Least => a.value.total_cmp(&b.value),
    });
    let mut leader = 0;
    for i in 0..moves.len() {
        let ties = (moves[i].value - moves[leader].value).abs() <= moves[i].error + moves[leader].error;
        if !ties {
            leader = i;
        }
        moves[i].rank = leader + 1;
        moves[i].loss = (moves[i].value - moves[0].value).abs();
        if leader != i {
            moves[leader].tie = true;
            moves[i].tie = true;
        }
    }
    moves
}

/// A roll without regard to the order of the dice and what stands between them.
fn dice(roll: &str) -> Vec<char> {
    let mut dice: Vec<char> = roll.chars().filter(|c| !c.is_whitespace() && !"-,:x".contains(*c)).collect();
    dice.sort_unstable();
    dice
}

fn bearoff(name: &TableName, key: Key, mean: f64, columns: &[Column]) -> Option<Bearoff> {
    let TableName::Bearoff(spec) = name else { return None };
    let pips = key.layer.0;
    let epc = mean * 7.0 * (1.0 + spec.doubles); // a double counts 14 pips on average, any other roll 7
    let sd = columns.iter().find(|c| c.name == "variance").map(|c| c.value.max(0.0).sqrt());
    Some(Bearoff { pips, sd, epc, wastage: epc - f64::from(pips) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(values: &[(f64, f64)], aim: Aim) -> Vec<(String, usize, bool)> {
        let moves = values
            .iter()
            .zip(["left", "right", "up", "down"])
            .map(|(&(value, error), label)| {
                let choice = Choice { label: label.into(), reward: 1.0, key: None, position: Position(0) };
                (choice, Bounded { value, error })
            })
            .collect();
        rank(moves, aim, |_| String::new()).into_iter().map(|m| (m.label, m.rank, m.tie)).collect()
    }

    #[test]
    fn moves_within_the_sum_of_their_error_bounds_tie() {
        let ranked = moves(&[(5.0, 0.1), (7.0, 0.1), (6.85, 0.1), (4.0, 0.1)], Aim::Most);
        let expected = [("right", 1, true), ("up", 1, true), ("left", 3, false), ("down", 4, false)];
        assert_eq!(ranked, expected.map(|(l, r, t)| (l.to_string(), r, t)));
    }

    #[test]
    fn ties_do_not_chain() {
        let ranked = moves(&[(3.0, 0.1), (2.85, 0.1), (2.7, 0.1)], Aim::Most);
        assert_eq!(ranked.iter().map(|m| m.1).collect::<Vec<_>>(), [1, 1, 3]);
    }

    #[test]
    fn fewest_rolls_are_best_where_play_wants_little() {
        let ranked = moves(&[(3.0, 0.0), (2.0, 0.0)], Aim::Least);
        assert_eq!(ranked[0].0, "right");
    }

    #[test]
    fn a_roll_may_be_written_either_way_round() {
        assert_eq!(dice("64"), dice("46"));
        assert_eq!(dice("6-4"), dice("4 6"));
        assert_ne!(dice("66"), dice("6"));
    }
}
