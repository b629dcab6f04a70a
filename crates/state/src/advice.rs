//! Groups of keys that share a slot although different hosts use them most.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    report::{Report, TAG},
    slot::{Slot, tag},
};

/// The hot keys of each slot, each with its accesses by every host that reported it.
type Uses = BTreeMap<Slot, BTreeMap<String, Vec<(u64, String)>>>;

/// One line for each slot whose keys different hosts use most, with what to do, from the reports of
/// agents under their names.
#[must_use]
pub fn on_tags(reports: Vec<(String, Report)>) -> Vec<String> {
    let mut uses = Uses::new();
    for (host, report) in reports {
        for (key, times) in report.hot {
            let slot = Slot::of(key.as_bytes());
            uses.entry(slot).or_default().entry(key).or_default().push((times, host.clone()));
        }
    }
    uses.remove(&Slot::of(TAG.as_bytes()));
    uses.into_iter().filter_map(|(slot, keys)| advice(slot, keys)).collect()
}

fn advice(slot: Slot, keys: BTreeMap<String, Vec<(u64, String)>>) -> Option<String> {
    let most = |(key, mut hosts): (String, Vec<(u64, String)>)| {
        hosts.sort();
        hosts.pop().map(|(_, host)| (key, host))
    };
    let keys: Vec<(String, String)> = keys.into_iter().filter_map(most).collect();
    let hosts: BTreeSet<&String> = keys.iter().map(|(_, host)| host).collect();
    if hosts.len() < 2 {
        return None;
    }
    let shown: Vec<String> =
        keys.iter().map(|(key, host)| format!("{key} (used most by {host})")).collect();
    let tagged = keys.iter().any(|(key, _)| tag(key.as_bytes()).is_some());
    let then = if tagged {
        "give the keys of each host their own hash tag"
    } else {
        "give each group a hash tag, as in {group}:name"
    };
    Some(format!("slot {}: {}: {then}", slot.number(), shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_slot_that_different_hosts_use_most_are_named() {
        let report = |hot: &[(&str, u64)]| Report {
            hot: hot.iter().map(|&(key, times)| (key.to_owned(), times)).collect(),
            ..Report::default()
        };
        let reports = vec![
            ("a".to_owned(), report(&[("{x}1", 9), ("{x}2", 1), ("alone", 3), ("{enroute}", 1)])),
            ("b".to_owned(), report(&[("{x}2", 5), ("{enroute}:2", 5)])),
        ];
        let advice = on_tags(reports);
        let slot = Slot::of(b"{x}").number();
        assert_eq!(
            advice,
            [format!(
                "slot {slot}: {{x}}1 (used most by a), {{x}}2 (used most by b): give the keys of each host their own \
                 hash tag"
            )]
        );
    }
}
