//! Compiles the data plane where clang is; elsewhere the crate is built without it and says so when
//! it is asked for (docs/decisions/0030-the-data-plane-is-compiled-where-clang-is.md).

use std::{env, fs, path::Path, process::Command};

const PROGRAMS: &[&str] = &["switch", "smallest", "again", "flood"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(data_plane)");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=ENROUTE_CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let clang = env::var("ENROUTE_CLANG").unwrap_or_else(|_| "clang".into());
    let out = env::var("OUT_DIR").expect("cargo says where");
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
        .args(["-fdebug-prefix-map=..=.", "-c", &format!("bpf/{program}.bpf.c"), "-o"])
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
