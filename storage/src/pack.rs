//! Numbers as bytes: the payload of one group of a column.
//!
//! A published scalar takes 4 bytes. The values of a group (4,096 keys) span from `base` to a largest one; that span is cut into
//! 2^32 - 1 steps, and each value is stored as a number of steps:
//!
//! ```text
//!     base = min,  step = (max - min) / (2^32 - 1),  q = round((v - base) / step),  read as base + q × step
//! ```
//!
//! Multiplied, then added, each rounded to f64 (no fused multiply-add). What the reader will get is computed here too, and the largest
//! distance to the value given, `error`, is stored with the group: the bound is measured, not derived. It is about step / 2. The
//! smallest value of a group is read back exactly, so that a probability of 0 stays 0. Where all values are equal nothing is stored but
//! `base`. Where the span is too wide or too narrow for steps in f64, the values are stored exactly.
//!
//! Values that were computed in f32 take 2 bytes: 2^16 - 1 steps; but 4 in a group of values so far apart that the error would be more
//! than 2^-15. While a table is built they are stored as they are.
//!
//! A choice, a number from 0 to 3, takes 2 bits, the first of a byte in the lowest; choices are exact.
//!
//! A distribution is stored as the span from its first to its last entry that is not 0, each entry as a multiple of 1 / (2^32 - 1).

use crate::layout::{get_f64, get_u16, get_u32};
use std::ops::Range;

/// Steps between the smallest and the largest value of a group.
const STEPS: f64 = u32::MAX as f64;
/// The same where a value takes 2 bytes.
const HALF_STEPS: f64 = u16::MAX as f64;
/// A group whose values cannot be told apart so well in 2 bytes takes 4.
const HALF_ERROR: f64 = 1.0 / (1u64 << 15) as f64;
/// Longest span of a distribution, so that the size of a group is bounded.
pub(crate) const MAX_SPAN: u64 = 4096;
/// How far a probability may be above 1, from rounding, before it is refused.
const PROBABILITY_SLACK: f64 = 1e-9;

/// Bits of a choice.
const CHOICE_BITS: usize = 2;
/// Choices in a byte of a column of them.
pub const CHOICES_A_BYTE: usize = 8 / CHOICE_BITS;

/// How the numbers of a group are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// All are `base`; nothing else is written.
    Constant,
    /// f64.
    Exact,
    /// u32: scalars in steps from `base`, entries of distributions in 1 / (2^32 - 1).
    Fixed,
    /// 2 bits: whole numbers from 0 to 3.
    Choices,
    /// u16: in steps from `base`.
    Half,
    /// f32, exactly.
    Single,
}

impl Form {
    pub(crate) fn code(self) -> u8 {
        match self {
            Form::Constant => 0,
            Form::Exact => 1,
            Form::Fixed => 2,
            Form::Choices => 3,
            Form::Half => 4,
            Form::Single => 5,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        let forms = [Form::Constant, Form::Exact, Form::Fixed, Form::Choices, Form::Half, Form::Single];
        forms.into_iter().find(|form| form.code() == code)
    }
}

/// The numbers of a group as bytes, and what is needed to read them.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Packed {
    pub(crate) form: Form,
    pub(crate) base: f64,
    pub(crate) step: f64,
    /// Largest distance between a number as read and as given.
    pub(crate) error: f64,
    pub(crate) bytes: Vec<u8>,
}

/// A number that cannot be written: its place in the group, and why.
#[derive(PartialEq, Debug)]
pub(crate) struct Unfit {
    pub(crate) key: u64,
    pub(crate) what: String,
}

/// A value as it will be read.
#[inline]
pub(crate) fn fixed_value(base: f64, step: f64, q: u32) -> f64 {
    base + f64::from(q) * step
}

/// The same of 2 bytes.
#[inline]
fn half_value(base: f64, step: f64, q: u16) -> f64 {
    fixed_value(base, step, q.into())
}

/// An entry of a distribution as it will be read.
#[inline]
pub(crate) fn fixed_chance(q: u32) -> f64 {
    f64::from(q) / STEPS
}

