//! Fabrics by name, and from small TOML files.

use std::{collections::BTreeMap, fs, path::Path};

use ::fabric::{
    Error,
    topology::{GatewayRack, Link, Memory, Topology},
};
use anyhow::{Context, bail};
use serde::Deserialize;
use toml::Spanned;

use super::mistake::{Mistake, Syntax};

/// The fabrics of the paper's Table 3.
const BUILT_IN: [&str; 2] = ["ft8-10k", "ft16-400k"];

/// Maximum number of VMs of a topology file: virtual addresses have 32 bits.
const VMS_MAX: u64 = 100_000_000;

/// Finds a built-in fabric, or reads a file.
///
/// # Errors
///
/// The list of valid names, or the mistake in the file with its position.
pub fn find(name: &str) -> anyhow::Result<Topology> {
    match name {
        "ft8-10k" => return Ok(Topology::ft8_10k()),
        "ft16-400k" => return Ok(Topology::ft16_400k()),
        _ => {}
    }
    if !name.ends_with(".toml") {
        let known = BUILT_IN.join(", ");
        let expected = format!("one of {known}, or a file that ends in .toml");
        bail!(Mistake::new("topology", expected, name));
    }
    let text =
        fs::read_to_string(Path::new(name)).with_context(|| format!("cannot read {name}"))?;
    parse(&text, name)
}

/// Reads the text of a file called `name`.
fn parse(text: &str, name: &str) -> anyhow::Result<Topology> {
    let document: Document = toml::from_str(text).map_err(|error| {
        Syntax::new(&error, |span| format!("{name}:{}", notation::place(text, span)))
    })?;
    let located = |mistake: Mistake| {
        let place = format!("{name}:{}", place_of(text, &mistake.what));
        mistake.at(place)
    };
    let topology = document.topology().map_err(located)?;
    topology.check().map_err(|error| match error {
        Error::Topology { what, expected, got } => {
            located(Mistake::new(key_of(what), expected, got)).into()
        }
        other => anyhow::Error::from(other),
    })?;
    Ok(topology)
}

