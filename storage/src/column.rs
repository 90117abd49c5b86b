//! Columns of values, in groups that are read on their own.
//!
//! A column is cut into groups of 4,096 keys (256 for distributions). Each has its own scale, its own checksum, and may be compressed;
//! a table of them ends the section. So one value costs one entry of the table and one group, and a damaged byte takes one group with
//! it, not the column.
//!
//! Compression is for columns where it pays: a sample of groups, always the same ones, is compressed, and the column is written that way
//! when the sample shrinks by an eighth or more. Bytes are sorted by significance first (all lowest bytes, then all second ones, ...):
//! the high bytes of neighbours are alike, the low ones of a scaled value are noise.

use crate::error::Corruption;
use crate::layout::{Codec, Group, checksum};
use crate::pack::{Form, Packed};
use std::borrow::Cow;

/// Level of zstd. Part of the format in the sense that other levels give other bytes, so another root.
const LEVEL: i32 = 3;

/// Bytes sorted by significance within words of `width` bytes; bytes past the last whole word stay where they are.
fn shuffle(bytes: &[u8], width: usize) -> Vec<u8> {
    let words = bytes.len() / width;
    let mut out = Vec::with_capacity(bytes.len());
    for plane in 0..width {
        out.extend(bytes.iter().skip(plane).step_by(width).take(words));
    }
    out.extend_from_slice(&bytes[words * width..]);
    out
}

fn unshuffle(bytes: &[u8], width: usize) -> Vec<u8> {
    let words = bytes.len() / width;
    let mut out = vec![0; bytes.len()];
    for plane in 0..width {
        let from = &bytes[plane * words..(plane + 1) * words];
        for (to, &byte) in out.iter_mut().skip(plane).step_by(width).zip(from) {
            *to = byte;
        }
    }
    out[words * width..].copy_from_slice(&bytes[words * width..]);
    out
}

/// Bytes of the numbers in a payload.
fn width(form: Form) -> usize {
    if form == Form::Exact { 8 } else { 4 }
}

/// A group as it is written, but for its place.
pub(crate) struct Encoded {
    pub(crate) group: Group,
    pub(crate) payload: Vec<u8>,
}

/// Compresses a payload, if that is asked for and makes it shorter.
pub(crate) fn encode(packed: Packed, compress: bool) -> Encoded {
    let Packed { form, base, step, error, bytes } = packed;
    // Groups are bounded far below 4 GiB: 65,536 scalars, or 256 distributions of 4,096 entries.
    #[allow(clippy::cast_possible_truncation)]
    let raw_length = bytes.len() as u32;
    let compressed = compress.then(|| zstd::bulk::compress(&shuffle(&bytes, width(form)), LEVEL).ok()).flatten();
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
    pub(crate) payload: &'a [u8],
}

/// Reads group `number` of a section and checks it. `checked` says that its checksum was found right before.
pub(crate) fn read_group(section: &[u8], number: u64, groups: u64, checked: bool) -> Result<Checked<'_>, Corruption> {
    let Some((group, entry, payload)) = Group::read(section, number, groups) else {
        return Err(Corruption::Malformed(format!("entry {number} of the table of groups is not as the format says")));
    };
    if !checked && checksum(number, entry, payload) != group.crc {
        return Err(Corruption::Checksum);
    }
    Ok(Checked { group, payload })
}

impl<'a> Checked<'a> {
    /// The payload as it was packed: that of `keys` keys.
    pub(crate) fn decode(&self, dist: bool, keys: u64) -> Result<Cow<'a, [u8]>, Corruption> {
        let wrong = || Corruption::Malformed("a group does not have the length that its keys need".to_owned());
        if !self.group.fits(dist, keys) {
            return Err(wrong());
        }
        match self.group.codec {
            Codec::Raw => Ok(Cow::Borrowed(self.payload)),
            Codec::Zstd => {
                // Bounded by `fits`, whatever the compressed bytes say.
                let length = usize::try_from(self.group.raw_length).map_err(|_| wrong())?;
                let bytes = zstd::bulk::decompress(self.payload, length).map_err(|_| wrong())?;
                if bytes.len() != length {
                    return Err(wrong());
                }
                Ok(Cow::Owned(unshuffle(&bytes, width(self.group.form))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn planes_hold_the_bytes_of_one_significance() {
        assert_eq!(shuffle(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 4), [1, 5, 2, 6, 3, 7, 4, 8, 9]);
    }

    proptest! {
        #[test]
        fn planes_go_back_to_words(bytes in prop::collection::vec(any::<u8>(), 0..100), width in prop_oneof![Just(4usize), Just(8)]) {
            prop_assert_eq!(unshuffle(&shuffle(&bytes, width), width), bytes);
        }

        #[test]
        fn a_group_is_read_as_it_was_written(bytes in prop::collection::vec(0..4u8, 0..400), compress: bool) {
            let bytes = [bytes, vec![0; 4]].concat();
            let bytes = bytes[..bytes.len() / 4 * 4].to_vec();
            let keys = bytes.len() as u64 / 4;
            let packed = Packed { form: Form::Fixed, base: 1.0, step: 2.0, error: 3.0, bytes: bytes.clone() };
            let Encoded { group, payload } = encode(packed, compress);
            let group = group.sealed(0, &payload);
            let section = [payload, group.bytes().to_vec()].concat();
            let read = read_group(&section, 0, 1, false).unwrap();
            prop_assert_eq!(read.group, group);
            prop_assert_eq!(read.decode(false, keys).unwrap().into_owned(), bytes);
            prop_assert!(read_group(&section, 1, 1, false).is_err());
            for at in 0..section.len() {
                let mut section = section.clone();
                section[at] ^= 1;
                prop_assert!(read_group(&section, 0, 1, false).is_err());
            }
        }

        #[test]
        fn any_bytes_are_a_group_or_are_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200), number in 0..4u64, groups in 0..4u64, dist: bool, keys in 0..5000u64,
        ) {
            if let Ok(group) = read_group(&bytes, number, groups, true) {
                let _ = group.decode(dist, keys);
            }
        }
    }
}
