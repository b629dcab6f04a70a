mod key_pairs;
mod lent;

use std::time::Duration;

use proptest::prelude::*;

use super::{
    Credentials, Post, Refusal, Verifier, credentials::Mistake, request::stamp, signature::seconds,
};
use crate::http1::{Limits, head};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
/// 2015-08-30 12:36:00, the time of AWS's test suite.
const NOW: Duration = Duration::from_secs(1_440_938_160);
const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

/// A request of AWS's test suite: first line, further headers, list of signed headers, signature,
/// body.
#[derive(Clone)]
struct Case {
    line: &'static str,
    more: String,
    signed: &'static str,
    signature: &'static str,
    body: &'static str,
}

fn case(
    line: &'static str,
    more: &str,
    signed: &'static str,
    signature: &'static str,
    body: &'static str,
) -> Case {
    Case { line, more: more.to_owned(), signed, signature, body }
}

fn vanilla() -> Case {
    let signature = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
    case("GET /", "", "host;x-amz-date", signature, "")
}

impl Case {
    fn text(&self) -> String {
        let Self { line, more, signed, signature, .. } = self;
        format!(
            "{line} HTTP/1.1\r\nHost:example.amazonaws.com\r\nX-Amz-Date:20150830T123600Z\r\n{more}\
             Authorization: AWS4-HMAC-SHA256 \
             Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={signed}, Signature={signature}\r\n\r\n"
        )
    }

    fn verify(&self) -> Result<(), Refusal> {
        verify(&self.text(), self.body, &credentials(""), NOW)
    }
}

fn credentials(more: &str) -> Credentials {
    let text =
        format!("[a]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key={SECRET}\n{more}");
    Credentials::parse(&text).expect("credentials")
}

fn verify(text: &str, body: &str, credentials: &Credentials, now: Duration) -> Result<(), Refusal> {
    let request = head::request(text.as_bytes(), &Limits::default());
    let request = request.expect("valid").expect("whole");
    let mut verifier = Verifier::default();
    let first = verifier.verify(&request, body.as_bytes(), "service", credentials, now);
    // By the key that was kept.
    assert_eq!(first, verifier.verify(&request, body.as_bytes(), "service", credentials, now));
    let signer = first?;
    assert_eq!((signer.access_key, signer.region), ("AKIDEXAMPLE", "us-east-1"));
    Ok(())
}

/// The cases of AWS's published suite whose path is `/` and that have no query.
#[test]
fn the_signatures_of_the_test_suite_are_verified() {
    for case in [
        vanilla(),
        case(
            "POST /",
            "",
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            "",
        ),
        case(
            "GET /",
            "My-Header1: value1\r\nMy-Header2: \"a   b   c\"\r\n",
            "host;my-header1;my-header2;x-amz-date",
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            "",
        ),
        case(
            "GET /",
            "My-Header1:value2\r\nMy-Header1:value2\r\nMy-Header1:value1\r\n",
            "host;my-header1;x-amz-date",
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            "",
        ),
        case(
            "POST /",
            "Content-Type:application/x-www-form-urlencoded\r\n",
            "content-type;host;x-amz-date",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            "Param1=value1",
        ),
    ] {
        assert_eq!(case.verify(), Ok(()), "{}", case.text());
    }
}

/// The signature that a request gets is the one that its signer would have made.
#[test]
fn a_request_with_another_body_is_signed_by_its_signer() {
    let (first, second) = ("Param1=value1", "Param2=another value");
    let hash = |body: &str| {
        use sha2::{Digest, Sha256};
        String::from_utf8(super::signature::hex(&Sha256::digest(body).into()).to_vec())
            .expect("hex")
    };
    let text = |body: &str| {
        let more =
            format!("x-amz-content-sha256: {}\r\nContent-Length: {}\r\n", hash(body), body.len());
        let signed = "content-length;host;x-amz-content-sha256;x-amz-date";
        let signature = "0".repeat(64);
        Case { line: "POST /", more, signed, signature: String::leak(signature), body: "" }.text()
    };
    let known = credentials("");
    let sign = |from: &str, body: &str| {
        let request = head::request(from.as_bytes(), &Limits::default()).expect("valid");
        let mut out = Vec::new();
        let request = request.expect("whole");
        Verifier::default().write_with_body(&request, body.as_bytes(), &known, &mut out);
        let out = String::from_utf8(out).expect("text");
        let (head, behind) = out.split_once("\r\n\r\n").expect("a head");
        assert_eq!(behind, body);
        format!("{head}\r\n\r\n")
    };
    // Signed without a change, and as another request that is changed into it.
    let (direct, changed) = (sign(&text(second), second), sign(&text(first), second));
    assert_eq!(direct, changed);
    assert_eq!(verify(&direct, second, &known, NOW), Ok(()));
    assert_eq!(verify(&direct, first, &known, NOW), Err(Refusal::Mismatch));
    assert_eq!(sign(&direct, second), direct);
    // The suite has signed this one.
    let vanilla = vanilla().text().replace("Host:", "Host: ").replace("Date:", "Date: ");
    assert_eq!(sign(&vanilla, ""), vanilla);
    let stranger = vanilla.replace("AKIDEXAMPLE", "AKIDOTHER");
    assert_eq!(sign(&stranger, ""), stranger);
}

