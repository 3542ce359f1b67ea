//! `check`: probes of collectors, and their effect on the exit code.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use super::{checked, run};
use crate::support::command::{config, stdout};
#[cfg(unix)]
use crate::support::command::{standpipe, without_reader};
#[cfg(unix)]
use crate::support::scene::closed_address;

/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a collector that answers only after all collectors with this barrier have a connection. Returns its endpoint.
fn gated(probed: &Arc<Barrier>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("its address");
    let probed = Arc::clone(probed);
    thread::spawn(move || {
        for client in listener.incoming().take(8).flatten() {
            probed.wait();
            answer(client);
        }
    });
    format!("http://{address}")
}

fn answer(mut client: TcpStream) {
    client.set_read_timeout(Some(PATIENCE)).expect("a time");
    let _ = client.read(&mut [0; 4096]);
    let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

#[test]
fn endpoints_are_probed_in_parallel() {
    let probed = Arc::new(Barrier::new(3));
    let endpoints: Vec<String> = (0..3).map(|_| gated(&probed)).collect();
    let mut text = String::new();
    for (number, endpoint) in endpoints.iter().enumerate() {
        text += &format!("[tracer.t{number}]\ntype = 'otel'\ntransport = 'http'\nendpoint = '{endpoint}'\n");
    }
    let file = config("side_by_side.toml", &text);
    let output = run(&["check", &file]);
    let reported = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{reported}");
    let places: Vec<_> =
        endpoints.iter().map(|endpoint| reported.find(&format!("probed {endpoint}"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {reported}");
    let (code, found) = checked(&[&file]);
    assert_eq!(code, Some(0), "{found}");
}

#[cfg(unix)]
#[test]
fn a_broken_pipe_keeps_the_exit_code() {
    let tracer = "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n";
    let address = closed_address();
    let good = config("piped.toml", tracer);
    let bad = config("piped_bad.toml", &format!("{tracer}timeout = '0s'\n"));
    let unanswered = config("piped_unanswered.toml", &format!("{tracer}endpoint = 'http://{address}'\n"));
    for (arguments, code) in [
        (&["--offline", &good][..], 0),
        (&["--offline", "--json", &good], 0),
        (&["--offline", &bad], 1),
        (&["--offline", "--json", &bad], 1),
        (&[&unanswered], 1),
        (&["--json", &unanswered], 1),
        (&["--json", "no/such/file.toml"], 2),
    ] {
        let mut command = standpipe(&[&["check"], arguments].concat());
        let output = command.stdout(without_reader()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}
