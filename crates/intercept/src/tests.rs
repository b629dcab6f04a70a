use std::cell::RefCell;

use crate::{Local, MARK, Mode, Name, Network, Plan, kernel};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn plan(mode: Mode, to: &str) -> Plan {
    Plan {
        name: name("enroute"),
        mode,
        port: 27017,
        to: to.parse().unwrap(),
        origins: Vec::new(),
        interfaces: Vec::new(),
        local: None,
        mark: MARK,
    }
}

#[test]
fn redirection_of_what_passes_through() {
    let plan = Plan {
        origins: vec!["10.0.0.5".parse().unwrap(), "10.1.0.0/16".parse().unwrap()],
        interfaces: vec![name("eth0"), name("wg-1.7")],
        ..plan(Mode::Redirect, "0.0.0.0:27018")
    };
    plan.check().unwrap();
    let rules = "\
table inet enroute
delete table inet enroute
table inet enroute {
\tchain passing {
\t\ttype nat hook prerouting priority dstnat; policy accept;
\t\tiifname { \"eth0\", \"wg-1.7\" } fib daddr type != local \
         ip daddr { 10.0.0.5, 10.1.0.0/16 } tcp dport 27017 tcp flags & (syn | ack) == syn counter redirect to :27018
\t}
}
";
    assert_eq!(plan.rules(), rules);
    assert_eq!(plan.routing(), [""; 0]);
}

#[test]
fn redirection_of_local_programs_leaves_the_cache_alone() {
    for (user, written) in [("1337", "1337"), ("enroute", "\"enroute\"")] {
        let plan = Plan {
            local: Some(Local { cache_user: name(user), only: true }),
            ..plan(Mode::Redirect, "127.0.0.1:27018")
        };
        plan.check().unwrap();
        let rules = plan.rules();
        let expected = format!(
            "\t\tmeta skuid != {written} fib daddr type != local meta nfproto ipv4 tcp dport 27017 \
             tcp flags & (syn | ack) == syn counter redirect to :27018\n"
        );
        assert!(rules.contains(&expected) && !rules.contains("prerouting"), "{rules}");
    }
}

#[test]
fn tproxy_brings_its_routing() {
    let plan = plan(Mode::Tproxy, "[::1]:27018");
    plan.check().unwrap();
    let expected = "\
\t\tiifname != \"lo\" socket transparent 1 meta mark set 25966 accept
\t\tiifname != \"lo\" fib daddr type != local meta nfproto ipv6 \
         tcp dport 27017 tcp flags & (syn | ack) == syn counter tproxy ip6 to [::1]:27018 meta mark set 25966 accept\n";
    assert!(plan.rules().contains(expected), "{}", plan.rules());
    let routing =
        ["-6 route replace local ::/0 dev lo table 25966", "-6 rule add fwmark 25966 lookup 25966"];
    assert_eq!(plan.routing(), routing);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let local = Some(Local { cache_user: name("enroute"), only: false });
    let origins = vec!["fd00::/8".parse().unwrap()];
    for (plan, expected) in [
        (plan(Mode::Redirect, "127.0.0.1:27018"), "0.0.0.0:27018"),
        (Plan { local, ..plan(Mode::Tproxy, "127.0.0.1:27018") }, "--mode redirect"),
        (Plan { origins, ..plan(Mode::Redirect, "0.0.0.0:27018") }, "different families"),
        (Plan { mark: 0, ..plan(Mode::Tproxy, "0.0.0.0:27018") }, "--mark: expected"),
    ] {
        let error = plan.check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn nothing_gets_into_a_rule_that_is_not_a_name_or_an_address() {
    for wrong in ["", "a b", "a\"", "a;", "a\n", "eth*", "a@b", "{", &"x".repeat(32)] {
        assert!(wrong.parse::<Name>().is_err(), "{wrong:?}");
    }
    assert!(Name::of_table("1a").is_err() && Name::of_table("enroute-redis").is_ok());
    for wrong in ["", "db.example", "10.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/ 8", "1.1.1.1;"] {
        assert!(wrong.parse::<Network>().is_err(), "{wrong:?}");
    }
}

/// Applies a TPROXY plan to a kernel with the routing rules `before`, while `nft` refuses the
/// table; returns the routing rules and routes afterwards.
fn routing_after_a_refused_plan(before: &str) -> (String, String) {
    const RULE: &str = "32765:\tfrom all fwmark 0x656e lookup 25966\n";
    const ROUTE: &str = "local default dev lo table 25966 scope host\n";
    let (rules, routes) = (RefCell::new(before.to_owned()), RefCell::new(String::new()));
    let run = |tool: &str, arguments: &[&str], _: &str| {
        match (tool, &arguments[1..]) {
            ("nft", _) => return Err("refused"),
            (_, ["rule", "show"]) => return Ok(rules.borrow().clone()),
            (_, ["route", "show", ..]) => return Ok(routes.borrow().clone()),
            (_, ["rule", "add", ..]) => rules.borrow_mut().push_str(RULE),
            (_, ["rule", "del", ..]) => {
                let fewer = rules.borrow().replacen(RULE, "", 1);
                *rules.borrow_mut() = fewer;
            }
            (_, ["route", "replace", ..]) => ROUTE.clone_into(&mut routes.borrow_mut()),
            (_, ["route", "flush", ..]) => routes.borrow_mut().clear(),
            (_, other) => panic!("{other:?}"),
        }
        Ok(String::new())
    };
    let plan = plan(Mode::Tproxy, "127.0.0.1:27018");
    assert_eq!(kernel::apply(&plan, &run), Err("refused"));
    (rules.take(), routes.take())
}

#[test]
fn a_refused_table_leaves_no_routing_behind_unless_it_was_there() {
    assert_eq!(routing_after_a_refused_plan(""), (String::new(), String::new()));
    let rule = "32765:\tfrom all fwmark 0x656e lookup 25966\n";
    let (rules, routes) = routing_after_a_refused_plan(rule);
    assert_eq!(rules, rule, "the rule of before is kept");
    assert!(!routes.is_empty());
}