#[test]
fn a_request_of_the_program_is_verified_by_the_same_rules() {
    let post = |access_key| Post {
        host: "example.amazonaws.com",
        target: "Streams.List",
        content_type: "application/x-amz-json-1.0",
        body: b"{}",
        access_key,
        region: "us-east-1",
        service: "service",
    };
    for more in ["", "aws_session_token = token\n"] {
        let (known, mut out) = (credentials(more), Vec::new());
        let written = Verifier::default().write(&post("AKIDEXAMPLE"), &known, NOW, &mut out);
        assert_eq!(written, Ok(()));
        let text = String::from_utf8(out).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("content-length: 2\r\n") && body == "{}", "{text}");
        let head = format!("{head}\r\n\r\n");
        assert_eq!(verify(&head, "{}", &known, NOW), Ok(()));
        let other = head.replace("Streams.List", "Streams.Else");
        assert_eq!(verify(&other, "{}", &known, NOW), Err(Refusal::Mismatch));
        let written = Verifier::default().write(&post("AKIDOTHER"), &known, NOW, &mut Vec::new());
        assert_eq!(written, Err(Refusal::UnknownKey));
    }
}

fn with_token(token: &str) -> Case {
    let more = format!("X-Amz-Security-Token: {token}\r\n");
    let signature = "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead";
    case("POST /", &more, "host;x-amz-date;x-amz-security-token", signature, "")
}

#[test]
fn temporary_credentials_need_their_own_token() {
    let session = credentials(&format!("aws_session_token = {TOKEN}\n"));
    let by = |case: &Case, credentials: &Credentials| verify(&case.text(), "", credentials, NOW);
    assert_eq!(by(&with_token(TOKEN), &session), Ok(()));
    assert_eq!(by(&with_token(TOKEN), &credentials("")), Err(Refusal::UnknownKey));
    assert_eq!(by(&vanilla(), &session), Err(Refusal::UnknownKey));
    let other = credentials("aws_session_token = other\n");
    assert_eq!(by(&with_token(TOKEN), &other), Err(Refusal::Mismatch));
    // The client has signed its own token, whose signature is that of the case.
    assert_eq!(by(&with_token("other"), &other), Err(Refusal::Mismatch));
    let mut unsigned = with_token(TOKEN);
    unsigned.signed = "host;x-amz-date";
    assert_eq!(by(&unsigned, &session), Err(Refusal::Unsigned));
}

#[test]
fn a_signature_is_good_for_fifteen_minutes_before_and_after_its_time() {
    let at = |now| verify(&vanilla().text(), "", &credentials(""), now);
    let minutes = |count: u64| Duration::from_secs(60 * count);
    assert_eq!((at(NOW - minutes(15)), at(NOW + minutes(15))), (Ok(()), Ok(())));
    let second = Duration::from_secs(1);
    assert_eq!(at(NOW - minutes(15) - second), Err(Refusal::Skew));
    assert_eq!(at(NOW + minutes(15) + second), Err(Refusal::Skew));
    for (time, expected) in [
        ("19700101T000000Z", Some(0)),
        ("20150830T123600Z", Some(1_440_938_160)),
        ("20240229T235959Z", Some(1_709_251_199)),
        ("20000301T000000Z", Some(951_868_800)),
        ("20150830T123600", None),
        ("20151330T123600Z", None),
        ("20150830T243600Z", None),
        ("2015083T0123600Z", None),
        ("+0150830T123600Z", None),
    ] {
        assert_eq!(seconds(time), expected, "{time}");
    }
}

