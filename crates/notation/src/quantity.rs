//! Quantities as people write them: `164ms`, `64MiB`, `100mbit`, `0.1%`, `10s..12s`.

use std::{ops::Range, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, de};

/// Parses a duration with its unit: `250us`, `1.5ms`, `2s`, `1min`; a bare `0` needs none.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 6] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("min", 60.0), ("s", 1.0)];
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    scaled(text, &UNITS)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("`{text}` is not a duration; write for example 164ms, 1.5s or 0"))
}

/// Parses a number of bytes, at least one: `512KiB`, `1.5GiB`, `64MB`, `1048576`. `KB`, `MB` and
/// `GB` are powers of ten.
pub fn parse_size(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, f64); 8] = [
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("B", 1.0),
        ("", 1.0),
    ];
    match scaled(text, &UNITS) {
        Some(bytes) if bytes >= 1e18 => Err(format!("`{text}` is too large")),
        Some(bytes) if bytes >= 1.0 => Ok(bytes as usize),
        Some(_) => Err(format!("`{text}`: expected at least 1B")),
        None => Err(format!("`{text}` is not a size; write for example 512KiB, 64MiB or 2GiB")),
    }
}

/// A number of bytes: `512KiB`, `64MiB`, `1.5GiB`, `1048576`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(usize);

impl Bytes {
    /// Number of bytes.
    #[must_use]
    pub fn count(self) -> usize {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_size(text).map(Self)
    }
}

/// A duration with its unit: `250us`, `1.5ms`, `2s`, `5min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(Duration);

impl Time {
    /// The duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self)
    }
}

read_from_text!(Time);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a size, for example \"64MiB\"")]
        enum Written {
            Number(usize),
            Text(String),
        }
        match Written::deserialize(source)? {
            Written::Number(count) => count.to_string().parse().map_err(de::Error::custom),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

/// Parses a number of bytes as Redis writes it: whole numbers, units in either case, `1k` for 1000
/// and `1kb` for 1024. `1KiB` is 1024 too.
pub fn parse_redis_size(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 11] = [
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("kb", 1 << 10),
        ("mb", 1 << 20),
        ("gb", 1 << 30),
        ("k", 1_000),
        ("m", 1_000_000),
        ("g", 1_000_000_000),
        ("b", 1),
        ("", 1),
    ];
    let text = text.to_ascii_lowercase();
    let (count, scale) = split(&text, &UNITS)?;
    let is_whole = count.bytes().all(|byte| byte.is_ascii_digit());
    count.parse::<u64>().ok().filter(|_| is_whole)?.checked_mul(scale)
}

/// Parses a bandwidth into bits per second: `9600bit`, `512kbit`, `100mbit`, `1gbit`.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 4] = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
    match scaled(&text.to_ascii_lowercase(), &UNITS) {
        Some(rate) if rate >= 1.0 => Ok(rate as u64),
        _ => Err(format!("`{text}` is not a rate; write for example 512kbit, 100mbit or 1gbit")),
    }
}

/// Parses a share of lost packets into 0.0 to 1.0: `0.1%`, or `0.001` for the same.
pub fn parse_loss(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    match share {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("`{text}` is not a share from 0% to 100%; write for example 0.1%")),
    }
}

/// A share, from 0 to 1: `1%`, `0.5%`, or `0.005` for the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// The share, from 0 to 1.
    #[must_use]
    pub fn of_one(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_loss(text).map(Self)
    }
}

read_from_text!(Share);

/// Parses a cut as a range of time since the start: `10s..12s`; `10s..` never heals.
pub fn parse_cut(text: &str) -> Result<Range<Duration>, String> {
    let explain = || format!("`{text}` is not a range of time; write for example 10s..12s");
    let (start, end) = text.split_once("..").ok_or_else(explain)?;
    let start = parse_duration(start)?;
    let end = if end.is_empty() { Duration::MAX } else { parse_duration(end)? };
    if start < end { Ok(start..end) } else { Err(explain()) }
}

/// The number in units of 1; at least 0.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, scale) = split(text, units)?;
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * scale)
}

/// The number before the first of `units` that `text` ends with, and what the unit stands for.
fn split<'a, S: Copy>(text: &'a str, units: &[(&str, S)]) -> Option<(&'a str, S)> {
    units.iter().find_map(|&(unit, scale)| Some((text.strip_suffix(unit)?, scale)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("164ms"), Ok(Duration::from_millis(164)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "ms", "-1ms", "nanms", "infs", "1e300s", "1 h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_size("64KB"), Ok(64_000));
        assert_eq!(parse_size("1048576"), Ok(1 << 20));
        for wrong in ["", "0", "0.5B", "-1MiB", "1kb", "64 mib", "infB", "NaN", "1e9GiB", "MiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_as_redis_writes_them() {
        for (text, bytes) in [
            ("0", 0),
            ("100b", 100),
            ("1k", 1_000),
            ("1kb", 1 << 10),
            ("1KiB", 1 << 10),
            ("64MB", 64 << 20),
            ("2g", 2_000_000_000),
            ("2GB", 2 << 30),
            ("9007199254740993", 9_007_199_254_740_993),
        ] {
            assert_eq!(parse_redis_size(text), Some(bytes), "{text}");
        }
        for wrong in ["", "kb", "1.5gb", "+1", "-1", "1 kb", "1kbb", "18446744073709551615kb"] {
            assert_eq!(parse_redis_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(parse_rate("100mbit"), Ok(100_000_000));
        assert_eq!(parse_rate("1.5Gbit"), Ok(1_500_000_000));
        for wrong in ["", "100", "0mbit", "-1mbit", "fast"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn losses() {
        assert_eq!(parse_loss("50%"), Ok(0.5));
        assert_eq!(parse_loss("0.001"), Ok(0.001));
        for wrong in ["", "%", "101%", "-0.1", "2", "NaN"] {
            assert!(parse_loss(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cuts() {
        let seconds = Duration::from_secs;
        assert_eq!(parse_cut("10s..12s"), Ok(seconds(10)..seconds(12)));
        assert_eq!(parse_cut("10s.."), Ok(seconds(10)..Duration::MAX));
        for wrong in ["10s", "12s..10s", "10s..10s", "..3", "a..b"] {
            assert!(parse_cut(wrong).is_err(), "{wrong}");
        }
    }
}
