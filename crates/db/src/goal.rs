//! The autoscale target: `p99=1ms,max=4GiB`.

use std::{fmt, str::FromStr, time::Duration};

use notation::{parse_duration, parse_redis_size};

use crate::memory::MEMORY_BYTES_MIN;

/// A latency to be held with the least memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// Time within which 99 of 100 lookups are answered, including waits for the disk.
    pub lookup_p99: Duration,
    /// The most memory the whole process may take for it, in bytes.
    pub memory_bytes_max: u64,
}

/// The shortest latency that may be requested; measurements have steps of about this length.
const LOOKUP_P99_MIN: Duration = Duration::from_micros(2);

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |expected: &str, got: &str| {
            format!("expected {expected}, got `{got}`; for example p99=1ms,max=4GiB")
        };
        let (mut lookup_p99, mut memory_bytes_max) = (None, None);
        for part in text.split(',') {
            match part.trim().split_once('=') {
                Some(("p99", value)) if lookup_p99.is_none() => {
                    let duration = parse_duration(value).ok().filter(is_latency);
                    lookup_p99 = Some(duration.ok_or_else(|| {
                        wrong("p99 in whole microseconds, at least 2us, with its unit", value)
                    })?);
                }
                Some(("max", value)) if memory_bytes_max.is_none() => {
                    let bytes = parse_redis_size(value).filter(|&bytes| bytes >= MEMORY_BYTES_MIN);
                    memory_bytes_max =
                        Some(bytes.ok_or_else(|| wrong("max of at least 32MiB", value))?);
                }
                _ => return Err(wrong("one p99 and one max", text)),
            }
        }
        match (lookup_p99, memory_bytes_max) {
            (Some(lookup_p99), Some(memory_bytes_max)) => Ok(Self { lookup_p99, memory_bytes_max }),
            _ => Err(wrong("both p99 and max", text)),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.lookup_p99.as_micros();
        match micros % 1_000 {
            0 => write!(out, "p99={}ms,", micros / 1_000)?,
            _ => write!(out, "p99={micros}us,")?,
        }
        match self.memory_bytes_max % (1 << 20) {
            0 => write!(out, "max={}MiB", self.memory_bytes_max >> 20),
            _ => write!(out, "max={}", self.memory_bytes_max),
        }
    }
}

/// Whether `p99` is a valid goal. It is shown in whole microseconds.
fn is_latency(p99: &Duration) -> bool {
    *p99 >= LOOKUP_P99_MIN && p99.subsec_nanos().is_multiple_of(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read() {
        for (text, shown) in [
            ("p99=1ms,max=4GiB", "p99=1ms,max=4096MiB"),
            ("max=64mb, p99=250us", "p99=250us,max=64MiB"),
            ("p99=2s,max=100000001", "p99=2000ms,max=100000001"),
            ("p99=1.5ms,max=4GiB", "p99=1500us,max=4096MiB"),
        ] {
            let goal: Goal = text.parse().expect("a goal");
            assert_eq!(goal.to_string(), shown);
            assert_eq!(shown.parse(), Ok(goal));
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for (text, expected) in [
            ("", "one p99 and one max, got ``"),
            ("p99=1ms", "both p99 and max, got `p99=1ms`"),
            ("max=4GiB", "both p99 and max, got `max=4GiB`"),
            ("p99=1,max=4GiB", "at least 2us, with its unit, got `1`"),
            ("p99=1ms,max=1MiB", "max of at least 32MiB, got `1MiB`"),
            ("p99=1us,max=4GiB", "at least 2us, with its unit, got `1us`"),
            (
                "p99=2500ns,max=4GiB",
                "in whole microseconds, at least 2us, with its unit, got `2500ns`",
            ),
            ("p99=1ms,max=4GiB,min=1GiB", "one p99 and one max"),
            ("p99=1ms,p99=2ms,max=4GiB", "one p99 and one max"),
            ("p99=-1ms,max=4GiB", "with its unit, got `-1ms`"),
        ] {
            let error = text.parse::<Goal>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
