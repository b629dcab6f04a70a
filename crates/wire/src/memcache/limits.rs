//! Limits on the input of the codec.

/// Upper bounds of the codec. A declared length allocates no memory; these limits bound what a
/// caller must buffer until a message is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// One line of a request or a reply, in bytes. memcached accepts 2,048 for most commands.
    pub line_bytes_max: usize,
    /// The line of `get` or `gets`, which may name thousands of keys.
    pub keys_line_bytes_max: usize,
    /// One value, in bytes: memcached's largest `-I`.
    pub value_bytes_max: usize,
}

impl Limits {
    /// The default limits, with another one for values if it is given.
    #[must_use]
    pub fn of_values(bytes_max: Option<usize>) -> Self {
        let default = Self::default();
        Self { value_bytes_max: bytes_max.unwrap_or(default.value_bytes_max), ..default }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes_max: 64 << 10, keys_line_bytes_max: 1 << 20, value_bytes_max: 1 << 30 }
    }
}
