//! The usual setup of a delivery test: a program with an exporter, and a hook for its problems.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::receiver::{Builder, Receiver};
use standpipe::{Config, Exporter, Problem, ProblemKind, Telemetry, Tracer};

/// Maximum delay, after a deadline, until a busy machine schedules a thread.
pub(crate) const NOISE: Duration = Duration::from_secs(4);
/// Long enough for any machine; a test that needs all of it fails.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Time to wait for an event that must not happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(100);
/// A timeout that is longer than any test, so no wait in a test ends because of this timeout.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(200 * 24 * 3600);

/// An exporter without delays, except those that the test configures. Callers that find the queue full wait without a
/// timeout.
pub(crate) fn exporter(receiver: &Receiver) -> Exporter {
    exporter_to(&receiver.endpoint())
}

pub(crate) fn exporter_to(endpoint: &str) -> Exporter {
    Exporter::http(endpoint)
        .proxy(Proxy::Off)
        .throttle(Duration::ZERO)
        .block_timeout(None)
        .retry_delays(Duration::from_millis(1), Duration::from_millis(20))
}

/// An exporter that sends only when it is flushed, shut down or has a full batch. Until then its records are queued for
/// one request.
pub(crate) fn gathering(receiver: &Receiver) -> Exporter {
    gathering_to(&receiver.endpoint())
}

pub(crate) fn gathering_to(endpoint: &str) -> Exporter {
    // The queue is so large that a request's share of it does not limit the request.
    exporter_to(endpoint).linger(FOR_EVER).queue_bytes(64 << 20)
}

pub(crate) fn start(exporter: Exporter) -> Telemetry {
    start_with(Config::new().service_name("shop").exporter(exporter))
}

pub(crate) fn start_with(config: Config) -> Telemetry {
    Telemetry::start(config).unwrap()
}

/// Emits `spans` spans, numbered from 0 by their attribute `number`.
pub(crate) fn emit(tracer: &Tracer, spans: u64) {
    for number in 0..spans {
        tracer.span("work").set("number", number as i64);
    }
}

/// Like [`emit`], for callers that may have to wait: if they wait forever, the test fails instead of hanging.
pub(crate) fn emit_in_time(tracer: &Tracer, spans: u64) {
    let (done, ended) = mpsc::channel();
    let tracer = tracer.clone();
    thread::spawn(move || {
        emit(&tracer, spans);
        done.send(())
    });
    assert_eq!(ended.recv_timeout(LONG), Ok(()), "the caller was not let go");
}

/// An address without a listener, where [`open_at`] can open one.
pub(crate) fn closed_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    if cfg!(unix) {
        // A connection that outlives its listener keeps the system from assigning the port to others, but the port can
        // still be requested by number.
        let client = TcpStream::connect(address).unwrap();
        std::mem::forget((client, listener.accept().unwrap()));
    }
    address
}

/// An endpoint without a listener.
pub(crate) fn closed_endpoint() -> String {
    format!("http://{}", closed_address())
}

/// Starts a receiver at an address that was used before. Another test's connection may hold the port for a moment.
pub(crate) fn open_at(address: SocketAddr) -> Receiver {
    open(|| Receiver::builder().address(address))
}

/// Like [`open_at`], with settings of the test.
pub(crate) fn open(builder: impl Fn() -> Builder) -> Receiver {
    let deadline = Instant::now() + LONG;
    loop {
        match builder().start() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                thread::yield_now();
            }
            opened => return opened.unwrap(),
        }
    }
}

/// The problems that reached the program's hook.
#[derive(Clone, Default)]
pub(crate) struct Problems(Arc<(Mutex<Vec<Problem>>, Condvar)>);

impl Problems {
    /// Starts a program whose problems are collected here.
    pub(crate) fn start(&self, exporter: Exporter) -> Telemetry {
        self.start_with(Config::new().service_name("shop").exporter(exporter))
    }

    pub(crate) fn start_with(&self, config: Config) -> Telemetry {
        let hear = self.clone();
        start_with(config.on_problem(move |problem| {
            let (reported, changed) = &*hear.0;
            reported.lock().unwrap().push(problem.clone());
            changed.notify_all();
        }))
    }

    pub(crate) fn reported(&self) -> Vec<Problem> {
        self.0.0.lock().unwrap().clone()
    }

    /// Waits for the first problem of this kind.
    pub(crate) fn wait_for(&self, kind: ProblemKind) -> Problem {
        let (reported, changed) = &*self.0;
        let of_kind = |reported: &[Problem]| reported.iter().find(|problem| problem.kind == kind).cloned();
        let (reported, _) = changed
            .wait_timeout_while(reported.lock().unwrap(), LONG, |reported| of_kind(reported).is_none())
            .unwrap();
        of_kind(&reported).unwrap_or_else(|| panic!("no {kind:?} among {reported:?}"))
    }
}

/// Ends the loops of other threads, even if an assertion fails.
pub(crate) struct SetWhenDropped<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
