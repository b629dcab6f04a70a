use super::*;
use crate::{Authority, KeyKind};

#[test]
fn a_wildcard_is_for_one_label() {
    let sites = HashMap::from([("shop.example".to_owned(), 1), ("*.example".to_owned(), 2)]);
    let table = [
        ("shop.example", Some(1)),
        ("other.example", Some(2)),
        ("a.shop.example", None),
        ("example", None),
        ("", None),
    ];
    for (name, found) in table {
        assert_eq!(find(&sites, name).copied(), found, "{name}");
    }
}

#[test]
fn a_key_of_another_pair_is_refused() {
    let authority = Authority::new().unwrap();
    let issued = authority.issue("shop.example", KeyKind::EcdsaP256).unwrap();
    let other = authority.issue("shop.example", KeyKind::EcdsaP256).unwrap();
    let certificates = CertificateChain::from_pem(&issued.certificate).unwrap();
    let read = |key: &[u8]| LocalKey::from_pem(key, &certificates).map(Key::Local);
    assert!(matches!(read(&other.key), Err(Error::OtherKey)));
    assert!(matches!(read(b"no key"), Err(Error::Key(_))));
    let site = Site {
        domain: "shop.example".to_owned(),
        key: read(&issued.key).unwrap(),
        certificates,
        rsa_key_exchange: false,
    };
    assert!(Acceptor::new(&[site]).is_ok());
}
