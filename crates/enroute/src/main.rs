//! The `enroute` binary; its code is in the library of this crate.
use std::process::ExitCode;

fn main() -> ExitCode {
    enroute::cli::run()
}
