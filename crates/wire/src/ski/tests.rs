use proptest::prelude::*;

use super::*;

fn params() -> Params {
    let mut bytes = vec![3, 0, 23, 65, 4];
    bytes.resize(69, 7);
    Params::decode(&bytes, 0).unwrap()
}

fn exchange() -> Request {
    Request {
        key: KeyId([0xa5; 32]),
        server_name: Some("www.example.org".to_owned()),
        operation: Operation::ServerKeyExchange {
            client_random: [1; 32],
            server_random: [2; 32],
            params: params(),
            signature: Signature::Hash(Hash::Sha256),
        },
    }
}

fn body(method: &str, protocol: &str, more: &str, input: &[u8]) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    format!(
        r#"{{"protocol":"{protocol}","method":"{method}","spki":"{}"{more},"input":"{}"}}"#,
        KeyId([1; 32]),
        STANDARD.encode(input)
    )
    .into_bytes()
}

#[test]
fn requests_survive_the_round_trip() {
    let operations = [
        exchange().operation,
        Operation::ServerKeyExchange {
            client_random: [1; 32],
            server_random: [2; 32],
            params: params(),
            signature: Signature::Scheme(Scheme::RsaPssSha256),
        },
        Operation::CertificateVerify {
            transcript_hash: TranscriptHash::Sha384([9; 48]),
            scheme: Scheme::Ed25519,
        },
        Operation::Premaster { encrypted: vec![3; 256] },
    ];
    for operation in operations {
        for server_name in [None, Some("a.example".to_owned())] {
            let request = Request { operation: operation.clone(), server_name, ..exchange() };
            let bytes = request::encode(&request);
            assert!(bytes.len() < REQUEST_BYTES_MAX);
            assert_eq!(request::decode(&bytes).unwrap(), request);
        }
    }
}

#[test]
fn the_draft_s_own_request_of_133_bytes_is_understood() {
    let input = [&[1; 32][..], &[2; 32], params().bytes()].concat();
    assert_eq!(input.len(), 133);
    let body = body("ECDHE", "TLS 1.2", r#","hash":"SHA-256""#, &input);
    let request = request::decode(&body).unwrap();
    assert!(matches!(
        request.operation,
        Operation::ServerKeyExchange { signature: Signature::Hash(Hash::Sha256), .. }
    ));
}

#[test]
fn a_digest_is_not_something_to_sign() {
    for length in [20, 28, 32, 48, 64] {
        let digest = vec![7; length];
        assert!(
            request::decode(&body("ECDHE", "TLS 1.2", r#","hash":"SHA-256""#, &digest)).is_err(),
            "{length} bytes"
        );
    }
    // A whole CertificateVerify message is also refused: it could be a client's.
    let verify = [&[0x20; 64][..], b"TLS 1.3, client CertificateVerify\0", &[7; 32]].concat();
    let scheme = r#","scheme":"ecdsa_secp256r1_sha256""#;
    assert!(request::decode(&body("CertificateVerify", "TLS 1.3", scheme, &verify)).is_err());
    assert!(request::decode(&body("ECDHE", "TLS 1.2", scheme, &verify)).is_err());
    assert!(request::decode(&body("CertificateVerify", "TLS 1.3", scheme, &[7; 32])).is_ok());
}

#[test]
fn mistakes_are_refused() {
    let good = [&[1; 32][..], &[2; 32], params().bytes()].concat();
    let hash = r#","hash":"SHA-256""#;
    assert!(request::decode(&body("ECDHE", "TLS 1.2", hash, &good)).is_ok());
    for (method, protocol, more) in [
        ("ECDHE", "TLS 1.1", hash),
        ("ECDHE", "TLS 1.3", hash),
        ("SIGN", "TLS 1.2", hash),
        ("ECDHE", "TLS 1.2", ""),
        ("ECDHE", "TLS 1.2", r#","hash":"SHA1""#),
        ("ECDHE", "TLS 1.2", r#","hash":"SHA-256","scheme":"ed25519""#),
        ("ECDHE", "TLS 1.2", r#","hash":"SHA-256","digest":"x""#),
        ("ECDHE", "TLS 1.2", r#","hash":"SHA-256","hash":"SHA-384""#),
        ("ECDHE", "TLS 1.2", r#","hash":"SHA-256","server_name":"a\u0000b""#),
        ("ECDHE", "TLS 1.2", r#","hash":"SHA-256","server_name":"a b""#),
        ("CertificateVerify", "TLS 1.3", r#","scheme":"rsa_pkcs1_sha256""#),
        ("RSA", "TLS 1.2", hash),
    ] {
        let refused = request::decode(&body(method, protocol, more, &good));
        assert!(refused.is_err(), "{method} {protocol} {more}");
    }
    for wrong in [
        [2, 0, 23, 65], // explicit curve
        [3, 0, 25, 65], // P-521
        [3, 0, 23, 64], // wrong length for the curve
        [3, 0, 29, 32], // a curve with shorter points
    ] {
        let mut input = good.clone();
        input[64..68].copy_from_slice(&wrong);
        assert!(request::decode(&body("ECDHE", "TLS 1.2", hash, &input)).is_err(), "{wrong:?}");
    }
    let mut compressed = good;
    compressed[68] = 2;
    assert!(request::decode(&body("ECDHE", "TLS 1.2", hash, &compressed)).is_err());
}

#[test]
fn answers_survive_the_round_trip() {
    for response in [
        Ok(vec![1; 512]),
        Ok(vec![]),
        Err(Refusal::Malformed),
        Err(Refusal::Denied),
        Err(Refusal::NotFound),
        Err(Refusal::Unspecified),
    ] {
        let bytes = response::encode(response.as_deref().map_err(|refusal| *refusal));
        assert_eq!(response::decode(&bytes).unwrap(), response);
    }
    assert!(response::decode(br#"{"error":"sold out"}"#).is_err());
    assert!(response::decode(br#"{"output":"AA==","error":"request denied"}"#).is_err());
}

#[test]
fn schemes_have_one_name_and_one_number_each() {
    for scheme in Scheme::all() {
        assert_eq!(Scheme::named(scheme.name()), Some(scheme));
    }
    assert_eq!(Scheme::numbered(0x0403), Some(Scheme::EcdsaP256Sha256));
    assert_eq!(Scheme::numbered(0x0201), None);
}

proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = request::decode(&bytes);
        let _ = response::decode(&bytes);
    }

    #[test]
    fn no_changed_byte_panics(at in 0..300usize, byte in any::<u8>()) {
        let mut bytes = request::encode(&exchange());
        let length = bytes.len();
        bytes[at % length] = byte;
        if let Ok(request) = request::decode(&bytes) {
            prop_assert_eq!(request::decode(&request::encode(&request)).unwrap(), request);
        }
    }
}
