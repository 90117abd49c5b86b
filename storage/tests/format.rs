//! docs/FORMAT.md is enough to read a table: this reader was written from it, and shares no code with ours.

mod common;

use common::*;
use std::fs;
use strata_storage::*;

/// CRC-32C, bit by bit.
fn crc(pieces: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in pieces.iter().copied().flatten() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn f64_at(bytes: &[u8], at: usize) -> f64 {
    f64::from_bits(u64_at(bytes, at))
}

/// What the reader finds in a file.
#[derive(Default)]
struct Found {
    kind: u32,
    layer: u32,
    shard: u32,
    table: String,
    run: [u64; 4],
    keys: Vec<u64>,
    scalars: Vec<Vec<f64>>,
    dists: Vec<Vec<(u8, Vec<f64>)>>,
}

fn read(file: &[u8]) -> Found {
    let end = file.len() - 32;
    assert_eq!(&file[end + 24..], b"STRATEND");
    let count = u64_at(file, end) as usize;
    assert_eq!(u64_at(file, end + 8), file.len() as u64);
    let footer = end - 32 * count;
    assert_eq!(u32_at(file, end + 16), crc(&[&file[footer..end + 16]]));
    let mut found = Found::default();
    let mut columns = Vec::new();
    for entry in file[footer..end].chunks(32) {
        let start = u64_at(entry, 8) as usize;
        let section = &file[start..start + u64_at(entry, 16) as usize];
        assert_eq!(u32_at(entry, 24), crc(&[section]));
        match u32_at(entry, 0) {
            1 => {
                assert_eq!((&section[..8], u32_at(section, 8)), (&b"STRATA\x0d\x1a"[..], 1));
                (found.kind, found.layer, found.shard) = (u32_at(section, 12), u32_at(section, 16), u32_at(section, 20));
                found.table = String::from_utf8(section[32..32 + u64_at(section, 24) as usize].to_vec()).unwrap();
            }
            2 => {
                assert_eq!(u64_at(section, 0), 1);
                found.run = [16, 24, 32, 40].map(|at| u64_at(section, at));
                let mut at = 48;
                for _ in 0..u64_at(section, 8) {
                    columns.push((u32_at(section, at) == 2, u64_at(section, at + 8)));
                    at = (at + 16 + u32_at(section, at + 4) as usize).next_multiple_of(8);
                }
            }
            3 => {
                assert_eq!(start % 64, 40);
                found.keys = read_index(section);
            }
            4 => {
                let (is_dist, group_keys) = columns[u32_at(entry, 4) as usize];
                read_column(section, found.run[3], is_dist, group_keys, &mut found);
            }
            other => panic!("section {other}"),
        }
    }
    found
}

fn read_column(section: &[u8], keys: u64, is_dist: bool, group_keys: u64, found: &mut Found) {
    let groups = keys.div_ceil(group_keys);
    let (mut scalars, mut dists) = (Vec::new(), Vec::new());
    for group in 0..groups {
        let entry = &section[section.len() - 48 * (groups - group) as usize..][..48];
        let start = u64_at(entry, 0) as usize;
        let stored = &section[start..start + u32_at(entry, 8) as usize];
        assert_eq!(u32_at(entry, 44), crc(&[&group.to_le_bytes(), &entry[..44], stored]));
        let (base, step, form) = (f64_at(entry, 16), f64_at(entry, 24), entry[40]);
        let payload = match entry[41] {
            0 => stored.to_vec(),
            _ => zstd::decode_all(stored).unwrap(),
        };
        assert_eq!(payload.len(), u32_at(entry, 12) as usize);
        let n = (keys - group * group_keys).min(group_keys) as usize;
        if is_dist {
            let entries = &payload[(5 * n).next_multiple_of(8)..];
            let mut from = 0;
            for i in 0..n {
                let to = u32_at(&payload, 4 * i) as usize;
                let value = |k: usize| match form {
                    1 => f64_at(entries, 8 * k),
                    _ => f64::from(u32_at(entries, 4 * k)) / 4294967295.0,
                };
                dists.push((payload[4 * n + i], (from..to).map(value).collect()));
                from = to;
            }
        } else {
            scalars.extend((0..n).map(|i| match form {
                0 => base,
                1 => f64_at(&payload, 8 * i),
                3 => f64::from(payload[i / 4] >> (2 * (i % 4)) & 3),
                4 => base + f64::from(u16::from_le_bytes([payload[2 * i], payload[2 * i + 1]])) * step,
                5 => f64::from(f32::from_bits(u32_at(&payload, 4 * i))),
                _ => base + f64::from(u32_at(&payload, 4 * i)) * step,
            }));
        }
    }
    if is_dist { found.dists.push(dists) } else { found.scalars.push(scalars) }
}

/// Bits `at..at + count` of some bytes, the first of them lowest.
fn bits(bytes: &[u8], at: usize, count: usize) -> u64 {
    (0..count).map(|k| u64::from(bytes[(at + k) / 8] >> ((at + k) % 8) & 1) << k).sum()
}

/// All members of an index set, front to back.
fn read_index(bytes: &[u8]) -> Vec<u64> {
    assert_eq!(&bytes[..3], b"EF\x01");
    let (universe, keys) = (u64_at(bytes, 8), u64_at(bytes, 16));
    let chunks = universe.div_ceil(4096) as usize;
    let directory_bytes = chunks / 8 * 64 + if !chunks.is_multiple_of(8) { (16 + chunks % 8 * 6).next_multiple_of(8) } else { 0 };
    let mut body_at = 24 + directory_bytes;
    let mut found = Vec::new();
    for chunk in 0..chunks {
        let group = 24 + chunk / 8 * 64;
        let entry = &bytes[group + 16 + chunk % 8 * 6..][..6];
        assert_eq!(u64_at(bytes, group) + bits(entry, 0, 15), found.len() as u64);
        assert_eq!((u64_at(bytes, group + 8) + bits(entry, 15, 13)) as usize, body_at - 24 - directory_bytes);
        let (form, n) = (bits(entry, 28, 5) as usize, bits(entry, 33, 13) as usize);
        let ranks = (universe as usize - chunk * 4096).min(4096);
        let body = &bytes[body_at..];
        let mut present = vec![form == 1 || form >= 17; ranks];
        let mut used = 0;
        if form == 2 {
            let counts = 16 * (ranks.div_ceil(512) - 1);
            for (r, present) in present.iter_mut().enumerate() {
                *present = bits(body, counts + r, 1) == 1;
            }
            used = counts + ranks;
        } else if form >= 4 {
            let low = if form >= 17 { form - 17 } else { form - 4 };
            let members = if form >= 17 { ranks - n } else { n };
            let buckets = ranks.div_ceil(1 << low);
            let mut upper = 16 * (buckets.div_ceil(256) - 1);
            let low_at = upper + members + buckets;
            let mut bucket = 0;
            for member in 0..members {
                while bits(body, upper, 1) == 0 {
                    (upper, bucket) = (upper + 1, bucket + 1);
                }
                upper += 1;
                present[bucket << low | bits(body, low_at + member * low, low) as usize] = form < 17;
            }
            used = low_at + members * low;
        }
        body_at += used.div_ceil(8);
        found.extend(present.iter().enumerate().filter(|(_, p)| **p).map(|(r, _)| (chunk * 4096 + r) as u64));
        assert_eq!(present.iter().filter(|p| **p).count(), n);
    }
    assert_eq!(found.len() as u64, keys);
    found
}

#[test]
fn the_crc_is_the_one_that_the_page_names() {
    assert_eq!(crc(&[b"123456789"]), 0xe306_9283);
}

#[test]
fn the_example_of_the_page_is_right() {
    let bytes = encode_sorted(&[7, 128, 299], 300).unwrap();
    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/FORMAT.md")).unwrap();
    for row in hex.chunks(8) {
        assert!(page.contains(&row.join(" ")), "{}", row.join(" "));
    }
    assert_eq!(read_index(&bytes), [7, 128, 299]);
}

#[test]
fn a_reader_written_from_the_page_reads_everything() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(temp.path()).unwrap();
    for one_in in [1, 2, 50, 3000] {
        let mut content = Content::new(17, 3, 1000, 40_000, one_in);
        if one_in == 2 {
            // Compressed, constant, and too wide for steps.
            content.scalars[0] = (0..content.keys.len()).map(|i| noise(i as u64 / 16)).collect();
            content.scalars[1][..4096].fill(0.125);
            content.scalars[1][4096..4098].copy_from_slice(&[f64::MAX, f64::MIN]);
        }
        let kinds = [
            (FileKind::Index, 1),
            (FileKind::Work, 2),
            (FileKind::Shard, 3),
            (FileKind::Checkpoint, 4),
            (FileKind::Stretch, 5),
            (FileKind::Partial, 6),
        ];
        for (kind, number) in kinds {
            let record = content.write(&dir, kind).unwrap();
            let bytes = fs::read(dir.path(&record.path)).unwrap();
            assert_eq!(blake3::hash(&bytes).to_hex()[..16], record.path.split(['-', '.']).nth(1).unwrap()[..]);
            let found = read(&bytes);
            assert_eq!((found.layer, found.shard, found.table.as_str()), (17, 3, NAME));
            assert_eq!(found.run, [1000, 40_000, 1, content.keys.len() as u64]);
            assert_eq!(found.kind, number);
            if kind != FileKind::Work {
                assert_eq!(found.keys, content.keys);
            }
            if !matches!(kind, FileKind::Work | FileKind::Shard) {
                continue;
            }
            let file = ShardFile::open(&dir.path(&record.path), Some(&record)).unwrap();
            for (column, values) in found.scalars.iter().enumerate() {
                assert_eq!(values, &file.scalars(column).unwrap());
                let bound = record.error_bounds[column];
                assert!(values.iter().zip(&content.scalars[column]).all(|(a, b)| (a - b).abs() <= bound));
            }
            for (i, (first, entries)) in found.dists[0].iter().enumerate().step_by(61) {
                assert_eq!(file.dist(0, i as u64).unwrap(), (usize::from(*first), entries.clone()));
                let (given_first, given) = &content.dists[i];
                assert!(first == given_first && entries.iter().zip(given).all(|(a, b)| (a - b).abs() <= 1.2e-10));
            }
        }
    }
}

