//! Runs one packet through the real program and describes the result.

use std::fmt::Write;

use super::{
    bits::COUNTS,
    packet::{Packet, Tunnelled},
    plane::Plane,
};
use crate::{
    Error,
    explain::name_counted,
    plane::{DROP, PASS},
};

/// Runs `frame`, as if another switch had sent it, and says what the program did with it.
///
/// # Errors
/// The kernel call fails.
pub fn explain(plane: &mut Plane, frame: &[u8]) -> Result<String, Error> {
    let before = plane.counts()?;
    let passed = plane.run(frame, 1)?;
    let after = plane.counts()?;
    let mut out = format!("in      {}\n", describe(frame));
    if let Ok(Packet::Tunnelled(packet)) = Packet::read(frame) {
        let (mapping, accessed) = plane.line_of(packet.inner.1);
        let line = match mapping.is_some() {
            true => {
                let pip = plane.config().address_of(mapping.pip);
                let vip = std::net::Ipv4Addr::from(mapping.vip);
                format!("{vip} is at {pip}, access bit {}", u8::from(accessed))
            }
            false => "empty".to_owned(),
        };
        let _ = writeln!(out, "line    {line} (after the packet)");
    }
    let verdict = match passed.verdict {
        DROP => "dropped",
        PASS if passed.frame == frame => "passes unchanged, to the kernel",
        PASS => "passes changed, to the kernel",
        _ => "sent to the next hop",
    };
    let _ = writeln!(out, "verdict {verdict}");
    name_counted(&mut out, &COUNTS, &before, &after);
    if passed.frame != frame && passed.verdict != DROP {
        let _ = writeln!(out, "out     {}", describe(&passed.frame));
    }
    if let Some(note) = passed.note {
        let kind = if note.invalidation { "invalidation" } else { "learning" };
        let pip = plane.config().address_of(note.mapping.pip);
        let vip = std::net::Ipv4Addr::from(note.mapping.vip);
        let _ = writeln!(out, "also    {kind} packet to {}: {vip} at {pip}", note.destination);
    }
    Ok(out)
}

fn describe(frame: &[u8]) -> String {
    match Packet::read(frame) {
        Err(why) => format!("{} bytes: {why}", frame.len()),
        Ok(Packet::Control(control)) => {
            let kind = if control.invalidation { "invalidation" } else { "learning" };
            let ((from, to), (vip, pip)) = (control.outer, control.mapping);
            format!("{kind} packet {from} > {to}: {vip} at {pip}")
        }
        Ok(Packet::Tunnelled(packet)) => tunnelled(&packet),
    }
}

fn tunnelled(packet: &Tunnelled) -> String {
    let ((from, to), (source, destination)) = (packet.outer, packet.inner);
    let mut out = format!("{source} > {destination} in {from} > {to}");
    let tags = packet.tags.unwrap_or_default();
    if let Some(switch) = tags.hit.checked_sub(1) {
        let _ = write!(out, ", resolved by switch {switch}");
    }
    if let Some((vip, pip)) = tags.entry {
        let what = if tags.promotion { "promotes" } else { "carries" };
        let _ = write!(out, ", {what} {vip} at {pip}");
    }
    if let Some(wrong) = tags.misdelivered_from {
        let _ = write!(out, ", misdelivered to {wrong}");
    }
    if tags.returned {
        out.push_str(", returned by its server");
    }
    out
}
