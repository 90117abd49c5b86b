//! Content hashes. A file is what its BLAKE3 says it is, whatever its name, its date, or who wrote it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

/// A hash of 256 bits, BLAKE3 or SHA-256. Prints as 64 lower-case hexadecimal digits, and that is its form in JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; 32]);

/// Text that is not 64 lower-case hexadecimal digits.
#[derive(thiserror::Error, Clone, Copy, PartialEq, Eq, Debug)]
#[error("a hash is written as 64 hexadecimal digits 0-9a-f")]
pub struct DigestError;

impl Digest {
    /// The BLAKE3 of some bytes.
    pub fn blake3(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The SHA-256 of some bytes.
    pub fn sha256(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// What a hasher has come to.
    pub(crate) fn of_hasher(hasher: &blake3::Hasher) -> Self {
        Self(*hasher.finalize().as_bytes())
    }

    /// The bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 16 digits: what names of files carry.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(16);
        text
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = DigestError;

    fn try_from(bytes: &[u8]) -> Result<Self, DigestError> {
        bytes.try_into().map(Self).map_err(|_| DigestError)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            write!(text, "{byte:02x}")?;
        }
        f.pad(&text)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return Err(DigestError);
        }
        let digit = |c: u8| match c {
            b'0'..=b'9' => Ok(c - b'0'),
            b'a'..=b'f' => Ok(c - b'a' + 10),
            _ => Err(DigestError),
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Bytes read at a time when files are hashed.
const CHUNK: usize = 1 << 20;

/// The BLAKE3 of a file's content, and its length in bytes. Reads the file; does not map it.
pub fn hash_file(path: &Path) -> io::Result<(Digest, u64)> {
    hash_file_while(path, &mut |_| true)?.ok_or_else(|| io::Error::from(io::ErrorKind::Interrupted))
}

/// Like [`hash_file`]; calls `go_on` with the length of every piece read, and gives up with `None` when it answers no.
pub(crate) fn hash_file_while(path: &Path, go_on: &mut dyn FnMut(u64) -> bool) -> io::Result<Option<(Digest, u64)>> {
    // Looked at before it is opened: opening a pipe waits for somebody to write into it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; CHUNK];
    let mut length = 0;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok(Some((Digest::of_hasher(&hasher), length))),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..read]);
        length += read as u64;
        if !go_on(read as u64) {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_published_test_vectors() {
        // The BLAKE3 of nothing (test_vectors.json, input length 0), the SHA-256 of "abc" (FIPS 180-4).
        assert_eq!(Digest::blake3(b"").to_string(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
        assert_eq!(Digest::sha256(b"abc").to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_hash_reads_back_as_it_prints_and_nothing_else_is_one() {
        let digest = Digest::blake3(b"strata");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let json = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        for bad in ["", "00", &digest.to_string().to_uppercase(), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError));
        }
    }

    #[test]
    fn a_file_has_the_hash_of_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let bytes: Vec<u8> = (0..3 * CHUNK + 17).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(hash_file(&path).unwrap(), (Digest::blake3(&bytes), bytes.len() as u64));
    }
}
