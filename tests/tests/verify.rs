//! `strata verify` on good tables, and on tables whose every byte is as published but not right.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use strata_games::memory::{MemoryTable, run_all};
use strata_games::{Key, Layer, StateSpace, TableReader};
use strata_storage::{
    ColumnRef, FileKind, FileRecord, Manifest, ManifestShard, ShardSpec, Table, TableDir, encode_sorted, publish, write_shard,
};
use strata_tests::{copy_table, fixture, run, text};

const LEVELS: [&str; 3] = ["structure", "hash", "bellman"];

#[test]
fn every_level_passes_good_tables() {
    for name in ["2048-2x2", "2048-3x2", "2048-2x3+tile=32", "2048-3x3+tile=64", "bearoff-6x15", "2048-2x3+four=0.5"] {
        let table = fixture(name);
        for level in LEVELS {
            let json = run(["verify", text(&table.dir), "--level", level, "--json"]).ok().json();
            assert_eq!(json["ok"], true, "{json}");
            assert_eq!(json["root"], table.root());
        }
        let all = run(["verify", text(&table.dir), "--level", "bellman", "--json"]).ok().json();
        assert_eq!(all["positions"], table.info()["keys"], "all keys are recomputed");
    }
}

#[test]
fn every_level_passes_two_by_four() {
    let table = fixture("2048-2x4");
    for level in LEVELS {
        let _ = run(["verify", text(&table.dir), "--level", level]).ok().prints("ok").prints("proves that");
    }
    let json = run(["verify", text(&table.dir), "--level", "bellman", "--sample", "1%", "--seed", "4", "--json"]).ok().json();
    let (done, all) = (json["positions"].as_f64().expect("positions"), 3_406_686.0);
    assert!((done / all - 0.01).abs() < 0.002, "{done} of {all} are no hundredth");
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn every_level_passes_three_by_three() {
    let table = fixture("2048-3x3");
    for level in LEVELS {
        let json = run(["verify", text(&table.dir), "--level", level, "--json"]).ok().json();
        assert_eq!((&json["ok"], &json["root"]), (&serde_json::json!(true), &serde_json::json!(table.root())));
    }
}

/// Runs a checker of sums in a table; `None` where it is not installed.
fn check_sums(program: &str, list: &str, dir: &Path) -> Option<(bool, String)> {
    let output = Command::new(program).args(["-c", list]).current_dir(dir).output().ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[test]
fn the_lists_of_sums_are_accepted_by_the_usual_programs() {
    for name in ["2048-2x2", "bearoff-6x15"] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path().join("t");
        copy_table(&fixture(name).dir, &dir);
        for (program, list) in [("sha256sum", "SHA256SUMS"), ("b3sum", "B3SUMS")] {
            let Some((ok, said)) = check_sums(program, list, &dir) else {
                eprintln!("skipped: there is no {program} here");
                continue;
            };
            assert!(ok, "{program}: {said}");
            // Every file but the two lists is in it.
            assert_eq!(said.lines().count(), strata_tests::harm::files(&dir).len() - 2, "{said}");
            strata_tests::harm::flip(&dir.join("table.json"), 10, 1);
            assert!(!check_sums(program, list, &dir).expect("it was there").0);
            strata_tests::harm::flip(&dir.join("table.json"), 10, 1);
        }
    }
}

/// A shard as the build makes it, from values computed in memory.
struct Remade {
    keys: Vec<u64>,
    scalars: Vec<Vec<f64>>,
    dists: Vec<Dists>,
}

/// A distribution column in the form in which it is written.
#[derive(Default)]
struct Dists {
    ends: Vec<u64>,
    firsts: Vec<u8>,
    values: Vec<f64>,
}

impl Remade {
    fn of(space: &dyn StateSpace, exact: &MemoryTable, table: &Table, layer: u32, shard: u32) -> Self {
        let file = table.shard(layer, shard).expect("a sound shard");
        let keys: Vec<u64> = file.index().expect("a sound index").iter().collect();
        let first = file.header().first_rank;
        let (mut scalars, mut dists) = (vec![Vec::new(); space.scalar_columns().len()], Vec::new());
        dists.resize_with(space.dist_columns().len(), Dists::default);
        for rank in &keys {
            let slot = exact.find(Key { layer: Layer(layer), rank: first + rank }).expect("memory reads").expect("the key");
            for (column, values) in scalars.iter_mut().enumerate() {
                values.push(exact.scalar(slot, column).expect("memory reads").value);
            }
            for (column, dist) in dists.iter_mut().enumerate() {
                let (first, entries) = exact.dist(slot, column).expect("memory reads");
                dist.values.extend(entries);
                dist.ends.push(dist.values.len() as u64);
                dist.firsts.push(u8::try_from(first).expect("a small number"));
            }
        }
        Self { keys, scalars, dists }
    }

    fn write(&self, space: &dyn StateSpace, dir: &Path, table: &Table, layer: u32, shard: u32) -> FileRecord {
        let header = table.shard(layer, shard).expect("a sound shard").header().clone();
        let spec = ShardSpec {
            table: &header.table,
            kind: FileKind::Shard,
            layer,
            shard,
            first_rank: header.first_rank,
            universe: header.universe,
            blocks: header.blocks,
        };
        let index = encode_sorted(&self.keys, header.universe).expect("keys ascend");
        let names = space.scalar_columns().iter().zip(&self.scalars);
        let mut columns: Vec<ColumnRef<'_>> = names.map(|(name, values)| ColumnRef::Scalar { name, values }).collect();
        columns.extend(space.dist_columns().iter().zip(&self.dists).map(|(name, d)| ColumnRef::Dist {
            name,
            ends: &d.ends,
            firsts: &d.firsts,
            values: &d.values,
        }));
        let dir = TableDir::open(dir).expect("the directory opens");
        write_shard(&dir, &spec, Some(&index), &columns).expect("the shard is written")
    }
}

/// A table in which one shard was made again, with checksums and a manifest that fit it.
struct Forged {
    _home: tempfile::TempDir,
    dir: PathBuf,
    layer: u32,
    unchanged: bool,
}

/// Makes the largest shard of a table again, changed by `change`.
fn forge(name: &str, change: impl FnOnce(&mut Remade)) -> Forged {
    let sound = fixture(name).dir;
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("t");
    copy_table(&sound, &dir);
    let space = strata_games::open(&name.parse().expect("a name")).expect("it opens");
    let exact = run_all(space.as_ref()).expect("it can be built in memory");
    let table = Table::open(&sound).expect("the table is sound");
    let manifest = table.manifest().clone();
    let all = manifest.layers.iter().flat_map(|layer| layer.shards.iter().map(|shard| (layer.layer, shard)));
    let (layer, old) = all.max_by_key(|(_, shard)| shard.keys).map(|(layer, shard)| (layer, shard.clone())).expect("a shard");
    let mut remade = Remade::of(space.as_ref(), &exact, &table, layer, old.shard);
    change(&mut remade);
    let record = remade.write(space.as_ref(), &dir, &table, layer, old.shard);
    let unchanged = record.path == old.path;
    if !unchanged {
        fs::remove_file(dir.join(&old.path)).expect("removed");
    }
    let mut layers = manifest.layers.clone();
    for shard in layers.iter_mut().filter(|l| l.layer == layer).flat_map(|l| &mut l.shards).filter(|s| s.shard == old.shard) {
        *shard = ManifestShard::new(&record, old.first_rank, old.universe, old.blocks);
    }
    let facts: BTreeMap<String, f64> = manifest.facts.clone();
    let forged = Manifest::new(name, space.scalar_columns(), space.dist_columns(), layers, facts).expect("it fits together");
    fs::remove_file(dir.join("table.json")).expect("removed");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async { publish(&TableDir::open(&dir).expect("it opens"), &forged).await }).expect("published");
    let _ = fs::remove_dir_all(dir.join("build"));
    Forged { _home: home, dir, layer, unchanged }
}

