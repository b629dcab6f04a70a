//! Models of storage: every order of a few steps, and threads in orders drawn at random.

mod every_order_of_writes_and_fills_serves_what_is_right;
mod threads_of_several_workers_serve_what_is_right;
