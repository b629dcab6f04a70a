//! The key server with third-party tools: curl sends requests over both HTTP versions; openssl
//! verifies the signatures, encrypts the premaster secrets, and is refused without a certificate.

use crate::support::{
    keyserver::{Site, exchange_request, premaster_request, verify_request},
    process::until,
};

/// Verifies a signature of `message` by the key `name` with openssl.
fn verify(site: &Site, name: &str, digest: &str, message: &[u8], signature: &[u8]) {
    std::fs::write(site.path("message"), message).unwrap();
    std::fs::write(site.path("signature"), signature).unwrap();
    let options = match digest {
        "ed25519" => "-rawin".to_owned(),
        "pss" => "-rawin -digest sha256 -pkeyopt rsa_padding_mode:pss".to_owned(),
        digest => format!("-rawin -digest {digest}"),
    };
    site.sh(&format!(
        "openssl pkeyutl -verify -pubin -inkey {name}.pub -in message -sigfile signature {options}"
    ));
}

#[test]
fn every_kind_of_key_signs_both_versions_of_tls() {
    let Some(site) = Site::create() else { return };
    let kinds = [
        (
            "p256",
            "-algorithm EC -pkeyopt ec_paramgen_curve:P-256",
            "ecdsa_secp256r1_sha256",
            "sha256",
        ),
        (
            "p384",
            "-algorithm EC -pkeyopt ec_paramgen_curve:P-384",
            "ecdsa_secp384r1_sha384",
            "sha384",
        ),
        ("edwards", "-algorithm ed25519", "ed25519", "ed25519"),
        ("rsa2048", "-algorithm RSA -pkeyopt rsa_keygen_bits:2048", "rsa_pss_rsae_sha256", "pss"),
        ("rsa4096", "-algorithm RSA -pkeyopt rsa_keygen_bits:4096", "rsa_pss_rsae_sha256", "pss"),
    ];
    let ids: Vec<String> = kinds
        .iter()
        .map(|(name, how, ..)| {
            site.key(name, how);
            site.import(name, &[])
        })
        .collect();
    let server = site.serve(&[]);
    let transcript_hash = [0xab; 48];
    let message =
        [&[0x20; 64][..], b"TLS 1.3, server CertificateVerify\0", &transcript_hash].concat();
    let exchange = [&[1; 32][..], &[2; 32], &site.params()].concat();
    for ((name, _, scheme, digest), id) in kinds.iter().zip(&ids) {
        let signature = site.output(&server, &verify_request(id, scheme, &transcript_hash));
        verify(&site, name, digest, &message, &signature);
        if *digest == "ed25519" {
            continue; // The draft has no word for its hash.
        }
        let (hash, digest) =
            if *name == "p384" { ("SHA-384", "sha384") } else { ("SHA-256", "sha256") };
        let signature = site.output(&server, &exchange_request(id, hash, &exchange));
        verify(&site, name, digest, &exchange, &signature);
    }
    // DER as well as PEM; and what was asked over HTTP/2 so far goes over HTTP/1.1 too.
    site.sh(
        "openssl pkcs8 -topk8 -nocrypt -in p256.key -outform DER -out der.key; cp p256.pub der.pub",
    );
    assert_eq!(site.import("der", &["--replace"]), ids[0]);
    let body = verify_request(&ids[0], "ecdsa_secp256r1_sha256", &transcript_hash);
    for version in ["--http1.1", "--http2"] {
        let (answer, status) =
            site.curl(&server, "edge1.example", &[version, "--data-binary", &body]);
        assert!(status == 200 && answer.contains("output"), "{version}: {answer}");
    }
    assert!(server.terminate().status.success());
}

#[test]
fn keys_of_other_kinds_and_sizes_are_not_imported() {
    let Some(site) = Site::create() else { return };
    for (name, how) in [
        ("short", "-algorithm RSA -pkeyopt rsa_keygen_bits:1024"),
        ("long", "-algorithm RSA -pkeyopt rsa_keygen_bits:4104"),
        ("p521", "-algorithm EC -pkeyopt ec_paramgen_curve:P-521"),
        ("koblitz", "-algorithm EC -pkeyopt ec_paramgen_curve:secp256k1"),
        ("exchange", "-algorithm X25519"),
    ] {
        site.key(name, how);
        let file = format!("{name}.key");
        let ended = site.run(&[&["import"], &site.vault()[..], &[&file]].concat());
        assert!(!ended.status.success(), "{name}: {}", ended.stdout);
        assert!(ended.stderr.contains("RSA 2048 to 4096"), "{name}: {}", ended.stderr);
    }
    let stored: u64 = redis::cmd("DBSIZE").query(&mut site.database.connection()).expect("a count");
    assert_eq!(stored, 0);
}