/// Scalars for publication, or exactly.
pub(crate) fn pack_scalars(values: &[f64], exact: bool) -> Result<Packed, Unfit> {
    all_finite(values)?;
    let Some(&first) = values.first() else {
        return Ok(Packed { form: Form::Constant, base: 0.0, step: 0.0, error: 0.0, bytes: Vec::new() });
    };
    if exact {
        return Ok(match values.iter().all(|v| v.to_bits() == first.to_bits()) {
            true => Packed { form: Form::Constant, base: first, step: 0.0, error: 0.0, bytes: Vec::new() },
            false => pack_exactly(values),
        });
    }
    let (mut low, mut high) = (first, first);
    for &v in values {
        low = if v < low { v } else { low };
        high = if v > high { v } else { high };
    }
    let base = low + 0.0; // -0 becomes 0
    if low == high {
        return Ok(Packed { form: Form::Constant, base, step: 0.0, error: 0.0, bytes: Vec::new() });
    }
    let step = (high - base) / STEPS;
    if !step.is_normal() {
        return Ok(pack_exactly(values));
    }
    let mut bytes = Vec::with_capacity(values.len() * 4);
    let mut error = 0.0;
    for &v in values {
        // Saturates: the quotient is at least 0, and rounding may take it just above the last step.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let q = ((v - base) / step + 0.5) as u32;
        bytes.extend_from_slice(&q.to_le_bytes());
        let distance = (fixed_value(base, step, q) - v).abs();
        error = if distance > error { distance } else { error };
    }
    // The difference was rounded itself: the next number up is a bound.
    let error = if error > 0.0 { f64::next_up(error) } else { 0.0 };
    Ok(if error.is_finite() { Packed { form: Form::Fixed, base, step, error, bytes } } else { pack_exactly(values) })
}

/// Values as they are, whatever they are: all of a column in one form.
pub(crate) fn pack_doubles(values: &[f64]) -> Result<Packed, Unfit> {
    all_finite(values)?;
    Ok(pack_exactly(values))
}

fn all_finite(values: &[f64]) -> Result<(), Unfit> {
    match values.iter().enumerate().find(|(_, v)| !v.is_finite()) {
        Some((key, v)) => Err(Unfit { key: key as u64, what: format!("the value is {v}, not a finite number") }),
        None => Ok(()),
    }
}

/// Values in f32 for publication, each of them at most `allowance` from the exact one.
pub(crate) fn pack_halves(values: &[f32], allowance: f64) -> Result<Packed, Unfit> {
    let (low, high) = range_of(values)?;
    let base = low + 0.0; // -0 becomes 0
    let step = (high - base) / HALF_STEPS;
    if low == high {
        return Ok(Packed { form: Form::Constant, base, step: 0.0, error: allowance, bytes: Vec::new() });
    }
    // In a pass for each thing to do, so that vectors do it.
    let mut steps = [0u16; 1024];
    let mut bytes = vec![0; values.len() * 2];
    let mut error = 0.0;
    for (values, bytes) in values.chunks(steps.len()).zip(bytes.chunks_mut(2 * steps.len())) {
        for (q, &v) in steps.iter_mut().zip(values) {
            // Between 0 and the number of steps, but for rounding, before which the halves are cut off.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let whole = ((f64::from(v) - base) / step + 0.5).clamp(0.0, HALF_STEPS) as i32 as u16;
            *q = whole;
        }
        for (bytes, q) in bytes.as_chunks_mut().0.iter_mut().zip(steps) {
            *bytes = q.to_le_bytes();
        }
        for (&q, &v) in steps.iter().zip(values) {
            let distance = (half_value(base, step, q) - f64::from(v)).abs();
            error = if distance > error { distance } else { error };
        }
    }
    let error = f64::next_up(error + allowance);
    if error <= HALF_ERROR {
        return Ok(Packed { form: Form::Half, base, step, error, bytes });
    }
    let exact: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
    let packed = pack_scalars(&exact, false)?;
    Ok(Packed { error: f64::next_up(packed.error + allowance), ..packed })
}

/// Values in f32 as they are.
pub(crate) fn pack_singles(values: &[f32]) -> Result<Packed, Unfit> {
    range_of(values)?;
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Ok(Packed { form: Form::Single, base: 0.0, step: 0.0, error: 0.0, bytes })
}

/// The smallest and the largest of some finite numbers; 0 when there are none.
fn range_of(values: &[f32]) -> Result<(f64, f64), Unfit> {
    if let Some((key, v)) = values.iter().enumerate().find(|(_, v)| !v.is_finite()) {
        return Err(Unfit { key: key as u64, what: format!("the value is {v}, not a finite number") });
    }
    let first = values.first().copied().unwrap_or(0.0);
    let (low, high) = values.iter().fold((first, first), |(low, high), &v| (low.min(v), high.max(v)));
    Ok((low.into(), high.into()))
}

