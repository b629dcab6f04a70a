//! Compiles the data plane where clang is; elsewhere the crate is built without it and says so when
//! it is asked for (docs/decisions/0030-the-data-plane-is-compiled-where-clang-is.md).

use std::{env, fmt::Write, fs, path::Path, process::Command};

#[allow(dead_code, unreachable_pub, reason = "the data plane needs who sends what, and no more")]
#[path = "../wire/src/netcache/operation.rs"]
mod operation;

use operation::{Op, Party, TAGS_AHEAD_MAX};

const PROGRAMS: &[&str] = &["switch", "smallest", "again", "flood"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(data_plane)");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../wire/src/netcache/operation.rs");
    println!("cargo::rerun-if-env-changed=ENROUTE_CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let clang = env::var("ENROUTE_CLANG").unwrap_or_else(|_| "clang".into());
    let out = env::var("OUT_DIR").expect("cargo says where");
    let header = Path::new(&out).join("operations.h");
    fs::write(header, operations()).expect("the directory is cargo's");
    if PROGRAMS.iter().all(|program| compile(&clang, program, Path::new(&out))) {
        println!("cargo::rustc-cfg=data_plane");
    }
}

/// Whether there is a compiler; a program that does not compile ends the build.
fn compile(clang: &str, program: &str, out: &Path) -> bool {
    let object = out.join(format!("{program}.bpf.o"));
    // v3: atomic operations that return what was there (kernel 5.12).
    let output = Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-nostdinc", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-sign-compare"])
        .args(["-fdebug-prefix-map=..=.", "-I"])
        .arg(out)
        .args(["-c", &format!("bpf/{program}.bpf.c"), "-o"])
        .arg(&object)
        .output();
    let Ok(output) = output else { return false };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No available targets") || said.contains("unknown target triple") {
        println!("cargo::warning={clang} has no BPF target; the data plane is not built");
        return false;
    }
    assert!(output.status.success(), "{clang} refuses bpf/{program}.bpf.c:\n{said}");
    fs::metadata(&object).is_ok()
}

/// NetCache's operations for the data plane: their numbers, and as bits who sends which.
fn operations() -> String {
    let mut header =
        String::from("// By build.rs, of wire::netcache::operation.\n#pragma once\n\nenum op {\n");
    let mut all = 0u32;
    for op in Op::ALL {
        let mut name = String::new();
        for letter in format!("{op:?}").chars() {
            if letter.is_uppercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        let _ = writeln!(header, "    OP{name} = {},", *op as u8);
        all |= 1 << *op as u8;
    }
    let of = |party| {
        let sent = Op::ALL.iter().filter(|op| op.sender() == party);
        sent.fold(0u32, |bits, op| bits | 1 << *op as u8)
    };
    let (clients, agents) = (of(Party::Client), of(Party::Agent));
    let _ = write!(
        header,
        "}};\n\nenum {{ OPS = {all:#x}, OPS_OF_CLIENTS = {clients:#x}, OPS_OF_AGENTS = {agents:#x} }};\n\n\
         enum {{ TAGS_AHEAD_MAX = {TAGS_AHEAD_MAX} }};\n"
    );
    header
}