/// The verdict on a request that was changed after it was signed.
fn changed(text: &str, from: &str, to: &str) -> Result<(), Refusal> {
    assert!(text.contains(from), "{from}");
    verify(&text.replace(from, to), "", &credentials(""), NOW)
}

#[test]
fn anything_that_differs_from_what_was_signed_is_refused() {
    let text = vanilla().text();
    for (from, to, expected) in [
        ("GET /", "POST /", Refusal::Mismatch),
        ("Host:example", "Host:exemple", Refusal::Mismatch),
        ("us-east-1", "us-east-2", Refusal::Mismatch),
        ("Signature=5fa", "Signature=6fa", Refusal::Mismatch),
        ("T123600Z", "T123601Z", Refusal::Mismatch),
        ("AKIDEXAMPLE", "AKIDOTHER", Refusal::UnknownKey),
        ("X-Amz-Date", "X-Amz-Target: a\r\nX-Amz-Date", Refusal::Unsigned),
        ("=host;x-amz-date", "=x-amz-date", Refusal::Unsigned),
        ("=host;x-amz-date", "=host", Refusal::Unsigned),
        ("=host;x-amz-date", "=x-amz-date;host", Refusal::Form),
        ("=host;x-amz-date", "=host;host;x-amz-date", Refusal::Form),
        ("=host;x-amz-date", "=Host;x-amz-date", Refusal::Form),
        ("=host;x-amz-date", "=host;other;x-amz-date", Refusal::Form),
        ("/service/", "/s3/", Refusal::Form),
        ("/aws4_request", "/aws4", Refusal::Form),
        ("GET / ", "GET /a ", Refusal::Form),
        ("GET / ", "GET /?a=b ", Refusal::Form),
        ("Signature=5f", "Signature=5F", Refusal::Form),
        ("Signature=5f", "Signature=5g", Refusal::Form),
        ("Signature=5f", "Signature=/f", Refusal::Form),
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", Refusal::Form),
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA512", Refusal::Form),
        ("X-Amz-Date:2015", "X-Amz-Date:2016", Refusal::Form),
        ("X-Amz-Date:", "X-Amz-Date:20150830T123600Z\r\nX-Amz-Date:", Refusal::Form),
        ("Authorization:", "Authorization: a\r\nAuthorization:", Refusal::Form),
        ("Authorization:", "Authentication:", Refusal::Absent),
    ] {
        assert_eq!(changed(&text, from, to), Err(expected), "{from} {to}");
    }
    assert_eq!(verify(&text, "{}", &credentials(""), NOW), Err(Refusal::Mismatch));
    assert_eq!(verify(&text, "", &Credentials::default(), NOW), Err(Refusal::UnknownKey));
    let mut unsigned = vanilla();
    unsigned.more = "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n".to_owned();
    unsigned.signed = "host;x-amz-content-sha256;x-amz-date";
    assert_eq!(unsigned.verify(), Err(Refusal::Mismatch));
}

#[test]
fn a_file_of_credentials_has_profiles() {
    let text = "# comment\n[default]\naws_access_key_id = A\naws_secret_access_key = a = b\nregion = x\n\n\
                [role]\nrole_arn = arn\n  nested\n[session]\naws_access_key_id=B\n\
                aws_secret_access_key=c\naws_session_token=t\n[copy]\naws_secret_access_key = a = b\n\
                aws_access_key_id = A\n";
    let credentials = Credentials::parse(text).expect("valid");
    assert_eq!(credentials.count(), 2);
    assert_eq!(credentials.of("A").expect("A").secret, "a = b");
    assert_eq!(credentials.of("B").expect("B").token.as_deref(), Some("t"));
    assert_eq!(format!("{credentials:?}"), "Credentials(2)");
    let of = |variables: &'static [(&str, &str)]| {
        move |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    };
    let half = of(&[("AWS_ACCESS_KEY_ID", "C")]);
    let parsed = || Credentials::parse(text).expect("valid");
    assert!(matches!(parsed().with_environment(half), Err(Mistake::Half(_))));
    let both = of(&[("AWS_ACCESS_KEY_ID", "C"), ("AWS_SECRET_ACCESS_KEY", "d")]);
    assert_eq!(parsed().with_environment(both).expect("valid").count(), 3);
    let empty = of(&[("AWS_SECRET_ACCESS_KEY", "")]);
    assert_eq!(parsed().with_environment(empty).expect("valid").count(), 2);
}