fn pack_exactly(values: &[f64]) -> Packed {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Packed { form: Form::Exact, base: 0.0, step: 0.0, error: 0.0, bytes }
}

/// Whole numbers from 0 to 3.
pub(crate) fn pack_choices(values: &[u8]) -> Result<Packed, Unfit> {
    if let Some((key, v)) = values.iter().enumerate().find(|&(_, &v)| v >= 1 << CHOICE_BITS) {
        return Err(Unfit { key: key as u64, what: format!("the choice is {v}, not a number from 0 to 3") });
    }
    let packed = |form, base, bytes| Packed { form, base, step: 0.0, error: 0.0, bytes };
    let first = values.first().copied().unwrap_or(0);
    if values.iter().all(|&v| v == first) {
        return Ok(packed(Form::Constant, f64::from(first), Vec::new()));
    }
    let byte = |four: &[u8]| four.iter().rev().fold(0, |byte, v| byte << CHOICE_BITS | v);
    Ok(packed(Form::Choices, 0.0, values.chunks(CHOICES_A_BYTE).map(byte).collect()))
}

/// Choice `i` of a group of them, `None` past its end.
#[inline]
fn unpack_choice(bytes: &[u8], i: usize) -> Option<f64> {
    bytes.get(i / CHOICES_A_BYTE).map(|byte| f64::from(byte >> (i % CHOICES_A_BYTE * CHOICE_BITS) & 3))
}

/// Number of bytes that `count` scalars take in a form.
pub(crate) fn scalar_bytes(form: Form, count: u64) -> u64 {
    match form {
        Form::Constant => 0,
        Form::Exact => count * 8,
        Form::Fixed | Form::Single => count * 4,
        Form::Half => count * 2,
        Form::Choices => count.div_ceil(CHOICES_A_BYTE as u64),
    }
}

/// Which bytes of a group have one scalar, and its number among those that they have.
pub(crate) fn scalar_place(form: Form, i: usize) -> (Range<usize>, usize) {
    let bytes = |each: usize| (i * each..(i + 1) * each, 0);
    match form {
        Form::Constant => (0..0, 0),
        Form::Exact => bytes(8),
        Form::Fixed | Form::Single => bytes(4),
        Form::Half => bytes(2),
        Form::Choices => (i / CHOICES_A_BYTE..i / CHOICES_A_BYTE + 1, i % CHOICES_A_BYTE),
    }
}

/// One scalar of a group, `None` past its end.
#[inline]
pub(crate) fn unpack_scalar(form: Form, base: f64, step: f64, bytes: &[u8], i: usize) -> Option<f64> {
    match form {
        Form::Constant => Some(base),
        Form::Exact => get_f64(bytes, i * 8),
        Form::Fixed => get_u32(bytes, i * 4).map(|q| fixed_value(base, step, q)),
        Form::Choices => unpack_choice(bytes, i),
        Form::Half => get_u16(bytes, i * 2).map(|q| half_value(base, step, q)),
        Form::Single => get_u32(bytes, i * 4).map(|bits| f32::from_bits(bits).into()),
    }
}

/// All scalars of a group. As many as `count` say, if the bytes are as [`scalar_bytes`] says.
pub(crate) fn unpack_scalars(form: Form, base: f64, step: f64, bytes: &[u8], count: usize, out: &mut Vec<f64>) {
    match form {
        Form::Constant => out.extend(std::iter::repeat_n(base, count)),
        Form::Exact => out.extend(bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b))),
        Form::Fixed => out.extend(bytes.as_chunks().0.iter().map(|&b| fixed_value(base, step, u32::from_le_bytes(b)))),
        Form::Choices => out.extend((0..count).filter_map(|i| unpack_choice(bytes, i))),
        Form::Half => out.extend(bytes.as_chunks().0.iter().map(|&b| half_value(base, step, u16::from_le_bytes(b)))),
        Form::Single => out.extend(bytes.as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b)))),
    }
}

