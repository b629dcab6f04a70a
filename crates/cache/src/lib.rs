//! VNF-Cache.
#![forbid(unsafe_code)]
