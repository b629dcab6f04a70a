//! A plan in the kernel: applied, removed and shown by the system tools `nft` and `ip`, which the
//! caller runs.

use std::fmt;

use crate::{Name, Plan, listed, replacement_of};

/// Runs a tool with arguments and a standard input; returns what it prints.
pub type Run<'r, E> = &'r dyn Fn(&str, &[&str], &str) -> Result<String, E>;

/// Applies the plan, replacing one of the same name.
///
/// # Errors
/// A tool failed; nothing is applied partly.
pub fn apply<E>(plan: &Plan, run: Run<'_, E>) -> Result<(), E> {
    // Routing first: it does nothing while no rule marks a packet.
    let was_routed = is_routed(plan.mark, run)?;
    let applied =
        add_routing(plan, run).and_then(|()| run("nft", &["-f", "-"], &plan.rules()).map(drop));
    let needs_none = plan.routing().is_empty();
    if needs_none || (applied.is_err() && !was_routed) {
        remove_routing(plan.mark, run)?;
    }
    applied
}

/// Removes the plan of this name and mark from the kernel; no error if there is none.
///
/// # Errors
/// A tool failed.
pub fn remove<E>(name: &Name, mark: u32, run: Run<'_, E>) -> Result<(), E> {
    // The table first: without it no packet is marked any more.
    run("nft", &["-f", "-"], &replacement_of(name.as_str()))?;
    remove_routing(mark, run)
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
/// A tool failed.
pub fn status<E>(name: &Name, mark: u32, run: Run<'_, E>) -> Result<Status, E> {
    let tables = run("nft", &["list", "tables", "inet"], "")?;
    let table = listed::has_table(&tables, name)
        .then(|| run("nft", &["list", "table", "inet", name.as_str()], ""))
        .transpose()?;
    let mut routing = Vec::new();
    for family in FAMILIES {
        let rules = rules_of(family, mark, run)?;
        routing.extend(rules.into_iter().map(|rule| format!("rule {rule}")));
        let routes = routes_of(family, mark, run)?;
        routing.extend(routes.into_iter().map(|route| format!("route {route}")));
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

fn add_routing<E>(plan: &Plan, run: Run<'_, E>) -> Result<(), E> {
    let family = plan.family();
    for command in plan.routing() {
        // Replacing a route may be repeated, adding a rule would make a second one.
        if command.contains(" rule add ") && !rules_of(family, plan.mark, run)?.is_empty() {
            continue;
        }
        let words: Vec<_> = command.split(' ').collect();
        run("ip", &words, "")?;
    }
    Ok(())
}

fn is_routed<E>(mark: u32, run: Run<'_, E>) -> Result<bool, E> {
    for family in FAMILIES {
        let is_routed =
            !rules_of(family, mark, run)?.is_empty() || !routes_of(family, mark, run)?.is_empty();
        if is_routed {
            return Ok(true);
        }
    }
    Ok(false)
}

fn remove_routing<E>(mark: u32, run: Run<'_, E>) -> Result<(), E> {
    let number = mark.to_string();
    for family in FAMILIES {
        for _ in rules_of(family, mark, run)? {
            run("ip", &[family, "rule", "del", "fwmark", &number, "lookup", &number], "")?;
        }
        if !routes_of(family, mark, run)?.is_empty() {
            run("ip", &[family, "route", "flush", "table", &number], "")?;
        }
    }
    Ok(())
}

fn rules_of<E>(family: &str, mark: u32, run: Run<'_, E>) -> Result<Vec<String>, E> {
    Ok(listed::rules_of(&run("ip", &[family, "rule", "show"], "")?, mark))
}

fn routes_of<E>(family: &str, mark: u32, run: Run<'_, E>) -> Result<Vec<String>, E> {
    let every = run("ip", &[family, "route", "show", "table", "all"], "")?;
    Ok(listed::routes_of(&every, mark))
}
