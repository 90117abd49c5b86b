//! Several numbers in f32 at a time: the least of some, and weighted sums of those in f64.
//!
//! A kernel is written once over [`Floats`] and compiled for each width; [`run`] takes the widest that the processor has. A product is
//! rounded before it is added, so all widths give the same results.
#![allow(unsafe_code)]

use crate::game2048::lanes::Width;

/// A few numbers that are worked on together.
pub(crate) trait Floats: Copy {
    /// How many: a power of two, at most 16.
    const WIDTH: usize;
    /// The first numbers of a slice, which must have as many.
    fn load(from: &[f32]) -> Self;
    /// The smaller of each pair; of equal ones the other's.
    fn least(self, other: Self) -> Self;
    /// Adds each number times a weight to a sum; there must be as many.
    fn add_to(self, weight: f64, sums: &mut [f64]);
}

/// Work that is done at one of the widths.
pub(crate) trait Job {
    /// What comes out.
    type Output;
    /// Does it.
    fn run<V: Floats>(self) -> Self::Output;
}

/// Does a job at the width that [`Width::best`] says.
pub(crate) fn run<J: Job>(job: J) -> J::Output {
    run_at(Width::best(), job)
}

/// Does a job at a width; at less where the processor does not have it.
pub(crate) fn run_at<J: Job>(width: Width, job: J) -> J::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,popcnt,bmi1,bmi2,lzcnt")]
        fn eight<J: Job>(job: J) -> J::Output {
            job.run::<x86::Eight>()
        }
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,popcnt,bmi1,bmi2,lzcnt")]
        fn sixteen<J: Job>(job: J) -> J::Output {
            job.run::<x86::Sixteen>()
        }
        if width == Width::Eight && width.is_there() {
            // SAFETY: the processor was just found to have all of these features.
            return unsafe { sixteen(job) };
        }
        if width != Width::One && Width::Four.is_there() {
            // SAFETY: the processor was just found to have all of these features.
            return unsafe { eight(job) };
        }
    }
    let _ = width;
    job.run::<Four>()
}

/// Four numbers: portable code.
#[derive(Clone, Copy)]
pub(crate) struct Four([f32; 4]);

impl Floats for Four {
    const WIDTH: usize = 4;
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        Self([from[0], from[1], from[2], from[3]])
    }
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] < other.0[i] { self.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    fn add_to(self, weight: f64, sums: &mut [f64]) {
        for (sum, number) in sums[..4].iter_mut().zip(self.0) {
            *sum += weight * f64::from(number);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! SAFETY, for the whole module: the types are private to this file and used by `run_at` alone, which has checked for the
    //! features that their operations need. Loads and stores are of slices whose length is asserted.
    use super::Floats;
    use std::arch::x86_64::*;

    /// Eight numbers of AVX2.
    #[derive(Clone, Copy)]
    pub struct Eight(__m256);

    impl Floats for Eight {
        const WIDTH: usize = 8;
        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            assert!(from.len() >= 8);
            // SAFETY: see the module.
            Self(unsafe { _mm256_loadu_ps(from.as_ptr()) })
        }
        #[inline(always)]
        fn least(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm256_min_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn add_to(self, weight: f64, sums: &mut [f64]) {
            assert!(sums.len() >= 8);
            let sums = sums.as_mut_ptr();
            // SAFETY: see the module.
            unsafe {
                let weight = _mm256_set1_pd(weight);
                let low = _mm256_mul_pd(weight, _mm256_cvtps_pd(_mm256_castps256_ps128(self.0)));
                let high = _mm256_mul_pd(weight, _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(self.0)));
                _mm256_storeu_pd(sums, _mm256_add_pd(_mm256_loadu_pd(sums), low));
                _mm256_storeu_pd(sums.add(4), _mm256_add_pd(_mm256_loadu_pd(sums.add(4)), high));
            }
        }
    }

    /// Sixteen numbers of AVX-512.
    #[derive(Clone, Copy)]
    pub struct Sixteen(__m512);

    impl Floats for Sixteen {
        const WIDTH: usize = 16;
        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            assert!(from.len() >= 16);
            // SAFETY: see the module.
            Self(unsafe { _mm512_loadu_ps(from.as_ptr()) })
        }
        #[inline(always)]
        fn least(self, other: Self) -> Self {
            // SAFETY: see the module.
            Self(unsafe { _mm512_min_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn add_to(self, weight: f64, sums: &mut [f64]) {
            assert!(sums.len() >= 16);
            let sums = sums.as_mut_ptr();
            // SAFETY: see the module.
            unsafe {
                let weight = _mm512_set1_pd(weight);
                let low = _mm512_mul_pd(weight, _mm512_cvtps_pd(_mm512_castps512_ps256(self.0)));
                let high = _mm512_mul_pd(weight, _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(self.0)));
                _mm512_storeu_pd(sums, _mm512_add_pd(_mm512_loadu_pd(sums), low));
                _mm512_storeu_pd(sums.add(8), _mm512_add_pd(_mm512_loadu_pd(sums.add(8)), high));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Sum<'a>(&'a [[f32; 16]]);

    impl Job for Sum<'_> {
        type Output = [u64; 16];
        #[inline(always)]
        fn run<V: Floats>(self) -> [u64; 16] {
            let mut out = [0.0; 16];
            for at in (0..16).step_by(V::WIDTH) {
                for pair in self.0.windows(2) {
                    V::load(&pair[0][at..]).least(V::load(&pair[1][at..])).add_to(0.37, &mut out[at..]);
                }
            }
            out.map(f64::to_bits)
        }
    }

    proptest! {
        #[test]
        fn all_widths_give_the_same_bits(rows in prop::collection::vec(prop::array::uniform16(-2.0f32..2.0), 0..30)) {
            let plain: [u64; 16] = std::array::from_fn(|i| {
                rows.windows(2).fold(0.0, |sum, pair| sum + 0.37 * f64::from(pair[0][i].min(pair[1][i]))).to_bits()
            });
            for width in [Width::One, Width::Four, Width::Eight] {
                prop_assert_eq!(run_at(width, Sum(&rows)), plain);
            }
        }
    }
}
