//! What people see of a run: a line that changes while it lasts, a table at its end.
//!
//! Plain ASCII, so it needs no font; a table is also JSON, for other programs.
//!
//! It is not: a dashboard.
//!
//! Read first: `table.rs`.

mod progress;
mod table;

pub use progress::{Progress, live_line};
pub use table::{Cell, Table};

/// A number as a person reads it: three significant digits, thousands apart.
#[must_use]
pub fn readable(number: f64) -> String {
    if !number.is_finite() {
        return "-".into();
    }
    let decimals = match number.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        _ => 3,
    };
    let text = format!("{number:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut spaced = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            spaced.push(',');
        }
        spaced.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{spaced}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_spaced_thousands() {
        let cases = [
            (0.0, "0.00"),
            (0.0213, "0.021"),
            (1.5, "1.50"),
            (9.999, "10.0"),
            (164.26, "164"),
            (1234.5, "1,234"),
            (999_999.6, "1,000,000"),
            (-1234.0, "-1,234"),
            (f64::NAN, "-"),
        ];
        for (number, text) in cases {
            assert_eq!(readable(number), text);
        }
    }
}
