//! The directory while a table is built, and what comes out at the end.

mod common;

use common::*;
use std::fs;
use std::path::Path;
use std::process::Command;
use strata_storage::*;

#[test]
fn of_many_that_create_a_record_one_wins() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(temp.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    for round in 0..20 {
        let path = format!("build/commits/{round}.0.json");
        let tasks: Vec<_> = (0..8u8)
            .map(|writer| {
                let (dir, path) = (dir.clone(), path.clone());
                runtime.spawn(async move { (writer, dir.put_new(&path, vec![writer; 1000]).await.unwrap()) })
            })
            .collect();
        let outcomes: Vec<_> = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).collect();
        let winners: Vec<u8> = outcomes.iter().filter(|(_, o)| *o == PutOutcome::Created).map(|(writer, _)| *writer).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        assert_eq!(runtime.block_on(dir.get(&path)).unwrap().unwrap(), vec![winners[0]; 1000]);
    }
    // The losers left nothing.
    assert_eq!(files(temp.path()).len(), 20);
}

#[test]
fn records_are_put_listed_read_and_removed() {
    let temp = tempfile::tempdir().unwrap();
    // A plus is in the names of tables.
    let dir = TableDir::open(&temp.path().join("a/2048-3x3+tile=64")).unwrap();
    block_on(async {
        assert_eq!(dir.list("build/commits").await.unwrap(), Vec::<String>::new());
        assert_eq!(dir.get("build/job.json").await.unwrap(), None);
        dir.delete("build/job.json").await.unwrap();
        for name in ["build/commits/2.0.json", "build/commits/10.0.json", "build/job.json"] {
            assert_eq!(dir.put_new(name, name).await.unwrap(), PutOutcome::Created);
        }
        assert_eq!(dir.put_new("build/job.json", "other").await.unwrap(), PutOutcome::Exists);
        assert_eq!(dir.get("build/job.json").await.unwrap().unwrap(), b"build/job.json");
        dir.put_over("build/job.json", "other").await.unwrap();
        assert_eq!(dir.get("build/job.json").await.unwrap().unwrap(), b"other");
        assert_eq!(dir.list("build/commits").await.unwrap(), ["build/commits/10.0.json", "build/commits/2.0.json"]);
        dir.delete("build/commits/2.0.json").await.unwrap();
        assert_eq!(dir.list("build/commits/").await.unwrap(), ["build/commits/10.0.json"]);
        for bad in ["", "../x", "a/../b", "/x", "a//b"] {
            let error = dir.put_new(bad, "x").await.unwrap_err();
            assert!(matches!(error, StoreError::BadName { .. }), "{bad}: {error}");
        }
    });
    assert!(dir.path("build/job.json").is_file());
    assert!(dir.free_bytes().unwrap() > 0);
}

#[test]
fn a_directory_that_cannot_be_one_says_why() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        assert!(matches!(TableDir::open(&path), Err(StoreError::NotADirectory { .. })), "{}", path.display());
    }
    let error = TableDir::open(&temp.path().join("x".repeat(300))).unwrap_err();
    assert!(matches!(error, StoreError::NameTooLong { .. }), "{error}");
    assert!(matches!(TableDir::open(Path::new("/proc/strata")), Err(StoreError::NotPermitted { .. } | StoreError::Other { .. })));
}

#[test]
fn a_file_that_cannot_be_written_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(temp.path()).unwrap();
    let mut content = Content::new(4, 0, 0, 100_000, 2);
    let bad_key = content.keys.len() - 5;
    content.scalars[1][bad_key] = f64::NAN;
    for kind in [FileKind::Work, FileKind::Shard] {
        let error = content.write(&dir, kind).unwrap_err();
        let text = format!("layer 4, shard 0: column variance, key {bad_key}: the value is NaN");
        assert!(error.to_string().starts_with(&text), "{error}");
        assert!(!error.is_disk_full());
    }
    assert_eq!(files(temp.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(temp.path()).unwrap();
    let content = Content::new(4, 0, 0, 100, 2);
    let index = encode_sorted(&content.keys, 100).unwrap();
    let column = |values| [ColumnRef::Scalar { name: "value", values }];
    let values = &content.scalars[0];
    let spec = content.spec(FileKind::Shard);
    let other_universe = ShardSpec { universe: 101, ..spec };
    let dist = |ends, firsts, values| [ColumnRef::Dist { name: "rolls", ends, firsts, values }];
    let work = ShardSpec { kind: FileKind::Work, ..spec };
    type Case<'a> = (&'a ShardSpec<'a>, Option<&'a [u8]>, &'a [ColumnRef<'a>]);
    let cases: [Case<'_>; 9] = [
        (&spec, None, &column(values)),
        (&spec, Some(&index), &column(&values[1..])),
        (&other_universe, Some(&index), &column(values)),
        (&spec, Some(&index[..index.len() - 8]), &column(values)),
        (&ShardSpec { kind: FileKind::Index, ..spec }, Some(&index), &column(values)),
        (&work, None, &[]),
        (&work, None, &dist(&[1, 2], &[0], &[0.5, 0.5])),
        (&work, None, &dist(&[1, 3], &[0, 0], &[0.5, 0.5])),
        (&work, None, &dist(&[2, 1, 2], &[0, 0, 0], &[0.5, 0.5])),
    ];
    for (i, (spec, index, columns)) in cases.into_iter().enumerate() {
        let error = write_shard(&dir, spec, index, columns).unwrap_err();
        assert!(matches!(error, StoreError::BadShard { layer: 4, shard: 0, .. }), "case {i}: {error}");
    }
}

