use super::{
    Address, AddressTls, Document, FeedDocument, LimitsDocument, ListenerDocument,
    OriginTlsDocument, StorageDocument, TlsDocument,
};

const GUIDE: &str = include_str!("../../../../docs/guide/configuration.md");
const MINIMAL: &str =
    "[[listener]]\nlisten = \"mongodb://127.0.0.1:27018\"\norigin = \"mongodb://db\"";

fn example() -> Document {
    let (_, rest) = GUIDE.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    Document::parse(example, "configuration.md").unwrap()
}

#[test]
fn the_guide_shows_every_option() {
    // Destructured, so that the compiler reports a new option that is missing here.
    let Document { workers, drain_timeout, storage, limits, admin, listeners, edge: _ } = example();
    let StorageDocument {
        capacity,
        memory,
        value_max,
        ttl,
        authorization_lease,
        replacement,
        population,
        hot_threshold,
        hot_period,
        quarantine,
        verify,
        observe,
    } = storage;
    let LimitsDocument {
        connections_max,
        pipeline_max,
        buffered_bytes_max,
        frame_bytes_max,
        coalesce_wait_max,
        connect_timeout,
    } = limits;
    assert!(workers.is_some() && drain_timeout.is_some() && admin.is_some());
    assert!(capacity.is_some() && memory.is_some() && value_max.is_some() && ttl.is_some());
    assert!(replacement.is_some() && population.is_some() && quarantine.is_some());
    assert!(verify.is_some() && !observe);
    assert!(authorization_lease.is_some() && hot_threshold.is_some() && hot_period.is_some());
    assert!(connections_max.is_some() && pipeline_max.is_some() && buffered_bytes_max.is_some());
    assert!(frame_bytes_max.is_some() && coalesce_wait_max.is_some() && connect_timeout.is_some());
    show_every_option_of_a_listener(&listeners);
    let defaults = [
        "observe = false",
        "pass_through = true",
        "cache_queries = false",
        "transparent = false",
        "scripts = \"everything\"",
        "unknown_expiry = \"not-stored\"",
    ];
    for shown in defaults {
        assert!(GUIDE.contains(shown), "{shown}");
    }
}

fn show_every_option_of_a_listener(listeners: &[ListenerDocument]) {
    let any = |shown: fn(&ListenerDocument) -> bool| listeners.iter().any(shown);
    assert!(any(|listener| {
        let ListenerDocument { include, exclude, ttl, unique_fields, advertise, .. } = listener;
        !include.is_empty()
            && !exclude.is_empty()
            && !ttl.is_empty()
            && !unique_fields.is_empty()
            && advertise.is_some()
    }));
    assert!(any(|listener| listener.memory_min.is_some() && listener.memory_max.is_some()));
    assert!(any(|listener| {
        let ListenerDocument { listen: _, origin: _, feed, .. } = listener;
        matches!(feed, Some(FeedDocument { user: Some(_), password_file: Some(_), .. }))
    }));
    assert!(any(|listener| {
        let feed = listener.feed.clone().unwrap_or_default();
        let FeedDocument { access_key, region, endpoint, interval, .. } = feed;
        access_key.is_some() && region.is_some() && endpoint.is_some() && interval.is_some()
    }));
    assert!(any(|listener| listener.credentials_file.is_some()));
    assert!(any(|listener| listener.credentials_url.is_some()));
    assert!(any(|listener| {
        let Some(TlsDocument { cert, key, ca, names, pass_through: _ }) = &listener.tls else {
            return false;
        };
        cert.is_some() && key.is_some() && ca.is_some() && !names.is_empty()
    }));
    assert!(any(|listener| {
        let Some(OriginTlsDocument { ca, cert, key, name }) = &listener.origin_tls else {
            return false;
        };
        ca.is_some() && cert.is_some() && key.is_some() && name.is_some()
    }));
}

