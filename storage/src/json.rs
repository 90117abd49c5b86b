//! placeholder
use serde::Serialize;
/// Canonical JSON (RFC 8785) of a value.
pub fn canonical_json<T: Serialize>(_value: &T) -> Result<String, serde_json::Error> {
    todo!()
}
