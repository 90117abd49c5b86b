//! A table in an object store, as coordinators and workers use it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use strata_storage::*;

const TABLE: &str = "2048-2x2";

/// What runs outside a runtime: kernels, and what the coordinator does on threads that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn worker(store: &Store, cache: &Path) -> TableDir {
    store.place(TABLE).open(Some(&Shelf::open(cache, 1 << 30).unwrap())).unwrap()
}

fn write(dir: &TableDir, numbers: &[f64]) -> FileRecord {
    let spec = ShardSpec {
        table: TABLE,
        kind: FileKind::Work,
        layer: 4,
        shard: 0,
        first_rank: 0,
        universe: numbers.len() as u64,
        blocks: 1,
    };
    write_shard(dir, &spec, None, &[ColumnRef::Scalar { name: "value", values: numbers }]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_travel_between_workers_and_are_hashed_on_the_way() {
    let (bucket, temp) = (Bucket::in_memory(), tempfile::tempdir().unwrap());
    let store = Store::Bucket(bucket);
    let numbers: Vec<f64> = (0..1000).map(|n| f64::from(n) / 7.0).collect();
    let (one, two) = (worker(&store, &temp.path().join("one")), worker(&store, &temp.path().join("two")));
    let record = blocking({
        let (one, numbers) = (one.clone(), numbers.clone());
        move || write(&one, &numbers)
    })
    .await;
    let coordinator = store.place(TABLE).open(None).unwrap();
    assert_eq!(coordinator.length(&record.path).await.unwrap(), Some(record.bytes));
    blocking({
        let (coordinator, record) = (coordinator.clone(), record.clone());
        move || {
            check_file(&coordinator, &record).unwrap();
            assert!(!one.fetch(&record).unwrap(), "it is there, where it was written");
            assert!(two.fetch(&record).unwrap() && !two.fetch(&record).unwrap());
            check_copy(&two, &record).unwrap();
            let mut read = Vec::new();
            two.open_shard(TABLE, &record)
                .unwrap()
                .each_scalars(0, &mut |values: &[f64]| read.extend_from_slice(values))
                .unwrap();
            assert_eq!(read, numbers);
            // A copy that went bad is made again from what is in the store.
            let path = two.path(&record.path);
            fs::write(&path, vec![0; usize::try_from(record.bytes).unwrap()]).unwrap();
            assert!(matches!(check_copy(&two, &record), Err(Corruption::Hash { .. })));
            assert!(two.discard_copy(&record) && two.fetch(&record).unwrap());
            check_copy(&two, &record).unwrap();
        }
    })
    .await;
    // What the store itself has lost or mixed up is not taken, and leaves no copy.
    let three = worker(&store, &temp.path().join("three"));
    let length = usize::try_from(record.bytes).unwrap();
    for (damage, what) in [(vec![7; length], "BLAKE3"), (vec![7; length - 1], "bytes long")] {
        coordinator.put_over(&record.path, damage).await.unwrap();
        let (three, coordinator, record) = (three.clone(), coordinator.clone(), record.clone());
        blocking(move || {
            let error = three.fetch(&record).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert!(check_file(&coordinator, &record).unwrap_err().to_string().contains(what));
            assert!(!three.path(&record.path).exists());
        })
        .await;
    }
    coordinator.delete(&record.path).await.unwrap();
    assert!(matches!(blocking(move || three.fetch(&record)).await, Err(Corruption::Missing)));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_put_once_and_what_is_not_listed_goes() {
    let store = Store::Bucket(Bucket::in_memory());
    let dir = store.place("2048-3x3+tile=64").open(None).unwrap();
    assert_eq!(dir.put_new("build/commits/3.17.json", "a").await.unwrap(), PutOutcome::Created);
    assert_eq!(dir.put_new("build/commits/3.17.json", "b").await.unwrap(), PutOutcome::Exists);
    assert_eq!(dir.get("build/commits/3.17.json").await.unwrap().unwrap(), b"a");
    let shards = ["shards/00004/0-0123456789abcdef.shard", "build/work/00004/1-0123456789abcdef.shard"];
    for name in shards.into_iter().chain(["table.json", "notes.txt"]) {
        dir.put_over(name, name).await.unwrap();
    }
    assert_eq!(dir.list("build").await.unwrap(), ["build/commits/3.17.json", shards[1]]);
    assert_eq!(store.folders().await.unwrap(), ["2048-3x3+tile=64"]);
    for bad in ["", "../x", "/x", "a//b"] {
        assert!(matches!(dir.put_new(bad, "x").await, Err(StoreError::BadName { .. })), "{bad}");
    }
    let seen = dir.clone();
    blocking(move || {
        assert!(seen.is_published().unwrap());
        assert_eq!(seen.foreign_files().unwrap(), ["notes.txt"]);
        assert_eq!(seen.remove_unlisted(&BTreeSet::from([shards[0].to_owned()])).unwrap(), [shards[1]]);
        seen.remove_build().unwrap();
    })
    .await;
    assert_eq!(dir.list("build").await.unwrap(), Vec::<String>::new());
    assert_eq!(dir.get(shards[0]).await.unwrap().unwrap(), shards[0].as_bytes());
}

#[tokio::test]
async fn a_store_that_holds_to_conditions_is_found_to_and_left_as_it_was() {
    let bucket = Bucket::in_memory();
    prove(&bucket).await.unwrap();
    assert_eq!(Store::Bucket(bucket).folders().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn addresses_that_are_no_stores_are_refused_and_keep_their_secrets() {
    for (url, why) in [
        ("ftp://a/b", "s3://, gs:// or az://"),
        ("s3://key:secret@bucket/a", "credentials go into the environment"),
        ("s3://bucket/a?secret", "credentials go into the environment"),
        ("memory://", "s3://, gs:// or az://"),
        ("s3:// bucket", "invalid"),
        ("s3://AK:abc/secret@bucket/x", ""),
        ("s3:/bucket/x", "one slash"),
    ] {
        let error = Store::open(url, false).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
    }
    assert!(matches!(Store::open("file:///a/b", false), Ok(Store::Folder(path)) if path == Path::new("/a/b")));
    assert!(matches!(Store::open("a/b", false), Ok(Store::Folder(path)) if path == Path::new("a/b")));
}