#[test]
fn a_shard_made_again_from_the_same_values_has_the_same_bytes() {
    for name in ["2048-2x3", "bearoff-6x15"] {
        let forged = forge(name, |_| {});
        assert!(forged.unchanged, "{name}");
        assert_eq!(run(["info", text(&forged.dir), "--json"]).ok().json()["root"], fixture(name).root());
    }
}

/// Only the level that recomputes finds it, and names layer and key.
fn assert_only_bellman_finds(forged: &Forged, key: u64) {
    assert!(!forged.unchanged);
    for level in ["structure", "hash"] {
        let _ = run(["verify", text(&forged.dir), "--level", level]).ok();
    }
    let json = run(["verify", text(&forged.dir), "--level", "bellman", "--json"]).code(1).json();
    let problems = json["problems"].as_array().expect("problems");
    assert!(problems.iter().any(|p| p["layer"] == forged.layer && p["key"] == key), "layer {} key {key}: {json}", forged.layer);
    let _ = run(["verify", text(&forged.dir), "--level", "bellman"]).code(1).prints(&format!("layer {}", forged.layer));
}

#[test]
fn one_wrong_value_with_valid_checksums_is_found() {
    // A thousandth of a point too much, and far too little.
    for (key, wrong) in [(17, 1e-3), (40, -100.0)] {
        let forged = forge("2048-2x3", |shard| shard.scalars[0][key] += wrong);
        assert_only_bellman_finds(&forged, key as u64);
    }
    let forged = forge("bearoff-6x15", |shard| shard.scalars[0][100] += 1e-6);
    assert_only_bellman_finds(&forged, 100);
}

#[test]
fn one_wrong_chance_with_valid_checksums_is_found() {
    let forged = forge("bearoff-6x15", |shard| {
        // Moved from one roll to the next but one, through the middle: the sum stays 1, and so does the mean.
        let start = shard.dists[0].ends[200] as usize;
        let values = &mut shard.dists[0].values[start..];
        let most = (1..6).max_by(|&a, &b| values[a].total_cmp(&values[b])).expect("entries");
        values[most - 1] += 1e-5;
        values[most] -= 2e-5;
        values[most + 1] += 1e-5;
    });
    assert_only_bellman_finds(&forged, 201);
}

#[test]
fn one_missing_key_with_valid_checksums_is_found() {
    let forged = forge("2048-2x3", |shard| {
        shard.keys.remove(30);
        shard.scalars[0].remove(30);
    });
    for level in ["structure", "hash"] {
        let _ = run(["verify", text(&forged.dir), "--level", level]).ok();
    }
    let json = run(["verify", text(&forged.dir), "--level", "bellman", "--json"]).code(1).json();
    assert!(!json["problems"].as_array().expect("problems").is_empty());
}
