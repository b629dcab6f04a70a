//! The fabric simulator from the command line: sweeps, traces, views.
//!
//! One behaviour a file. One process runs them side by side; none shares anything with another.

#[path = "../support/mod.rs"]
mod support;

mod fabric_refuses_what_is_wrong_before_it_simulates;
mod fabric_sweep_goes_on_after_a_stop;
mod fabric_trace_saved_is_replayed;
mod fabric_view_shows_a_run;
