//! Index sets, shard files, manifests, checksums and stores of Strata's tables.
//!
//! A table is a directory of immutable *shard files*, each named by its content, and a *manifest* `table.json`, written last, that
//! names them all. Nothing is judged by whether it exists: a file is what its hash says, and every byte that an answer depends on is
//! under a checksum that is looked at before the answer is given.
//!
//! * [`Store`] is where tables are: a folder, or a [`Bucket`] of an object store, led by one coordinator at a time;
//! * [`TableDir`] is the place of one table while it is built: atomic records, a lock, and [`write_shard`];
//! * [`ShardFile`] reads one shard file in place, from a memory map;
//! * [`IndexSet`] is the set of keys in it;
//! * [`Manifest`] and [`publish`] make a table of it, [`Table`] answers from it, [`verify_files`] says what is damaged.
//!
//! The bytes are described in docs/FORMAT.md.

mod blocks;
mod bucket;
mod cache;
mod column;
mod digest;
mod dir;
mod error;
mod fence;
mod index;
mod json;
mod layout;
mod lead;
mod lock;
mod manifest;
mod map;
mod objects;
mod pack;
mod place;
mod proof;
mod prove;
mod record;
mod scratch;
mod shard;
mod shelf;
mod sweep;
mod table;
mod tree;
mod verify;
mod writer;

pub use blocks::Piece;
pub use bucket::Bucket;
pub use digest::{Digest, DigestError, hash_file};
pub use dir::TableDir;
pub use error::{Corruption, Section, ShardError, StoreError};
pub use index::*;
pub use json::canonical_json;
pub use lead::BucketLead;
pub use lock::{DirLock, StoreLock};
pub use manifest::{FORMAT, Manifest, ManifestError, ManifestLayer, ManifestShard, ManifestStats, publish};
pub use objects::PutOutcome;
pub use pack::CHOICES_A_BYTE;
pub use place::{Place, Store};
pub use proof::{Proof, ProofError};
pub use prove::prove;
pub use record::{FileKind, FileRecord, artifact_path};
pub use scratch::ScratchMap;
pub use shard::{Bounded, ShardFile, ShardHeader};
pub use shelf::Shelf;
pub use table::{Table, TableError};
pub use tree::{TreesError, write_trees};
pub use verify::{FileLevel, Problem, Report, check_copy, check_file, verify_files};
pub use writer::{ColumnRef, ShardSpec, write_shard};