/// Two groups of moves, the second not full, and one where all are equal.
#[test]
fn a_reader_written_from_the_page_reads_moves() {
    let dir = tempfile::tempdir().unwrap();
    let table = TableDir::open(dir.path()).unwrap();
    let keys: Vec<u64> = (0..40_000).map(|key| key * 3).collect();
    let moves: Vec<u8> = (0..40_000).map(|key| if key < 32_768 { (common::noise(key) * 4.0) as u8 } else { 2 }).collect();
    let index = encode_sorted(&keys, 120_000).unwrap();
    let spec =
        ShardSpec { table: "moves", kind: FileKind::Shard, layer: 4, shard: 0, first_rank: 0, universe: 120_000, blocks: 1 };
    let columns = [ColumnRef::Choice { name: "move", values: &moves }];
    let record = write_shard(&table, &spec, Some(&index), &columns).unwrap();
    assert_eq!(record.error_bounds, [0.0]);
    assert!(record.value_bytes < 40_000 / 4, "{} bytes", record.value_bytes);
    let found = read(&std::fs::read(table.path(&record.path)).unwrap());
    let expected: Vec<f64> = moves.iter().map(|&number| f64::from(number)).collect();
    assert_eq!((found.scalars.len(), &found.scalars[0]), (1, &expected));
    let file = table.open_shard("moves", &record).unwrap();
    assert_eq!(file.scalars(0).unwrap(), expected);
    assert_eq!(file.scalar(0, 20_001).unwrap().value, expected[20_001]);
    // And a number that is no move is refused.
    let wrong = [ColumnRef::Choice { name: "move", values: &[0, 4] }];
    let index = encode_sorted(&[5, 6], 120_000).unwrap();
    let error = write_shard(&table, &spec, Some(&index), &wrong).unwrap_err().to_string();
    assert!(error.contains("0 to 3"), "{error}");
}

