//! Any bytes are a manifest or an error, and a manifest is written as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_storage::Manifest;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(manifest) = Manifest::parse(bytes) {
        assert_eq!(manifest.to_bytes(), bytes);
        let _ = (manifest.b3sums(), manifest.sha256sums());
    }
});
