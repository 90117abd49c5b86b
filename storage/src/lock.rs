//! placeholder
/// Held while a build runs on a directory; released when dropped.
#[derive(Debug)]
pub struct DirLock {}