#[test]
fn s_client_needs_a_certificate_of_the_right_authority() {
    let Some(site) = Site::create() else { return };
    site.key("p256", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    let id = site.import("p256", &[]);
    let server = site.serve(&[]);
    site.certificate("other-ca", "ec");
    site.signed("stranger.example", "other-ca");
    // Signed by the right authority, but without a name.
    site.sh(
        "echo basicConstraints=CA:FALSE >extensions && openssl req -new -key edge1.example.key \
         -out nobody.csr -subj /CN=edge1.example && openssl x509 -req -in nobody.csr -CA ca.pem \
         -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out nobody.pem",
    );
    let body = verify_request(&id, "ecdsa_secp256r1_sha256", &[7; 32]);
    let length = body.len();
    site.write(
        "request",
        &format!("POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"),
    );
    // s_client's exit status does not tell whether the server accepted the certificate.
    let ask = |options: &str| {
        let connect = format!(
            "openssl s_client -quiet -verify_return_error -CAfile ca.pem -servername localhost \
             -connect {} {options} <request 2>&1 || true",
            server.address
        );
        site.sh(&connect)
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let answer =
            ask(&format!("{version} -ign_eof -cert edge1.example.pem -key edge1.example.key"));
        assert!(answer.contains("200 OK") && answer.contains("output"), "{version}: {answer}");
        let answer = ask(version);
        assert!(answer.contains("alert") && !answer.contains("200 OK"), "{version}: {answer}");
        let stranger = "-cert stranger.example.pem -key stranger.example.key";
        let answer = ask(&format!("{version} {stranger}"));
        assert!(answer.contains("alert") && !answer.contains("200 OK"), "{version}: {answer}");
        let answer = ask(&format!("{version} -cert nobody.pem -key edge1.example.key"));
        assert!(!answer.contains("200 OK") && !answer.contains("output"), "{version}: {answer}");
    }
    // Other unauthenticated clients came before, and there is one log line per interval.
    until("the log names what is missing", || {
        ask("-cert nobody.pem -key edge1.example.key");
        server.process().stderr().contains("expected a DNS name (subjectAltName)")
    });
    // A client without a name is not logged under another name.
    let log = String::from_utf8(site.read("audit.log")).unwrap();
    assert!(!log.contains("stranger"), "{log}");
}

/// Ciphertexts by openssl: for every kind of block that an attacker may try, the replies differ
/// only in random-looking bytes.
#[test]
fn rsa_answers_do_not_tell_good_padding_from_bad() {
    let Some(site) = Site::create() else { return };
    site.key("rsa", "-algorithm RSA -pkeyopt rsa_keygen_bits:2048");
    let id = site.import("rsa", &[]);
    let server = site.serve(&[]);
    let encrypt = |block: &[u8], padding: &str| {
        std::fs::write(site.path("block"), block).unwrap();
        site.bytes(&format!(
            "openssl pkeyutl -encrypt -pubin -inkey rsa.pub -in block -pkeyopt rsa_padding_mode:{padding}"
        ))
    };
    let secret: Vec<u8> = [3, 3].into_iter().chain(1..=46).collect();
    let good = encrypt(&secret, "pkcs1");
    assert_eq!(site.output(&server, &premaster_request(&id, &good)), secret);

    let mut block = vec![0x5a; 256];
    block[..2].copy_from_slice(&[0, 2]);
    block[207] = 0;
    block[208..].copy_from_slice(&secret);
    assert_eq!(site.output(&server, &premaster_request(&id, &encrypt(&block, "none"))), secret);
    let with = |at: usize, byte: u8| {
        let mut changed = block.clone();
        changed[at] = byte;
        encrypt(&changed, "none")
    };
    let faults = [
        ("block type", with(1, 1)),
        ("zero in the first filling", with(4, 0)),
        ("zero in the last filling", with(206, 0)),
        ("no zero", with(207, 1)),
        ("version", with(209, 1)),
        ("47 bytes", encrypt(&secret[..47], "pkcs1")),
        ("49 bytes", encrypt(&[&secret[..], &[1]].concat(), "pkcs1")),
        ("no secret", encrypt(b"", "pkcs1")),
        ("no padding", vec![0x31; 256]),
        ("above the modulus", vec![0xff; 256]),
    ];
    let shape = |body: &str| {
        let (answer, status) = site.post(&server, "edge1.example", body);
        (answer.len(), status, answer.starts_with("{\"output\":\""))
    };
    let expected = shape(&premaster_request(&id, &good));
    let mut answers = vec![("none", secret.clone())];
    for (fault, encrypted) in &faults {
        let body = premaster_request(&id, encrypted);
        assert_eq!(shape(&body), expected, "{fault}");
        let answer = site.output(&server, &body);
        assert_eq!((answer.len(), &answer[..2]), (48, &secret[..2]), "{fault}");
        assert_eq!(site.output(&server, &body), answer, "{fault}: asked again");
        answers.push((*fault, answer));
    }
    // They differ as much as random secrets do.
    for (at, (fault, one)) in answers.iter().enumerate() {
        for (_, other) in &answers[..at] {
            let alike = one.iter().zip(other).skip(2).filter(|(one, other)| one == other).count();
            assert!(alike < 8, "{fault}: {alike} bytes as in another answer");
        }
    }
    // Another process with the same key gives the same reply, so that a comparison reveals nothing.
    let another = site.serve(&["--audit", "another.log"]);
    for ((fault, encrypted), (_, answer)) in faults.iter().zip(&answers[1..]) {
        let body = premaster_request(&id, encrypted);
        assert_eq!(site.output(&another, &body), *answer, "{fault}: asked of another");
    }
    // The log does not tell either: every decryption is logged as done.
    let log = String::from_utf8(site.read("audit.log")).unwrap();
    let outcomes: Vec<&str> = log.lines().filter(|line| line.contains("\"RSA\"")).collect();
    assert!(outcomes.len() > 30 && outcomes.iter().all(|line| line.contains("\"done\"")), "{log}");
}
