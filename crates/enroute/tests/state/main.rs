//! End-to-end tests of the state layer: agents and placers with real clusters.
//!
//! One behaviour per file. The tests run concurrently in one process and share nothing.

#[path = "../support/mod.rs"]
mod support;

mod state_a_deleted_key_stays_deleted;
mod state_a_placer_of_before_is_fenced_off;
mod state_a_refused_slot_comes_back_whole;
mod state_a_slot_always_has_an_owner;
mod state_a_slot_left_open_moves_on_first;
mod state_agent_keeps_strangers_out;
mod state_agent_memory_stays_bounded_whatever_clients_do;
mod state_agent_warns_where_strangers_reach_it;
mod state_clients_see_no_redirection;
mod state_clients_wait_and_listen_as_with_one_server;
mod state_copies_are_coherent;
mod state_history_is_linearizable_while_slots_move;
mod state_history_stands_two_faults_at_once;
mod state_load_is_evened_out;
mod state_logs_in_where_nodes_ask;
mod state_loses_and_repeats_no_write;
mod state_many_nodes_are_served_as_few_are;
mod state_moves_are_made_in_batches;
mod state_placer_obeys_its_operator;
mod state_several_slots_are_served_as_one_server;
mod state_slots_move_to_a_node_that_joins;
mod state_times_commands_and_moves;
mod state_two_placers_never_act_at_once;
mod state_valkey_answers_reads_at_two_nodes_for_a_moment;
