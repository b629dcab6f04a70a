//! The `enroute` binary: everything it does stands in the library beside it.
use std::process::ExitCode;

fn main() -> ExitCode {
    enroute::cli::run()
}
