//! Index sets: which ranks of a run are keys.
