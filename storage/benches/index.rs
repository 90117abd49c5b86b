//! Sizes and look-up times of index sets: `cargo bench -p strata-storage --bench index [BITMAP FILES]`.
//!
//! Random sets of several densities, then clustered ones, then files of real keys if any are named (a u64 with the universe, then the
//! bitmap). All sets are larger than the caches. The last columns set our rank and batch against sux's Elias-Fano rank on the same
//! keys and the same questions in the same run.

use std::hint::black_box;
use std::time::Instant;
use strata_storage::{IndexSet, encode_bits};
use sux::dict::EliasFanoBuilder;
use sux::traits::Pred;

const UNIVERSE: u64 = 1 << 29;
const QUESTIONS: usize = 1_000_000;
/// Of so many runs the best counts: the machine may be doing other things.
const RUNS: usize = 5;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(n)) >> 64).unwrap_or(0)
    }

    /// A word each bit of which is set with this chance (to 2^-16).
    fn bits(&mut self, chance: f64) -> u64 {
        let mut word = 0;
        // From the last binary digit of the chance to the first: OR makes a bit likelier, AND less likely.
        let digits = (0..16).scan(chance, |rest, _| {
            *rest *= 2.0;
            let digit = *rest >= 1.0;
            *rest -= f64::from(u8::from(digit));
            Some(digit)
        });
        for digit in digits.collect::<Vec<_>>().into_iter().rev() {
            word = if digit { word | self.next() } else { word & self.next() };
        }
        word
    }
}

fn random(chance: f64) -> Vec<u64> {
    let mut random = Random(1);
    (0..UNIVERSE / 64).map(|_| random.bits(chance)).collect()
}

/// Stretches of 64 to 2,000 ranks, each with a density of its own around 0.175, a third of them empty.
fn clustered() -> Vec<u64> {
    let mut random = Random(2);
    let (mut left, mut chance) = (0, 0.0);
    let draw = |random: &mut Random| {
        if left == 0 {
            left = 1 + random.below(32);
            let steps = [0.0, 0.0, 0.0, 0.02, 0.1, 0.2, 0.3, 0.4, 0.55];
            chance = steps[usize::try_from(random.below(9)).unwrap_or(0)];
        }
        left -= 1;
        random.bits(chance)
    };
    let mut draw = draw;
    (0..UNIVERSE / 64).map(|_| draw(&mut random)).collect()
}

fn file(path: &str) -> Option<(Vec<u64>, u64)> {
    let bytes = std::fs::read(path).ok()?;
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let universe = words.next()?;
    Some((words.collect(), universe))
}

/// Seconds of the best run.
fn best(mut work: impl FnMut()) -> f64 {
    let run = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..RUNS).map(run).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds a question.
fn per_question(work: impl FnMut()) -> f64 {
    best(work) * 1e9 / QUESTIONS as f64
}

fn measure(name: &str, words: &[u64], universe: u64) {
    let megabytes = universe as f64 / 8e6;
    let bytes = encode_bits(words, universe);
    let encode = megabytes / best(|| assert_eq!(black_box(encode_bits(words, universe)).len(), bytes.len()));
    let set = IndexSet::open(&bytes).expect("what was just encoded opens");
    let check = megabytes / best(|| set.check().expect("what was just encoded is sound"));
    let iterate = best(|| assert!(black_box(set.iter().fold(0, u64::wrapping_add)) > 0)) * 1e9 / set.len() as f64;

    let mut random = Random(3);
    // Half of the questions are about keys, half about any rank.
    let questions: Vec<u64> = (0..QUESTIONS)
        .map(|k| if k % 2 == 0 { set.select(random.below(set.len())).unwrap_or(0) } else { random.below(universe) })
        .collect();
    let mut out = vec![0; QUESTIONS];
    let rank = per_question(|| {
        black_box(questions.iter().map(|&x| set.rank(x)).sum::<u64>());
    });
    let find = per_question(|| {
        black_box(questions.iter().map(|&x| set.find(x).unwrap_or(0)).sum::<u64>());
    });
    let batch = per_question(|| set.find_many(&questions, &mut out));
    let select = per_question(|| {
        black_box(out.iter().map(|&i| set.select(i).unwrap_or(0)).sum::<u64>());
    });

    let mut builder = EliasFanoBuilder::new(usize::try_from(set.len()).unwrap_or(0), universe);
    builder.extend(set.iter());
    let other = builder.build_with_seq_and_dict();
    let sux = per_question(|| {
        black_box(questions.iter().map(|&x| other.rank(x)).sum::<usize>());
    });

    let bits = bytes.len() as f64 * 8.0 / set.len() as f64;
    let density = set.len() as f64 / universe as f64;
    println!(
        "{name:<24}{density:>8.4}{bits:>8.3}{encode:>9.0}{check:>8.0}{iterate:>7.2}{rank:>7.1}{find:>7.1}{batch:>7.1}{select:>8.1}{sux:>7.1}{:>7.2}{:>7.2}",
        sux / rank,
        sux / batch
    );
}

fn main() {
    println!(
        "{:<24}{:>8}{:>8}{:>9}{:>8}{:>7}{:>7}{:>7}{:>7}{:>8}{:>7}{:>7}{:>7}",
        "keys", "density", "bits", "encode", "check", "iter", "rank", "find", "batch", "select", "sux", "/rank", "/batch"
    );
    println!("{:<24}{:>8}{:>8}{:>9}{:>8}{:>7}", "", "", "per key", "MB/s", "MB/s", "ns");
    let files: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for chance in [0.01, 0.08, 0.175, 0.32, 0.6, 0.9] {
        measure(&format!("random {chance}"), &random(chance), UNIVERSE);
    }
    measure("clustered", &clustered(), UNIVERSE);
    for path in &files {
        match file(path) {
            Some((words, universe)) => measure(path.rsplit('/').next().unwrap_or(path), &words, universe),
            None => eprintln!("{path}: no bitmap with its universe in front"),
        }
    }
}