/// Name of a topology field in the file.
fn key_of(field: &'static str) -> &'static str {
    match field {
        "gateways" => "gateway_racks",
        "host_link" | "fabric_link" => "links",
        other => other,
    }
}

/// Line and column of the value of a key; start of the file if the key is missing.
fn place_of(text: &str, key: &str) -> String {
    let document: BTreeMap<String, Spanned<toml::Value>> = toml::from_str(text).unwrap_or_default();
    notation::place(text, document.get(key).map(Spanned::span))
}

/// A topology file. Fields with a default are optional; the defaults are those of the paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    pods: u32,
    racks_per_pod: u32,
    servers_per_rack: u32,
    spines_per_pod: u32,
    cores: u32,
    /// VMs on each server; alternatively `vms` in total, distributed evenly in order.
    vms_per_server: Option<u32>,
    vms: Option<u64>,
    /// Racks with gateways, numbered over all pods.
    #[serde(default)]
    gateway_racks: Vec<u32>,
    #[serde(default)]
    gateways_per_rack: u32,
    #[serde(default)]
    links: Links,
    /// Relative cache memory of a switch, by its role.
    #[serde(default)]
    memory: Roles,
    gateway_delay_us: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Links {
    host_gbps: f64,
    fabric_gbps: f64,
    delay_ns: u64,
    buffer_mib: f64,
}

impl Default for Links {
    fn default() -> Self {
        Self { host_gbps: 100.0, fabric_gbps: 400.0, delay_ns: 1_000, buffer_mib: 32.0 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Roles {
    tor: f64,
    gateway_tor: f64,
    spine: f64,
    gateway_spine: f64,
    core: f64,
}

impl Default for Roles {
    fn default() -> Self {
        let Memory { tor, gateway_tor, spine, gateway_spine, core } = Memory::default();
        Self { tor, gateway_tor, spine, gateway_spine, core }
    }
}

impl Document {
    /// The topology, or the invalid key.
    fn topology(&self) -> Result<Topology, Mistake> {
        let gateways = self.gateway_racks.iter();
        let gateways = gateways
            .map(|&rack| GatewayRack { rack, gateways: self.gateways_per_rack })
            .collect::<Vec<_>>();
        if gateways.is_empty() != (self.gateways_per_rack == 0) {
            let expected = "together with gateways_per_rack, or neither";
            return Err(Mistake::new("gateway_racks", expected, "one of them"));
        }
        let mut topology = Topology::fat_tree(
            self.pods,
            self.racks_per_pod,
            self.servers_per_rack,
            self.spines_per_pod,
            self.cores,
            gateways,
        );
        let servers = u64::from(self.pods)
            .checked_mul(self.racks_per_pod.into())
            .and_then(|racks| racks.checked_mul(self.servers_per_rack.into()))
            .filter(|&servers| (1..=VMS_MAX).contains(&servers))
            .ok_or_else(|| {
                let expected = format!("1 to {VMS_MAX} servers in all racks together");
                Mistake::new("pods", expected, self.pods)
            })?;
        let vms = match (self.vms_per_server, self.vms) {
            (Some(each), None) => u64::from(each) * servers,
            (None, Some(all)) => all,
            (Some(_), Some(_)) => {
                return Err(Mistake::new("vms", "either vms_per_server or vms", "both"));
            }
            (None, None) => {
                return Err(Mistake::new("vms", "either vms_per_server or vms", "neither"));
            }
        };
        if !(2..=VMS_MAX).contains(&vms) {
            let key = if self.vms.is_some() { "vms" } else { "vms_per_server" };
            return Err(Mistake::new(key, format!("2 to {VMS_MAX} VMs"), vms));
        }
        topology.placement = (0..vms).map(|vm| (vm * servers / vms) as u32).collect();
        let links = &self.links;
        let link = |gbps: f64| Link { rate_bps: (gbps * 1e9) as u64, delay_ns: links.delay_ns };
        topology.host_link = link(links.host_gbps);
        topology.fabric_link = link(links.fabric_gbps);
        topology.buffer_bytes = (links.buffer_mib * 1_048_576.0) as u64;
        if let Some(delay_us) = self.gateway_delay_us {
            topology.gateway_delay_ns = (delay_us * 1e3) as u64;
        }
        let Roles { tor, gateway_tor, spine, gateway_spine, core } = self.memory;
        let shares = [tor, gateway_tor, spine, gateway_spine, core];
        if let Some(share) = shares.iter().find(|share| !(0.0..).contains(*share)) {
            return Err(Mistake::new("memory", "shares of 0 or more", share));
        }
        topology.memory = Memory { tor, gateway_tor, spine, gateway_spine, core };
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FT8: &str = "\
pods = 8
racks_per_pod = 4
servers_per_rack = 4
spines_per_pod = 4
cores = 16
vms_per_server = 80
gateway_racks = [0, 10, 20, 31]
gateways_per_rack = 10
";

    #[test]
    fn a_file_can_say_what_is_built_in() {
        assert_eq!(parse(FT8, "x.toml").unwrap(), Topology::ft8_10k());
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            (
                "cores = 16",
                "cores = 15",
                "x.toml:5:9: cores: expected a multiple of spines_per_pod, got 15",
            ),
            ("pods = 8", "pods = 0", "x.toml:1:8: pods: expected 1 to"),
            ("pods = 8", "pods = 8\npodz = 1", "x.toml:2:1: unknown field `podz`, expected one of"),
            ("vms_per_server = 80", "", "expected either vms_per_server or vms"),
            ("gateways_per_rack = 10", "", "x.toml:7:17: gateway_racks: expected together"),
            (
                "gateway_racks = [0, 10, 20, 31]",
                "gateway_racks = [32]",
                "x.toml:7:17: gateway_racks: expected a rack number below 32, got 32",
            ),
            (
                "gateways_per_rack = 10",
                "gateways_per_rack = 10\n[links]\nhost_gbps = 0",
                "x.toml:9:1: links: expected a rate above 0",
            ),
            ("pods = 8", "pods = \"8\"", "x.toml:1:8"),
        ];
        for (from, to, expected) in cases {
            let error = format!("{:#}", parse(&FT8.replace(from, to), "x.toml").unwrap_err());
            assert!(error.contains(expected), "{to:?}: {error}");
        }
    }

    #[test]
    fn a_bad_name_lists_the_good_ones() {
        let error = find("ft8").unwrap_err().to_string();
        assert!(error.contains("ft8-10k, ft16-400k") && error.contains(".toml"), "{error}");
    }
}
