//! What the processor offers beyond portable code: reading ahead, and bit instructions where they are found at run time.
//!
//! This is the only file of the index with `unsafe` in it. Nothing here changes an answer, only the time it takes.
#![allow(unsafe_code)]

use super::bits::index;

/// Asks for the cache line that holds byte `at`, without waiting for it. Any `at` will do; elsewhere than on x86-64 it does nothing.
#[inline(always)]
pub(super) fn prefetch(bytes: &[u8], at: u64) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = bytes.as_ptr().wrapping_add(index(at)).cast::<i8>();
        // SAFETY: a prefetch is a hint that reads nothing and faults on no address, and `address` was made without dereferencing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, index(at));
}

/// Work to be compiled twice: for the processors every build must run on, and for those that count and find bits in one instruction.
///
/// `run` and what it calls must be `#[inline(always)]`, or the second copy is the first one again.
pub(super) trait Job {
    /// What the work gives.
    type Output;
    /// Does it.
    fn run(self) -> Self::Output;
}

/// Does a job with the best instructions of this processor.
#[inline(always)]
pub(super) fn run<J: Job>(job: J) -> J::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt")]
        fn fast<J: Job>(job: J) -> J::Output {
            job.run()
        }
        if is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
        {
            // SAFETY: the processor was just found to have all four features.
            return unsafe { fast(job) };
        }
    }
    job.run()
}
