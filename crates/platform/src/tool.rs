//! Tools of the system, run as programs: `nft`, `ip`.

use std::{
    env,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

/// Runs a tool with `input` as its standard input and returns what it prints.
///
/// # Errors
/// The tool is not installed, or fails; what it says is in the error.
pub fn run(tool: &str, arguments: &[&str], input: &str) -> anyhow::Result<String> {
    let program = find(tool)?;
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(input.as_bytes())
            .with_context(|| format!("cannot write to the standard input of {tool}"))?;
    }
    let output = child.wait_with_output().with_context(|| format!("cannot run {tool}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{tool} {}` failed: {}", arguments.join(" "), said.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{tool}: expected text in UTF-8 on its standard output"))
}

/// Administrators' tools are often not on other users' PATH.
fn find(tool: &str) -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = places.map(|place| place.join(tool)).find(|program| program.is_file());
    let package = if tool == "nft" { "nftables" } else { "iproute2" };
    found.with_context(|| format!("{tool} is not installed; install the package {package}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = super::find("nothing-is-called-so").unwrap_err().to_string();
        assert!(error.contains("nothing-is-called-so is not installed"), "{error}");
    }
}
