//! AWS Signature Version 4, for a signing function and for the server that checks the signature. Implemented here on
//! top of the SHA-256 of rustls.

use std::collections::HashMap;
use std::fmt::Write;

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use standpipe::config::Credentials;

const KEY_ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const SCOPE: [&str; 3] = ["us-east-1", "service", "aws4_request"];
const BLOCK: usize = 64;

fn sha256(pieces: &[&[u8]]) -> Vec<u8> {
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else { panic!("it is of TLS 1.3") };
    let mut hash = suite.common.hash_provider.start();
    pieces.iter().for_each(|piece| hash.update(piece));
    hash.finish().as_ref().to_vec()
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = key.to_vec();
    block.resize(BLOCK, 0);
    let padded = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    sha256(&[&padded(0x5c), &sha256(&[&padded(0x36), message])])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Returns the value of the header `authorization`.
fn authorization(url: &str, headers: &[(&str, &str)], body: &[&[u8]], time: &str) -> String {
    let path = url.splitn(4, '/').nth(3).unwrap();
    let mut sorted: Vec<_> = headers.to_vec();
    sorted.push(("x-amz-date", time));
    sorted.sort_unstable();
    let lines: String = sorted.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names = sorted.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let canonical = format!("POST\n/{path}\n\n{lines}\n{names}\n{}", hex(&sha256(body)));
    let scope = format!("{}/{}", &time[..8], SCOPE.join("/"));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&sha256(&[canonical.as_bytes()])));
    let start = hmac(format!("AWS4{SECRET}").as_bytes(), &time.as_bytes()[..8]);
    let key = SCOPE.iter().fold(start, |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, text.as_bytes()));
    format!("AWS4-HMAC-SHA256 Credential={KEY_ID}/{scope}, SignedHeaders={names}, Signature={signature}")
}

pub(crate) fn sign(url: &str, headers: &[(&str, &str)], body: &[&[u8]], time: &str) -> Credentials {
    let value = authorization(url, headers, body, time);
    Credentials::new().header("Authorization", value).header("X-Amz-Date", time)
}

/// Returns whether the signature of a received request is valid.
pub(crate) fn is_valid(url: &str, headers: &HashMap<String, String>, body: &[u8]) -> bool {
    let given = &headers["authorization"];
    let names = given.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    assert!(["content-type", "host", "x-tenant"].iter().all(|name| names.contains(name)), "{names}");
    let signed = names.split(';').filter(|name| *name != "x-amz-date");
    let signed: Vec<(&str, &str)> = signed.map(|name| (name, &*headers[name])).collect();
    authorization(url, &signed, &[body], &headers["x-amz-date"]) == *given
}

/// The requests `post-vanilla` and `post-x-www-form-urlencoded` of AWS's test suite for Signature Version 4.
#[test]
fn signs_as_the_test_suite_of_aws_does() {
    let host = ("host", "example.amazonaws.com");
    let form = ("content-type", "application/x-www-form-urlencoded");
    for (headers, body, signature) in [
        (&[host][..], &b""[..], "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (&[form, host], b"Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
    ] {
        let signed = authorization("https://example.amazonaws.com/", headers, &[body], "20150830T123600Z");
        assert!(signed.ends_with(signature), "{signed}");
    }
}
