//! The parts of a request that a client may and may not choose: hosts, targets, headers.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::{
    Added,
    BadTarget::{self, Disagree, Host, Hosts, Path, Scheme},
    Target, Treatment, forwarded, primary_key, treatment,
};

/// Request target, `Host` lines, and the host, port and path that result.
type Request = (
    &'static str,
    &'static [&'static [u8]],
    Result<(&'static str, Option<u16>, &'static str), BadTarget>,
);

const PLAIN: Result<(&str, Option<u16>, &str), BadTarget> = Ok(("shop.example", None, "/a"));

const REQUESTS: &[Request] = &[
    ("/a", &[b"shop.example"], PLAIN),
    ("/a", &[b"SHOP.Example"], PLAIN),
    ("/a", &[b"shop.example."], PLAIN),
    ("/a", &[b"shop.example:443"], PLAIN),
    ("/a", &[b"shop.example:"], PLAIN),
    ("/a", &[b"shop.example.:0443"], PLAIN),
    ("/a", &[b"shop.example:8443"], Ok(("shop.example", Some(8443), "/a"))),
    ("/a", &[b"[::1]:8443"], Ok(("[::1]", Some(8443), "/a"))),
    ("/a", &[b"[::1]"], Ok(("[::1]", None, "/a"))),
    ("/a", &[b"evil.example"], Ok(("evil.example", None, "/a"))),
    ("/a", &[], Err(Hosts(0))),
    ("/a", &[b"shop.example", b"shop.example"], Err(Hosts(2))),
    ("/a", &[b"shop.example", b"evil.example"], Err(Hosts(2))),
    ("/a", &[b""], Err(Host)),
    ("/a", &[b"."], Err(Host)),
    ("/a", &[b"shop.example.."], Err(Host)),
    ("/a", &[b"shop..example"], Err(Host)),
    ("/a", &[b".shop.example"], Err(Host)),
    ("/a", &[b"shop.example:@evil.example"], Err(Host)),
    ("/a", &[b"shop.example:443@evil.example"], Err(Host)),
    ("/a", &[b"user@shop.example"], Err(Host)),
    ("/a", &[b"user:password@shop.example"], Err(Host)),
    ("/a", &[b"shop.example:80:443"], Err(Host)),
    ("/a", &[b"shop.example:x"], Err(Host)),
    ("/a", &[b"shop.example:+443"], Err(Host)),
    ("/a", &[b"shop.example:-1"], Err(Host)),
    ("/a", &[b"shop.example:65536"], Err(Host)),
    ("/a", &[b"shop.example, evil.example"], Err(Host)),
    ("/a", &[b"shop.example evil.example"], Err(Host)),
    ("/a", &[b"shop.example/evil"], Err(Host)),
    ("/a", &[b"shop.example\\evil"], Err(Host)),
    ("/a", &[b"shop.example?x"], Err(Host)),
    ("/a", &[b"shop.example#x"], Err(Host)),
    ("/a", &[b"shop.example;x"], Err(Host)),
    ("/a", &[b"shop%2eexample"], Err(Host)),
    ("/a", &[b"shop.ex\xe4mple"], Err(Host)),
    ("/a", &["shop.exämple".as_bytes()], Err(Host)),
    ("/a", &[b"-shop.example"], Err(Host)),
    ("/a", &[b"\"shop.example\""], Err(Host)),
    ("/a", &[b"[::1"], Err(Host)),
    ("/a", &[b"[shop.example]"], Err(Host)),
    ("/a", &[b"[::1]x"], Err(Host)),
    ("https://shop.example/a", &[], PLAIN),
    ("https://shop.example/a", &[b"shop.example"], PLAIN),
    ("https://shop.example:443/a", &[b"Shop.Example."], PLAIN),
    ("https://shop.example/a", &[b"evil.example"], Err(Disagree)),
    ("https://shop.example/a", &[b"shop.example:8443"], Err(Disagree)),
    ("https://shop.example/a", &[b"shop.example:@evil.example"], Err(Host)),
    ("https://evil@shop.example/a", &[b"shop.example"], Err(Host)),
    ("http://shop.example/a", &[b"shop.example"], Err(Scheme)),
    ("ftp://shop.example/a", &[b"shop.example"], Err(Scheme)),
    ("https://shop.example", &[], Ok(("shop.example", None, "/"))),
    ("https://shop.example?a", &[], Err(Path)),
    ("shop.example:443", &[b"shop.example"], Err(Path)),
    ("*", &[b"shop.example"], Err(Path)),
    ("/", &[b"shop.example"], Ok(("shop.example", None, "/"))),
    ("//evil.example/a", &[b"shop.example"], Ok(("shop.example", None, "//evil.example/a"))),
    ("/a?b=c&b=d", &[b"shop.example"], Ok(("shop.example", None, "/a?b=c&b=d"))),
    ("/a?", &[b"shop.example"], Ok(("shop.example", None, "/a?"))),
    ("/a%2fb", &[b"shop.example"], Ok(("shop.example", None, "/a%2fb"))),
    ("/a/../b", &[b"shop.example"], Ok(("shop.example", None, "/a/../b"))),
    ("/a@evil.example", &[b"shop.example"], Ok(("shop.example", None, "/a@evil.example"))),
];

