//! Answers for people.

use super::{Answer, Distribution, Move};
use crate::output::{self, Stream, paint};
use crate::units;
use strata_games::{StateSpace, TableName};

/// The answer.
pub(super) fn text(space: &dyn StateSpace, answer: &Answer) -> String {
    let mut text = format!("{}\n", paint(Stream::Out, "1", &answer.table));
    if let TableName::Game2048(_) = space.name() {
        text.push_str(&board(&answer.position));
    } else {
        text.push_str(&format!("{}\n", answer.position));
    }
    let shown = |value, error| {
        let off = if error > 0.0 { format!("  (off by at most {})", units::bound(error)) } else { String::new() };
        units::value(value, error) + &off
    };
    let mut facts = Vec::new();
    if let (true, Some(value), Some(error)) = (answer.columns.is_empty(), answer.value, answer.error) {
        let name = space.scalar_columns().first().copied().unwrap_or("value");
        facts.push((name, shown(value, error)));
    }
    if let (None, Some(played)) = (&answer.moves, &answer.played) {
        facts.push(("best move", played.label.clone()));
        facts.push(("reward", units::value(played.reward, 0.0)));
        facts.push(("leads to", format!("{}, or an image of it", played.to)));
    }
    facts.extend(answer.columns.iter().map(|c| (c.name, shown(c.value, c.error))));
    if let Some(b) = &answer.bearoff {
        facts.extend(b.sd.map(|sd| ("sd", format!("{sd:.6}"))));
        facts.push(("pips", b.pips.to_string()));
        facts.push(("EPC", format!("{:.4}", b.epc)));
        facts.push(("wastage", format!("{:.4}", b.wastage)));
    }
    if let Some(chances) = &answer.chances {
        let shown = |chance: f64| units::value(chance, chances.chance_error.unwrap_or(5e-3).max(1e-9));
        facts.push(("win", shown(chances.win)));
        facts.push(("win gammon", shown(chances.win_gammon)));
        facts.push(("lose gammon", shown(chances.lose_gammon)));
        let error = chances.chance_error.map_or_else(String::new, |error| format!("; off by at most {}", units::bound(error)));
        facts.push(("chances", format!("{}{error}", chances.chances_from)));
    }
    text.push_str(&output::facts(&facts));
    if !answer.cube.is_empty() {
        let rows = answer.cube.iter().map(|cube| {
            let number = |value: f64| format!("{value:+.5}");
            vec![
                cube.cube.into(),
                cube.action.clone(),
                number(cube.no_double),
                number(cube.double_take),
                number(cube.double_pass),
            ]
        });
        text.push('\n');
        text.push_str(&output::table(&["cube", "action", "no double", "double, take", "double, pass"], 2, rows));
    }
    match &answer.moves {
        Some(moves) if moves.is_empty() => text.push_str(OVER),
        Some(moves) => {
            text.push('\n');
            text.push_str(&moves_table(answer.roll.as_deref(), moves));
        }
        None if space.starts_are_states() && answer.played.is_none() => text.push_str(OVER),
        None => {}
    }
    // What has happened already (the first checker is off) has no distribution worth a look.
    let open: Vec<&Distribution> = answer.distributions.iter().filter(|d| d.first + d.chances.len() > 1).collect();
    if !open.is_empty() && answer.roll.is_none() {
        text.push('\n');
        text.push_str(&distribution_table(&open));
    }
    text
}

/// Said of a state without moves.
const OVER: &str = "\nno move is left: the game is over\n";

/// Rows of a 2048 board under each other.
fn board(position: &str) -> String {
    let width = position.split(['/', ' ']).map(str::len).max().unwrap_or(1);
    position.split('/').fold(String::new(), |text, row| {
        let cells: Vec<String> = row.split_whitespace().map(|c| format!("{:>width$}", if c == "0" { "." } else { c })).collect();
        text + "  " + &cells.join(" ") + "\n"
    })
}

fn moves_table(roll: Option<&str>, moves: &[Move]) -> String {
    let first = roll.map_or_else(|| "move".to_string(), |r| format!("roll {r}"));
    let rewards = moves.iter().any(|m| m.reward != moves[0].reward);
    let rows = moves.iter().map(|m| {
        let mark = match (m.tie, m.rank) {
            (true, _) => "tie",
            (false, 1) => "best",
            _ => "",
        };
        let loss = if m.rank == 1 { String::new() } else { units::value(m.loss, m.error) };
        let mut row = vec![m.label.clone(), mark.into(), m.rank.to_string(), units::value(m.value, m.error), loss];
        row.extend(rewards.then(|| units::value(m.reward, 0.0)));
        row
    });
    let header = [first.as_str(), "", "rank", "value", "loss", "reward"];
    output::table(&header[..if rewards { 6 } else { 5 }], 2, rows)
}

fn distribution_table(distributions: &[&Distribution]) -> String {
    let first = distributions.iter().map(|d| d.first).min().unwrap_or(0);
    let end = distributions.iter().map(|d| d.first + d.chances.len()).max().unwrap_or(0);
    let names: Vec<String> = distributions.iter().map(|d| d.name.replace('_', " ")).collect();
    let header: Vec<&str> = std::iter::once("n").chain(names.iter().flat_map(|name| [name.as_str(), "at most"])).collect();
    let mut sums = vec![0.0; distributions.len()];
    let rows = (first..end).map(|n| {
        let mut row = vec![n.to_string()];
        for (d, sum) in distributions.iter().zip(&mut sums) {
            let chance = n.checked_sub(d.first).and_then(|i| d.chances.get(i)).copied().unwrap_or(0.0);
            *sum += chance;
            row.extend([format!("{chance:.9}"), format!("{:.9}", *sum)]);
        }
        row
    });
    output::table(&header, 0, rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_drawn_in_columns() {
        assert_eq!(board("2 4 0/0 128 0"), "    2   4   .\n    . 128   .\n");
    }

    #[test]
    fn distributions_add_up_line_by_line() {
        let text = distribution_table(&[&Distribution { name: "chance", first: 1, chances: vec![0.75, 0.25] }]);
        assert_eq!(text, "n       chance      at most\n1  0.750000000  0.750000000\n2  0.250000000  1.000000000\n");
    }
}
