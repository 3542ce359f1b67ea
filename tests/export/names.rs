//! Two servers behind one name, like the pods of a headless service.
//!
//! The client is a child process with its own `/etc/hosts`, so the resolver of the system returns both addresses.

#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;
use std::{ptr, thread};

use standpipe::config::Proxy;
use standpipe::receiver::Receiver;
use standpipe::{Exporter, FlushOutcome, Telemetry};

use crate::support::scene::{LONG, emit, open, start};
use crate::support::scratch::Scratch;
use crate::support::{process, skip};

const NAME: &str = "collector.test";
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2)];
/// Spans after which the client ends, even if it is not asked to.
const MAX_SPANS: u64 = 100_000;

/// Starts a receiver at an address that may have been used before.
fn open_at(address: SocketAddr, is_grpc: bool) -> Receiver {
    open(|| match is_grpc {
        true => Receiver::builder().address((address.ip(), 0)).grpc_address(address),
        false => Receiver::builder().address(address).grpc_address((address.ip(), 0)),
    })
}

/// Starts two receivers with different addresses and the same port. Returns their addresses, too.
fn servers(is_grpc: bool) -> ([Receiver; 2], [SocketAddr; 2]) {
    for _ in 0..20 {
        let first = open_at((ADDRESSES[0], 0).into(), is_grpc);
        let port = if is_grpc { first.grpc_address().port() } else { first.address().port() };
        let addresses = ADDRESSES.map(|ip| SocketAddr::from((ip, port)));
        let [address, other] = [addresses[1], SocketAddr::from((ADDRESSES[1], 0))];
        let builder = Receiver::builder();
        let second = match is_grpc {
            true => builder.address(other).grpc_address(address).start(),
            false => builder.address(address).grpc_address(other).start(),
        };
        match second {
            Ok(second) => return ([first, second], addresses),
            Err(error) => assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}"),
        }
    }
    panic!("no port is free on both addresses");
}

/// Starts the test called `name` again, as a client whose `/etc/hosts` maps [`NAME`] to both addresses.
/// Returns `None` if the system does not allow that.
#[allow(unsafe_code)]
fn start_client(name: &str, task: &str, scratch: &Scratch) -> Option<process::Child> {
    let lines = ADDRESSES.map(|address| format!("{address} {NAME}\n"));
    let hosts = scratch.write("hosts", lines.concat());
    let hosts = CString::new(hosts.into_os_string().into_encoded_bytes()).unwrap();
    let mut command = process::command(name, task);
    // SAFETY: between fork and exec, the function only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(move || replace_hosts(&hosts)) };
    match process::Child::start_command(&mut command) {
        Ok(client) => Some(client),
        Err(error) => {
            skip(format!("this process may not mount a file over /etc/hosts: {error}"));
            None
        }
    }
}

/// Mounts a file over `/etc/hosts`, for this process only.
#[allow(unsafe_code)]
fn replace_hosts(hosts: &CStr) -> io::Result<()> {
    let checked = |result| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: all pointers are null or C strings that outlive the calls.
    unsafe {
        let is_root = libc::geteuid() == 0;
        checked(libc::unshare(libc::CLONE_NEWNS | if is_root { 0 } else { libc::CLONE_NEWUSER }))?;
        let bind = |from: *const libc::c_char, to: &CStr, flags| {
            checked(libc::mount(from, to.as_ptr(), ptr::null(), flags, ptr::null()))
        };
        bind(ptr::null(), c"/", private)?;
        bind(hosts.as_ptr(), c"/etc/hosts", libc::MS_BIND)
    }
}

/// Starts the telemetry of a client. The task names the server as `protocol port`; further words are ignored.
fn client(task: &str, adjust: impl FnOnce(Exporter) -> Exporter) -> Telemetry {
    let mut words = task.split(' ');
    let (protocol, port) = (words.next().unwrap(), words.next().unwrap());
    let url = format!("http://{NAME}:{port}");
    let exporter = if protocol == "grpc" { Exporter::grpc(url) } else { Exporter::http(url) };
    let delay = Duration::from_millis(1);
    start(adjust(exporter.proxy(Proxy::Off).throttle(Duration::ZERO).retry_delays(delay, 20 * delay)))
}

#[test]
fn connections_of_limited_age_take_turns_between_the_servers_of_a_name() {
    let name = "connections_of_limited_age_take_turns_between_the_servers_of_a_name";
    let Some(task) = process::task() else {
        for protocol in ["http", "grpc"] {
            let (receivers, [address, _]) = servers(protocol == "grpc");
            let task = format!("{protocol} {}", address.port());
            let scratch = Scratch::new();
            let Some(client) = start_client(name, &task, &scratch) else { return };
            assert_eq!(client.finish(), ["4 delivered in 4 attempts"]);
            let counts =
                receivers.each_ref().map(|receiver| (receiver.connection_count(), receiver.span_count()));
            assert_eq!(counts, [(2, 2); 2], "{protocol}");
        }
        return;
    };
    let telemetry = client(&task, |exporter| exporter.max_connection_age(Duration::from_millis(1)));
    for _ in 0..4 {
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        // Pauses, so that the connection exceeds its maximum age.
        thread::park_timeout(Duration::from_millis(5));
    }
    let ledger = telemetry.shutdown(LONG).exporters.remove(0);
    process::report(format!("{} delivered in {} attempts", ledger.traces.delivered, ledger.attempts));
}

/// Over gRPC, a receiver that stops sends GOAWAY to its clients.
#[test]
fn loses_no_request_while_the_servers_of_a_name_restart_in_turn() {
    let name = "loses_no_request_while_the_servers_of_a_name_restart_in_turn";
    let Some(task) = process::task() else {
        for protocol in ["http", "grpc"] {
            let is_grpc = protocol == "grpc";
            let (receivers, addresses) = servers(is_grpc);
            let scratch = Scratch::new();
            let stop = scratch.path().join("stop");
            let task = format!("{protocol} {} {}", addresses[0].port(), stop.display());
            let Some(client) = start_client(name, &task, &scratch) else { return };
            let (mut running, mut stopped) = (receivers, Vec::new());
            for round in 0..6 {
                let index = round % 2;
                // Checks that the client sends: the other server has received spans, or this server receives ten.
                assert!(running[1 - index].span_count() > 0 || running[index].wait_for_spans(10, LONG));
                running[index].stop_listening();
                let other = &running[1 - index];
                assert!(other.wait_for_spans(other.span_count() + 10, LONG), "{protocol}, round {round}");
                let restarted = open_at(addresses[index], is_grpc);
                stopped.push(std::mem::replace(&mut running[index], restarted));
            }
            scratch.write("stop", "");
            let reports = client.finish();
            let spans = stopped.iter().chain(&running).flat_map(Receiver::spans);
            let ids: HashSet<_> = spans.map(|received| received.span.span_id.clone()).collect();
            assert_eq!(reports, [format!("{} delivered, 0 lost", ids.len())], "{protocol}");
        }
        return;
    };
    let stop = Path::new(task.rsplit(' ').next().unwrap());
    let telemetry = client(&task, |exporter| exporter);
    for _ in 0..MAX_SPANS {
        if stop.exists() {
            break;
        }
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(LONG);
    process::report(format!("{} delivered, {} lost", ledger.total().delivered, ledger.lost()));
}
