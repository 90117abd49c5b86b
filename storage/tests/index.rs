//! Index sets against plain sets, against sux, and against damaged bytes.

use proptest::prelude::*;
use std::collections::BTreeSet;
use strata_storage::{ABSENT, IndexError, IndexSet, MAX_UNIVERSE, encode_bits, encode_quick, encode_sorted};

const CHUNK: u64 = 4096;
const GROUP: u64 = 8 * CHUNK;

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn place(x: u64) -> usize {
    usize::try_from(x).expect("test sets fit in memory")
}

fn bitmap(keys: &[u64], universe: u64) -> Vec<u64> {
    let mut words = vec![0; place(universe.div_ceil(64))];
    for key in keys {
        words[place(key / 64)] |= 1 << (key % 64);
    }
    words
}

/// About `density` of the ranks, evenly spread.
fn evenly(universe: u64, density: f64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    (0..universe).filter(|_| ((next(&mut state) >> 11) as f64) < density * (1_u64 << 53) as f64).collect()
}

/// Stretches of up to 3,000 ranks with a density of their own, among them empty and full ones.
fn in_stretches(universe: u64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let (mut left, mut threshold) = (0, 0);
    let mut inside = |_: &u64| {
        if left == 0 {
            left = 1 + next(&mut state) % 3000;
            threshold = [0, 0, 2, 10, 100, 200, 400, 900, 998, 1000, 1000][place(next(&mut state) % 11)];
        }
        left -= 1;
        next(&mut state) % 1000 < threshold
    };
    (0..universe).filter(|x| inside(x)).collect()
}

/// Runs of whole chunks, and no others, are filled with what the words have there, beside what is in them.
fn assert_runs_are_filled(set: &IndexSet<&[u8]>, words: &[u64]) {
    let universe = set.universe();
    for from in [0, 4096, 3 * 4096].into_iter().filter(|&from| from < universe) {
        for to in [from + 4096, universe.next_multiple_of(64)].into_iter().filter(|&to| to <= universe.next_multiple_of(64)) {
            let of_run = &words[place(from / 64)..place(to / 64)];
            let mut filled = vec![1 << 63; of_run.len()];
            assert!(set.fill_run(from, &mut filled), "{from}..{to} of {universe}");
            assert!(filled.iter().zip(of_run).all(|(&filled, &word)| filled == word | 1 << 63));
        }
    }
    assert!(universe < 8192 || !set.fill_run(64, &mut [0; 64]) && !set.fill_run(0, &mut [0; 65]));
    assert!(!set.fill_run(universe.next_multiple_of(4096) + 4096, &mut [0; 64]));
}

/// Compares every method with a plain sorted list.
fn assert_is(keys: &[u64], universe: u64) {
    let bytes = encode_sorted(keys, universe).expect("sorted keys in their universe");
    let words = bitmap(keys, universe);
    assert_eq!(bytes, encode_bits(&words, universe), "both encoders give the same bytes");
    assert_eq!(bytes.len() % 8, 0);
    let set = IndexSet::open(&bytes[..]).expect("opens");
    assert_eq!(set.check(), Ok(()));
    assert_eq!((set.universe(), set.len(), set.is_empty()), (universe, keys.len() as u64, keys.is_empty()));
    assert_eq!(set.bytes(), bytes.len() as u64);
    assert!(set.iter().eq(keys.iter().copied()), "iterates over its keys");
    for (i, &key) in keys.iter().enumerate() {
        assert_eq!(set.select(i as u64), Some(key), "select({i})");
    }
    assert_eq!(set.select(keys.len() as u64), None);
    assert_eq!(set.select(u64::MAX), None);
    let quick = encode_quick(&words, universe);
    let quick = IndexSet::open(&quick[..]).expect("opens");
    assert!(quick.len() == set.len() && quick.iter().eq(set.iter()), "the quick encoding is of the same set");
    for set in [&set, &quick] {
        assert_runs_are_filled(set, &words);
    }

    let plain: BTreeSet<u64> = keys.iter().copied().collect();
    let step = (universe / 20_000).max(1);
    let asked: Vec<u64> =
        (0..universe).step_by(place(step)).chain(keys.iter().copied()).chain([universe, universe + 1, u64::MAX]).collect();
    let mut answers = vec![7; asked.len()];
    set.find_many(&asked, &mut answers);
    for (&x, &answer) in asked.iter().zip(&answers) {
        let rank = keys.partition_point(|&key| key < x) as u64;
        assert_eq!(set.rank(x), rank, "rank({x})");
        assert_eq!(set.contains(x), plain.contains(&x), "contains({x})");
        assert_eq!(set.find(x), plain.contains(&x).then_some(rank), "find({x})");
        assert_eq!(answer, set.find(x).unwrap_or(ABSENT), "find_many of {x}");
    }
    let mut filled = vec![0; words.len()];
    set.fill_bitmap(&mut filled);
    assert_eq!(filled, words);

    let stats = set.stats();
    let kinds = [stats.empty, stats.full, stats.bitmap, stats.keys, stats.gaps];
    assert_eq!(kinds.iter().map(|kind| kind.chunks).sum::<u64>(), universe.div_ceil(CHUNK));
    assert_eq!(kinds.iter().map(|kind| kind.keys).sum::<u64>(), keys.len() as u64);
    assert!((0..8).contains(&(stats.bytes - stats.directory_bytes - kinds.iter().map(|kind| kind.bytes).sum::<u64>())));
}

