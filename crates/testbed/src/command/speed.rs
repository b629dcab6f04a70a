//! `enroute keyserver speed`: processor time of the operations of a key server.

use std::time::Duration;

use clap::Args;

use crate::{keyserver::speed, services::Random};

#[derive(Debug, Args)]
#[allow(missing_docs, reason = "it would be shown as help")]
pub struct Arguments {
    /// CPU time for each operation, in seconds
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,

    /// Number of decryptions that are compared for each kind of invalid padding; at least 100
    #[arg(long, default_value_t = 2000, value_name = "COUNT", value_parser = at_least_100)]
    samples: usize,
}

fn at_least_100(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count >= 100).ok_or_else(|| "expected 100 or more".into())
}

impl Arguments {
    /// Measures, and prints the report as JSON.
    ///
    /// # Errors
    /// As for [`speed::measure`].
    #[allow(clippy::print_stdout, reason = "the report is what was asked for")]
    pub fn run(&self, random: Random) -> anyhow::Result<()> {
        let each = Duration::try_from_secs_f64(self.seconds)?;
        let report = speed::measure(each, self.samples, random)?;
        println!("{}", serde_json::to_string_pretty(&report)?);
        Ok(())
    }
}
