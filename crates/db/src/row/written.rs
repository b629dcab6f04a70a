//! Maximum length of a value that a command writes, known before the command runs.

/// Maximum length of a value that a command writes under one of its keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Written {
    /// The arguments after the key, and this number of bytes more.
    Arguments(usize),
    /// The longest value of its keys, and the arguments after the key.
    Held,
    /// The value of its key, lengthened to this number of bytes, which the arguments say.
    Lengthened(fn(&[&[u8]]) -> usize),
}
