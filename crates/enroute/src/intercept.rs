//! Transparent interception: applies a plan of crate [`intercept`] to the kernel and removes it, by
//! the system tools `nft` and `ip`. Nothing else is added to the kernel.

use std::{
    env, fmt,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use intercept::{Name, Plan, listed, replacement_of};
use rustix::thread::CapabilitySet;

/// Applies the plan, replacing one of the same name.
///
/// # Errors
/// Missing privileges, a missing tool, or an error of the kernel; nothing is applied partly.
pub fn apply(plan: &Plan) -> anyhow::Result<()> {
    plan.check()?;
    require_rights()?;
    // Routing first: it does nothing while no rule marks a packet.
    let was_routed = is_routed(plan.mark)?;
    let applied = add_routing(plan).and_then(|()| run("nft", &["-f", "-"], &plan.rules()));
    let needs_none = plan.routing().is_empty();
    if needs_none || (applied.is_err() && !was_routed) {
        remove_routing(plan.mark)?;
    }
    applied.map(drop)
}

/// Removes the plan of this name and mark from the kernel; no error if there is none.
///
/// # Errors
/// Missing privileges, a missing tool, or an error of the kernel.
pub fn remove(name: &Name, mark: u32) -> anyhow::Result<()> {
    require_rights()?;
    // The table first: without it no packet is marked any more.
    run("nft", &["-f", "-"], &replacement_of(name.as_str()))?;
    remove_routing(mark)
}

/// What is in the kernel.
#[derive(Debug)]
pub struct Status {
    /// The table with its counters, if it is there.
    pub table: Option<String>,
    /// Routing rules and routes of the mark.
    pub routing: Vec<String>,
}

/// Applied rules and routes of this name and mark.
///
/// # Errors
/// Missing privileges, or a missing tool.
pub fn status(name: &Name, mark: u32) -> anyhow::Result<Status> {
    require_rights()?;
    let tables = run("nft", &["list", "tables", "inet"], "")?;
    let table = listed::has_table(&tables, name)
        .then(|| run("nft", &["list", "table", "inet", name.as_str()], ""))
        .transpose()?;
    let mut routing = Vec::new();
    for family in FAMILIES {
        routing.extend(rules_of(family, mark)?.into_iter().map(|rule| format!("rule {rule}")));
        routing.extend(routes_of(family, mark)?.into_iter().map(|route| format!("route {route}")));
    }
    Ok(Status { table, routing })
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.table {
            Some(table) => write!(out, "applied\n{table}")?,
            None => writeln!(out, "not applied")?,
        }
        self.routing.iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

const FAMILIES: [&str; 2] = ["-4", "-6"];

fn add_routing(plan: &Plan) -> anyhow::Result<()> {
    let family = plan.family();
    for command in plan.routing() {
        // Replacing a route may be repeated, adding a rule would make a second one.
        if command.contains(" rule add ") && !rules_of(family, plan.mark)?.is_empty() {
            continue;
        }
        let words: Vec<_> = command.split(' ').collect();
        run("ip", &words, "")?;
    }
    Ok(())
}

fn is_routed(mark: u32) -> anyhow::Result<bool> {
    for family in FAMILIES {
        if !rules_of(family, mark)?.is_empty() || !routes_of(family, mark)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn remove_routing(mark: u32) -> anyhow::Result<()> {
    let number = mark.to_string();
    for family in FAMILIES {
        for _ in rules_of(family, mark)? {
            run("ip", &[family, "rule", "del", "fwmark", &number, "lookup", &number], "")?;
        }
        if !routes_of(family, mark)?.is_empty() {
            run("ip", &[family, "route", "flush", "table", &number], "")?;
        }
    }
    Ok(())
}

fn rules_of(family: &str, mark: u32) -> anyhow::Result<Vec<String>> {
    Ok(listed::rules_of(&run("ip", &[family, "rule", "show"], "")?, mark))
}

fn routes_of(family: &str, mark: u32) -> anyhow::Result<Vec<String>> {
    let every = run("ip", &[family, "route", "show", "table", "all"], "")?;
    Ok(listed::routes_of(&every, mark))
}

fn require_rights() -> anyhow::Result<()> {
    let rights = rustix::thread::capabilities(None)
        .context("cannot read the capabilities of this process")?;
    ensure!(
        rights.effective.contains(CapabilitySet::NET_ADMIN),
        "apply, remove and status need root or CAP_NET_ADMIN; `print` shows the rules without \
         privileges"
    );
    Ok(())
}

/// Runs a tool and returns what it prints.
fn run(tool: &str, arguments: &[&str], input: &str) -> anyhow::Result<String> {
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
