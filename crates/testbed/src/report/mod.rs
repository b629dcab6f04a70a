//! Output of a run for people: progress lines, and a table at the end.
//!
//! Plain ASCII, so it needs no font; a table is also JSON, for other programs.
//!
//! It is not: a dashboard.
//!
//! Read first: `table.rs`.

use serde_json::Value;

mod progress;
mod table;

pub use progress::{Progress, live_line};
pub use table::Table;

/// Formats a value for people: text unchanged, integers with thousands separators, other numbers
/// with three significant digits.
fn readable(value: &Value) -> String {
    if let Value::String(text) = value {
        return text.clone();
    }
    let text = match value.as_f64() {
        Some(number) if value.is_f64() => {
            let decimals = match number {
                99.95.. => 0,
                9.995.. => 1,
                0.9995.. | 0.0 => 2,
                _ => 3,
            };
            format!("{number:.decimals$}")
        }
        _ => value.to_string(),
    };
    let whole = text.find('.').unwrap_or(text.len());
    let mut spaced = String::new();
    for (index, character) in text.chars().enumerate() {
        if index > 0 && index < whole && (whole - index).is_multiple_of(3) {
            spaced.push(',');
        }
        spaced.push(character);
    }
    spaced
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_have_three_digits_and_spaced_thousands() {
        let cases = [
            (json!("1000 texts"), "1000 texts"),
            (json!(0), "0"),
            (json!(100), "100"),
            (json!(30_000), "30,000"),
            (json!(0.0), "0.00"),
            (json!(0.0213), "0.021"),
            (json!(1.5), "1.50"),
            (json!(9.999), "10.0"),
            (json!(164.26), "164"),
            (json!(1234.5), "1,234"),
            (json!(999_999.6), "1,000,000"),
        ];
        for (value, text) in cases {
            assert_eq!(readable(&value), text);
        }
    }
}