#[test]
fn work_files_are_exact_and_index_files_have_the_keys() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(temp.path()).unwrap();
    // More than one group of everything, more than one batch of groups of distributions.
    let content = Content::new(9, 3, 1000, 60_000, 2);
    let work = content.write(&dir, FileKind::Work).unwrap();
    assert_eq!((work.error_bounds.as_slice(), work.index_bytes, work.keys), (&[0.0, 0.0][..], 0, content.keys.len() as u64));
    let file = dir.open_shard(NAME, &work).unwrap();
    assert_eq!((file.header().first_rank, file.header().universe, file.header().blocks), (1000, 60_000, 1));
    for (column, values) in content.scalars.iter().enumerate() {
        assert_eq!(&file.scalars(column).unwrap(), values);
        let found = file.scalar(column, 7000).unwrap();
        assert_eq!((found.value, found.error), (values[7000], 0.0));
    }
    let (ends, firsts, values) = file.dists(0).unwrap();
    assert_eq!(ends.len(), content.keys.len());
    let mut start = 0;
    for (i, (first, entries)) in content.dists.iter().enumerate() {
        let end = ends[i] as usize;
        assert_eq!((firsts[i], &values[start..end]), (*first, entries.as_slice()));
        start = end;
    }
    assert_eq!(file.dist(0, 9999).unwrap(), (usize::from(content.dists[9999].0), content.dists[9999].1.clone()));
    assert!(file.index().unwrap_err().to_string().contains("there is no index"));
    assert!(file.scalar(2, 0).unwrap_err().to_string().contains("there is no scalar column 2"));
    assert!(file.scalar(0, work.keys).unwrap_err().to_string().contains("there is no key"));

    let index = content.write(&dir, FileKind::Index).unwrap();
    assert_eq!((index.value_bytes, index.keys), (0, content.keys.len() as u64));
    assert!(dir.open_shard(NAME, &index).unwrap().index().unwrap().iter().eq(content.keys.iter().copied()));
}

#[test]
fn published_values_are_within_the_bound_of_the_record_and_of_their_group() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(temp.path()).unwrap();
    let content = Content::new(9, 3, 1000, 60_000, 2);
    let record = content.write(&dir, FileKind::Shard).unwrap();
    let file = dir.open_shard(NAME, &record).unwrap();
    for (column, values) in content.scalars.iter().enumerate() {
        let read = file.scalars(column).unwrap();
        let mut worst: f64 = 0.0;
        for (i, (&value, &found)) in values.iter().zip(&read).enumerate() {
            let one = file.scalar(column, i as u64).unwrap();
            assert_eq!(one.value, found);
            assert!((found - value).abs() <= one.error && one.error <= record.error_bounds[column]);
            worst = worst.max((found - value).abs());
        }
        // The bound was measured: something is really that far off.
        assert_eq!(worst.next_up(), record.error_bounds[column]);
    }
}

#[test]
fn the_same_content_gives_the_same_bytes_on_any_number_of_threads() {
    let content = Content::new(9, 3, 1000, 60_000, 2);
    let records: Vec<FileRecord> = [1, 2, 7]
        .into_iter()
        .map(|threads| {
            let temp = tempfile::tempdir().unwrap();
            let dir = TableDir::open(temp.path()).unwrap();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| content.write(&dir, FileKind::Shard)).unwrap()
        })
        .collect();
    assert!(records.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn values_that_repeat_are_compressed_and_read_back() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(temp.path()).unwrap();
    let mut content = Content::new(9, 0, 0, 60_000, 2);
    for values in &mut content.scalars {
        *values = (0..content.keys.len()).map(|i| noise((i / 16) as u64)).collect();
    }
    let record = content.write(&dir, FileKind::Shard).unwrap();
    let plain = Content::new(9, 0, 0, 60_000, 2).write(&dir, FileKind::Shard).unwrap();
    assert!(record.bytes < plain.bytes * 3 / 4, "{} and {}", record.bytes, plain.bytes);
    let file = dir.open_shard(NAME, &record).unwrap();
    let read = file.scalars(0).unwrap();
    for (i, (&value, &found)) in content.scalars[0].iter().zip(&read).enumerate().step_by(97) {
        let one = file.scalar(0, i as u64).unwrap();
        assert!(one.value == found && (found - value).abs() <= one.error);
    }
    // And through a table, whose cache keeps decompressed groups.
    let root = temp.path().join("table");
    publish_table(&root, std::slice::from_ref(&content));
    for bytes in [0, 1 << 30] {
        let table = Table::open(&root).unwrap().with_cache_bytes(bytes);
        for (i, &found) in read.iter().enumerate().step_by(997).chain(read.iter().enumerate().step_by(997)) {
            assert_eq!(table.scalar(9, 0, 0, i as u64).unwrap().value, found);
        }
    }
}

