//! `enroute switch measure`: cost and savings of the data plane.

use clap::Args;

use crate::{measure, services::Switch};

#[derive(Debug, Args)]
#[allow(missing_docs, reason = "it would be shown as help")]
pub struct Arguments {
    /// What to measure
    #[arg(value_enum)]
    what: measure::What,

    /// Number of interleaved rounds
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    rounds: usize,
}

impl Arguments {
    /// Measures, and prints the readings as JSON.
    ///
    /// # Errors
    /// As for [`measure::measure`].
    #[allow(clippy::print_stdout, reason = "the output of the command")]
    pub fn run<S: Switch>(&self) -> anyhow::Result<()> {
        let readings = measure::measure::<S>(self.what, self.rounds, |what| eprintln!("{what}"))?;
        print!("{}", serde_json::to_string_pretty(&readings)?);
        Ok(())
    }
}