const UNIVERSES: [u64; 26] = [
    0,
    1,
    2,
    63,
    64,
    65,
    127,
    128,
    300,
    511,
    512,
    513,
    1024,
    4032,
    4095,
    4096,
    4097,
    4160,
    8191,
    8192,
    8193,
    12_288,
    GROUP - 1,
    GROUP,
    GROUP + 1,
    2 * GROUP + CHUNK + 77,
];

#[test]
fn every_density_on_every_boundary_answers_like_a_plain_set() {
    for universe in UNIVERSES {
        for (seed, density) in (1..).zip([0.0, 0.0005, 0.003, 0.02, 0.08, 0.175, 0.24, 0.5, 0.75, 0.82, 0.93, 0.99, 0.9995, 1.0])
        {
            assert_is(&evenly(universe, density, seed), universe);
        }
    }
}

#[test]
fn stretches_of_every_density_answer_like_a_plain_set() {
    for (seed, universe) in (1..).zip(UNIVERSES.into_iter().chain([200_000, 300_001])) {
        assert_is(&in_stretches(universe, seed), universe);
    }
}

#[test]
fn one_crowded_bucket_in_an_otherwise_sparse_chunk_is_found_through() {
    for (run, at) in [(1, 0), (9, 17), (31, 64), (63, 4000), (64, 1000), (96, 4000), (200, 0), (900, 3000)] {
        let keys: Vec<u64> = (at..at + run).filter(|x| *x < CHUNK).chain([CHUNK + 3, 5 * CHUNK]).collect();
        assert_is(&keys, 6 * CHUNK);
    }
    let ends = [0, CHUNK - 1, CHUNK, GROUP - 1, GROUP, 3 * GROUP - 1];
    assert_is(&ends, 3 * GROUP);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_set_answers_like_a_plain_set(universe in 0_u64..70_000, cut in 0_u32..=1000, seed: u64, crowded: bool) {
        let keys = if crowded { in_stretches(universe, seed) } else { evenly(universe, f64::from(cut) / 1000.0, seed) };
        assert_is(&keys, universe);
    }

    #[test]
    fn any_list_of_runs_answers_like_a_plain_set(runs in prop::collection::vec((0_u64..40_000, 1_u64..600), 0..12)) {
        let keys: BTreeSet<u64> = runs.iter().flat_map(|&(start, length)| start..start + length).collect();
        assert_is(&keys.into_iter().collect::<Vec<_>>(), 40_600);
    }

    #[test]
    fn any_range_iterates_over_the_keys_in_it(seed: u64, from in 0_u64..50_000, to in 0_u64..50_000) {
        let keys = in_stretches(40_000, seed);
        let bytes = encode_sorted(&keys, 40_000).expect("sorted");
        let set = IndexSet::open(bytes).expect("opens");
        let expected: Vec<u64> = keys.into_iter().filter(|key| (from..to).contains(key)).collect();
        prop_assert_eq!(set.iter_range(from..to).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn any_bytes_are_refused_or_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2500), repair: bool) {
        let mut bytes = bytes;
        if repair && bytes.len() >= 24 {
            pretend(&mut bytes);
        }
        use_everything(&bytes);
    }
}

