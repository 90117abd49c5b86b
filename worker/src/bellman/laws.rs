//! Laws that a table keeps beside the recursion: of its distributions, of its plan, of its start.

use super::views::{View, Views};
use super::{BellmanProblem, Fault, ROUNDING};
use strata_games::StateSpace;
use strata_storage::{Manifest, ManifestLayer, ShardError};

/// Half the step in which an entry of a distribution is stored, with room for rounding.
const ENTRY_ERROR: f64 = 1.0 / (1u64 << 33) as f64 * (1.0 + 1e-9);

/// Entries of less than half a step are left off at both ends of a distribution when it is written. From one roll count to the next they
/// fall to less than half, so three of the largest that can be left off are more than all of them.
const LEFT_OFF: usize = 3;

/// The laws of the distributions of one game: every distribution sums to one, and `rolls` has the stored `mean` and `variance`.
pub(super) struct Laws {
    dists: Vec<&'static str>,
    /// The distribution whose moments are stored, and the columns of its mean and variance.
    moments: Option<(usize, Option<usize>, Option<usize>)>,
}

impl Laws {
    pub(super) fn new(space: &dyn StateSpace) -> Self {
        let scalar = |name: &str| space.scalar_columns().iter().position(|&column| column == name);
        let rolls = space.dist_columns().iter().position(|&column| column == "rolls");
        Self { dists: space.dist_columns().to_vec(), moments: rolls.map(|rolls| (rolls, scalar("mean"), scalar("variance"))) }
    }

    /// What is wrong with the distributions of a key.
    pub(super) fn faults(&self, view: &View, ordinal: u64) -> Result<Vec<Fault>, ShardError> {
        let mut faults = Vec::new();
        for (column, &name) in self.dists.iter().enumerate() {
            let (first, entries) = view.dist(column, ordinal)?;
            let mut law = |law, found: f64, expected: f64, tolerance: f64| {
                // Written so that NaN is a problem too.
                let holds = (found - expected).abs() <= tolerance + ROUNDING * expected.abs().max(1.0);
                if !holds {
                    faults.push(Fault::Distribution { column: name.to_owned(), law, found, expected, tolerance });
                }
            };
            let at = || (first..).map(|index| index as f64).zip(&entries);
            // What the errors of the entries may add up to when each counts as much as its weight.
            let near = first.saturating_sub(LEFT_OFF)..first + entries.len() + LEFT_OFF;
            let slack = |weight: &dyn Fn(f64) -> f64| ENTRY_ERROR * near.clone().map(|index| weight(index as f64)).sum::<f64>();
            let sum: f64 = entries.iter().sum();
            law("sum", sum, 1.0, slack(&|_| 1.0));
            let Some((_, mean, variance)) = self.moments.filter(|&(rolls, ..)| rolls == column) else { continue };
            let Some(mean) = mean else { continue };
            let (mean, mean_bound) = view.scalar(mean, ordinal)?;
            let found: f64 = at().map(|(index, &chance)| index * chance).sum();
            law("mean", found, mean, mean_bound + slack(&|index| index));
            let Some(variance) = variance else { continue };
            let (variance, bound) = view.scalar(variance, ordinal)?;
            // Around the stored mean: off by the square of that mean's error, which is nothing.
            let found: f64 = at().map(|(index, &chance)| (index - mean).powi(2) * chance).sum();
            law("variance", found, variance, bound + mean_bound * mean_bound + slack(&|index| (index - mean).powi(2)));
        }
        Ok(faults)
    }
}

/// Where a manifest contradicts the plan or the theory of its game.
pub(super) fn plan_problems(space: &dyn StateSpace, manifest: &Manifest) -> Vec<BellmanProblem> {
    let mut problems = Vec::new();
    let mut table = |what: String| problems.push(BellmanProblem::of_table(Fault::Plan { what }));
    for (what, stored, planned) in [
        ("scalar columns", &manifest.scalar_columns, space.scalar_columns()),
        ("distribution columns", &manifest.dist_columns, space.dist_columns()),
    ] {
        if stored.iter().map(String::as_str).ne(planned.iter().copied()) {
            table(format!("the {what} are {stored:?} instead of {planned:?}"));
        }
    }
    for info in space.layers() {
        if !manifest.layers.iter().any(|layer| layer.layer == info.layer.0) {
            table(format!("layer {} is missing", info.layer));
        }
    }
    problems.extend(manifest.layers.iter().filter_map(|layer| {
        let what = layer_problem(space, layer)?;
        Some(BellmanProblem { layer: Some(layer.layer), ..BellmanProblem::of_table(Fault::Plan { what }) })
    }));
    problems
}

