//! Access keys that are lent for some time.

use std::time::Duration;

use super::{NOW, SECRET, TOKEN, vanilla, verify, with_token};
use crate::sigv4::{Credentials, Refusal, lent::Unusable};

#[test]
fn a_lent_access_key_is_known_until_it_expires() {
    let answer = |access_key: &str, secret: &str, minute: u32| {
        format!(
            "{{\"RoleArn\":\"a\",\"AccessKeyId\":\"{access_key}\",\"SecretAccessKey\":\"{secret}\",\
             \"Token\":\"\",\"Expiration\":\"2015-08-30T12:{minute:02}:00Z\"}}"
        )
    };
    let lend = |to: &Credentials, key: &str, secret: &str, minute: u32, now| {
        to.with_lent(answer(key, secret, minute).as_bytes(), now)
    };
    let minute = Duration::from_secs(60);
    let of_file = Credentials::parse("aws_access_key_id = F\naws_secret_access_key = f\n");
    let of_file = of_file.expect("valid");
    let (known, until) = lend(&of_file, "AKIDEXAMPLE", SECRET, 40, NOW).expect("valid");
    assert_eq!((until, known.count(), known.know("F")), (NOW + 4 * minute, 2, true));
    let by = |known: &Credentials, now| verify(&vanilla().text(), "", known, now);
    assert_eq!(by(&known, until - Duration::from_secs(1)), Ok(()));
    assert_eq!(by(&known, until), Err(Refusal::UnknownKey));
    // The next one is lent beside it; what has expired is forgotten.
    let (both, until) = lend(&known, "NEXT", "b", 50, NOW + minute).expect("valid");
    assert_eq!((by(&both, NOW + minute), both.count()), (Ok(()), 3));
    let (later, _) = lend(&both, "LAST", "c", 59, NOW + 5 * minute).expect("valid");
    assert_eq!((later.know("AKIDEXAMPLE"), later.know("NEXT"), later.count()), (false, true, 3));
    // It may be lent for longer, and to a file that is read again.
    let (longer, later) = lend(&both, "NEXT", "b", 55, NOW).expect("valid");
    assert_eq!((longer.count(), later > until), (3, true));
    let mut reread = Credentials::default();
    reread.keep_lent_of(&longer, NOW + 5 * minute);
    assert_eq!((reread.count(), reread.know("NEXT")), (1, true));
    // With a token, which requests must have.
    let of_session = answer("AKIDEXAMPLE", SECRET, 40).replace("\"\"", &format!("\"{TOKEN}\""));
    let (session, _) = of_file.with_lent(of_session.as_bytes(), NOW).expect("valid");
    assert_eq!(by(&session, NOW), Err(Refusal::UnknownKey));
    assert_eq!(verify(&with_token(TOKEN).text(), "", &session, NOW), Ok(()));

    let refused = |to: &Credentials, key: &str, secret: &str, minute: u32| {
        lend(to, key, secret, minute, NOW).map(drop).expect_err("it is refused")
    };
    assert_eq!(refused(&of_file, "A", "a", 36), Unusable::Expired);
    assert_eq!(refused(&of_file, "F", "f", 50), Unusable::Twice);
    assert_eq!(refused(&known, "AKIDEXAMPLE", "other", 50), Unusable::Twice);
    assert_eq!(refused(&of_file, "", "a", 50), Unusable::Form);
    assert_eq!(refused(&of_file, "a/b", "a", 50), Unusable::Form);
    assert_eq!(refused(&of_file, "A", "", 50), Unusable::Form);
    assert_eq!(refused(&of_file, "A", "a", 61), Unusable::Form);
    for answer in ["", "{}", "[]", "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"a\"}"] {
        assert_eq!(of_file.with_lent(answer.as_bytes(), NOW).err(), Some(Unusable::Form));
    }
    let mut full = Credentials::default();
    for number in 0..16 {
        (full, _) = lend(&full, &number.to_string(), "a", 50, NOW).expect("valid");
    }
    assert_eq!(refused(&full, "A", "a", 50), Unusable::TooMany);
}
