//! Finds which parts of a plan are in the kernel, in the lists that the system tools print.

use crate::Name;

/// Whether the table is in `nft list tables inet`.
#[must_use]
pub fn has_table(tables: &str, name: &Name) -> bool {
    tables.lines().any(|line| line == format!("table inet {name}"))
}

/// The rules of `ip rule show` that send packets of this mark to the table of this number.
#[must_use]
pub fn rules_of(rules: &str, mark: u32) -> Vec<String> {
    let ours = format!("fwmark {mark:#x} lookup {mark}");
    let rules = rules.lines().map(str::trim).filter(|rule| rule.ends_with(&ours));
    rules.map(str::to_owned).collect()
}

/// The routes of `ip route show table all` that are in the table of this number. Asked for by its
/// number, a table that was never used is an error.
#[must_use]
pub fn routes_of(routes: &str, mark: u32) -> Vec<String> {
    let ours = format!(" table {mark}");
    let routes = routes.lines().map(str::trim).filter(|route| {
        route.split_once(&ours).is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with(' '))
    });
    routes.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_of_the_mark_or_the_name_is_ours() {
        let rules = "0:\tfrom all lookup local\n32765:\tfrom all fwmark 0x656e lookup 25966\n\
                     32764:\tfrom all fwmark 0x656e lookup 259666\n";
        assert_eq!(rules_of(rules, 25_966), ["32765:\tfrom all fwmark 0x656e lookup 25966"]);
        let routes = "local default dev lo table 7 scope host\nlocal ::1 dev lo table 77\n\
                      default via 10.0.0.1 dev eth0\nlocal default dev lo table 7\n";
        assert_eq!(
            routes_of(routes, 7),
            ["local default dev lo table 7 scope host", "local default dev lo table 7"]
        );
        let name: Name = "enroute".parse().expect("a name");
        assert!(has_table("table inet a\ntable inet enroute\n", &name));
        assert!(!has_table("table inet enroute-2\n", &name));
    }
}
