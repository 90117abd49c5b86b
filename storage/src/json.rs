//! Canonical JSON: the one text that a value has.
//!
//! The form is that of RFC 8785 (JSON Canonicalization Scheme): members sorted by name, no spaces, strings with the fewest escapes,
//! numbers as ECMAScript prints them, which is the shortest text that reads back as the same f64. Integers are printed with all their
//! digits; up to 2^53 that is what the RFC says too. Libraries for it exist in most languages.

use serde::Serialize;
use serde_json::{Number, Value};
use std::fmt::Write;

/// The canonical JSON of a value, without an end of line. Fails on what JSON cannot hold, such as keys that are no strings; numbers that
/// are not finite become `null`, so look for them before.
pub fn canonical_json<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    write_value(&mut out, &serde_json::to_value(value)?);
    Ok(out)
}

pub(crate) fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (i, (name, member)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                write_value(out, member);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, number: &Number) {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(n), _, _) => out.push_str(&n.to_string()),
        (_, Some(n), _) => out.push_str(&n.to_string()),
        (_, _, Some(v)) if v.is_finite() => write_f64(out, v),
        _ => out.push_str("null"),
    }
}

/// As ECMAScript's `Number::toString` does (ECMA-262, 6.1.6.1.20): serde_json gives the shortest digits (of two that are equally near the
/// even one, which `format!` does not), the layout is arranged here.
fn write_f64(out: &mut String, v: f64) {
    if v == 0.0 {
        out.push('0');
        return;
    }
    let text = Number::from_f64(v).map_or_else(String::new, |number| number.to_string());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let negative = mantissa.starts_with('-');
    let (before, after) = mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa.trim_start_matches('-'), ""));
    let all = format!("{before}{after}");
    let significant = all.trim_start_matches('0');
    let digits = significant.trim_end_matches('0');
    let length = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX);
    let count = length(digits);
    // Digits before the decimal point; negative: zeros after it.
    let point = length(before) - (length(&all) - length(significant)) + exponent.parse::<i32>().unwrap_or(0);
    if negative {
        out.push('-');
    }
    let (whole, rest) = digits.split_at(digits.len().min(usize::try_from(point.max(0)).unwrap_or(0)));
    if (1..=21).contains(&point) {
        out.push_str(whole);
        out.extend(std::iter::repeat_n('0', usize::try_from(point - count).unwrap_or(0)));
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
    } else if (-5..=0).contains(&point) {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', usize::try_from(-point).unwrap_or(0)));
        out.push_str(digits);
    } else {
        let (first, others) = digits.split_at(1);
        out.push_str(first);
        if !others.is_empty() {
            out.push('.');
            out.push_str(others);
        }
        // Writing to a string does not fail.
        let _ = write!(out, "e{:+}", point - 1);
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(v: f64) -> String {
        canonical_json(&v).unwrap()
    }

    /// The samples of RFC 8785, appendix B.
    #[test]
    fn numbers_print_as_in_the_rfc() {
        for (bits, text) in [
            (0x0000000000000000, "0"),
            (0x8000000000000000, "0"),
            (0x0000000000000001, "5e-324"),
            (0x8000000000000001, "-5e-324"),
            (0x7fefffffffffffff, "1.7976931348623157e+308"),
            (0xffefffffffffffff, "-1.7976931348623157e+308"),
            (0x4340000000000000, "9007199254740992"),
            (0xc340000000000000, "-9007199254740992"),
            (0x4430000000000000, "295147905179352830000"),
            (0x44b52d02c7e14af5, "9.999999999999997e+22"),
            (0x44b52d02c7e14af6, "1e+23"),
            (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
            (0x444b1ae4d6e2ef4e, "999999999999999700000"),
            (0x444b1ae4d6e2ef4f, "999999999999999900000"),
            (0x444b1ae4d6e2ef50, "1e+21"),
            (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
            (0x3eb0c6f7a0b5ed8d, "0.000001"),
            (0x41b3de4355555553, "333333333.3333332"),
            (0x41b3de4355555554, "333333333.33333325"),
            (0x41b3de4355555555, "333333333.3333333"),
            (0xbecbf647612f3696, "-0.0000033333333333333333"),
            (0x43143ff3c1cb0959, "1424953923781206.2"),
        ] {
            assert_eq!(number(f64::from_bits(bits)), text);
        }
    }

    #[test]
    fn members_are_sorted_and_strings_have_the_fewest_escapes() {
        let value: Value = serde_json::from_str(
            r#"{"\u20ac": "\u001f\u0008/\u00e9\"\\\u007f", "b": [1, 2.50, null], "a": {"y": true, "x": false}}"#,
        )
        .unwrap();
        let text = r#"{"a":{"x":false,"y":true},"b":[1,2.5,null],"€":"#.to_owned() + "\"\\u001f\\b/é\\\"\\\\\u{7f}\"}";
        assert_eq!(canonical_json(&value).unwrap(), text);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]
        #[test]
        fn every_number_reads_back_as_itself(bits: u64) {
            let v = f64::from_bits(bits);
            prop_assume!(v.is_finite());
            prop_assert_eq!(serde_json::from_str::<f64>(&number(v)).unwrap(), v);
        }
    }
}
