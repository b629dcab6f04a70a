//! End-to-end tests of the key server: edges, unauthenticated clients, keys and the audit log.
//!
//! One behaviour per file. The tests run concurrently in one process and share nothing.

#[path = "../support/mod.rs"]
mod support;

mod keyserver_answers_ecdsa_while_rsa_waits;
mod keyserver_audit_log_has_one_writer;
mod keyserver_audit_shows_tampering;
mod keyserver_denies_what_is_not_allowed;
mod keyserver_goes_on_after_its_log_was_full;
mod keyserver_holds_no_answer_back;
mod keyserver_hostile_requests_harm_no_other_edge;
mod keyserver_is_found_again_by_all_requests;
mod keyserver_keeps_keys_to_itself;
mod keyserver_keys_are_replaced_on_request_only;
mod keyserver_leaves_a_database_that_is_silent;
mod keyserver_leaves_no_trace_of_a_key;
mod keyserver_reads_no_secret_that_other_users_can_read;
mod keyserver_signs_what_openssl_verifies;
mod keyserver_tells_seldom_that_it_cannot_accept;
mod keyserver_times_its_operations;
mod strangers_cannot_fill_its_log;
