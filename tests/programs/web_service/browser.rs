//! A client of the services.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use ureq::Agent;

/// Longer than anything on loopback takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Orders something at a storefront, with these headers. Returns the status and the body of the answer.
pub(crate) fn check_out(storefront: &str, query: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let url = format!("{storefront}/checkout?{query}");
    let config = Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        // The environment of the test may name a proxy.
        .proxy(None)
        .build();
    let mut request = Agent::from(config).get(&url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut answer = request.call().expect(&url);
    let text = answer.body_mut().read_to_string().expect(&url);
    (answer.status().as_u16(), text.trim_end().to_owned())
}

/// Sends these bytes and returns the whole answer.
pub(crate) fn say(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).expect("the service reads");
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the service answers in time and in text");
    answer
}
