//! Bytes that anybody may have written: they are refused, or read without harm. The same properties are fuzz targets in tests/fuzz.

mod common;

use common::*;
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;
use strata_storage::*;

/// The files of a small table: a shard with everything in it, a work file, an index file, and the manifest.
struct Seeds {
    shards: Vec<(FileRecord, Vec<u8>)>,
    manifest: Vec<u8>,
}

static SEEDS: LazyLock<Seeds> = LazyLock::new(|| {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(&temp.path().join("build")).unwrap();
    let mut content = Content::new(4, 0, 7, 300, 2);
    // One column that is compressed.
    content.scalars[0] = (0..content.keys.len()).map(|i| noise((i / 16) as u64)).collect();
    let shards =
        [FileKind::Shard, FileKind::Work, FileKind::Index].map(|kind| content.write(&dir, kind).unwrap()).map(|record| {
            let bytes = std::fs::read(dir.path(&record.path)).unwrap();
            (record, bytes)
        });
    let root = temp.path().join("table");
    publish_table(&root, &small());
    Seeds { shards: shards.into(), manifest: std::fs::read(root.join("table.json")).unwrap() }
});

/// Does with a shard file whatever can be done with one.
fn use_shard(bytes: Vec<u8>, expected: Option<&FileRecord>) {
    let Ok(file) = ShardFile::from_bytes(Path::new("x"), bytes, expected) else { return };
    let header = file.header().clone();
    if let Ok(index) = file.index() {
        let _ = (index.check(), index.find(0), index.rank(index.universe()), index.select(3), index.iter().take(100).count());
    }
    for column in 0..3 {
        for ordinal in [0, 1, 255, 256, header.keys.wrapping_sub(1), header.keys, u64::MAX] {
            let _ = (file.scalar(column, ordinal), file.dist(column, ordinal));
        }
        // A made-up directory may promise more keys than fit in the memory of a test; what it costs is bounded by the file.
        if header.keys < 1 << 20 {
            let _ = (file.scalars(column), file.dists(column));
        }
    }
}

/// Puts the checksums of sections and footer right, as somebody would who wants the damage to be believed.
fn reseal(bytes: &mut [u8]) {
    let Some(trailer) = bytes.len().checked_sub(32) else { return };
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let count = number(bytes, trailer);
    let Some(footer) = usize::try_from(count).ok().and_then(|n| n.checked_mul(32)).and_then(|n| trailer.checked_sub(n)) else {
        return;
    };
    for entry in (footer..trailer).step_by(32) {
        let (offset, length) = (number(bytes, entry + 8), number(bytes, entry + 16));
        let range = usize::try_from(offset).ok().zip(usize::try_from(offset.saturating_add(length)).ok());
        if let Some(section) = range.and_then(|(start, end)| bytes.get(start..end)) {
            let crc = crc_fast::crc32_iscsi(section).to_le_bytes();
            bytes[entry + 24..entry + 28].copy_from_slice(&crc);
        }
    }
    let crc = crc_fast::crc32_iscsi(&bytes[footer..trailer + 16]).to_le_bytes();
    bytes[trailer + 16..trailer + 20].copy_from_slice(&crc);
}

/// Changes to bytes: overwrite, cut out, put in.
fn mutations() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..4)
}

fn mutate(bytes: &mut Vec<u8>, mutations: &[(prop::sample::Index, u8, u8)]) {
    for (at, how, value) in mutations {
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        match how % 8 {
            0 => drop(bytes.drain(at..bytes.len().min(at + usize::from(*value)))),
            1 => drop(bytes.splice(at..at, std::iter::repeat_n(*value, usize::from(how / 8)))),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][usize::from(value % 5)],
            _ => bytes[at] ^= value,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_bytes_are_a_shard_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        use_shard(bytes, None);
    }

    #[test]
    fn a_changed_shard_does_no_harm(which in 0..3usize, mutations in mutations(), known: bool) {
        let (record, bytes) = &SEEDS.shards[which];
        let mut bytes = bytes.clone();
        mutate(&mut bytes, &mutations);
        use_shard(bytes, known.then_some(record));
    }

    /// Here the checksums of the sections hold again, so that what lies behind them is reached.
    #[test]
    fn a_forged_shard_does_no_harm(which in 0..3usize, mutations in mutations(), known: bool) {
        let (record, bytes) = &SEEDS.shards[which];
        let mut bytes = bytes.clone();
        mutate(&mut bytes, &mutations);
        reseal(&mut bytes);
        use_shard(bytes, known.then_some(record));
    }

    #[test]
    fn any_bytes_are_a_manifest_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Manifest::parse(&bytes).is_err());
    }

    #[test]
    fn a_changed_manifest_is_refused(mutations in mutations()) {
        let mut bytes = SEEDS.manifest.clone();
        mutate(&mut bytes, &mutations);
        prop_assert_eq!(Manifest::parse(&bytes).is_ok(), bytes == SEEDS.manifest);
    }
}

