//! Compiles the data plane if clang is installed. Otherwise the crate is built without it, and
//! `enroute switch attach` reports that it is missing and how to get it.
//!
//! No system header is read (`bpf/kernel.h` has what is needed), so the object depends on the
//! compiler only. It is not committed: it could not be reviewed, and its bytes depend on the
//! compiler. Tests that need the data plane are skipped without it with a printed reason, and fail
//! under `CI=true`.

use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[allow(dead_code, unreachable_pub, reason = "the data plane needs only the senders of operations")]
#[path = "../wire/src/netcache/operation.rs"]
mod operation;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the data plane needs the hash of an address, and no more"
)]
#[path = "../policy/src/v2p/hash.rs"]
mod hash;

#[allow(unreachable_pub, reason = "a module of the crate")]
#[path = "src/v2p/bits.rs"]
mod bits;

use operation::{Op, Party, TAGS_AHEAD_MAX};

const PROGRAMS: &[&str] = &["switch", "smallest", "again", "flood", "v2p", "v2pend", "v2pfloor"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(data_plane)");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../wire/src/netcache/operation.rs");
    println!("cargo::rerun-if-changed=../policy/src/v2p/hash.rs");
    println!("cargo::rerun-if-changed=src/v2p/bits.rs");
    println!("cargo::rerun-if-env-changed=ENROUTE_CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let clang = env::var("ENROUTE_CLANG").unwrap_or_else(|_| "clang".into());
    watch(&clang);
    let out = env::var("OUT_DIR").expect("cargo says where");
    for (name, text) in
        [("operations.h", operations()), ("v2p_bits.h", v2p_bits()), ("v2p_hash.h", v2p_hash())]
    {
        fs::write(Path::new(&out).join(name), text).expect("the directory is cargo's");
    }
    if PROGRAMS.iter().all(|program| compile(&clang, program, Path::new(&out))) {
        println!("cargo::rustc-cfg=data_plane");
    }
}

/// Has cargo run this again when the compiler comes, changes or goes.
///
/// A compiler that is absent has no file to watch, and a missing file would have cargo compile the
/// crate at every build; the directories where it would appear are watched instead.
fn watch(clang: &str) {
    let directories: Vec<PathBuf> = if clang.contains('/') {
        Path::new(clang).parent().map(Path::to_path_buf).into_iter().collect()
    } else {
        env::var_os("PATH").iter().flat_map(env::split_paths).collect()
    };
    let name = Path::new(clang).file_name().unwrap_or_default();
    let found = directories.iter().map(|directory| directory.join(name)).find(|path| path.exists());
    if let Some(program) = found {
        println!("cargo::rerun-if-changed={}", program.display());
        return;
    }
    println!(
        "cargo::warning={clang} is not installed: `enroute switch` is built without its data plane. \
         Install clang, or name one by ENROUTE_CLANG, and build again"
    );
    for directory in directories.iter().filter(|directory| directory.is_dir()) {
        println!("cargo::rerun-if-changed={}", directory.display());
    }
}

/// Whether there is a compiler; a program that does not compile ends the build.
fn compile(clang: &str, program: &str, out: &Path) -> bool {
    let object = out.join(format!("{program}.bpf.o"));
    // The object contains no path of this machine.
    let here = env::current_dir().expect("cargo chose it");
    let unnamed = [&here, out].map(|path| format!("-fdebug-prefix-map={}=.", path.display()));
    // v3: atomic operations that return what was there (kernel 5.12).
    let output = Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-nostdinc", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-sign-compare"])
        .args(unnamed)
        .arg("-I")
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

/// NetCache's operations for the data plane: their numbers, and their senders as bits.
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

/// The rules of a SwitchV2P switch as bits, and the numbers of its counters.
fn v2p_bits() -> String {
    let mut header = String::from("// By build.rs, of src/v2p/bits.rs.\n#pragma once\n\nenum {\n");
    for (bit, name) in bits::RULES.iter().enumerate() {
        let _ = writeln!(header, "    RULE_{name} = 1 << {bit},");
    }
    for (number, (name, _)) in bits::COUNTS.iter().enumerate() {
        let _ = writeln!(header, "    V2P_COUNT_{name} = {number},");
    }
    let _ = writeln!(header, "    V2P_COUNTS = {},\n}};", bits::COUNTS.len());
    header
}

/// The hash of a virtual address is the exclusive or of its bytes' shares, for CRC is linear.
fn v2p_hash() -> String {
    let zero = hash::vip_hash(0);
    let mut header = format!(
        "// By build.rs, of policy::v2p::vip_hash.\n#pragma once\n\n#define V2P_HASH_OF_0 {zero:#x}u\n\n\
         static const u32 v2p_hash[4][256] = {{\n"
    );
    for place in 0..4 {
        let shares =
            (0..256u32).map(|byte| format!("{:#x},", hash::vip_hash(byte << (8 * place)) ^ zero));
        let _ = writeln!(header, "    {{{}}},", shares.collect::<String>());
    }
    header + "};\n"
}
