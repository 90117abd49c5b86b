//! Any bytes are an index set or an error; no question to it panics, and one that passes its check answers consistently.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_storage::IndexSet;

fuzz_target!(|bytes: &[u8]| {
    let Ok(set) = IndexSet::open(bytes) else { return };
    let sound = set.check().is_ok();
    let probes = [0, 1, 63, 64, 65, 1000, set.universe() / 2, set.universe().saturating_sub(1), set.universe(), u64::MAX];
    let mut found = [0; 10];
    set.find_many(&probes, &mut found);
    for (x, found) in probes.into_iter().zip(found) {
        let one = set.find(x);
        assert_eq!(set.contains(x), one.is_some());
        if sound {
            assert_eq!(one.unwrap_or(u64::MAX), found);
            assert!(one.is_none_or(|i| set.select(i) == Some(x)));
        }
        set.rank(x);
        set.select(x);
    }
    let keys: Vec<u64> = set.iter().take(100_000).collect();
    if sound {
        assert!(keys.is_sorted_by(|a, b| a < b));
    }
});
