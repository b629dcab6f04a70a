//! Scripts that declare that they write nothing: `#!lua flags=no-writes`. Servers from Redis 7 on
//! enforce it, and earlier ones cannot compile them.

/// Whether the server refuses all writes of this script.
pub(super) fn forbids_writes(script: &[u8]) -> bool {
    let line = script.split(|&byte| byte == b'\n').next().unwrap_or_default();
    // A script has a second line; quoted text is parsed by other rules.
    if line.len() == script.len() || line.iter().any(|byte| b"\"'\\\0".contains(byte)) {
        return false;
    }
    let mut parts = line.split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
    let mut flags = parts.clone().filter_map(|part| part.strip_prefix(b"flags="));
    parts.next() == Some(b"#!lua")
        && flags.any(|flags| flags.split(|&byte| byte == b',').any(|flag| flag == b"no-writes"))
}

#[cfg(test)]
mod tests {
    use super::forbids_writes;

    #[test]
    fn only_what_the_server_reads_as_the_flag_is_one() {
        let forbid = [
            "#!lua flags=no-writes\nreturn 1",
            "#!lua  flags=allow-stale,no-writes \r\nreturn 1",
            "#!lua flags=allow-stale flags=no-writes\n",
        ];
        for script in forbid {
            assert!(forbids_writes(script.as_bytes()), "{script}");
        }
        let allow = [
            "",
            "return 1",
            "#!lua flags=no-writes",
            "#!lua\n-- flags=no-writes\n",
            "#!lua \"flags=no-writes\"\n",
            "#!lua name=flags=no-writes\n",
            "#!lua flags=no-writes2\n",
            "#!luau flags=no-writes\n",
            " #!lua flags=no-writes\n",
            "\n#!lua flags=no-writes\n",
            "-- #!lua flags=no-writes\n",
        ];
        for script in allow {
            assert!(!forbids_writes(script.as_bytes()), "{script}");
        }
    }
}
