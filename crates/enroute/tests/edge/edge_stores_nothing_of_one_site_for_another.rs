//! Two sites of one edge, one with a wildcard that covers the other's names: a response is stored
//! only for the site that fetched it, whatever host a client sends.
use crate::support::{
    edge::{Answer, Edge, Origin},
    tls::Tls,
    workshop::workshop,
};

const SHOP: &str = "shop.owner.example";
const BLOG: &str = "blog.owner.example";

fn origin(name: &'static str) -> Origin {
    Origin::start(move |_| (200, "cache-control: max-age=600".to_owned(), name.to_owned()))
}

/// The page of `host`, requested on a connection for `site`.
fn ask(edge: &Edge<'_>, site: &str, host: &str) -> Answer {
    Tls::connect(edge.address, site, "http/1.1").ask("GET", "/", &format!("Host: {host}"))
}

#[test]
fn a_site_for_all_names_below_has_no_say_in_one_of_them() {
    let Some(workshop) = workshop() else { return };
    // Before there is a file to which the shell could expand the name.
    workshop.certificate("*.owner.example", "ec");
    workshop.certificate(SHOP, "ec");
    let (all, shop) = (origin("all"), origin("shop"));
    let sites = workshop.site("*.owner.example", all.address) + &workshop.site(SHOP, shop.address);
    let edge = workshop.start("", &sites);
    for _ in 0..2 {
        assert_eq!(ask(&edge, BLOG, SHOP).status, 421);
        assert_eq!(ask(&edge, SHOP, BLOG).status, 421);
        assert_eq!(ask(&edge, BLOG, "a.b.owner.example").status, 421);
        assert_eq!(ask(&edge, BLOG, "owner.example").status, 421);
        assert_eq!(ask(&edge, SHOP, SHOP).body, "shop");
        assert_eq!(ask(&edge, BLOG, BLOG).body, "all");
        // One connection serves all names of its site, each with its own content.
        assert_eq!(ask(&edge, BLOG, "news.owner.example").body, "all");
    }
    assert_eq!((shop.asked("/").len(), all.asked("/").len()), (1, 2));
}