#[test]
fn the_manifest_and_the_sums_are_as_the_page_says() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("table");
    publish_table(&root, &small());
    let text = fs::read_to_string(root.join("table.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    // The root is over the text without its member, which can be cut out of it.
    let member = format!("\"root\":{},", value["root"]);
    assert!(text.contains(&member) && text.ends_with("}\n"));
    let rest = text.trim_end().replacen(&member, "", 1);
    assert_eq!(value["root"], blake3::hash(rest.as_bytes()).to_hex().as_str());
    // Layer 4 has statistics, layer 6 none.
    let stats = r#""stats":{"choices":7,"gap_most":1.0625,"gap_sum":3,"legal_moves":21,"single_best":6,"value_sum":1234.5}"#;
    assert!(text.contains(stats) && value["layers"][0]["stats"].is_object() && value["layers"][1].get("stats").is_none());
    for shard in value["layers"].as_array().unwrap().iter().flat_map(|layer| layer["shards"].as_array().unwrap()) {
        let bytes = fs::read(root.join(shard["path"].as_str().unwrap())).unwrap();
        assert_eq!(shard["blake3"], blake3::hash(&bytes).to_hex().as_str());
        assert_eq!(shard["bytes"], bytes.len());
        assert_eq!(shard["keys"], read(&bytes).keys.len());
    }
}

/// Values that were computed in f32: in 16 bits where that is near enough, in 32 where they are far apart, and as they are in work files.
#[test]
fn numbers_in_f32_are_read_as_the_format_says() {
    let folder = tempfile::tempdir().unwrap();
    let dir = TableDir::open(folder.path()).unwrap();
    let keys = 10_000u64;
    // The last group spans from -2 to 2: 16 bits are not enough.
    let scale = |key: u64| if key < 8192 { 1.0 } else { 4.0 };
    let values: Vec<f32> = (0..keys).map(|key| ((noise(key) - 0.5) * scale(key)) as f32).collect();
    let allowance = 1e-6;
    let column = ColumnRef::Single { name: "equity", values: &values, allowance };
    let index = encode_sorted(&(0..keys).collect::<Vec<_>>(), keys).unwrap();
    let spec = |kind| ShardSpec { table: NAME, kind, layer: 1, shard: 0, first_rank: 0, universe: keys, blocks: 1 };
    for (kind, index) in [(FileKind::Shard, Some(index.as_slice())), (FileKind::Work, None)] {
        let record = write_shard(&dir, &spec(kind), index, &[column]).unwrap();
        let found = read(&fs::read(dir.path(&record.path)).unwrap());
        let file = dir.open_shard(NAME, &record).unwrap();
        let bound = record.error_bounds[0];
        assert!(bound <= 1.0 / 32_768.0);
        for (ordinal, (&value, &read)) in (0..).zip(values.iter().zip(&found.scalars[0])) {
            let ours = file.scalar(0, ordinal).unwrap();
            assert_eq!(ours.value, read);
            let off = (read - f64::from(value)).abs();
            match kind {
                FileKind::Work => assert_eq!((off, ours.error), (0.0, 0.0)),
                _ => assert!(off + allowance <= ours.error && ours.error <= bound, "{ordinal}: {off} {ours:?}"),
            }
        }
        if kind == FileKind::Work {
            assert_eq!(file.singles(0).unwrap(), values);
            file.release();
            assert_eq!(file.singles(0).unwrap(), values);
            assert!(read(&fs::read(dir.path(&record.path)).unwrap()).keys.is_empty());
        } else {
            assert!(file.singles(0).is_err(), "16 bits are not f32 in one piece");
            assert!(record.value_bytes < keys * 3, "{} bytes", record.value_bytes);
        }
    }
    for bad in [f32::NAN, f32::INFINITY] {
        let column = ColumnRef::Single { name: "equity", values: &[0.0, bad], allowance };
        let spec = ShardSpec { universe: 2, ..spec(FileKind::Work) };
        assert!(matches!(write_shard(&dir, &spec, None, &[column]), Err(StoreError::BadValue { key: 1, .. })));
    }
}
