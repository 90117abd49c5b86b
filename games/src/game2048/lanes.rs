//! Several boards at a time: the few operations on 64-bit words that ranking needs, in one, four or eight lanes.
//!
//! A kernel is written once over [`Lanes`] and compiled for each width; [`run`] takes the widest that the processor has. All
//! operations are of integers, so all widths give the same results. This is the only file of the games with `unsafe` in it.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU64;

/// A few 64-bit words that are worked on together.
pub trait Lanes: Copy {
    /// Number of words.
    const WIDTH: usize;
    /// What a comparison gives.
    type Mask: Copy;
    /// The same word in all lanes.
    fn splat(word: u64) -> Self;
    /// The first words of a slice, which must have as many.
    fn load(from: &[u64]) -> Self;
    /// Stores the lower halves into a slice, which must have as many.
    fn store32(self, to: &mut [u32]);
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Sum, wrapping.
    fn add(self, other: Self) -> Self;
    /// Product of the lower halves.
    fn mul32(self, other: Self) -> Self;
    /// Shifted towards the high bits, all lanes by one number below 64.
    fn shl(self, by: u32) -> Self;
    /// Shifted towards the low bits, all lanes by one number below 64.
    fn shr(self, by: u32) -> Self;
    /// Shifted towards the low bits, each lane by its own number below 64.
    fn shr_by(self, by: Self) -> Self;
    /// Whether each lane is below the other's; both must be below 2^63.
    fn below(self, other: Self) -> Self::Mask;
    /// Whether each lane equals the other's.
    fn equals(self, other: Self) -> Self::Mask;
    /// Whether any lane is so.
    fn any(mask: Self::Mask) -> bool;
    /// In both masks.
    fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Each lane of one or the other.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Entries of a table of 2^k words; the lowest k bits of each lane say which.
    fn gather(table: &[u64], at: Self) -> Self;
    /// The same of a table of half words.
    fn gather32(table: &[u32], at: Self) -> Self;
}

/// One lane: portable code.
#[derive(Clone, Copy)]
pub struct One(u64);

impl Lanes for One {
    const WIDTH: usize = 1;
    type Mask = bool;
    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self(word)
    }
    #[inline(always)]
    fn load(from: &[u64]) -> Self {
        Self(from[0])
    }
    #[inline(always)]
    fn store32(self, to: &mut [u32]) {
        to[0] = self.0 as u32;
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
    #[inline(always)]
    fn mul32(self, other: Self) -> Self {
        Self(u64::from(self.0 as u32) * u64::from(other.0 as u32))
    }
    #[inline(always)]
    fn shl(self, by: u32) -> Self {
        Self(self.0 << by)
    }
    #[inline(always)]
    fn shr(self, by: u32) -> Self {
        Self(self.0 >> by)
    }
    #[inline(always)]
    fn shr_by(self, by: Self) -> Self {
        Self(self.0 >> (by.0 & 63))
    }
    #[inline(always)]
    fn below(self, other: Self) -> bool {
        self.0 < other.0
    }
    #[inline(always)]
    fn equals(self, other: Self) -> bool {
        self.0 == other.0
    }
    #[inline(always)]
    fn any(mask: bool) -> bool {
        mask
    }
    #[inline(always)]
    fn both(a: bool, b: bool) -> bool {
        a & b
    }
    #[inline(always)]
    fn select(mask: bool, yes: Self, no: Self) -> Self {
        Self(std::hint::select_unpredictable(mask, yes.0, no.0))
    }
    #[inline(always)]
    fn gather(table: &[u64], at: Self) -> Self {
        Self(table[at.0 as usize & (table.len() - 1)])
    }
    #[inline(always)]
    fn gather32(table: &[u32], at: Self) -> Self {
        Self(table[at.0 as usize & (table.len() - 1)].into())
    }
}

/// Work that is written once over lanes and compiled for every width.
///
/// `run` and what it calls must be `#[inline(always)]`, or the wide copies call narrow code.
pub trait Job {
    /// What the work gives.
    type Output;
    /// Whether wide vectors are worth compiling it for: not for boards whose tables are built in a moment.
    const IS_WIDE: bool;
    /// Does it with lanes of this width.
    fn run<L: Lanes>(self) -> Self::Output;
}

/// Whether a board size is worth wide vectors.
pub const fn is_wide<const R: usize, const C: usize>() -> bool {
    R * C > 6
}

/// How wide the processor works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// Portable code.
    One,
    /// AVX2.
    Four,
    /// AVX-512.
    Eight,
}

