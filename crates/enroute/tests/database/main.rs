//! End-to-end tests of `enroute db`: compared with redis-server, with its usual clients, through
//! crashes.
//!
//! One behaviour per file. The tests run concurrently in one process and share nothing.

#[path = "../support/mod.rs"]
mod support;

mod database_access_rules_are_those_of_redis_server;
mod database_answers_like_redis_server;
mod database_backup_is_the_state_at_its_point;
mod database_backups_may_be_interrupted;
mod database_bounds_clients_before_login;
mod database_clients_side_by_side_are_answered_like_redis_server;
mod database_directory_has_one_owner;
mod database_directory_may_be_renamed;
mod database_files_are_their_owners_alone;
mod database_goes_to_redis_and_comes_back;
mod database_history_is_linearizable;
mod database_holds_a_latency_with_the_least_memory;
mod database_keeps_strangers_out;
mod database_loses_nothing_acknowledged;
mod database_loses_nothing_under_two_faults_at_once;
mod database_memory_follows_whatever_sets_it;
mod database_names_what_is_missing;
mod database_passes_redis_own_tests;
mod database_pipelines_may_be_cut_anywhere;
mod database_reports_damage_and_never_serves_it;
mod database_says_how_much_memory_is_enough;
mod database_serves_its_clients_while_out_of_descriptors;
mod database_serves_redis_own_clients;
mod database_stays_within_its_memory;
mod database_survives_a_full_disk;
mod database_takes_no_damage_for_a_torn_end;
mod database_times_its_commands;
mod database_tracking_tells_what_redis_tells;
mod database_transactions_are_serializable;
mod restarts_behind_a_socket_of_systemd_refuse_no_client;
