//! Numbers as people read and write them: sizes (`256MiB`), fractions (`0.01`, `1%`), counts, times and rates.

use humansize::BINARY;
use indicatif::HumanCount;
use std::time::Duration;

/// A count with its thousands apart: `31,431,374`.
pub fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// A count and the thing counted: `1 layer`, `2 layers`.
pub fn plural(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Bytes in binary units: `256 MiB`.
pub fn bytes(n: u64) -> String {
    humansize::format_size(n, BINARY.decimal_places(if n < 10 << 10 { 2 } else { 1 }).decimal_zeroes(0))
}

/// A length of time, as exact as it matters: `0.42 s`, `8.1 s`, `2 min 05 s`, `3 h 20 min`, `4 d 6 h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole = time.as_secs();
    if seconds < 1.0 {
        format!("{seconds:.2} s")
    } else if seconds < 9.95 {
        format!("{seconds:.1} s")
    } else if seconds < 59.5 {
        format!("{seconds:.0} s")
    } else if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else if whole < 48 * 3600 {
        format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
    } else {
        format!("{} d {} h", whole / 86400, whole % 86400 / 3600)
    }
}

/// Positions a second, in three digits: `12.3 M`.
pub fn rate(per_second: f64) -> String {
    let (scaled, unit) = match per_second {
        r if r >= 999.5e6 => (r / 1e9, " G"),
        r if r >= 999.5e3 => (r / 1e6, " M"),
        r if r >= 999.5 => (r / 1e3, " k"),
        r => (r.max(0.0), ""),
    };
    match scaled {
        s if s >= 99.95 || unit.is_empty() => format!("{s:.0}{unit}"),
        s if s >= 9.995 => format!("{s:.1}{unit}"),
        s => format!("{s:.2}{unit}"),
    }
}

/// A share of the whole: `12.3 %`. 100 % is not said before it is reached.
pub fn percent(done: u64, all: u64) -> String {
    match (done, all) {
        (_, 0) => "0.0 %".into(),
        (d, a) if d >= a => "100 %".into(),
        (d, a) => format!("{:.1} %", (d as f64 / a as f64 * 1000.0).floor() / 10.0),
    }
}

/// Significant digits that are there: a value known to `error` is printed to the first digit of the error and one more.
pub fn value(value: f64, error: f64) -> String {
    let decimals = if error > 0.0 { (1.0 - error.log10().floor()).clamp(0.0, 12.0) } else { 12.0 };
    #[allow(clippy::cast_possible_truncation)] // clamped above
    let text = format!("{value:.*}", decimals as usize);
    if error > 0.0 || !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// An error bound, in two digits.
pub fn bound(error: f64) -> String {
    if error == 0.0 { "0".into() } else { format!("{error:.1e}") }
}

const SIZE_FORM: &str = "write a number and a unit, for example 256MiB, 1.5GiB or 4GB (kB, MB, GB, TB are powers of 1000; KiB, \
     MiB, GiB, TiB and plain K, M, G, T are powers of 1024)";

/// Reads a size in bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(format!("there is no number; {SIZE_FORM}"));
    }
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is not a number; {SIZE_FORM}"))?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(format!("{unit:?} is not a unit; {SIZE_FORM}")),
    };
    let size = number * factor as f64;
    if size < 1.0 {
        return Err("the size must be at least one byte".into());
    }
    if size >= (1u64 << 60) as f64 {
        return Err("the size is larger than any machine".into());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 1 to 2^60
    Ok(size as u64)
}

/// Reads a time like `30s`, `5m` or `1500ms`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = |why: String| format!("{why}; a time is a number with a unit, for example 30s, 5m or 1500ms");
    let time = humantime::parse_duration(text).map_err(|e| wrong(e.to_string()))?;
    if time.is_zero() { Err(wrong("it must be more than nothing".into())) } else { Ok(time) }
}