fn layer_problem(space: &dyn StateSpace, layer: &ManifestLayer) -> Option<String> {
    let Some(info) = space.layers().iter().find(|info| info.layer.0 == layer.layer) else {
        return Some("the game has no such layer".into());
    };
    if layer.universe != info.universe {
        return Some(format!("it has {} ranks instead of {}", layer.universe, info.universe));
    }
    let runs = layer.shards.iter().map(|shard| shard.first_rank..shard.first_rank.saturating_add(shard.universe));
    if !runs.eq(info.shards.iter().cloned()) {
        return Some("its shards are not those of the plan".into());
    }
    let keys: u64 = layer.shards.iter().map(|shard| shard.keys).sum();
    match info.keys {
        Some(theory) if theory != keys => Some(format!("it has {keys} keys, but theory says {theory}")),
        _ => None,
    }
}

/// Whether the value in the manifest follows from the values of the starts.
pub(super) fn start_problems(space: &dyn StateSpace, views: &Views<'_>, manifest: &Manifest) -> Vec<BellmanProblem> {
    let Some(&stored) = manifest.facts.get("value") else {
        return vec![BellmanProblem::of_table(Fault::Plan { what: "the manifest has no value of the start".into() })];
    };
    let (mut value, mut bound, mut total, mut largest) = (0.0, 0.0f64, 0.0, stored.abs());
    for start in space.starts() {
        let found = if space.starts_are_states() {
            of_state(space, views, start.state)
        } else {
            space.rank(start.state).map_or(Found::Missing, |key| of_key(views, key))
        };
        match found {
            Found::Value(of_start, error) => {
                value += start.chance * of_start;
                bound = bound.max(error);
                total += start.chance;
                largest = largest.max(of_start.abs());
            }
            Found::Missing => {
                let position = Some(space.format(start.state));
                let fault = Fault::Plan { what: "this start, or a position after it, is not in the table".into() };
                return vec![BellmanProblem { position, ..BellmanProblem::of_table(fault) }];
            }
            // The file has its own problem already.
            Found::Unreadable => return Vec::new(),
        }
    }
    let tolerance = bound + ROUNDING * largest;
    if (value - stored).abs() <= tolerance && (total - 1.0f64).abs() <= 1e-12 {
        return Vec::new();
    }
    let what = format!("its value is {stored}, but {value} follows from the values of the starts ({tolerance:e} allowed)");
    vec![BellmanProblem::of_table(Fault::Plan { what })]
}

enum Found {
    Value(f64, f64),
    Missing,
    Unreadable,
}

fn of_key(views: &Views<'_>, key: strata_games::Key) -> Found {
    let Some((shard, run)) = views.place(key) else { return Found::Missing };
    let Some(view) = views.get(key.layer.0, shard) else { return Found::Unreadable };
    let read = || match view.index()?.find(key.rank - run.start) {
        Some(ordinal) => view.scalar(0, ordinal).map(|(value, error)| Found::Value(value, error)),
        None => Ok(Found::Missing),
    };
    read().unwrap_or_else(|error| {
        views.note(key.layer.0, shard, &error);
        Found::Unreadable
    })
}

fn of_state(space: &dyn StateSpace, views: &Views<'_>, state: strata_games::Position) -> Found {
    let choices = space.choices(state);
    if choices.is_empty() {
        return Found::Value(space.terminal_value(state), 0.0);
    }
    let (mut best, mut bound) = (f64::NAN, 0.0f64);
    for choice in choices {
        let (after, error) = match choice.key {
            None => (0.0, 0.0),
            Some(key) => match of_key(views, key) {
                Found::Value(value, error) => (value, error),
                other => return other,
            },
        };
        let value = space.aim().worth(choice.reward, after);
        bound = bound.max(error);
        if space.aim().prefers(value, best) || best.is_nan() {
            best = value;
        }
    }
    Found::Value(best, bound)
}