#[test]
fn a_mistake_in_credentials_shows_no_value() {
    let mistake = |text: &str| Credentials::parse(text).expect_err("a mistake");
    assert_eq!(mistake("[a]\nsecret\n"), Mistake::Line(2));
    let half = "[a]\naws_secret_access_key = hidden\n[b]\n";
    assert_eq!(mistake(half), Mistake::Half("a".to_owned()));
    let twice = "[a]\naws_access_key_id = A\naws_secret_access_key = hidden\n\
                 [b]\naws_access_key_id = A\naws_secret_access_key = other\n";
    assert_eq!(mistake(twice), Mistake::Twice("b".to_owned()));
    for text in [half, twice] {
        assert!(!mistake(text).to_string().contains("hidden"));
    }
}

#[test]
fn access_keys_of_one_group_have_one_holder() {
    let profile = |name: &str, group: &str| {
        format!("[{name}]\naws_access_key_id = {name}\naws_secret_access_key = s\n{group}\n")
    };
    let grouped = [
        ("A", "enroute_group = B"),
        ("C", "enroute_group=B "),
        ("D", "enroute_group = E"),
        ("B", ""),
    ];
    let text: String = grouped.iter().map(|(name, group)| profile(name, group)).collect();
    let holder = |credentials: &Credentials, name| credentials.of(name).expect(name).holder.clone();
    let all = Credentials::parse(&text).expect("valid");
    assert_eq!(holder(&all, "A"), holder(&all, "C"));
    let (a, d, b) = (holder(&all, "A"), holder(&all, "D"), holder(&all, "B"));
    assert!(a != d && a != b && d != b && b == "B", "{a} {b} {d}");
    // The environment has no groups; a key that is in the file too stays in its own.
    let variable = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("A".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("s".to_owned()),
        _ => None,
    };
    assert_eq!(holder(&all.with_environment(variable).expect("valid"), "A"), a);
    let alone = Credentials::default().with_environment(variable).expect("valid");
    assert_eq!(holder(&alone, "A"), "A");
    let other = Credentials::parse(&profile("A", "").replace("= s", "= other")).expect("valid");
    assert!(matches!(other.with_environment(variable), Err(Mistake::Twice(_))));

    let mistake = |text: String| Credentials::parse(&text).expect_err("a mistake");
    let twice = profile("A", "enroute_group = a") + &profile("A", "enroute_group = b");
    assert_eq!(mistake(twice), Mistake::Twice("A".to_owned()));
    let twice = profile("A", "enroute_group = a") + &profile("A", "");
    assert_eq!(mistake(twice), Mistake::Twice("A".to_owned()));
    let again = profile("A", "enroute_group = a\nenroute_group = a");
    assert_eq!(mistake(again), Mistake::Group(5, "a second one"));
    assert_eq!(mistake(profile("A", "enroute_group =")), Mistake::Group(4, "no name"));
    assert_eq!(mistake(profile("A", "enroute_groups = a")), Mistake::Unknown(4));
    let keyless = "[role]\nrole_arn = arn\nenroute_group = a\n".to_owned();
    assert_eq!(mistake(keyless), Mistake::Keyless("role".to_owned()));
}

proptest! {
    #[test]
    fn a_time_is_read_as_it_was_written(time in 0..=253_402_300_799_u64) {
        let text = stamp(Duration::from_secs(time));
        prop_assert_eq!(seconds(&text), Some(time as i64), "{}", text);
    }

    /// One byte is another: a signature that is verified still is the same request, spelled in
    /// another way.
    #[test]
    fn a_damaged_request_is_refused(at in any::<prop::sample::Index>(), byte: u8) {
        let text = vanilla().text();
        let at = at.index(text.len() - 4);
        let mut damaged = text.clone().into_bytes();
        damaged[at] = byte;
        let Ok(Some(request)) = head::request(&damaged, &Limits::default()) else { return Ok(()) };
        let (mut verifier, known) = (Verifier::default(), credentials(""));
        let found = verifier.verify(&request, b"", "service", &known, NOW);
        let is_name = |at: usize| {
            let line = text[..at].rfind('\n').map_or(0, |at| at + 1);
            !text[line..at].contains(':') && line > 0
        };
        let blank = matches!(text.as_bytes()[at], b' ') || byte == b' ' || byte == b'\t';
        let spelled = blank || is_name(at) || text[..at].ends_with("HTTP/1.");
        prop_assert!(found.is_err() || damaged == text.as_bytes() || spelled, "{at} {byte}");
    }
}