#[test]
fn a_manifest_in_any_other_form_is_refused() {
    let text = String::from_utf8(SEEDS.manifest.clone()).unwrap();
    let manifest = Manifest::parse(text.as_bytes()).unwrap();
    assert_eq!(manifest.to_bytes(), text.as_bytes());
    let not_canonical = [
        text.trim_end().to_owned(),
        format!("{text}\n"),
        format!(" {text}"),
        text.replacen(",", ", ", 1),
        text.replacen("17.25", "17.250", 1),
        text.replacen("17.25", "1725e-2", 1),
        text.replacen("synthetic", "synth\\u0065tic", 1),
        serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&text).unwrap()).unwrap(),
    ];
    for other in not_canonical {
        let error = Manifest::parse(other.as_bytes()).unwrap_err();
        assert!(matches!(error, ManifestError::NotCanonical { .. }), "{error}");
    }
    let damaged = [
        text.replacen("\"format\":1", "\"format\":2", 1),
        text.replacen("\"format\":1", "\"format\":1,\"more\":0", 1),
        text.replacen("17.25", "17.26", 1),
        text.replacen(&manifest.root.to_string(), &Digest::blake3(b"x").to_string(), 1),
    ];
    let told = ["format 2", "unknown field", "the root", "the root"];
    for (other, told) in damaged.iter().zip(told) {
        let error = Manifest::parse(other.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(told) || error.contains(&told.replacen("the", "its", 1)), "{error}");
    }
}

/// Somebody who changes a number can compute a new root, too; but not one that contradicts the rest.
#[test]
fn a_manifest_that_contradicts_itself_is_refused_even_with_a_right_root() {
    let manifest = Manifest::parse(&SEEDS.manifest).unwrap();
    let forge = |change: &dyn Fn(&mut Manifest)| {
        let mut forged = manifest.clone();
        change(&mut forged);
        let mut value = serde_json::to_value(&forged).unwrap();
        value.as_object_mut().unwrap().remove("root");
        forged.root = Digest::blake3(canonical_json(&value).unwrap().as_bytes());
        Manifest::parse(&forged.to_bytes())
    };
    forge(&|_| ()).unwrap();
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Manifest));
    let changes: [Change<'_>; 18] = [
        ("sums", &|m| m.keys += 1),
        ("sums", &|m| m.states -= 1),
        ("64 bits", &|m| m.layers[0].states = u64::MAX),
        ("error bounds", &|m| m.error_bounds[0] *= 2.0),
        ("one error bound", &|m| m.layers[0].shards[0].error_bounds.clear()),
        ("one error bound", &|m| m.layers[0].shards[0].error_bounds[0] = -1.0),
        ("cover", &|m| m.layers[1].universe += 1),
        ("follow each other", &|m| m.layers[0].shards[1].first_rank += 1),
        ("follow each other", &|m| m.layers[0].shards.swap(0, 1)),
        ("ascending", &|m| m.layers.swap(0, 1)),
        ("path", &|m| m.layers[0].shards[0].path = "../../etc/passwd".into()),
        ("more keys", &|m| m.layers[0].shards[0].keys = 1000),
        ("longer than the file", &|m| m.layers[0].shards[0].value_bytes = u64::MAX),
        ("terminal", &|m| m.layers[0].terminal = 11),
        ("statistics of more states", &|m| m.layers[0].stats.as_mut().unwrap().single_best = 11),
        ("statistics of more states", &|m| m.layers[0].stats.as_mut().unwrap().choices = 11),
        ("gap below 0", &|m| m.layers[0].stats.as_mut().unwrap().gap_sum = -3.0),
        ("gap below 0", &|m| m.layers[0].stats.as_mut().unwrap().gap_most = -1e-300),
    ];
    for (what, change) in changes {
        let error = forge(change).unwrap_err();
        assert!(matches!(error, ManifestError::Inconsistent(_)) && error.to_string().contains(what), "{what}: {error}");
    }
}

#[test]
fn statistics_of_a_layer_read_back_to_the_last_bit() {
    let numbers = [0.1 + 0.2, 5e-324, f64::MAX, 1e21, 1e20 + 1e5, 9_007_199_254_740_993.0, 1152921504606846976.0, 17.0, 0.0];
    let with = |stats: Option<ManifestStats>| {
        let layer = ManifestLayer { layer: 4, universe: 0, states: 10, afterstates: 7, terminal: 1, stats, shards: Vec::new() };
        Manifest::new("synthetic-1", &["value"], &[], vec![layer], Default::default())
    };
    for number in numbers {
        let stats = ManifestStats { legal_moves: u64::MAX, value_sum: -number, gap_sum: number, gap_most: number, ..STATS };
        let manifest = with(Some(stats)).unwrap();
        let read = Manifest::parse(&manifest.to_bytes()).unwrap();
        assert_eq!((read.layers[0].stats, read.root), (Some(stats), manifest.root), "{number}");
    }
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for stats in [
            ManifestStats { value_sum: number, ..STATS },
            ManifestStats { gap_sum: number, ..STATS },
            ManifestStats { gap_most: number, ..STATS },
        ] {
            let error = with(Some(stats)).unwrap_err().to_string();
            assert!(error.contains("layer 4: statistics that are not finite numbers"), "{error}");
        }
    }
}

/// The text of a manifest without statistics, and its root, as they were before there were any.
#[test]
fn a_layer_without_statistics_does_not_mention_them() {
    let layer = ManifestLayer { layer: 4, universe: 0, states: 10, afterstates: 7, terminal: 1, stats: None, shards: Vec::new() };
    let manifest = Manifest::new("synthetic-1", &["value"], &[], vec![layer], Default::default()).unwrap();
    let text = String::from_utf8(manifest.to_bytes()).unwrap();
    let layers = r#""layers":[{"afterstates":7,"layer":4,"shards":[],"states":10,"terminal":1,"universe":0}]"#;
    assert!(text.contains(layers), "{text}");
    let null =
        text.replacen("\"states\":10,\"terminal\":1,\"universe\"", "\"states\":10,\"stats\":null,\"terminal\":1,\"universe\"", 1);
    assert_ne!(null, text);
    assert!(matches!(Manifest::parse(null.as_bytes()), Err(ManifestError::NotCanonical { .. })));
}
