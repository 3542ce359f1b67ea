//! The library in a C process: threads, forks, callbacks, signals, and misuse by a program.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use standpipe::receiver::Receiver;

use crate::library::{Built, Language, library};
use crate::support::scene::closed_endpoint;
use crate::support::scratch::Scratch;
use crate::support::tls::{TestCa, TlsFront};

fn names(receiver: &Receiver) -> Vec<String> {
    let mut names: Vec<_> = receiver.spans().iter().map(|span| span.name().to_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn no_function_minds_null_other_sizes_or_impossible_lengths() {
    let Some(program) = Built::new("misuse", Language::C99) else { return };
    let receiver = Receiver::start().unwrap();
    program.run(&[&receiver.endpoint()]);
    let spans = receiver.spans();
    let impossible = spans.iter().find(|span| span.name() == "impossible").unwrap();
    assert_eq!(impossible.attribute("after"), 1);
    for left_out in ["circle", "pairs of pairs", "no text"] {
        assert!(impossible.attribute(left_out).is_none(), "{left_out}");
    }
    // `circle` and `pairs of pairs` are the two dropped attributes. Attributes that never had a value are not counted.
    assert_eq!(impossible.span.dropped_attributes_count, 2);
    assert_eq!(receiver.metric("parts").unwrap().value(()), 0.25);
}

#[test]
fn a_scope_is_left_by_its_own_thread_only() {
    let Some(program) = Built::new("process", Language::C99) else { return };
    let receiver = Receiver::start().unwrap();
    program.run(&["scopes", &receiver.endpoint()]);
    let trace = receiver.only_trace();
    assert_eq!(trace.span("inner").parent().unwrap().received().name(), "outer");
}

#[test]
fn a_forked_child_sends_its_own_spans_and_no_others() {
    let Some(program) = Built::new("process", Language::C99) else { return };
    let receiver = Receiver::start().unwrap();
    program.run(&["forks", &receiver.endpoint()]);
    assert_eq!(names(&receiver), ["before", "child", "open"]);
    let trace = receiver.only_trace();
    assert_eq!(trace.root().received().name(), "open");
}

#[test]
fn free_waits_for_a_callback_that_runs() {
    let Some(program) = Built::new("process", Language::C99) else { return };
    program.run(&["free_waits", &closed_endpoint()]);
}

#[test]
fn a_callback_may_free_the_telemetry() {
    let Some(program) = Built::new("process", Language::C99) else { return };
    program.run(&["free_inside", &closed_endpoint()]);
}

#[test]
fn a_program_without_threads_sends_by_itself() {
    let Some(program) = Built::new("process", Language::C99) else { return };
    let receiver = Receiver::start().unwrap();
    program.run(&["manual", &receiver.endpoint()]);
    assert_eq!(names(&receiver), ["pumped"]);
}

#[test]
fn a_callback_may_free_the_telemetry_that_its_own_thread_flushes() {
    let Some(program) = Built::new("process", Language::C99) else { return };
    program.run(&["manual_free_inside", &closed_endpoint()]);
}

/// Accepts connections, reads a few bytes from each and closes it, until it is dropped.
struct HangsUp {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl HangsUp {
    fn start() -> Self {
        Self::start_with(|_| ())
    }

    /// Like [`start`](Self::start), but closes each connection after a TLS handshake, which `front` performs.
    fn after_handshake_by(front: SocketAddr) -> Self {
        Self::start_with(move |client| {
            let server = TcpStream::connect(front).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| io::copy(&mut &server, &mut &*client));
                let mut hello = [0; 4096];
                let length = (&*client).read(&mut hello).unwrap_or(0);
                let _ = (&server).write_all(&hello[..length]);
                // The client's next bytes are encrypted.
                let _ = client.peek(&mut [0]);
                let _ = server.shutdown(Shutdown::Both);
            });
        })
    }

    fn start_with(greet: impl Fn(&TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, is_over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (ends, accepts) = (Arc::clone(&is_over), Arc::clone(&accepted));
        let thread = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                accepts.fetch_add(1, Ordering::SeqCst);
                greet(&stream);
                let _ = (&stream).read(&mut [0; 10]);
                // The server sends a FIN and, because it leaves bytes unread, a reset. So the next write of the client
                // fails with EPIPE and raises SIGPIPE. After a reset alone, ECONNRESET would raise no signal.
                let _ = stream.shutdown(Shutdown::Write);
            }
        });
        Self { address, is_over, accepted, thread: Some(thread) }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for HangsUp {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Ends the wait of the acceptor.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

#[test]
fn a_server_that_hangs_up_raises_no_sigpipe() {
    let Some(program) = Built::new("process", Language::C99) else { return };
    let server = HangsUp::start();
    program.run(&["broken_pipes", &format!("http://{}", server.address)]);
    assert!(server.accepted() > 0);
}

#[test]
fn a_server_that_hangs_up_over_tls_raises_no_sigpipe() {
    let Some(program) = Built::new("process", Language::C99) else { return };
    let (ca, folder) = (TestCa::new(), Scratch::new());
    // The program never reaches the server behind the front.
    let behind = TcpListener::bind("127.0.0.1:0").unwrap();
    let front = TlsFront::start(&ca.leaf("localhost"), behind.local_addr().unwrap());
    let server = HangsUp::after_handshake_by(front.address());
    let certificate = folder.write("ca.pem", ca.pem());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("https://localhost:{}", server.address.port())),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate.to_str().unwrap().to_owned()),
    ];
    program
        .run_with(&["broken_pipes", "-"], &variables.each_ref().map(|(name, value)| (*name, value.as_str())));
    assert!(server.accepted() > 0);
}

#[test]
fn two_copies_of_the_library_work_in_one_process_and_its_fork() {
    let Some(program) = Built::new("loader", Language::C99) else { return };
    let (receiver, folder, library) = (Receiver::start().unwrap(), Scratch::new(), library());
    let copy = folder.path().join("copy");
    fs::copy(&library, &copy).unwrap();
    program.run(&[&receiver.endpoint(), library.to_str().unwrap(), copy.to_str().unwrap()]);
    assert_eq!(names(&receiver), ["child of first", "child of second", "first", "second"]);
}