#[test]
fn a_damaged_file_is_healed_by_writing_it_again() {
    let temp = tempfile::tempdir().unwrap();
    let dir = TableDir::open(temp.path()).unwrap();
    let content = Content::new(4, 0, 0, 100, 2);
    let record = content.write(&dir, FileKind::Shard).unwrap();
    check_file(&dir, &record).unwrap();
    let path = dir.path(&record.path);
    let mut bytes = fs::read(&path).unwrap();
    bytes[70] ^= 4;
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(check_file(&dir, &record), Err(Corruption::Hash { .. })));
    fs::write(&path, &bytes[1..]).unwrap();
    assert!(matches!(check_file(&dir, &record), Err(Corruption::Length { .. })));
    assert_eq!(content.write(&dir, FileKind::Shard).unwrap(), record);
    check_file(&dir, &record).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(check_file(&dir, &record), Err(Corruption::Missing)));
}

#[test]
fn a_published_table_has_these_files_and_no_others() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("table");
    let manifest = publish_table(&root, &small());
    let mut expected: Vec<String> = manifest.layers.iter().flat_map(|l| &l.shards).map(|s| s.path.clone()).collect();
    expected.extend(["B3SUMS", "SHA256SUMS", "table.json"].map(String::from));
    expected.sort();
    let found: Vec<String> = files(&root).into_iter().map(|path| path.to_str().unwrap().to_owned()).collect();
    assert_eq!(found, expected);
    let table = Table::open(&root).unwrap();
    assert_eq!(table.manifest(), &manifest);
    assert_eq!(table.find(5, 0).unwrap(), None);
    assert_eq!(table.find(4, 110).unwrap(), None);
    assert_eq!(table.find(4, u64::MAX).unwrap(), None);
    assert!(table.shard(4, 2).unwrap_err().to_string().contains("there is no shard 2"));
}

#[test]
fn coreutils_accepts_the_sums_and_b3sum_would() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("table");
    publish_table(&root, &small());
    let check = |tool: &str, sums: &str| Command::new(tool).args(["--check", "--strict", sums]).current_dir(&root).output();
    let output = check("sha256sum", "SHA256SUMS").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.ends_with(": OK")).count(), 4);
    // b3sum is not on every machine; its lines are the same but for the hash: 64 digits, two spaces, the name.
    if let Ok(output) = Command::new("b3sum").args(["--check", "B3SUMS"]).current_dir(&root).output() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = fs::read_to_string(root.join("B3SUMS")).unwrap();
    for line in text.lines() {
        let (hash, name) = line.split_once("  ").unwrap();
        assert_eq!(hash, blake3::hash(&fs::read(root.join(name)).unwrap()).to_hex().as_str());
    }
    assert_eq!(text.lines().count(), 4);
    fs::write(root.join("table.json"), "{}").unwrap();
    assert!(!check("sha256sum", "SHA256SUMS").unwrap().status.success());
}

/// Needs a file system with a megabyte or two of space: `STRATA_SMALL_DISK=/mnt/small`, from `mount -t tmpfs -o size=1m none /mnt/small`.
#[test]
fn a_full_disk_is_said_and_leaves_nothing_under_a_final_name() {
    let Some(disk) = std::env::var_os("STRATA_SMALL_DISK") else { return };
    let root = Path::new(&disk).join("table");
    let dir = TableDir::open(&root).unwrap();
    let content = Content::new(4, 0, 0, 2_000_000, 2);
    for kind in [FileKind::Work, FileKind::Shard] {
        let error = content.write(&dir, kind).unwrap_err();
        assert!(error.is_disk_full() && error.to_string().contains("make space"), "{error}");
    }
    let error = block_on(dir.put_new("build/commits/0.0.json", vec![b'x'; 4 << 20])).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    assert_eq!(files(&root), Vec::<std::path::PathBuf>::new());
    let small = Content::new(4, 0, 0, 1000, 2);
    check_file(&dir, &small.write(&dir, FileKind::Shard).unwrap()).unwrap();
    fs::remove_dir_all(&root).unwrap();
}