/// Gives any bytes a header that `open` lets pass.
fn pretend(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() / 8 * 8);
    let chunks = bytes.len() as u64 / 40;
    let universe = (chunks * CHUNK).saturating_sub(u64::from(bytes[8]) * 16);
    let chunks = universe.div_ceil(CHUNK);
    let rest = chunks % 8;
    let bodies = 24 + chunks / 8 * 64 + if rest == 0 { 0 } else { 16 + (rest * 6).next_multiple_of(8) };
    let body_bytes = (bytes.len() as u64).saturating_sub(bodies);
    bytes[..3].copy_from_slice(b"EF\x01");
    bytes[3..8].copy_from_slice(&body_bytes.to_le_bytes()[..5]);
    bytes[8..16].copy_from_slice(&universe.to_le_bytes());
    bytes[16..24].copy_from_slice(&(universe / 2).to_le_bytes());
}

/// Calls every method; all that counts is that they come back. Says whether the bytes pass as sound.
fn use_everything(bytes: &[u8]) -> bool {
    let Ok(set) = IndexSet::open(bytes) else { return false };
    let sound = set.check().is_ok();
    let universe = set.universe();
    assert!(universe <= 512 * bytes.len() as u64 + CHUNK, "the directory bounds the universe");
    let step = place((universe / 500).max(1));
    let asked: Vec<u64> = (0..universe).step_by(step).chain([universe.wrapping_sub(1), universe, u64::MAX]).collect();
    let mut answers = vec![0; asked.len()];
    set.find_many(&asked, &mut answers);
    for (&x, &answer) in asked.iter().zip(&answers) {
        let _ = (set.rank(x), set.contains(x));
        assert_eq!(set.find(x).unwrap_or(ABSENT), answer);
    }
    for i in (0..set.len()).step_by(place((set.len() / 100).max(1))).chain([u64::MAX]) {
        let _ = set.select(i);
    }
    assert!(set.iter().count() as u64 <= universe);
    assert!(set.iter_range(universe / 3..universe / 2).all(|x| (universe / 3..universe / 2).contains(&x)));
    set.fill_bitmap(&mut vec![0; place(universe.div_ceil(64))]);
    let _ = (set.stats(), format!("{set:?}"));
    sound
}

#[test]
fn a_flipped_bit_is_noticed_or_gives_the_one_encoding_of_another_set() {
    let mut keys = evenly(2 * CHUNK, 0.1, 5);
    keys.extend(evenly(CHUNK, 0.5, 6).iter().map(|x| 2 * CHUNK + x));
    keys.extend(3 * CHUNK..4 * CHUNK);
    keys.extend(evenly(CHUNK, 0.95, 7).iter().map(|x| 5 * CHUNK + x));
    keys.extend(evenly(CHUNK, 0.005, 8).iter().map(|x| 6 * CHUNK + x));
    keys.extend(evenly(3 * CHUNK, 0.2, 9).iter().map(|x| 7 * CHUNK + x));
    let universe = 10 * CHUNK - 1000;
    keys.retain(|&key| key < universe);
    let good = encode_sorted(&keys, universe).expect("sorted");
    assert!(use_everything(&good));
    // Every bit of header and directory, every fifth of the bodies.
    for bit in (0..104 * 8).chain((104 * 8..good.len() * 8).step_by(5)) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if use_everything(&bad) {
            let set = IndexSet::open(&bad[..]).expect("opens");
            let others: Vec<u64> = set.iter().collect();
            assert_ne!(others, keys, "bit {bit} flipped and nothing changed");
            assert_eq!(encode_sorted(&others, set.universe()).as_ref(), Ok(&bad), "bit {bit}");
        }
    }
    for length in (0..good.len()).step_by(3) {
        assert!(!use_everything(&good[..length]), "cut to {length} bytes and not noticed");
    }
    let mut longer = good.clone();
    longer.extend([0; 8]);
    assert!(!use_everything(&longer));
}

