use std::io::Cursor;

use super::*;

/// A proxy that has its answer ready.
struct Wire {
    said: Vec<u8>,
    answer: Cursor<Vec<u8>>,
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.answer.read(into)
    }
}

impl Write for Wire {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.said.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn tunnel(proxy: &str) -> Result<Tunnel, String> {
    Tunnel::new(&Proxy::new(proxy).expect(proxy))
}

/// What was said to the proxy, what became of it, and what was left unread.
fn open(proxy: &str, answer: &[u8]) -> (String, Result<(), String>, Vec<u8>) {
    let mut wire = Wire { said: Vec::new(), answer: Cursor::new(answer.to_vec()) };
    let tunnel = tunnel(proxy).expect(proxy);
    let outcome = tunnel.open(&mut wire, "collector:4317").map_err(|error| error.to_string());
    let mut rest = Vec::new();
    wire.answer.read_to_end(&mut rest).expect("it is in memory");
    (String::from_utf8(wire.said).expect("a request is text"), outcome, rest)
}

#[test]
fn a_proxy_is_asked_for_the_server_and_nothing_behind_its_answer_is_read() {
    let (said, outcome, rest) = open("http://proxy:3128", b"HTTP/1.1 200 Connected\r\nvia: x\r\n\r\nserver");
    assert_eq!(said, "CONNECT collector:4317 HTTP/1.1\r\nhost: collector:4317\r\n\r\n");
    assert_eq!((outcome, rest), (Ok(()), b"server".to_vec()));
}

#[test]
fn credentials_go_to_the_proxy_and_nowhere_else() {
    let (said, outcome, _) = open("http://ali:open-sesame@proxy:3128", b"HTTP/1.0 204 \r\n\r\n");
    assert!(said.contains("\r\nproxy-authorization: Basic YWxpOm9wZW4tc2VzYW1l\r\n"), "{said}");
    assert_eq!(outcome, Ok(()));
    let shown = format!("{:?}", tunnel("http://ali:open-sesame@proxy:3128"));
    assert!(shown.contains("proxy") && !shown.contains("YWxp") && !shown.contains("sesame"), "{shown}");
}

#[test]
fn a_proxy_that_says_no_is_quoted() {
    let (_, outcome, _) = open("http://proxy:3128", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    assert_eq!(outcome, Err("the proxy says \"HTTP/1.1 407 Proxy Authentication Required\"".to_owned()));
    let long = [b"HTTP/1.1 500 ", &[b'x'; 1_000][..], b"\r\n\r\n"].concat();
    let (_, outcome, _) = open("http://proxy:3128", &long);
    assert!(outcome.clone().is_err_and(|why| why.len() < 150), "{outcome:?}");
}

#[test]
fn what_is_no_answer_of_a_proxy_ends_soon() {
    let endless = vec![b'x'; 64 << 10];
    for answer in [&b""[..], b"HTTP/1.1 200", b"SSH-2.0-proxy\r\n", &endless] {
        let (_, outcome, rest) = open("http://proxy:3128", answer);
        assert_eq!(outcome, Err("the proxy does not speak HTTP".to_owned()));
        assert!(answer.len() - rest.len() <= (16 << 10) + 1, "more than 16 KiB were read");
    }
}

#[test]
fn an_https_proxy_is_refused_with_what_can_be_done() {
    let why = tunnel("https://proxy:3128").err();
    assert!(why.is_some_and(|why| why.contains("name an http one, or set proxy = \"off\"")));
}
