//! A proof that anybody may have written is refused or read, and what is read from it is an answer or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_storage::{Digest, Proof, Table};

fuzz_target!(|bytes: &[u8]| {
    let Some((root, text)) = bytes.split_first_chunk::<32>() else { return };
    let Ok(proof) = serde_json::from_slice::<Proof>(text) else { return };
    if let Ok(table) = Table::of_proof(&proof, Digest(*root)) {
        let _ = table.find(4, 0);
    }
});
