//! Commands about the server itself.

pub(super) mod acl;
pub(super) mod commands;
pub(super) mod config;
pub(super) mod debug;
pub(super) mod help;
pub(super) mod info;
pub(super) mod memory;
