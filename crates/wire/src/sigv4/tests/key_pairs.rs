//! Signatures of version 4A.

use std::time::Duration;

use super::{NOW, SECRET, TOKEN, changed, credentials, vanilla, verify};
use crate::{
    http1::{Limits, head},
    sigv4::{Credentials, Refusal, Verifier, asymmetric},
};

/// Requests of AWS's suite (`get-vanilla` and `post-sts-header-before`), with the signatures that
/// crate aws-sigv4 1.6.4 makes for them: the same ones each time.
fn by_key_pair(token: bool) -> String {
    let (method, more, signed, signature) = match token {
        false => (
            "GET",
            String::new(),
            "",
            "304502206c8e97f7ed2541ed924ade73b4acf7c40156ee796b1f57156c77319278c93042022\
             100f933779aa3fcbd0279217cd671618552026d099cd2e1770225a5167ac5b6bcfd",
        ),
        true => (
            "POST",
            format!("X-Amz-Security-Token:{TOKEN}\r\n"),
            ";x-amz-security-token",
            "30450220348c59bf51ce8fd38b501a726388594fcdd4f5a388b0f1766ba8a8e982e56b40022\
             1009d095d72a88e25b09bfd015963c91650eaa570a97a34398d62e10772b802a013",
        ),
    };
    format!(
        "{method} / HTTP/1.1\r\nHost:example.amazonaws.com\r\n{more}Authorization:\
         AWS4-ECDSA-P256-SHA256 Credential=AKIDEXAMPLE/20150830/service/aws4_request, \
         SignedHeaders=host;x-amz-date;x-amz-region-set{signed}, Signature={signature}\r\n\
         X-Amz-Date:20150830T123600Z\r\nX-Amz-Region-Set:us-east-1\r\n\r\n"
    )
}

#[test]
fn a_key_pair_is_derived_from_the_secret() {
    let point = asymmetric::public("AKIDEXAMPLE", SECRET).expect("a key");
    let hex: String = point.iter().map(|byte| format!("{byte:02x}")).collect();
    // The public key of AWS's suite.
    assert_eq!(
        hex,
        "04b6618f6a65740a99e650b33b6b4b5bd0d43b176d721a3edfea7e7d2d56d936b1\
         865ed22a7eadc9c5cb9d2cbaca1b3699139fedc5043dc6661864218330c8e518"
    );
}

#[test]
fn the_signatures_of_an_sdk_of_aws_are_verified() {
    assert_eq!(verify(&by_key_pair(false), "", &credentials(""), NOW), Ok(()));
    let session = credentials(&format!("aws_session_token = {TOKEN}\n"));
    assert_eq!(verify(&by_key_pair(true), "", &session, NOW), Ok(()));
    assert_eq!(verify(&by_key_pair(true), "", &credentials(""), NOW), Err(Refusal::UnknownKey));
    assert_eq!(verify(&by_key_pair(false), "", &session, NOW), Err(Refusal::UnknownKey));
    let other = credentials("aws_session_token = other\n");
    assert_eq!(verify(&by_key_pair(true), "", &other, NOW), Err(Refusal::Mismatch));
    // Another secret has another key pair.
    let other = "aws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = other";
    let other = Credentials::parse(other).expect("valid");
    assert_eq!(verify(&by_key_pair(false), "", &other, NOW), Err(Refusal::Mismatch));
}

#[test]
fn anything_that_differs_from_what_a_key_pair_signed_is_refused() {
    let text = by_key_pair(false);
    for (from, to, expected) in [
        ("GET /", "POST /", Refusal::Mismatch),
        ("Host:example", "Host:exemple", Refusal::Mismatch),
        ("Region-Set:us-east-1", "Region-Set:us-east-2", Refusal::Mismatch),
        ("Region-Set:us-east-1", "Region-Set:*", Refusal::Mismatch),
        ("X-Amz-Region-Set:us-east-1\r\n", "", Refusal::Form),
        ("X-Amz-Region-Set:us-east-1", "X-Amz-Region-Set:", Refusal::Form),
        ("X-Amz-Region", "X-Amz-Region-Set:a\r\nX-Amz-Region", Refusal::Form),
        (";x-amz-region-set", "", Refusal::Unsigned),
        ("=host;x-amz-date", "=x-amz-date", Refusal::Unsigned),
        ("X-Amz-Date", "X-Amz-Target: a\r\nX-Amz-Date", Refusal::Unsigned),
        ("304502206c8e", "304502206c8f", Refusal::Mismatch),
        ("5b6bcfd", "5b6bcfd00", Refusal::Mismatch),
        ("5b6bcfd", "5b6bc", Refusal::Mismatch),
        ("5b6bcfd", "5b6bcf", Refusal::Form),
        ("5b6bcfd", "5b6bcfx", Refusal::Form),
        ("5b6bcfd", "5b6bcfd0000", Refusal::Form),
        ("T123600Z", "T123601Z", Refusal::Mismatch),
        ("AKIDEXAMPLE", "AKIDOTHER", Refusal::UnknownKey),
        ("/service/", "/us-east-1/service/", Refusal::Form),
        ("/service/", "/s3/", Refusal::Form),
        ("/20150830", "/20150831", Refusal::Form),
        ("AWS4-ECDSA-P256-SHA256", "AWS4-HMAC-SHA256", Refusal::Form),
    ] {
        assert_eq!(changed(&text, from, to), Err(expected), "{from} {to}");
    }
    assert_eq!(verify(&text, "{}", &credentials(""), NOW), Err(Refusal::Mismatch));
    let late = Duration::from_secs(15 * 60 + 1);
    assert_eq!(verify(&text, "", &credentials(""), NOW + late), Err(Refusal::Skew));
    // The key that is kept is that of the access key.
    let request = head::request(text.as_bytes(), &Limits::default());
    let request = request.expect("valid").expect("whole");
    let both = "[b]\naws_access_key_id = AKIDOTHER\naws_secret_access_key = other\n";
    let (known, mut verifier) = (credentials(both), Verifier::default());
    let mut verified = |text: &str| {
        let request = head::request(text.as_bytes(), &Limits::default());
        let request = request.expect("valid").expect("whole");
        verifier.verify(&request, b"", "service", &known, NOW).map(|signer| signer.by_key_pair)
    };
    assert_eq!(verified(&text), Ok(true));
    assert_eq!(verified(&text.replace("AKIDEXAMPLE", "AKIDOTHER")), Err(Refusal::Mismatch));
    assert_eq!((verified(&text), verified(&vanilla().text())), (Ok(true), Ok(false)));
    // No other request is signed for it.
    let signed = Verifier::default().sign(&request, b"{}", &known);
    assert_eq!(signed, Err(Refusal::Form));
}
