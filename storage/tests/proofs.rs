//! Proofs of answers, and tables read through `TREES`.

mod common;

use common::{Content, NAME, files, publish_table, small};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use strata_storage::{Digest, Manifest, Proof, ProofError, Table, write_trees};

fn table() -> (tempfile::TempDir, Vec<Content>, Arc<Table>, Manifest) {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("table");
    let contents = small();
    let manifest = publish_table(&root, &contents);
    let table = Arc::new(Table::open(&root).unwrap());
    (temp, contents, table, manifest)
}

/// What is said of one key: its place, its first value, the start of its distribution.
fn ask(table: &Table, layer: u32, rank: u64) -> Result<Option<(f64, f64, usize)>, strata_storage::ShardError> {
    let Some((shard, ordinal)) = table.find(layer, rank)? else { return Ok(None) };
    let value = table.scalar(layer, shard, 0, ordinal)?;
    Ok(Some((value.value, value.error, table.dist(layer, shard, 0, ordinal)?.0)))
}

#[test]
fn a_proof_answers_what_was_asked_and_nothing_else() {
    let (_temp, contents, table, manifest) = table();
    for content in &contents {
        for &key in content.keys.iter().step_by(7) {
            let rank = content.first_rank + key;
            let recording = table.recording();
            let answer = ask(&recording, content.layer, rank).unwrap();
            assert_eq!(answer, ask(&table, content.layer, rank).unwrap());
            let text = serde_json::to_string(&recording.proof().unwrap()).unwrap();
            let proof: Proof = serde_json::from_str(&text).unwrap();
            let proven = Table::of_proof(&proof, manifest.root).unwrap();
            assert_eq!(ask(&proven, content.layer, rank).unwrap(), answer);
            assert_eq!(proven.manifest().table, NAME);
            // Of another layer, and of another shard of this one, it says nothing: not even that a key is not there.
            assert!(ask(&proven, content.layer + 1, rank).is_err());
            let mut others = contents.iter().filter(|other| !other.keys.is_empty());
            let other = others.find(|other| (other.layer, other.shard) != (content.layer, content.shard)).unwrap();
            assert!(ask(&proven, other.layer, other.first_rank + other.keys[0]).is_err());
            assert!(matches!(Table::of_proof(&proof, Digest::blake3(b"")), Err(ProofError::Root { .. })));
        }
    }
}

#[test]
fn a_proof_that_a_key_is_not_there_is_one() {
    let (_temp, contents, table, manifest) = table();
    let content = &contents[1];
    let absent = (0..content.universe).find(|rank| !content.keys.contains(rank)).unwrap() + content.first_rank;
    let recording = table.recording();
    assert_eq!(ask(&recording, content.layer, absent).unwrap(), None);
    let proven = Table::of_proof(&recording.proof().unwrap(), manifest.root).unwrap();
    assert_eq!(ask(&proven, content.layer, absent).unwrap(), None);
}

#[test]
fn a_proof_with_a_character_changed_is_refused_or_says_the_same() {
    let (_temp, contents, table, manifest) = table();
    let (layer, rank) = (contents[2].layer, contents[2].first_rank + contents[2].keys[3]);
    let recording = table.recording();
    let answer = ask(&recording, layer, rank).unwrap();
    let text = serde_json::to_string(&recording.proof().unwrap()).unwrap();
    let mut refused = 0;
    let step = text.len() / 700 + 1;
    for at in (0..text.len()).step_by(step) {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
        let Ok(proof) = serde_json::from_slice::<Proof>(&changed) else {
            refused += 1;
            continue;
        };
        match Table::of_proof(&proof, manifest.root).map(|proven| ask(&proven, layer, rank)) {
            Ok(Ok(found)) => assert_eq!(found, answer, "byte {at}"),
            Ok(Err(_)) | Err(_) => refused += 1,
        }
    }
    assert!(refused > 600, "{refused} of some 700 changes were refused");
}

#[test]
fn trees_beside_a_table_spare_reading_whole_shards_and_are_not_believed() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("table");
    // Larger than what TREES leaves out.
    let content = Content::new(4, 0, 0, 400_000, 2);
    let manifest = publish_table(&root, std::slice::from_ref(&content));
    let shard = &manifest.layers[0].shards[0];
    assert!(shard.bytes > 1 << 20);
    let write = || {
        let mut trees = Vec::new();
        assert!(write_trees(&root, &manifest, &mut trees, &|_| true).unwrap());
        trees
    };
    let trees = write();
    assert_eq!(trees.len() as u64, shard.bytes.div_ceil(16 << 10) * 32);
    fs::write(root.join("TREES"), &trees).unwrap();
    // With them damage elsewhere in the shard does no harm; without them all of it is refused.
    let path = root.join(&shard.path);
    let sound = fs::read(&path).unwrap();
    let mut damaged = sound.clone();
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert!(ask(&Table::open(&root).unwrap(), 4, 0).is_ok());
    assert!(write_trees(&root, &manifest, &mut Vec::new(), &|_| true).unwrap_err().to_string().contains("BLAKE3"));
    let answers = |root: &Path| ask(&Table::open(root).unwrap(), 4, 0).is_ok();
    let mut wrong = trees.clone();
    wrong[33] ^= 1;
    for bytes in [&wrong[..], &trees[..trees.len() - 32], &[]] {
        fs::write(root.join("TREES"), bytes).unwrap();
        assert!(!answers(&root), "what is not believed is made again, from a damaged file");
    }
    fs::write(&path, &sound).unwrap();
    assert!(answers(&root));
    assert!(!write_trees(&root, &manifest, &mut Vec::new(), &|_| false).unwrap());
    assert!(files(&root).len() >= 5);
}