/// The distributions of a group: `(first index, entries)` of each key.
pub(crate) fn pack_dists<'a>(dists: impl Iterator<Item = (u8, &'a [f64])>, exact: bool) -> Result<Packed, Unfit> {
    let (mut ends, mut firsts, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    let mut error = 0.0;
    for (key, (first, values)) in dists.enumerate() {
        let unfit = |what: String| Unfit { key: key as u64, what };
        if values.len() as u64 > MAX_SPAN {
            return Err(unfit(format!("the distribution has {} entries, more than {MAX_SPAN}", values.len())));
        }
        for (i, &v) in values.iter().enumerate() {
            if !(0.0..=1.0 + PROBABILITY_SLACK).contains(&v) {
                return Err(unfit(format!("entry {} of the distribution is {v}, not a probability", usize::from(first) + i)));
            }
        }
        if exact {
            entries.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            ends.push(entries.len() / 8);
            firsts.push(first);
            continue;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let q: Vec<u32> = values.iter().map(|v| (v * STEPS + 0.5) as u32).collect();
        for (&q, &v) in q.iter().zip(values) {
            let distance = (fixed_chance(q) - v).abs();
            error = if distance > error { distance } else { error };
        }
        let (first, q) = trim(first, &q);
        entries.extend(q.iter().flat_map(|q| q.to_le_bytes()));
        ends.push(entries.len() / 4);
        firsts.push(first);
    }
    let mut bytes = Vec::with_capacity(ends.len() * 5 + 8 + entries.len());
    for end in ends {
        // At most 256 keys of 4,096 entries.
        #[allow(clippy::cast_possible_truncation)]
        bytes.extend_from_slice(&(end as u32).to_le_bytes());
    }
    bytes.extend_from_slice(&firsts);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&entries);
    let error = if error > 0.0 { f64::next_up(error) } else { 0.0 };
    Ok(Packed { form: if exact { Form::Exact } else { Form::Fixed }, base: 0.0, step: 0.0, error, bytes })
}

/// Leaves off the zeros at both ends, where the first index allows it.
fn trim(first: u8, q: &[u32]) -> (u8, &[u32]) {
    let Some(last) = q.iter().rposition(|&q| q != 0) else { return (0, &[]) };
    let start = q.iter().position(|&q| q != 0).unwrap_or(0).min(usize::from(u8::MAX - first));
    // Not above 255 - first, by the line before.
    #[allow(clippy::cast_possible_truncation)]
    (first + start as u8, &q[start..=last])
}

/// Most bytes that `count` distributions can take.
pub(crate) fn max_dist_bytes(count: u64) -> u64 {
    count * (5 + MAX_SPAN * 8) + 8
}

/// The distributions of a group, read in place.
pub(crate) struct DistGroup<'a> {
    form: Form,
    ends: &'a [u8],
    firsts: &'a [u8],
    entries: &'a [u8],
}

impl<'a> DistGroup<'a> {
    /// Takes the bytes of a group of `count` distributions apart; `None` when they are not such a group.
    pub(crate) fn parse(form: Form, bytes: &'a [u8], count: usize) -> Option<Self> {
        let (ends, rest) = bytes.split_at_checked(count * 4)?;
        let firsts = rest.get(..count)?;
        let entries = bytes.get((count * 5).next_multiple_of(8)..)?;
        let width = match form {
            Form::Exact => 8,
            Form::Fixed => 4,
            Form::Constant | Form::Choices | Form::Half | Form::Single => return None,
        };
        let group = Self { form, ends, firsts, entries };
        let mut before = 0;
        for i in 0..count {
            let end = group.end(i)?;
            if end < before || (end - before) as u64 > MAX_SPAN {
                return None;
            }
            before = end;
        }
        (before * width == entries.len()).then_some(group)
    }

    fn end(&self, i: usize) -> Option<usize> {
        get_u32(self.ends, i * 4).and_then(|end| usize::try_from(end).ok())
    }

