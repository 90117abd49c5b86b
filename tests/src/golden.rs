//! The golden values in `tests/golden`, quoted: a test names a number as it stands in the file, so the two cannot drift apart.

const BOARDS_2048: &str = include_str!("../golden/2048-small-boards.md");
const BEAROFF: &str = include_str!("../golden/bearoff.md");
const STATES_4X3: &str = include_str!("../golden/2048-4x3-states-per-age.txt");

/// A number that stands in the file on 2048.
#[track_caller]
pub fn on_2048(number: &str) -> f64 {
    quote(BOARDS_2048, number)
}

/// A count that stands in the file on 2048, with commas.
#[track_caller]
pub fn count_2048(number: &str) -> u64 {
    assert!(BOARDS_2048.contains(number), "{number} does not stand in the golden file");
    number.replace(',', "").parse().expect("a golden count is a number")
}

/// A number that stands in the file on bearoff.
#[track_caller]
pub fn on_bearoff(number: &str) -> f64 {
    quote(BEAROFF, number)
}

/// A count that stands in the file on bearoff, with commas.
#[track_caller]
pub fn count_bearoff(number: &str) -> u64 {
    assert!(BEAROFF.contains(number), "{number} does not stand in the golden file");
    number.replace(',', "").parse().expect("a golden count is a number")
}

/// The MD5 sums of GNU Backgammon's one-sided files that stand in the file on bearoff, for 1, 2, ... points.
pub fn md5_of_one_sided() -> Vec<&'static str> {
    let (_, rest) = BEAROFF.split_once("one-sided, 15 checkers").expect("the golden file has them");
    let (sums, _) = rest.split_once("two-sided").expect("others follow");
    sums_in(sums)
}

/// The MD5 sums of its two-sided files of 6 points, for 1, 2, ... checkers.
pub fn md5_of_two_sided() -> Vec<&'static str> {
    let (_, sums) = BEAROFF.split_once("two-sided, 6 points, cubeful").expect("the golden file has them");
    sums_in(sums)
}

fn sums_in(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| word.trim_end_matches(',')).filter(|word| word.len() == 32).collect()
}

#[track_caller]
fn quote(file: &str, number: &str) -> f64 {
    assert!(file.contains(number), "{number} does not stand in the golden file");
    match number.split_once('/') {
        Some((a, b)) => a.parse::<f64>().expect("a numerator") / b.parse::<f64>().expect("a denominator"),
        None => number.parse().expect("a golden value is a number"),
    }
}

/// Canonical states of every age of 2048 on 4x3, from 4 on.
pub fn states_on_4x3() -> Vec<(u64, u64)> {
    let lines = STATES_4X3.lines().filter(|line| !line.starts_with('#'));
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).expect("the golden file has two numbers a line");
    lines.map(|line| line.split_whitespace()).map(|mut words| (number(words.next()), number(words.next()))).collect()
}

/// Asserts that a value is golden within a relative error.
#[track_caller]
pub fn assert_close(found: f64, golden: f64, relative: f64) {
    let off = (found / golden - 1.0).abs();
    assert!(off <= relative, "{found} should be {golden}: off by {off:e} relatively, {relative:e} is allowed");
}

/// Asserts that a value is golden within an absolute error.
#[track_caller]
pub fn assert_within(found: f64, golden: f64, error: f64) {
    let off = (found - golden).abs();
    assert!(off <= error, "{found} should be {golden}: off by {off:e}, {error:e} is allowed");
}
