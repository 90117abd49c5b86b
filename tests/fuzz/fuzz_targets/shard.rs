//! Any bytes are a shard file or an error; no question to it panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use strata_storage::ShardFile;

fuzz_target!(|bytes: &[u8]| {
    let Ok(shard) = ShardFile::from_bytes(Path::new("fuzz.shard"), bytes.to_vec(), None) else { return };
    if let Ok(index) = shard.index() {
        let _ = index.check();
        index.iter().take(1000).for_each(drop);
    }
    for column in 0..4 {
        for ordinal in [0, 1, 4095, 4096, u64::MAX] {
            let _ = shard.scalar(column, ordinal);
            let _ = shard.dist(column, ordinal);
        }
        let _ = shard.scalars(column);
        let _ = shard.dists(column);
    }
});
