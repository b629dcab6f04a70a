//! The `enroute` binary.
fn main() {}