#[test]
fn bytes_overwritten_at_random_never_make_a_method_panic() {
    let keys = in_stretches(70_000, 3);
    let good = encode_sorted(&keys, 70_000).expect("sorted");
    let mut state = 11;
    for _ in 0..3000 {
        let mut bad = good.clone();
        for _ in 0..1 + next(&mut state) % 40 {
            // Half of the changes hit the first 200 bytes: header and directory.
            let at = next(&mut state) % if next(&mut state).is_multiple_of(2) { 200 } else { bad.len() as u64 };
            bad[place(at.max(24))] = (next(&mut state) & 0xFF) as u8;
        }
        use_everything(&bad);
    }
    for value in [0, 0xFF] {
        let mut bad = good.clone();
        bad[24..].fill(value);
        assert!(!use_everything(&bad));
    }
}

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(encode_sorted(&[1, 5, 5, 7], 10), Err(IndexError::Unsorted { at: 1, left: 5, right: 5 }));
    assert_eq!(encode_sorted(&[1, 5, 3], 10), Err(IndexError::Unsorted { at: 1, left: 5, right: 3 }));
    assert_eq!(encode_sorted(&[1, 10], 10), Err(IndexError::OutOfUniverse { key: 10, universe: 10 }));
    assert_eq!(encode_sorted(&[], MAX_UNIVERSE + 1), Err(IndexError::Universe { universe: MAX_UNIVERSE + 1 }));
    let good = encode_sorted(&[3, 4, 6], 10).expect("sorted");
    let open = |bytes: &[u8]| IndexSet::open(bytes.to_vec()).map(|set| set.len());
    assert_eq!(open(&good), Ok(3));
    assert_eq!(open(&[]), Err(IndexError::Length { expected: 24, found: 0 }));
    assert_eq!(open(&good[..40]), Err(IndexError::Length { expected: 56, found: 40 }));
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        open(&bytes)
    };
    assert_eq!(with(0, b'X'), Err(IndexError::NotAnIndex));
    assert_eq!(with(2, 9), Err(IndexError::Version { found: 9 }));
    assert_eq!(with(16, 200), Err(IndexError::TooManyKeys { keys: 200, universe: 10 }));
    assert_eq!(with(15, 1), Err(IndexError::Universe { universe: 10 + (1 << 56) }));
}

