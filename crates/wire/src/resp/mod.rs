//! RESP2 and RESP3, the protocol of Redis and Valkey.
