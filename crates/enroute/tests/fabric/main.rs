//! End-to-end tests of the fabric simulator's commands: sweeps, traces, views.
//!
//! One behaviour per file. The tests run concurrently in one process and share nothing.

#[path = "../support/mod.rs"]
mod support;

mod fabric_refuses_what_is_wrong_before_it_simulates;
mod fabric_sweep_goes_on_after_a_stop;
mod fabric_threads_change_no_result;
mod fabric_trace_saved_is_replayed;
mod fabric_view_shows_a_run;
