//! `keyserver import` replaces an existing record only with `--replace`; `list` shows the stored
//! keys and no secret; `remove` removes one.

use crate::support::keyserver::Site;

#[test]
fn a_stored_key_is_replaced_on_request_only() {
    let Some(site) = Site::create() else { return };
    site.key("site", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    let id = site.import("site", &["--server-name", "www.example.org"]);
    let record = site.record(&id);

    // Neither the key-encryption key nor the names are replaced.
    site.write("other-kek", &format!("{}\n", "22".repeat(32)));
    let vault = site.vault();
    let other = [vault[0], vault[1], "--kek-file", "other-kek"];
    let ended = site.run(&[&["import"], &other[..], &["site.key"]].concat());
    assert!(!ended.status.success(), "{}", ended.stdout);
    assert!(ended.stderr.contains("--replace") && ended.stderr.contains(&id), "{}", ended.stderr);
    assert_eq!(site.record(&id), record);

    let list = |options: &[&str]| {
        let ended = site.run(&[&["list"], options].concat());
        assert!(ended.status.success(), "{}", ended.stderr);
        ended.stdout
    };
    let listed = list(&vault);
    assert!(listed.starts_with(&format!("{id}  EcdsaP256  kek ")), "{listed}");
    assert!(listed.trim_end().ends_with("www.example.org"), "{listed}");
    let kek = |listed: &str| listed.split("kek ").nth(1).expect("an id")[..16].to_owned();
    let first = kek(&listed);
    // Another key-encryption key does not open it, and `list` shows under which it is sealed.
    let unopened = list(&other);
    assert_eq!(kek(&unopened), first, "{unopened}");
    assert!(unopened.contains("not opened"), "{unopened}");

    let replace = site.run(&[&["import", "--replace"], &other[..], &["site.key"]].concat());
    assert!(replace.status.success(), "{}", replace.stderr);
    let listed = list(&other);
    assert!(listed.trim_end().ends_with("any name") && kek(&listed) != first, "{listed}");

    let remove = |id: &str| site.run(&["remove", vault[0], vault[1], id]);
    let removed = remove(&id);
    assert!(removed.status.success() && removed.stderr.contains("SIGHUP"), "{}", removed.stderr);
    assert!(site.record(&id).is_empty() && list(&vault).is_empty());
    let again = remove(&id);
    assert!(!again.status.success() && again.stderr.contains("no record"), "{}", again.stderr);
}
