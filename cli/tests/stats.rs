//! `strata stats` on tables whose manifests are made here, so that every number can be worked out by hand.

mod common;

use common::{Ran, run, strata, text};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use strata_storage::{Manifest, ManifestLayer, ManifestStats};

const HEADER: &str = "age,states,afterstates,terminal,legal_moves,mean_value,mean_gap,largest_gap,single_best_share";

fn layer(layer: u32, [states, afterstates, terminal]: [u64; 3], stats: Option<ManifestStats>) -> ManifestLayer {
    ManifestLayer { layer, universe: 0, states, afterstates, terminal, stats, shards: Vec::new() }
}

/// A table that is only a manifest: no verb that reads values would go far with it.
fn table(dir: &Path, name: &str, layers: Vec<ManifestLayer>) {
    let manifest = Manifest::new(name, &["score"], &[], layers, Default::default()).unwrap();
    fs::write(dir.join("table.json"), manifest.to_bytes()).unwrap();
}

/// Age 4: eight moves in two states, worth 100 and 50.5; their gaps are 1 and 0.5. Age 6: everything is over but for one state with one
/// move. Age 8: one state, and the game is over. Age 10: a table from before there were statistics.
fn by_hand(dir: &Path) {
    let stats = |legal_moves, single_best, choices, value_sum, gap_sum, gap_most| {
        Some(ManifestStats { legal_moves, single_best, choices, value_sum, gap_sum, gap_most })
    };
    let layers = vec![
        layer(4, [2, 2, 0], stats(8, 1, 2, 150.5, 1.5, 1.0)),
        layer(6, [3, 1, 2], stats(1, 1, 0, 0.1 + 0.2, 0.0, 0.0)),
        layer(8, [1, 0, 1], stats(0, 0, 0, 0.0, 0.0, 0.0)),
        layer(10, [7, 5, 3], None),
    ];
    table(dir, "2048-2x2", layers);
}

/// Two thousand ages with dips, as a table of 2048 has.
fn long(dir: &Path) {
    let layers = (0..2000u64).map(|at| {
        let age = u32::try_from(4 + 2 * at).unwrap();
        let states = (1_000_000 - 10 * at) / if age.is_multiple_of(512) { 1000 } else { 1 };
        let gap = at as f64 / 8.0;
        let stats = ManifestStats {
            legal_moves: 2 * states,
            single_best: states / 2,
            choices: states,
            value_sum: 3.0 * states as f64,
            gap_sum: gap * states as f64,
            gap_most: 2.0 * gap,
        };
        layer(age, [states, states, 0], Some(stats))
    });
    table(dir, "2048-4x3", layers.collect());
}

#[test]
fn csv_has_a_line_for_every_layer_with_all_digits_and_empty_cells_where_nothing_is_known() {
    let dir = tempfile::tempdir().unwrap();
    by_hand(dir.path());
    let ran = run(&["stats", text(dir.path()), "--csv"]).code(0);
    let lines = [HEADER, "4,2,2,0,8,75.25,0.75,1,0.5", "6,3,1,2,1,0.10000000000000002,,,1", "8,1,0,1,0,0,,,", "10,7,5,3,,,,,"];
    assert_eq!(ran.out, lines.join("\n") + "\n");
    assert_eq!(ran.err, "");
}

#[test]
fn bearoff_has_counts_by_pips_and_nothing_to_choose() {
    let dir = tempfile::tempdir().unwrap();
    table(dir.path(), "bearoff-6x15", vec![layer(0, [1, 0, 1], None), layer(1, [1, 0, 0], None), layer(2, [2, 0, 0], None)]);
    let ran = run(&["stats", text(dir.path()), "--csv"]).code(0);
    assert_eq!(ran.out, HEADER.replacen("age", "pips", 1) + "\n0,1,0,1,,,,,\n1,1,0,0,,,,,\n2,2,0,0,,,,,\n");
    run(&["stats", text(dir.path())]).code(0).prints("pips");
    let figures = dir.path().with_extension("figures");
    run(&["stats", text(dir.path()), "--charts", text(&figures)]).code(0).says("no action-gap-by-age.svg");
    let svg = fs::read_to_string(figures.join("states-by-age.svg")).unwrap();
    assert!(svg.contains("bearoff-6x15: 4 states by pips") && !svg.contains("afterstates"), "{svg}");
    assert!(!figures.join("action-gap-by-age.svg").exists());
    fs::remove_dir_all(figures).unwrap();
}

