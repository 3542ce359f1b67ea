//! A blocking server with a fixed number of threads. Each thread serves one connection at a time.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::http::{self, Request, Response};
use crate::propagation;

const THREADS: usize = 16;
/// OpenTelemetry's name for the duration of a request.
pub(crate) const DURATION: &str = "http.server.request.duration";
/// Recorded in place of an unknown method.
const OTHER: &str = "_OTHER";
/// Pause after a failed accept. Its cause, such as too many open files, may be temporary.
const PAUSE: Duration = Duration::from_millis(20);

/// A service with one method and one route.
pub(crate) trait Service: Sync {
    fn method(&self) -> &'static str;
    fn route(&self) -> &'static str;
    fn answer(&self, request: &Request) -> Response;
}

/// A listener that runs until it is stopped.
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    is_stopping: AtomicBool,
}

impl Server {
    pub(crate) fn bind(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, is_stopping: AtomicBool::new(false) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until [`Server::stop`] is called, and completes the requests that have started.
    pub(crate) fn serve(&self, service: &dyn Service) {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| self.serve_on_this_thread(service));
            }
        });
    }

    fn serve_on_this_thread(&self, service: &dyn Service) {
        while !self.is_stopping.load(Ordering::SeqCst) {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    converse(&stream, service);
                    http::hang_up(&stream);
                }
                Err(error) => {
                    log::warn!("no connection accepted: {error}");
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        for _ in 0..THREADS {
            // Wakes one thread that waits in `accept`. A failure means that no thread waits.
            let _ = TcpStream::connect(self.address);
        }
    }
}

/// Reads one request and answers it.
fn converse(stream: &TcpStream, service: &dyn Service) {
    let request = match Request::read(stream) {
        Ok(Some(request)) => request,
        Ok(None) => return,
        Err(refusal) => {
            log::warn!("refused with {}: {}", refusal.status, refusal.text);
            // A client whose request is refused may not read the response, so an error is ignored.
            let _ = refusal.send(stream, "");
            return;
        }
    };
    let begin = Instant::now();
    let route = (request.path == service.route()).then_some(service.route());
    let _caller = propagation::extract(&request).enter();
    let span = server_span(&request, route);
    let _entered = span.enter();
    let response = match route {
        None => Response::text(404, "there is nothing here"),
        Some(_) if request.method != service.method() => Response::wrong_method(service.method()),
        Some(_) => service.answer(&request),
    };
    span.record("http.response.status_code", response.status);
    // A 4xx status is an error of the client, not of the server.
    if response.status >= 500 {
        span.record("error.type", response.status.to_string());
        span.record("otel.status_code", "ERROR");
    }
    measure(&request, route, response.status, begin.elapsed());
    if let Err(error) = response.send(stream, &request.method) {
        log::info!("the client did not wait for its answer: {error}");
    }
}

/// Starts the span of a request, with OpenTelemetry's conventions for HTTP servers.
fn server_span(request: &Request, route: Option<&str>) -> Span {
    let method = known_method(&request.method);
    let name = match (method, route) {
        (OTHER, _) => "HTTP".to_owned(),
        (_, None) => method.to_owned(),
        (_, Some(route)) => format!("{method} {route}"),
    };
    let (host, port) = host_and_port(request.header("host").unwrap_or_default());
    info_span!(
        "request",
        otel.name = name,
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        url.path = request.path,
        url.query = (!request.query.is_empty()).then_some(request.query.as_str()),
        url.scheme = "http",
        server.address = host,
        server.port = port,
        http.response.status_code = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

fn measure(request: &Request, route: Option<&str>, status: u16, duration: Duration) {
    let mut labels = vec![
        ("http.request.method", known_method(&request.method).to_owned()),
        ("http.response.status_code", status.to_string()),
        ("url.scheme", "http".to_owned()),
    ];
    labels.extend(route.map(|route| ("http.route", route.to_owned())));
    metrics::histogram!(DURATION, &labels).record(duration);
}

/// Replaces unknown methods. Clients can invent methods, and each would become a new name in the telemetry.
fn known_method(method: &str) -> &str {
    match method {
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "OPTIONS" | "PATCH" | "TRACE" | "CONNECT" => method,
        _ => OTHER,
    }
}

/// Splits `shop.example:8080`. The default port is 80.
pub(crate) fn host_and_port(host: &str) -> (&str, u16) {
    let with_port = host.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    with_port.unwrap_or((host, 80))
}
