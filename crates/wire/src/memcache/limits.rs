//! Limits on the input of the codec.

/// Upper bounds that the codec refuses to pass. No memory is taken because a length was declared;
/// these bound what a caller has to buffer until a message is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// One line of a request or a reply, in bytes. memcached itself takes 2,048 of most commands
    /// and more of `get` and `gets`.
    pub line_bytes_max: usize,
    /// One value, in bytes: memcached's largest `-I`.
    pub value_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes_max: 64 << 10, value_bytes_max: 1 << 30 }
    }
}
