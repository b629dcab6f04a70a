//! The rack's data plane in the real kernel, between network namespaces. Needs root.
//!
//! One behaviour per file. The tests run concurrently in one process and share nothing.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

#[path = "../rack/mod.rs"]
mod rack;
#[path = "../support/mod.rs"]
mod support;

mod fabric_rack_gains_by_its_switch;
mod link_command_relays_until_interrupted;
mod switch_answers_like_memcached;
mod switch_attach_that_is_refused_leaves_what_was;
mod switch_believes_no_client_that_speaks_for_it;
mod switch_forgets_what_a_slow_memcached_writes_late;
mod switch_history_over_bad_paths_is_linearizable;
mod switch_serves_a_rack;
mod switch_serves_nothing_that_a_delayed_flush_all_drops;
mod switch_stores_no_answer_to_another_question;
mod switch_v2p_resolves_on_a_router;
mod tunnel_is_a_path_between_namespaces;
