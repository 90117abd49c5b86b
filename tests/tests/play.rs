//! Tables of moves: they play what the values say, and have one root whatever happens on the way.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use strata_games::{Key, Layer, StateSpace, TableReader};
use strata_storage::Table;
use strata_tests::{fixture, run, start, strata, text};
use strata_worker::GameTable;

const WHOLE: &str = "2048-3x3+tile=256";
const NAME: &str = "2048-3x3+tile=256+keep=play";
const SHORT: &str = "2048-3x3+tile=256+keep=play+stretch=16";

/// Every so many states are looked at.
const STEP: usize = 37;

fn open(name: &str, dir: &Path) -> (Table, Box<dyn StateSpace>) {
    let space = strata_games::open(&name.parse().expect("a name")).expect("it opens");
    (Table::open(dir).expect("the table is sound"), space)
}

/// The moves come from values in f64, the values are published in 32 bits: the two agree wherever the best move is better than the next by
/// more than twice the bound, and elsewhere the move is one of those that cannot be told apart.
#[test]
fn moves_agree_with_published_values_wherever_the_gap_exceeds_twice_the_bound() {
    let (moves, values) = (fixture(NAME), fixture(WHOLE));
    let ((moves, playing), (values, whole)) = (open(NAME, &moves.dir), open(WHOLE, &values.dir));
    let (moves_at, values_at) = (GameTable(&moves), GameTable(&values));
    let bound = values.manifest().error_bounds[0];
    let (mut looked, mut clear, mut keys) = (0, 0, 0);
    for layer in &moves.manifest().layers {
        for shard in &layer.shards {
            let file = moves.shard(layer.layer, shard.shard).expect("the shard is sound");
            keys += shard.keys;
            for rank in file.index().expect("the index is sound").iter().step_by(STEP) {
                let key = Key { layer: Layer(layer.layer), rank: shard.first_rank + rank };
                let state = playing.unrank(key).expect("a rank of the universe");
                let chosen = playing.chosen(state, &moves_at).expect("the move is legal");
                let worth: Vec<f64> = whole
                    .choices(state)
                    .iter()
                    .map(|choice| {
                        let slot = values_at.find(choice.key.expect("moves lead to keys")).expect("a sound table");
                        choice.reward + values_at.scalar(slot.expect("a reachable key"), 0).expect("a sound table").value
                    })
                    .collect();
                let best = worth.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                match chosen {
                    None => assert!(worth.is_empty(), "{}: a move is left", playing.format(state)),
                    Some(chosen) => {
                        let clearly_worse = worth.iter().filter(|&&value| best - value > 2.0 * bound).count();
                        assert!(best - worth[chosen] <= 2.0 * bound, "{}: {worth:?}, {chosen}", playing.format(state));
                        clear += u32::from(worth.len() > 1 && clearly_worse + 1 == worth.len());
                    }
                }
                looked += 1;
            }
        }
    }
    assert_eq!(keys, moves.manifest().states, "every state has a move");
    assert!(clear > looked / 4 && looked > 100_000, "{clear} of {looked} have one best move");
}

#[test]
fn killed_and_resumed_in_other_stretches_it_has_the_same_root() {
    let undisturbed = fixture(NAME);
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    let build =
        |name: &str, options: &[&str]| -> Command { strata([&["build", name, "--out", text(&dir), "--json"], options].concat()) };
    let mut killed = 0;
    for _ in 0..3 {
        let building = start(build(SHORT, &["--threads", "1"]));
        sleep(Duration::from_millis(400));
        killed += u32::from(building.kill());
    }
    assert!(killed > 0, "it was over before it could be killed");
    let ran = start(build(WHOLE, &["--keep", "play", "--memory", "256MiB"])).wait().ok();
    assert_eq!(ran.json()["root"], undisturbed.root());
    let _ = run(["verify", text(&dir), "--level", "hash"]).ok();
}