#[test]
fn a_request_has_one_host_in_one_spelling() {
    let mut failed = Vec::new();
    for (target, hosts, expected) in REQUESTS {
        let mut headers = HeaderMap::new();
        for host in *hosts {
            headers.append("host", HeaderValue::from_bytes(host).expect("a value"));
        }
        let uri = target.parse().expect("a target");
        let found = Target::of(&Method::GET, &uri, &headers);
        let found = found.map(|found| (found.host, found.port, found.uri.to_string()));
        let expected = expected.map(|(host, port, path)| (host.to_owned(), port, path.to_owned()));
        if found != expected {
            failed.push(format!("{target} {hosts:?}: {found:?}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("shop.example"));
    assert!(Target::of(&Method::OPTIONS, &"*".parse().expect("a target"), &headers).is_ok());
}

#[test]
fn each_site_host_and_target_has_a_key_of_its_own() {
    let targets =
        ["/", "//", "/a", "/A", "/a/", "/a?", "/a?b", "/a?b=c", "/a?c=b", "/a%2f", "/a%2F"];
    let mut keys = Vec::new();
    for site in ["shop.example", "*.example"] {
        for host in ["shop.example", "new.example"] {
            let uris = targets.iter().map(|target| target.parse().expect("a target"));
            keys.extend(uris.map(|uri| primary_key(site, host, &uri)));
        }
    }
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all);
}

/// Headers that could make an origin assume another host, path, scheme, client, user or method.
const CLAIMS: &[&str] = &[
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Server",
    "X-Forwarded-Scheme",
    "X-Forwarded-Ssl",
    "X-Forwarded-Path",
    "X-Forwarded-By",
    "X-Forwarded",
    "Forwarded",
    "X-Original-URL",
    "X-Original-Host",
    "X-Original-URI",
    "X-Original-Forwarded-For",
    "X-Rewrite-URL",
    "X-Host",
    "X-HTTP-Host-Override",
    "X-Real-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "True-Client-IP",
    "Client-IP",
    "CF-Connecting-IP",
    "X-Scheme",
    "X-URL-Scheme",
    "Front-End-Https",
    "Proxy",
    "X-SSL-Client-DN",
    "SSL-Client-Verify",
    "X-Client-Cert",
    "X-Remote-User",
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
    "X-Method-Override",
    "X_Forwarded_Host",
    "X-Forwarded_Host",
    "X_Real_IP",
    "X.Forwarded.Host",
    "HTTP2-Settings",
    "Early-Data",
    "Expect",
    "TE",
    "Upgrade",
    "Keep-Alive",
    "Proxy-Connection",
    "Proxy-Authorization",
    "Transfer-Encoding",
];

const ADDED: Added<'_> = Added { host: "shop.example", client: "192.0.2.7", via: "1.1 enroute" };

#[test]
fn no_client_states_its_own_identity_or_target_to_the_origin() {
    for name in CLAIMS {
        let mut headers = HeaderMap::new();
        let parsed = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.append(parsed.clone(), HeaderValue::from_static("evil.example"));
        let sent = forwarded(&Method::GET, &headers, ADDED).expect("headers");
        assert!(!sent.contains_key(parsed), "{name} reaches the origin");
    }
    let kept = ["accept", "accept-language", "user-agent", "referer", "x-requested-with", "origin"];
    for name in kept {
        assert_eq!(treatment(&HeaderName::from_static(name)), Treatment::Passed, "{name}");
    }
}

#[test]
fn what_the_edge_says_of_a_request_is_not_the_clients() {
    let mut headers = HeaderMap::new();
    let connection = "host, x-forwarded-for, x-forwarded-proto, via, cookie";
    for (name, value) in [
        ("host", "evil.example"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("connection", connection),
    ] {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let sent = forwarded(&Method::GET, &headers, ADDED).expect("headers");
    let said = |name: &str| sent.get_all(name).into_iter().map(|v| v.to_str().unwrap()).collect();
    let expected: [(&str, Vec<&str>); 5] = [
        ("host", vec!["shop.example"]),
        ("x-forwarded-for", vec!["192.0.2.7"]),
        ("x-forwarded-proto", vec!["https"]),
        ("via", vec!["1.1 enroute"]),
        ("connection", vec![]),
    ];
    for (name, expected) in expected {
        let said: Vec<&str> = said(name);
        assert_eq!(said, expected, "{name}");
    }
}

#[test]
fn cookies_go_in_one_line_and_methods_are_overridden_only_where_nothing_is_shared() {
    let mut headers = HeaderMap::new();
    for value in ["a=1", "b=2"] {
        headers.append("cookie", HeaderValue::from_static(value));
    }
    headers.append("x-http-method-override", HeaderValue::from_static("PUT"));
    for (method, overridden) in [(Method::GET, false), (Method::HEAD, false), (Method::POST, true)]
    {
        let sent = forwarded(&method, &headers, ADDED).expect("headers");
        assert_eq!(sent["cookie"], "a=1; b=2");
        assert_eq!(sent.contains_key("x-http-method-override"), overridden, "{method}");
    }
}

/// A reference in `Location` or `Content-Location` of the response to `POST /a/b?c`, and the target
/// of the same origin that it names.
const NAMED: &[(&str, Option<&str>)] = &[
    ("/x?y", Some("/x?y")),
    ("/x#y", Some("/x")),
    ("x", Some("/a/x")),
    ("./x/.", Some("/a/x/")),
    ("../x?y=..", Some("/x?y=..")),
    ("../../../x", Some("/x")),
    ("/x/../y/./z", Some("/y/z")),
    ("?d", Some("/a/b?d")),
    ("x?u=http://evil.example:1/", Some("/a/x?u=http://evil.example:1/")),
    ("", None),
    ("#d", None),
    ("https://shop.example", Some("/")),
    ("https://shop.example/x", Some("/x")),
    ("HTTPS://SHOP.example.:443/x", Some("/x")),
    ("https://shop.example?d", Some("/?d")),
    ("//shop.example/x/..", Some("/")),
    ("https://shop.example:8443/x", Some("/x")),
    ("https://shop.example:9443/x", None),
    ("https://evil.example/x", None),
    ("//evil.example/x", None),
    ("https://shop.example:@evil.example/x", None),
    ("http://shop.example/x", None),
    ("https:x", None),
    ("x:/y", None),
    ("\u{e9}", None),
];

#[test]
fn a_change_names_targets_of_its_own_origin_only() {
    let mut asked = HeaderMap::new();
    asked.insert("host", HeaderValue::from_static("shop.example:8443"));
    let uri = "/a/b?c".parse().expect("a target");
    let target = Target::of(&Method::POST, &uri, &asked).expect("a target");
    for (reference, expected) in NAMED {
        for name in ["location", "content-location"] {
            let mut response = HeaderMap::new();
            response.insert(name, HeaderValue::from_bytes(reference.as_bytes()).expect("a value"));
            let found: Vec<String> =
                target.also_changed(&response).map(|uri| uri.to_string()).collect();
            let expected: Vec<&str> = expected.iter().copied().collect();
            assert_eq!(found, expected, "{name}: {reference}");
        }
    }
}
