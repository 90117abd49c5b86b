//! Columns of values, in groups that are read on their own.
//!
//! A column is cut into groups of 4,096 keys (256 for distributions). Each has its own scale, its own checksum, and may be compressed;
//! a table of them ends the section. So one value costs one entry of the table and one group, and a damaged byte takes one group with
//! it, not the column.
//!
//! Compression is for columns where it pays: a sample of groups, always the same ones, is compressed, and the column is written that way
//! when the sample shrinks by an eighth or more. What zstd makes of real columns, as a part of their packed size (level 3; 1 gives
//! 0.02 to 0.06 more and 19 gives 0.01 less, at a thirtieth of the speed):
//!
//! | column | as it is | bytes sorted by significance first |
//! |---|---|---|
//! | 2048-3x3 value | 0.677 | 0.798 |
//! | 2048-2x4 value | 0.746 | 0.865 |
//! | 2048-3x3+tile=512 value | 0.630 | 0.726 |
//! | bearoff-6x15 rolls | 0.789 | 0.771 |
//! | bearoff-6x15 first_off | 0.241 | 0.212 |
//! | bearoff-6x15 mean, variance | 1 | 1 |
//!
//! Scaled values are noise but for those that occur again, and 2048 has many of these: they are found as whole words, so the bytes
//! stay in their order. Decompressing a group takes some 40 µs; [`Table`](crate::Table) keeps those it decompressed.

use crate::blocks::{Piece, Pieces};
use crate::error::Corruption;
use crate::layout::{Codec, Entry, Group, checksum};
use crate::pack::Packed;
use std::cell::RefCell;
use std::sync::Arc;

/// The payload of a group as it was packed: in place, or decompressed.
#[derive(Clone, Debug)]
pub(crate) enum Payload<'a> {
    InPlace(Piece<'a>),
    Decompressed(Arc<[u8]>),
}

impl std::ops::Deref for Payload<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Payload::InPlace(bytes) => bytes,
            Payload::Decompressed(bytes) => bytes,
        }
    }
}

/// Level of zstd. Part of the format in the sense that other levels give other bytes, so another root.
const LEVEL: i32 = 3;

/// A group as it is written, but for its place.
pub(crate) struct Encoded {
    pub(crate) group: Group,
    pub(crate) payload: Vec<u8>,
}

thread_local! {
    /// One for each thread: making one takes longer than compressing a group. What was compressed before changes nothing.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// The bytes as a zstd frame; `None` when zstd fails, which costs nothing but room.
fn compressed(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            *compressor = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        compressor.as_mut()?.compress(bytes).ok()
    })
}

/// Compresses a payload, if that is asked for and makes it shorter.
pub(crate) fn encode(packed: Packed, compress: bool) -> Encoded {
    let Packed { form, base, step, error, bytes } = packed;
    // Groups are bounded far below 4 GiB: 65,536 scalars, or 256 distributions of 4,096 entries.
    #[allow(clippy::cast_possible_truncation)]
    let raw_length = bytes.len() as u32;
    let compressed = compress.then(|| compressed(&bytes)).flatten();
    let (codec, payload) = match compressed.filter(|compressed| compressed.len() < bytes.len()) {
        Some(compressed) => (Codec::Zstd, compressed),
        None => (Codec::Raw, bytes),
    };
    #[allow(clippy::cast_possible_truncation)]
    let length = payload.len() as u32;
    Encoded { group: Group { offset: 0, length, raw_length, base, step, error, form, codec, crc: 0 }, payload }
}

/// A group that was read and found to be what was written.
pub(crate) struct Checked<'a> {
    pub(crate) group: Group,
    pub(crate) payload: Piece<'a>,
}

/// Reads the entry of group `number` of a section. Its checksum is not looked at.
pub(crate) fn read_entry<'a>(section: &impl Pieces<'a>, number: u64, groups: u64) -> Result<Entry<'a>, Corruption> {
    Group::read(section, number, groups)?
        .ok_or_else(|| Corruption::Malformed(format!("entry {number} of the table of groups is not as the format says")))
}

/// Reads group `number` of a section and checks it. `checked` says that its checksum was found right before.
pub(crate) fn read_group<'a>(
    section: &impl Pieces<'a>,
    number: u64,
    groups: u64,
    checked: bool,
) -> Result<Checked<'a>, Corruption> {
    let Entry { group, entry, payload } = read_entry(section, number, groups)?;
    let payload = section.piece(payload)?;
    if !checked && checksum(number, &entry, &payload) != group.crc {
        return Err(Corruption::Checksum);
    }
    Ok(Checked { group, payload })
}

impl<'a> Checked<'a> {
    /// The payload as it was packed: that of `keys` keys.
    pub(crate) fn decode(self, dist: bool, keys: u64) -> Result<Payload<'a>, Corruption> {
        let wrong = || Corruption::Malformed("a group does not have the length that its keys need".to_owned());
        if !self.group.fits(dist, keys) {
            return Err(wrong());
        }
        match self.group.codec {
            Codec::Raw => Ok(Payload::InPlace(self.payload)),
            Codec::Zstd => {
                // Bounded by `fits`, whatever the compressed bytes say.
                let length = usize::try_from(self.group.raw_length).map_err(|_| wrong())?;
                let bytes = zstd::bulk::decompress(&self.payload, length).map_err(|_| wrong())?;
                if bytes.len() != length {
                    return Err(wrong());
                }
                Ok(Payload::Decompressed(bytes.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Form;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_group_is_read_as_it_was_written(bytes in prop::collection::vec(0..4u8, 0..400), compress: bool) {
            let bytes = [bytes, vec![0; 4]].concat();
            let bytes = bytes[..bytes.len() / 4 * 4].to_vec();
            let keys = bytes.len() as u64 / 4;
            let packed = Packed { form: Form::Fixed, base: 1.0, step: 2.0, error: 3.0, bytes: bytes.clone() };
            let Encoded { group, payload } = encode(packed, compress);
            let group = group.sealed(0, &payload);
            let section = [payload, group.bytes().to_vec()].concat();
            let read = read_group(&section.as_slice(), 0, 1, false).unwrap();
            prop_assert_eq!(read.group, group);
            prop_assert_eq!(read.decode(false, keys).unwrap().to_vec(), bytes);
            prop_assert!(read_group(&section.as_slice(), 1, 1, false).is_err());
            for at in 0..section.len() {
                let mut section = section.clone();
                section[at] ^= 1;
                prop_assert!(read_group(&section.as_slice(), 0, 1, false).is_err());
            }
        }

        #[test]
        fn any_bytes_are_a_group_or_are_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200), number in 0..4u64, groups in 0..4u64, dist: bool, keys in 0..5000u64,
        ) {
            if let Ok(group) = read_group(&bytes.as_slice(), number, groups, true) {
                let _ = group.decode(dist, keys);
            }
        }
    }
}