#[test]
fn a_long_table_fits_on_a_screen_and_csv_has_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    long(dir.path());
    let ran = run(&["stats", text(dir.path())]).code(0).prints("40 of 2,000 layers; --csv has all");
    let rows: Vec<&str> = ran.out.lines().collect();
    assert_eq!(rows.len(), 1 + 40 + 2, "{ran:#?}");
    assert!(rows[0].trim_start().starts_with("age") && rows[0].ends_with("single best"), "{}", rows[0]);
    assert_eq!(rows[1].split_whitespace().collect::<Vec<_>>(), split("4 1,000,000 1,000,000 0 2,000,000 3.0000 0 0 50.00 %"));
    assert_eq!(
        rows[40].split_whitespace().collect::<Vec<_>>(),
        split("4002 980,010 980,010 0 1,960,020 3.0000 249.88 499.75 50.00 %")
    );
    let csv = run(&["stats", text(dir.path()), "--csv"]).code(0).out;
    assert_eq!(csv.lines().count(), 2001);
    assert_eq!(csv.lines().last(), Some("4002,980010,980010,0,1960020,3,249.875,499.75,0.5"));
}

fn split(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

#[test]
fn charts_are_whole_files_beside_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (out, figures) = (dir.path().join("table"), dir.path().join("my figures/2048"));
    fs::create_dir(&out).unwrap();
    long(&out);
    for _ in 0..2 {
        let ran = run(&["stats", text(&out), "--csv", "--charts", text(&figures)]).code(0);
        assert!(ran.out.starts_with(HEADER));
        ran.says("wrote '").says("states-by-age.svg").says("action-gap-by-age.svg");
        fs::write(figures.join("mine.txt"), "mine").unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(&figures).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["action-gap-by-age.svg", "mine.txt", "states-by-age.svg"]);
    let svg = |name: &str| fs::read_to_string(figures.join(name)).unwrap();
    let (states, gap) = (svg("states-by-age.svg"), svg("action-gap-by-age.svg"));
    for picture in [&states, &gap] {
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n") && picture.contains("prefers-color-scheme"));
        assert!(!picture.contains("href") && picture.contains("age (sum of the tiles)"));
        assert!(!picture.contains("NaN"));
    }
    assert!(states.contains(">afterstates") || states.contains("\nafterstates"), "a legend");
    assert!(states.contains("positions") && gap.contains("action gap (points)") && gap.contains("share (%)"));
    // Vertical lines at multiples of 256, sixteen of them, and not at ages between.
    for label in ["\n256\n", "\n512\n", "\n3840\n"] {
        assert!(states.contains(label), "{label:?}");
    }
    assert!(!states.contains("\n128\n") && !states.contains("\n500\n"));
}

#[test]
fn charts_of_the_shortest_tables_can_be_drawn() {
    let empty = ManifestStats { legal_moves: 0, single_best: 0, choices: 0, value_sum: 0.0, gap_sum: 0.0, gap_most: 0.0 };
    let even = ManifestStats { choices: 1, ..empty };
    for layers in [vec![], vec![layer(4, [0, 0, 0], Some(empty))], vec![layer(4, [1, 0, 0], Some(even))]] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("table");
        fs::create_dir(&out).unwrap();
        table(&out, "2048-2x2+tile=8", layers);
        run(&["stats", text(&out), "--charts", text(&dir.path().join("figures"))]).code(0);
    }
}

#[test]
fn charts_do_not_go_into_the_table_nor_where_they_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("table");
    fs::create_dir(&out).unwrap();
    by_hand(&out);
    for inside in [out.clone(), out.join("figures"), out.join("a/b/c")] {
        let ran = run(&["stats", text(&out), "--charts", text(&inside)]).code(2).one_clear_error();
        ran.says("inside the table").says("help: ");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
    let file = dir.path().join("file");
    fs::write(&file, "mine").unwrap();
    for place in [file.clone(), file.join("below")] {
        let ran = run(&["stats", text(&out), "--charts", text(&place)]).code(1).one_clear_error();
        ran.says("cannot make the directory").says("help: ");
    }
    let figures = dir.path().join("figures");
    fs::create_dir_all(figures.join("states-by-age.svg")).unwrap();
    run(&["stats", text(&out), "--charts", text(&figures)]).code(1).one_clear_error().says("cannot write").says("help: ");
    assert_eq!(fs::read_dir(&figures).unwrap().count(), 1, "no unfinished file is left");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn where_there_is_no_complete_table_it_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    run(&["stats"]).code(2).says("Usage:");
    run(&["stats", text(dir.path()), "--json"]).code(2).says("--json");
    fs::create_dir(dir.path().join("build")).unwrap();
    run(&["stats", text(dir.path())]).code(1).one_clear_error().says("not complete");
    fs::remove_dir(dir.path().join("build")).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "hello").unwrap();
    run(&["stats", text(&file)]).code(1).one_clear_error().says("is not a directory").says("help: ");
    by_hand(dir.path());
    let manifest = dir.path().join("table.json");
    let changed = fs::read_to_string(&manifest).unwrap().replacen("\"gap_sum\":1.5", "\"gap_sum\":1.6", 1);
    fs::write(&manifest, changed).unwrap();
    run(&["stats", text(dir.path())]).code(1).one_clear_error().says("damaged").says("help: ");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    long(dir.path());
    let mut child = strata(&["stats", text(dir.path()), "--csv"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}
