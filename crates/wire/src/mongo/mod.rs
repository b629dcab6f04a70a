//! MongoDB wire protocol.
