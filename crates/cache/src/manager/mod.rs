//! Manager: decides what happens to every flow (VNF-Cache §3.1).
//!
//! The Client Manager answers from storage or forwards the *original* bytes and instructs the
//! Server Manager what to do with the reply; the Server Manager forwards the reply first and fills
//! storage second. Both are halves of [`crate::session::Session`].

mod check;
mod client;
mod many;
mod observe;
mod server;
mod settle;
mod splice;
mod verify;