#[test]
fn the_guide_shows_several_origins_of_each_protocol_in_one_file() {
    let (example, protocols) = (example(), ["mongodb", "redis", "memcached", "dynamodb"]);
    for protocol in protocols {
        let listeners = example.listeners.iter();
        let origins = listeners.filter(|listener| listener.listen.scheme.name() == protocol);
        assert!(origins.count() > 1, "{protocol}");
    }
    assert_eq!(example.portions(1).len(), example.listeners.len(), "each has a share");
}

#[test]
fn the_guide_shows_the_defaults() {
    let (shown, default) = (example(), Document::parse(MINIMAL, "minimal").unwrap());
    let mut storage = shown.storage();
    storage.memory.items_max = default.storage().memory.items_max;
    assert_eq!(format!("{storage:?}"), format!("{:?}", default.storage()));
    assert_eq!(format!("{:?}", shown.session()), format!("{:?}", default.session()));
    let mut hot = [shown.clone(), default.clone()];
    for document in &mut hot {
        document.storage.population = Some(super::Population::Hot);
        document.storage.capacity = None;
    }
    let [shown_hot, default_hot] = hot;
    assert_eq!(format!("{:?}", shown_hot.storage()), format!("{:?}", default_hot.storage()));

    assert_eq!(shown.limits.connections_max, Some(super::setup::CONNECTIONS_MAX));
    let time = |time: Option<super::Time>| time.unwrap().duration();
    assert_eq!(time(shown.limits.connect_timeout), super::setup::CONNECT_TIMEOUT);
    assert_eq!(time(shown.drain_timeout), super::setup::DRAIN_TIMEOUT);
    let frame_bytes_max = shown.limits.frame_bytes_max.unwrap().count();
    assert_eq!(frame_bytes_max, wire::mongo::frame::Limits::default().frame_bytes_max);
    let written = wire::resp::Limits::default().request_bytes_max / (1 << 20);
    assert!(GUIDE.contains(&format!("default for Redis: {written}MiB")), "{written}");
    let listener = &shown.listeners[1];
    assert_eq!(listener.scripts, super::Scripts::default());
    assert_eq!(listener.unknown_expiry, super::UnknownExpiry::default());
    assert!(!listener.transparent);
}

#[test]
fn an_original_origin_stands_where_it_can() {
    let listener = |listen: &str, origin: &str, more: &str| {
        let text = format!("[[listener]]\nlisten = \"{listen}\"\norigin = \"{origin}\"\n{more}");
        Document::parse(&text, "x").map_err(|error| error.to_string())
    };
    let document = listener("redis://0.0.0.0:6380", "redis://original", "").unwrap();
    assert!(document.listeners[0].origin.is_original());
    assert!(document.listeners[0].is_transparent());
    let named = listener("redis://0.0.0.0:6380", "redis://original:6379", "").unwrap();
    assert!(!named.listeners[0].origin.is_original());
    for (listen, origin, more, expected) in [
        ("redis://original", "redis://db", "", "x:2:10: expected HOST:PORT; only `origin`"),
        (
            "redis://0.0.0.0:6380",
            "redis://original",
            "feed = {}",
            "x:4:8: `feed` cannot be combined with origin",
        ),
    ] {
        let error = listener(listen, origin, more).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_address_says_whether_there_is_tls() {
    let tls = |address: &str| address.parse::<Address>().unwrap().tls;
    let files = AddressTls { ca: Some("/etc/ca.pem".into()), identity: Some("me.pem".into()) };
    for (address, expected) in [
        ("redis://db", None),
        ("rediss://db:6380", Some(AddressTls::default())),
        ("valkeys://db", Some(AddressTls::default())),
        ("mongodb://db/?tls=true", Some(AddressTls::default())),
        ("mongodb://db:1?ssl=true&tlsInsecure=false", Some(AddressTls::default())),
        ("mongodb://db/?tls=false", None),
        (
            "mongodb://db/?tls=true&tlsCAFile=%2Fetc/ca.pem&tlsCertificateKeyFile=me.pem",
            Some(files),
        ),
    ] {
        assert_eq!(tls(address), expected, "{address}");
    }
}