    /// Appends the entries of distribution `i`, and returns its first index.
    pub(crate) fn read(&self, i: usize, out: &mut Vec<f64>) -> Option<u8> {
        let start = if i == 0 { 0 } else { self.end(i - 1)? };
        let end = self.end(i)?;
        match self.form {
            Form::Exact => {
                let bytes = self.entries.get(start * 8..end * 8)?;
                out.extend(bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)));
            }
            _ => {
                let bytes = self.entries.get(start * 4..end * 4)?;
                out.extend(bytes.as_chunks().0.iter().map(|&b| fixed_chance(u32::from_le_bytes(b))));
            }
        }
        self.firsts.get(i).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(packed: &Packed, count: usize) -> Vec<f64> {
        let mut out = Vec::new();
        unpack_scalars(packed.form, packed.base, packed.step, &packed.bytes, count, &mut out);
        for (i, v) in out.iter().enumerate() {
            let one = unpack_scalar(packed.form, packed.base, packed.step, &packed.bytes, i).unwrap();
            assert_eq!(one.to_bits(), v.to_bits());
        }
        assert_eq!(packed.bytes.len() as u64, scalar_bytes(packed.form, count as u64));
        out
    }

    #[test]
    fn a_span_is_cut_into_two_to_the_32_minus_1_steps() {
        let packed = pack_scalars(&[0.0, 1.0, 0.5], false).unwrap();
        assert_eq!((packed.form, packed.base, packed.step), (Form::Fixed, 0.0, 1.0 / 4294967295.0));
        assert_eq!(packed.bytes[..8], [0, 0, 0, 0, 255, 255, 255, 255]);
        // Half of the span is between two steps, so it is off by half a step: 1 / (2 × 4294967295).
        assert!((packed.error - 1.1641532185403987e-10).abs() < 1e-16);
        assert_eq!(read(&packed, 3)[0], 0.0);
    }

    #[test]
    fn equal_values_take_no_space_and_are_exact() {
        for v in [0.0, 1.0 / 3.0, -5e-324, f64::MAX] {
            let packed = pack_scalars(&[v; 7], false).unwrap();
            assert_eq!((packed.form, packed.bytes.len(), packed.error), (Form::Constant, 0, 0.0));
            assert_eq!(read(&packed, 7), [v; 7]);
        }
    }

    #[test]
    fn spans_that_no_step_can_cut_are_kept_exactly() {
        for values in [[f64::MIN, f64::MAX], [0.0, 5e-324], [1e-310, 2e-310], [-0.0, 1e-300]] {
            let packed = pack_scalars(&values, false).unwrap();
            assert_eq!((packed.form, packed.error), (Form::Exact, 0.0));
            assert_eq!(read(&packed, 2), values);
        }
    }

    #[test]
    fn a_value_that_is_no_number_is_refused_by_its_place() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for exact in [false, true] {
                assert_eq!(pack_scalars(&[1.0, 2.0, bad], exact).unwrap_err().key, 2);
                let dists: [(u8, &[f64]); 2] = [(0, &[0.5, 0.5]), (3, &[0.1, bad])];
                let unfit = pack_dists(dists.into_iter(), exact).unwrap_err();
                assert!(unfit.key == 1 && unfit.what.contains("entry 4"), "{unfit:?}");
            }
        }
        for bad in [-1e-300, 1.1] {
            let dists: [(u8, &[f64]); 1] = [(0, &[bad])];
            assert_eq!(pack_dists(dists.into_iter(), false).unwrap_err().key, 0);
        }
    }

    #[test]
    fn choices_take_two_bits_each_from_the_low_end() {
        let packed = pack_choices(&[3, 0, 1, 2, 2]).unwrap();
        assert_eq!((packed.form, &packed.bytes[..]), (Form::Choices, &[0b10_01_00_11, 0b10][..]));
        assert_eq!(pack_choices(&[2; 9]).unwrap().form, Form::Constant);
        let unfit = pack_choices(&[0, 1, 4]).unwrap_err();
        assert!(unfit.key == 2 && unfit.what.contains("0 to 3"), "{unfit:?}");
    }

    #[test]
    fn entries_that_round_to_zero_are_left_off_at_the_ends() {
        let dists: [(u8, &[f64]); 3] = [(2, &[1e-12, 0.25, 1e-12, 0.75, 1e-12]), (9, &[1e-12]), (255, &[1e-12, 1.0])];
        let packed = pack_dists(dists.into_iter(), false).unwrap();
        let group = DistGroup::parse(packed.form, &packed.bytes, 3).unwrap();
        let read = |i| {
            let mut out = Vec::new();
            (group.read(i, &mut out).unwrap(), out.len())
        };
        assert_eq!((read(0), read(1), read(2)), ((3, 3), (0, 0), (255, 2)));
        assert!(packed.error >= 1e-12 && packed.error < 2e-10);
    }

    fn finite() -> impl Strategy<Value = f64> {
        any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |v| v.is_finite())
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        prop_oneof![
            prop::collection::vec(finite(), 0..50),
            // All near one value, however large or small.
            (finite(), 0..=60i32, prop::collection::vec(-1.0..1.0f64, 1..50)).prop_map(|(centre, shift, around)| {
                let width = centre * 2f64.powi(-shift);
                around.into_iter().map(|x| centre + x * width).filter(|v| v.is_finite()).collect()
            }),
            prop::collection::vec(
                prop_oneof![Just(0.0), Just(1.0), Just(-0.0), Just(5e-324), Just(f64::MAX), Just(f64::MIN), finite()],
                0..9
            ),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn every_value_is_read_within_the_bound_that_is_stored(values in values()) {
            let packed = pack_scalars(&values, false).unwrap();
            prop_assert!(packed.error.is_finite() && packed.error >= 0.0);
            let out = read(&packed, values.len());
            prop_assert_eq!(out.len(), values.len());
            for (a, b) in out.iter().zip(&values) {
                prop_assert!((a - b).abs() <= packed.error, "{} read as {}, bound {}", b, a, packed.error);
            }
            // And the bound is worth having: half a step, and what f64 rounds at the largest of the values.
            let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            prop_assert!(packed.error <= packed.step * 0.5001 + largest * 4.0 * f64::EPSILON);
        }

        #[test]
        fn halves_are_read_within_the_bound_that_is_stored(values in prop::collection::vec(-2.0..2.0f32, 0..3000), allowance in 0.0..1e-6f64) {
            let packed = pack_halves(&values, allowance).unwrap();
            let out = read(&packed, values.len());
            prop_assert_eq!(out.len(), values.len());
            for (a, &b) in out.iter().zip(&values) {
                prop_assert!((a - f64::from(b)).abs() + allowance <= packed.error.max(allowance), "{} read as {}", b, a);
            }
            prop_assert!(packed.error <= HALF_ERROR);
        }

        #[test]
        fn singles_are_exact(values in prop::collection::vec(any::<f32>().prop_filter("finite", |v| v.is_finite()), 0..50)) {
            let packed = pack_singles(&values).unwrap();
            prop_assert_eq!(packed.error, 0.0);
            prop_assert_eq!(read(&packed, values.len()), values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
        }

        #[test]
        fn choices_are_exact(values in prop::collection::vec(0..4u8, 0..50)) {
            let packed = pack_choices(&values).unwrap();
            prop_assert_eq!(packed.error, 0.0);
            prop_assert_eq!(read(&packed, values.len()), values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
        }

        #[test]
        fn exact_values_are_exact(values in values()) {
            let packed = pack_scalars(&values, true).unwrap();
            let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&read(&packed, values.len())), bits(&values));
        }

        #[test]
        fn distributions_are_read_within_the_bound(
            dists in prop::collection::vec((any::<u8>(), prop::collection::vec(prop_oneof![0.0..=1.0f64, Just(0.0), 0.0..1e-9f64], 0..20)), 0..30),
            exact: bool,
        ) {
            let packed = pack_dists(dists.iter().map(|(first, values)| (*first, values.as_slice())), exact).unwrap();
            let most = if exact { 0.0 } else { 1.2e-10 };
            prop_assert!(packed.error <= most);
            let group = DistGroup::parse(packed.form, &packed.bytes, dists.len()).unwrap();
            for (i, (first, values)) in dists.iter().enumerate() {
                let mut entries = Vec::new();
                let start = usize::from(group.read(i, &mut entries).unwrap());
                for at in 0..300usize {
                    let given = at.checked_sub(usize::from(*first)).and_then(|k| values.get(k)).copied().unwrap_or(0.0);
                    let found = at.checked_sub(start).and_then(|k| entries.get(k)).copied().unwrap_or(0.0);
                    prop_assert!((given - found).abs() <= packed.error);
                }
            }
        }

        #[test]
        fn any_bytes_are_a_group_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..100), count in 0..20usize, exact: bool) {
            let form = if exact { Form::Exact } else { Form::Fixed };
            if let Some(group) = DistGroup::parse(form, &bytes, count) {
                for i in 0..count {
                    prop_assert!(group.read(i, &mut Vec::new()).is_some());
                }
            }
        }
    }
}
