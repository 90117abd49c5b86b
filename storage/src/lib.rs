//! Index sets, shard files, manifests, checksums and stores of Strata's tables.

pub mod index;
