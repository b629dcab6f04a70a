//! Edge and key server log a warning before and when a certificate expires, the edge reports the
//! remaining days, and a rejection for this reason is logged on both sides.
use crate::support::{edge::Origin, keyserver::Site, process::until};

const SHOP: &str = "shop.example";
const YEAR_S: i64 = 365 * 86_400;

fn origin() -> Origin {
    Origin::start(|_| (200, "cache-control: max-age=60".into(), "content".into()))
}

#[test]
fn a_site_s_own_is_warned_of_and_counted() {
    let Some(site) = Site::create() else { return };
    let origin = origin();
    let names = ["long.example", "soon.example", "over.example"];
    for (name, seconds) in names.into_iter().zip([YEAR_S, 3 * 86_400, -2 * 86_400 - 60]) {
        site.signed(name, "ca");
        site.ends_in(name, "ca", seconds);
    }
    let sites: String = names.iter().map(|name| site.site(name, origin.address)).collect();
    let edge = site.start("", &sites);
    // Before it serves.
    let said = edge.enroute.process().stderr();
    for warning in [
        "the certificate of soon.example ends in 2 days",
        "the certificate of over.example ended 2 days ago",
    ] {
        assert!(said.contains(warning), "no {warning:?} in\n{said}");
    }
    assert!(!said.contains("long.example ends"), "{said}");
    let metrics = edge.metrics();
    let ends = |name: &str| {
        let metric = "enroute_edge_certificate_not_after_seconds";
        let begin = format!("{metric}{{certificate=\"{name}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&begin));
        line.and_then(|line| line.parse::<i64>().ok()).unwrap_or_else(|| panic!("{metrics}"))
    };
    let enddate = site
        .sh("date -d \"$(openssl x509 -in long.example.pem -noout -enddate | cut -d= -f2)\" +%s");
    assert_eq!(ends("long.example").to_string(), enddate.trim());
    assert_eq!((ends("soon.example") - ends("over.example")) / 86_400, 5);
    let days = |name: &str| edge.statistics()["certificates"][name]["days_left"].as_f64();
    assert!(days("long.example").is_some_and(|days| (363.0..365.1).contains(&days)));
    assert!(days("over.example").is_some_and(|days| days < -2.0));
    // The expired certificate is presented nevertheless: clients report why they refuse it.
    let said = edge.openssl("over.example", "-CAfile ca.pem", "");
    assert!(said.contains("certificate has expired"), "{said}");
}

#[test]
fn one_that_ends_while_it_is_served_is_told_then() {
    let Some(site) = Site::create() else { return };
    let origin = origin();
    site.signed(SHOP, "ca");
    // On a busy machine a short-lived certificate may expire before it is served.
    let is_told = |lives_s: i64| {
        site.ends_in(SHOP, "ca", lives_s);
        let edge = site.start("", &site.site(SHOP, origin.address));
        let told = edge.enroute.process().stderr();
        edge.enroute.stderr_line("the certificate of shop.example ended less than a day ago");
        told.contains("the certificate of shop.example ends in less than a day")
    };
    assert!([4, 15, 40].into_iter().any(is_told), "it is never served before it ends");
}

#[test]
fn a_renewed_one_is_counted_and_watched() {
    let Some(site) = Site::create() else { return };
    let origin = origin();
    site.signed(SHOP, "ca");
    site.ends_in(SHOP, "ca", YEAR_S);
    let edge = site.start("", &site.site(SHOP, origin.address));
    let process = edge.enroute.process();
    let days = || edge.statistics()["certificates"][SHOP]["days_left"].as_f64().expect("a number");
    assert!(days() > 363.0);
    let renew = |lives_s: i64| {
        site.ends_in(SHOP, "ca", lives_s);
        let read = || process.stderr().matches("reloaded").count();
        let before = read();
        process.signal("HUP");
        until("it is read again", || read() > before);
    };
    renew(3 * 86_400);
    assert!((2.0..3.1).contains(&days()), "{}", days());
    // Before it logs that it has read the certificate.
    assert!(process.stderr().contains("the certificate of shop.example ends in 2 days"));
    // It expires in less than an hour, before the next check for the previous one.
    let is_told = |lives_s: i64| {
        let over = || process.stderr().matches("shop.example ended less than a day ago").count();
        let before = over();
        renew(lives_s);
        let told = process.stderr().contains("ends in less than a day");
        until("it has ended", || over() > before);
        told
    };
    assert!([4, 15, 40].into_iter().any(is_told), "it is never read before it ends");
    renew(YEAR_S);
    assert!(days() > 363.0);
    let metric = "not_after_seconds{certificate=\"shop.example\"}";
    assert_eq!(edge.metrics().matches(metric).count(), 1);
    // Each warning is logged once, however often it is checked.
    assert_eq!(process.stderr().matches("ends in 2 days").count(), 1, "{}", process.stderr());
}

/// The certificates of the edge and of the key server on their connection.
#[test]
fn a_refusal_between_edge_and_key_server_says_why_at_both_ends() {
    for (ended, warned) in [
        ("edge1.example", "the certificate of [edge.identity] ended 2 days ago"),
        ("localhost", "the certificate of the key server ended 2 days ago"),
    ] {
        let Some(site) = Site::create() else { return };
        site.certificate(SHOP, "ec");
        site.import(SHOP, &[]);
        site.ends_in(ended, "ca", -2 * 86_400 - 60);
        let server = site.serve(&["--log", "info"]);
        let origin = origin();
        let key = format!("keyserver:{}", server.address);
        let edge =
            site.start(&site.identity("30s"), &site.site_with_key(SHOP, origin.address, &key));
        let by_edge = ended == "edge1.example";
        let warns = if by_edge { edge.enroute.process() } else { server.process() };
        assert!(warns.stderr().contains(warned), "{}", warns.stderr());

        let refused = edge.try_curl(SHOP, "/", &[]).expect_err("no key server signs");
        assert!(refused.contains("alert internal error"), "{refused}");
        let why = edge.enroute.stderr_line("the key server at").to_lowercase();
        assert!(why.contains("expired"), "{why}");
        let heard = server.process().stderr_line(if by_edge { "edge rejected" } else { "xpired" });
        let heard = heard.unwrap_or_else(|| panic!("{}", server.process().stderr())).to_lowercase();
        assert!(heard.contains("expired"), "{heard}");
        until("it is counted", || edge.counted("handshakes_without_key") == 1);
    }
}