impl Width {
    /// The widest that this processor has. The environment variable `STRATA_LANES` may say less: 1 or 4.
    pub fn best() -> Self {
        static BEST: std::sync::OnceLock<Width> = std::sync::OnceLock::new();
        *BEST.get_or_init(|| {
            let most = match std::env::var("STRATA_LANES").as_deref() {
                Ok("1") => Width::One,
                Ok("4") => Width::Four,
                _ => Width::Eight,
            };
            [Width::Eight, Width::Four, Width::One].into_iter().find(|w| w.is_within(most) && w.is_there()).unwrap_or(Width::One)
        })
    }

    fn is_within(self, most: Self) -> bool {
        self as u8 <= most as u8
    }

    /// Whether this processor has it.
    pub fn is_there(self) -> bool {
        match self {
            Width::One => true,
            #[cfg(target_arch = "x86_64")]
            Width::Four => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Width::Eight => {
                Width::Four.is_there()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

/// Does a job at the width that [`Width::best`] says.
#[inline]
pub fn run<J: Job>(job: J) -> J::Output {
    run_at(Width::best(), job)
}

/// Does a job at a width; at less where the processor does not have it.
#[inline]
pub fn run_at<J: Job>(width: Width, job: J) -> J::Output {
    if const { !J::IS_WIDE } {
        return job.run::<One>();
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,popcnt,bmi1,bmi2,lzcnt")]
        fn four<J: Job>(job: J) -> J::Output {
            job.run::<x86::Four>()
        }
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,popcnt,bmi1,bmi2,lzcnt")]
        fn eight<J: Job>(job: J) -> J::Output {
            job.run::<x86::Eight>()
        }
        if width == Width::Eight && width.is_there() {
            // SAFETY: the processor was just found to have all of these features.
            return unsafe { eight(job) };
        }
        if width != Width::One && Width::Four.is_there() {
            // SAFETY: the processor was just found to have all of these features.
            return unsafe { four(job) };
        }
    }
    let _ = width;
    job.run::<One>()
}

/// Asks for the cache line of an entry, without waiting for it. Any number will do; elsewhere than on x86-64 it does nothing.
#[inline(always)]
pub fn prefetch<T>(table: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = table.as_ptr().wrapping_add(at).cast::<i8>();
        // SAFETY: a prefetch is a hint that reads nothing and faults on no address, and `address` was made without dereferencing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, at);
}

/// Words that many threads may change.
pub fn as_atomic(words: &mut [u64]) -> &[AtomicU64] {
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
    // SAFETY: `AtomicU64` has the size and the bits of `u64`, here also its alignment, and the borrow makes these the only references.
    unsafe { &*(std::ptr::from_mut(words) as *const [AtomicU64]) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! SAFETY, for the whole module: the types are private to this file and used by `run_at` alone, which has checked for the
    //! features that their operations need. Loads and stores are of slices whose length is asserted; gathers are of a table whose length
    //! is a power of two, at indices that are masked to be below it.
    use super::Lanes;
    use std::arch::x86_64::*;

    /// Four lanes of AVX2.
    #[derive(Clone, Copy)]
    pub struct Four(__m256i);

    impl Lanes for Four {
        const WIDTH: usize = 4;
        type Mask = __m256i;
        #[inline(always)]
        fn splat(word: u64) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_set1_epi64x(word.cast_signed()) })
        }
        #[inline(always)]
        fn load(from: &[u64]) -> Self {
            assert!(from.len() >= 4);
            // SAFETY: see the module.
            Self(unsafe { _mm256_loadu_si256(from.as_ptr().cast()) })
        }
        #[inline(always)]
        fn store32(self, to: &mut [u32]) {
            assert!(to.len() >= 4);
            // SAFETY: see the module.
            unsafe {
                let lower = _mm256_permutevar8x32_epi32(self.0, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
                _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_castsi256_si128(lower));
            }
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_and_si256(self.0, other.0) })
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_or_si256(self.0, other.0) })
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_add_epi64(self.0, other.0) })
        }
        #[inline(always)]
        fn mul32(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_mul_epu32(self.0, other.0) })
        }
        #[inline(always)]
        fn shl(self, by: u32) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(by.cast_signed())) })
        }
        #[inline(always)]
        fn shr(self, by: u32) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(by.cast_signed())) })
        }
        #[inline(always)]
        fn shr_by(self, by: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_srlv_epi64(self.0, by.0) })
        }
        #[inline(always)]
        fn below(self, other: Self) -> __m256i {
            // SAFETY: see the module.
            unsafe { _mm256_cmpgt_epi64(other.0, self.0) }
        }
        #[inline(always)]
        fn equals(self, other: Self) -> __m256i {
            // SAFETY: see the module.
            unsafe { _mm256_cmpeq_epi64(self.0, other.0) }
        }
        #[inline(always)]
        fn any(mask: __m256i) -> bool {
            // SAFETY: see the module.
            unsafe { _mm256_movemask_epi8(mask) != 0 }
        }
        #[inline(always)]
        fn both(a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: see the module.
            unsafe { _mm256_and_si256(a, b) }
        }
        #[inline(always)]
        fn select(mask: __m256i, yes: Self, no: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_blendv_epi8(no.0, yes.0, mask) })
        }
        #[inline(always)]
        fn gather(table: &[u64], at: Self) -> Self {
            assert!(table.len().is_power_of_two());
            let at = at.and(Self::splat(table.len() as u64 - 1));
            // SAFETY: see the module.
            Self(unsafe { _mm256_i64gather_epi64::<8>(table.as_ptr().cast(), at.0) })
        }
        #[inline(always)]
        fn gather32(table: &[u32], at: Self) -> Self {
            assert!(table.len().is_power_of_two());
            let at = at.and(Self::splat(table.len() as u64 - 1));
            // SAFETY: see the module.
            Self(unsafe { _mm256_cvtepu32_epi64(_mm256_i64gather_epi32::<4>(table.as_ptr().cast(), at.0)) })
        }
    }

    /// Eight lanes of AVX-512.
    #[derive(Clone, Copy)]
    pub struct Eight(__m512i);

    impl Lanes for Eight {
        const WIDTH: usize = 8;
        type Mask = __mmask8;
        #[inline(always)]
        fn splat(word: u64) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_set1_epi64(word.cast_signed()) })
        }
        #[inline(always)]
        fn load(from: &[u64]) -> Self {
            assert!(from.len() >= 8);
            // SAFETY: see the module.
            Self(unsafe { _mm512_loadu_si512(from.as_ptr().cast()) })
        }
        #[inline(always)]
        fn store32(self, to: &mut [u32]) {
            assert!(to.len() >= 8);
            // SAFETY: see the module.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(self.0)) };
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_and_si512(self.0, other.0) })
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_or_si512(self.0, other.0) })
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_add_epi64(self.0, other.0) })
        }
        #[inline(always)]
        fn mul32(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_mul_epu32(self.0, other.0) })
        }
        #[inline(always)]
        fn shl(self, by: u32) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_sll_epi64(self.0, _mm_cvtsi32_si128(by.cast_signed())) })
        }
        #[inline(always)]
        fn shr(self, by: u32) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_srl_epi64(self.0, _mm_cvtsi32_si128(by.cast_signed())) })
        }
        #[inline(always)]
        fn shr_by(self, by: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_srlv_epi64(self.0, by.0) })
        }
        #[inline(always)]
        fn below(self, other: Self) -> __mmask8 {
            // SAFETY: see the module.
            unsafe { _mm512_cmplt_epu64_mask(self.0, other.0) }
        }
        #[inline(always)]
        fn equals(self, other: Self) -> __mmask8 {
            // SAFETY: see the module.
            unsafe { _mm512_cmpeq_epi64_mask(self.0, other.0) }
        }
        #[inline(always)]
        fn any(mask: __mmask8) -> bool {
            mask != 0
        }
        #[inline(always)]
        fn both(a: __mmask8, b: __mmask8) -> __mmask8 {
            a & b
        }
        #[inline(always)]
        fn select(mask: __mmask8, yes: Self, no: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_mask_blend_epi64(mask, no.0, yes.0) })
        }
        #[inline(always)]
        fn gather(table: &[u64], at: Self) -> Self {
            assert!(table.len().is_power_of_two());
            let at = at.and(Self::splat(table.len() as u64 - 1));
            // SAFETY: see the module.
            Self(unsafe { _mm512_i64gather_epi64::<8>(at.0, table.as_ptr().cast()) })
        }
        #[inline(always)]
        fn gather32(table: &[u32], at: Self) -> Self {
            assert!(table.len().is_power_of_two());
            let at = at.and(Self::splat(table.len() as u64 - 1));
            // SAFETY: see the module.
            Self(unsafe { _mm512_cvtepu32_epi64(_mm512_i64gather_epi32::<4>(at.0, table.as_ptr().cast())) })
        }
    }
}