/// Reads a share of the whole: `0.01`, or `1%`.
pub fn parse_fraction(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let (number, scale) = trimmed.strip_suffix('%').map_or((trimmed, 1.0), |n| (n.trim_end(), 100.0));
    match number.parse::<f64>() {
        Ok(f) if f > 0.0 && f <= scale => Ok(f / scale),
        Ok(_) => Err("the share must be above 0 and at most 1 (or 100%)".into()),
        Err(_) => Err(format!("{number:?} is not a number; write a share such as 0.01 or 1%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, size) in [
            ("1", 1),
            ("4096", 4096),
            ("1KiB", 1024),
            ("1 KiB", 1024),
            ("256MiB", 256 << 20),
            ("256mib", 256 << 20),
            ("256M", 256 << 20),
            ("1.5GiB", 3 << 29),
            ("2GB", 2_000_000_000),
            (" 3kB ", 3000),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn a_bad_size_says_which_part_is_wrong() {
        for (text, part) in [
            ("", "no number"),
            ("MiB", "no number"),
            ("-1MiB", "no number"),
            ("12Q", "\"Q\" is not a unit"),
            ("1MiBs", "\"MiBs\" is not a unit"),
            ("1e9", "\"e9\" is not a unit"),
            ("1.2.3G", "\"1.2.3\" is not a number"),
            (".", "\".\" is not a number"),
            ("0", "at least one byte"),
            ("0.4", "at least one byte"),
            ("99999999TiB", "larger than any machine"),
        ] {
            let error = parse_size(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn fractions_are_shares_or_percentages() {
        for (text, share) in [("1", 1.0), ("0.25", 0.25), ("1%", 0.01), ("100 %", 1.0), ("1e-6", 1e-6)] {
            assert_eq!(parse_fraction(text), Ok(share), "{text}");
        }
        for (text, part) in
            [("0", "above 0"), ("1.5", "at most 1"), ("101%", "at most 1"), ("nan", "above 0"), ("x", "not a number")]
        {
            let error = parse_fraction(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn times_are_as_exact_as_it_matters() {
        for (seconds, text) in [
            (0.0, "0.00 s"),
            (0.42, "0.42 s"),
            (8.12, "8.1 s"),
            (9.96, "10 s"),
            (59.4, "59 s"),
            (125.0, "2 min 05 s"),
            (12_000.0, "3 h 20 min"),
            (367_200.0, "4 d 6 h"),
        ] {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn rates_have_three_digits() {
        for (r, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (1_234.0, "1.23 k"),
            (12_345.0, "12.3 k"),
            (999_600.0, "1.00 M"),
            (29_000_000.0, "29.0 M"),
            (1.5e9, "1.50 G"),
        ] {
            assert_eq!(rate(r), text);
        }
    }

    #[test]
    fn sizes_and_counts_read_well() {
        assert_eq!(count(1_152_817_492_752), "1,152,817,492,752");
        assert_eq!(plural(1, "layer"), "1 layer");
        assert_eq!(plural(1011, "layer"), "1,011 layers");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1024), "1 KiB");
        assert_eq!(bytes(256 << 20), "256 MiB");
        assert_eq!(bytes((3 << 30) + (1 << 29)), "3.5 GiB");
    }

    #[test]
    fn a_hundred_percent_means_all() {
        assert_eq!(percent(9999, 10000), "99.9 %");
        assert_eq!(percent(10000, 10000), "100 %");
        assert_eq!(percent(0, 0), "0.0 %");
    }

    #[test]
    fn values_show_the_digits_that_are_there() {
        assert_eq!(value(66.96414945712599, 1.6e-8), "66.964149457");
        assert_eq!(value(5468.5, 0.0), "5468.5");
        assert_eq!(value(0.0, 0.0), "0");
        assert_eq!(value(100.0, 0.0), "100");
        assert_eq!(value(1.25, 1e-30), "1.250000000000");
    }

    proptest! {
        #[test]
        fn any_text_is_a_size_or_a_sentence(text in ".{0,40}") {
            if let Err(e) = parse_size(&text) { prop_assert!(e.len() > 10) }
            if let Err(e) = parse_fraction(&text) { prop_assert!(e.len() > 10) }
        }

        #[test]
        fn whole_mebibytes_are_exact(n in 1u64..1 << 30) {
            prop_assert_eq!(parse_size(&format!("{n}MiB")), Ok(n << 20));
        }
    }
}
