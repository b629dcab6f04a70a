//! Models of storage: all interleavings of a few steps, and threads in random schedules. Also tests
//! that need the real storage.

mod a_noisy_origin_takes_no_memory_that_another_uses;
mod a_write_reaches_the_shards_of_its_origin_alone;
mod closed_storage_stores_nothing;
mod every_order_of_writes_and_fills_serves_what_is_right;
mod prefetching_changes_no_answer;
mod threads_of_several_workers_serve_what_is_right;
