use super::*;
use crate::testing::{build, hooked, pool, space};
use strata_games::{ArtifactKind, Layer, LayerStats};

fn run(space: &dyn StateSpace, root: &std::path::Path, id: TaskId, inputs: Vec<FileRecord>) -> Ended {
    run_task(space, id, &TableDir::open(root).unwrap(), inputs, &Control::default(), &pool(2), 1 << 30)
}

fn failure(ended: Ended) -> (Reason, String) {
    match ended {
        Ended::Failed { reason, message } => (reason, message),
        other => panic!("{other:?}"),
    }
}

const FIRST: TaskId = TaskId { stage: 0, part: 0 };

/// The first task of a plan that reads something.
fn reader(space: &dyn StateSpace) -> TaskId {
    let stages = (0..).zip(space.stages());
    let mut tasks = stages.flat_map(|(stage, info)| (0..info.parts).map(move |part| TaskId { stage, part }));
    tasks.find(|&task| !space.task(task).inputs.is_empty()).unwrap()
}

#[test]
fn files_are_the_same_whatever_the_threads_and_the_memory() {
    for name in ["2048-2x3", "bearoff-4x5"] {
        let roots = [(1, 1 << 30), (3, 1 << 30), (2, 1024)].map(|(threads, memory)| {
            let dir = tempfile::tempdir().unwrap();
            build(&*space(name), dir.path(), threads, memory).manifest(&*space(name)).root
        });
        assert!(roots.iter().all(|root| *root == roots[0]), "{name}: {roots:?}");
    }
}

#[test]
fn a_kernel_that_panics_is_a_failed_task() {
    let dir = tempfile::tempdir().unwrap();
    let space = hooked("2048-2x2", |_, _| panic!("row 3 of a board with 2 rows"));
    let (reason, message) = failure(run(&space, dir.path(), FIRST, Vec::new()));
    assert_eq!(reason, Reason::Error);
    assert!(message.contains("task 0.0 of 2048-2x2") && message.contains("row 3 of a board with 2 rows"), "{message}");
}

#[test]
fn a_kernel_that_breaks_its_plan_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let space = hooked("2048-2x2", |_, io| io.load_index(ArtifactKind::Index, Layer(4), 7).map(|_| ()));
    let (reason, message) = failure(run(&space, dir.path(), FIRST, Vec::new()));
    assert_eq!(reason, Reason::Error);
    assert!(message.contains("no input of the task"), "{message}");
}

#[test]
fn a_kernel_that_hides_an_error_of_a_file_does_not_get_away_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let space = hooked("2048-2x2", |_, io| io.load_index(ArtifactKind::Index, Layer(4), 7).map(|_| ()).or(Ok(())));
    let (reason, _) = failure(run(&space, dir.path(), FIRST, Vec::new()));
    assert_eq!(reason, Reason::Error);
}

#[test]
fn a_damaged_input_is_told_apart_from_a_missing_one_and_neither_is_used() {
    let game = space("2048-2x3");
    let dir = tempfile::tempdir().unwrap();
    let built = build(&*game, dir.path(), 1, 1 << 30);
    let task = reader(&*game);
    let inputs = built.inputs(&game.task(task));
    assert!(matches!(run(&*game, dir.path(), task, inputs.clone()), Ended::Finished(_)));
    let path = dir.path().join(&inputs[0].path);
    let sound = std::fs::read(&path).unwrap();
    for at in [0, sound.len() / 2, sound.len() - 1] {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x40;
        std::fs::write(&path, damaged).unwrap();
        let (reason, message) = failure(run(&*game, dir.path(), task, inputs.clone()));
        assert_eq!(reason, Reason::BadInput, "{message}");
        assert!(message.contains(&inputs[0].path), "{message}");
    }
    std::fs::write(&path, &sound[..sound.len() - 1]).unwrap();
    assert_eq!(failure(run(&*game, dir.path(), task, inputs.clone())).0, Reason::BadInput);
    std::fs::remove_file(&path).unwrap();
    let (reason, message) = failure(run(&*game, dir.path(), task, inputs.clone()));
    assert!(reason == Reason::BadInput && message.contains("missing"), "{message}");
    std::fs::write(&path, &sound).unwrap();
    assert!(matches!(run(&*game, dir.path(), task, inputs), Ended::Finished(_)));
}

#[test]
fn a_task_that_is_told_to_stop_stops() {
    let dir = tempfile::tempdir().unwrap();
    let control = Control::default();
    control.stop();
    let ended =
        run_task(&*space("2048-2x3"), FIRST, &TableDir::open(dir.path()).unwrap(), Vec::new(), &control, &pool(1), 1 << 30);
    assert!(matches!(ended, Ended::Stopped), "{ended:?}");
}

#[test]
fn statistics_are_handed_in_as_the_kernel_found_them_and_once() {
    let stats = LayerStats { legal_moves: 9, single_best: 2, choices: 3, value_sum: 66.5, gap_sum: 0.75, gap_most: 0.5 };
    // Bearoff has none of its own.
    let dir = tempfile::tempdir().unwrap();
    let space = hooked("bearoff-2x2", move |_, io| io.put_stats(Layer(1), 0, stats));
    let Ended::Finished(output) = run(&space, dir.path(), FIRST, Vec::new()) else { panic!() };
    let expected = v1::LayerStats {
        layer: 1,
        shard: 0,
        legal_moves: 9,
        single_best: 2,
        choices: 3,
        value_sum: 66.5,
        gap_sum: 0.75,
        gap_most: 0.5,
    };
    assert_eq!(output.stats, [expected]);
    let twice = hooked("bearoff-2x2", move |_, io| {
        io.put_stats(Layer(1), 0, stats)?;
        io.put_stats(Layer(1), 0, stats)
    });
    let (reason, message) = failure(run(&twice, dir.path(), FIRST, Vec::new()));
    assert!(reason == Reason::Error && message.contains("statistics of layer 1 shard 0 twice"), "{message}");
}
