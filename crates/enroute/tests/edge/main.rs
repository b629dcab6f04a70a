//! End-to-end tests of the edge: browsers' requests, failing origins, unreachable key servers.
//!
//! One behaviour per file. The tests run concurrently in one process and share nothing.

#![cfg(feature = "edge")]

#[path = "../support/mod.rs"]
mod support;

mod demo_edge_shows_which_handshakes_need_the_key_server;
mod edge_and_key_server_stand_two_faults_at_once;
mod edge_answers_what_came_before_a_malformed_request;
mod edge_asks_its_key_server_for_the_name_that_clients_want;
mod edge_asks_its_origin_once_for_many;
mod edge_asks_no_more_of_an_origin_at_once_than_it_may;
mod edge_cannot_be_poisoned;
mod edge_counts_of_uploads_what_it_keeps;
mod edge_drops_what_its_database_kept;
mod edge_ends_connections_that_take_nothing;
mod edge_gives_up_an_origin_that_is_silent;
mod edge_goes_on_when_its_origin_fails;
mod edge_hands_no_user_s_page_to_another;
mod edge_hostile_clients_harm_no_other_client;
mod edge_is_told_when_its_key_server_vanishes;
mod edge_keeps_the_rules_of_http_caches;
mod edge_lets_no_request_hide_in_another;
mod edge_memory_stays_bounded_whatever_clients_do;
mod edge_names_clients_without_tls;
mod edge_renews_certificates_while_serving;
mod edge_resumes_without_its_key_server;
mod edge_says_of_a_head_what_a_get_would_say;
mod edge_says_when_certificates_end;
mod edge_speaks_with_curl_and_openssl;
mod edge_stays_stored_whatever_clients_send;
mod edge_stores_nothing_of_one_site_for_another;
mod edge_stores_what_may_be_shared;
mod edge_takes_no_odd_answer_for_another;
mod edge_times_hits_origins_and_key_servers;