/// Header, one group of `entries` (form, keys and body bytes of each chunk), bodies, padding: the drawing in the module docs, by hand.
fn drawn(universe: u64, entries: &[(u64, u64, u64)], bodies: &[u8]) -> Vec<u8> {
    let mut out = b"EF\x01".to_vec();
    out.extend(&(bodies.len() as u64).to_le_bytes()[..5]);
    out.extend(universe.to_le_bytes());
    out.extend(entries.iter().map(|entry| entry.1).sum::<u64>().to_le_bytes());
    out.extend([0; 16]);
    let (mut before, mut at) = (0, 0);
    for (form, keys, bytes) in entries {
        out.extend(&(before | at << 15 | form << 28 | keys << 33).to_le_bytes()[..6]);
        (before, at) = (before + keys, at + bytes);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend(bodies);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

#[test]
fn small_sets_have_the_bytes_drawn_in_the_docs() {
    let keys = [3, 4, 6, 9, 10, 17, 18, 19, 25, 31];
    // Two low bits would take 10 + 8 + 20 = 38 bits, a bitmap takes 32.
    let bits = keys.iter().fold(0_u32, |bits, key| bits | 1 << key);
    assert_eq!(encode_sorted(&keys, 32), Ok(drawn(32, &[(2, 10, 4)], &bits.to_le_bytes())));

    // Six low bits: 3 + 5 + 18 = 26 bits; five take 3 + 10 + 15, seven 3 + 3 + 21. Buckets 0, 2 and 4 of five, low bits 7, 0 and 43.
    let body = 0b0100_1001 | 7 << 8 | 43 << 20_u32;
    assert_eq!(encode_sorted(&[7, 128, 299], 300), Ok(drawn(300, &[(4 + 6, 3, 4)], &i32::to_le_bytes(body))));
}

#[test]
fn chunks_of_every_form_have_the_bytes_drawn_in_the_docs() {
    // Every fourth rank; all but those; every second; none; all. Every fourth: buckets of four with one member each, low bits 0.
    let forms: [fn(u64) -> bool; 5] = [|x| x % 4 == 0, |x| x % 4 != 0, |x| x % 2 == 0, |_| false, |_| true];
    let keys: Vec<u64> = (0..5 * CHUNK).filter(|x| forms[place(x / CHUNK)](*x)).collect();
    let halves = |list: &[u16]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let fourth = [halves(&[512, 1024, 1536]), vec![0b0101_0101; 256], vec![0; 256]].concat();
    let second = [halves(&[256, 512, 768, 1024, 1280, 1536, 1792]), vec![0b0101_0101; 512]].concat();
    let entries = [(4 + 2, 1024, 518), (17 + 2, 3072, 518), (2, 2048, 526), (0, 0, 0), (1, 4096, 0)];
    let bodies = [fourth.clone(), fourth, second].concat();
    assert_eq!(encode_sorted(&keys, 5 * CHUNK), Ok(drawn(5 * CHUNK, &entries, &bodies)));
}

#[test]
fn a_tiny_set_takes_at_most_sixty_four_bytes() {
    let keys = [5, 40, 41, 99, 130, 170, 200, 222, 250, 299];
    let bytes = encode_sorted(&keys, 300).expect("sorted");
    assert!(bytes.len() <= 64, "{} bytes", bytes.len());
    assert_eq!(encode_sorted(&[], 0).map(|bytes| bytes.len()), Ok(24));
}

#[test]
fn sets_like_the_afterstates_of_2048_take_less_than_4_7_bits_a_key() {
    let keys = evenly(1 << 22, 0.175, 1);
    let bytes = encode_sorted(&keys, 1 << 22).expect("sorted");
    let bits = bytes.len() as f64 * 8.0 / keys.len() as f64;
    assert!(bits < 4.7, "{bits:.3} bits a key");
}

#[test]
fn bits_past_the_universe_are_left_out() {
    let words = vec![u64::MAX; 200];
    for universe in [1, 63, 64, 65, 4095, 4096, 4097, 12_000] {
        let all: Vec<u64> = (0..universe).collect();
        assert_eq!(encode_bits(&words, universe), encode_sorted(&all, universe).expect("sorted"));
    }
}

#[test]
fn a_set_reads_the_same_from_an_unaligned_slice() {
    let keys = in_stretches(50_000, 4);
    let bytes = encode_sorted(&keys, 50_000).expect("sorted");
    for shift in 0..9 {
        let mut shifted = vec![0xAA; shift];
        shifted.extend(&bytes);
        let set = IndexSet::open(&shifted[shift..]).expect("opens");
        assert!(set.check().is_ok() && set.iter().eq(keys.iter().copied()));
    }
}

#[test]
fn a_million_keys_rank_and_select_as_in_sux() {
    use sux::dict::EliasFanoBuilder;
    use sux::traits::{IndexedSeq, Pred};
    let universe = 6_000_000;
    let keys = in_stretches(universe, 12);
    assert!(keys.len() > 1_000_000);
    let mut builder = EliasFanoBuilder::new(keys.len(), universe);
    builder.extend(keys.iter().copied());
    let other = builder.build_with_seq_and_dict();
    let set = IndexSet::open(encode_sorted(&keys, universe).expect("sorted")).expect("opens");
    for i in 0..keys.len() {
        assert_eq!(set.select(i as u64), Some(other.get(i)), "select({i})");
    }
    for x in 0..universe {
        assert_eq!(set.rank(x), other.rank(x) as u64, "rank({x})");
    }
}
