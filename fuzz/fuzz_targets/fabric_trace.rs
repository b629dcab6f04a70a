//! Arbitrary bytes as a trace of flows.
#![no_main]

use fabric::workload::{Protocol, Workload};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(workload) = Workload::parse(bytes, "fuzz", Protocol::Tcp, 64) {
        assert!(workload.flows.len() <= bytes.len(), "more flows than bytes");
    }
});
