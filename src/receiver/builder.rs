//! Settings of a receiver.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::listener::Listener;
use super::refusal::RefusedRequest;
use super::request_sink::Script;
use super::state::{Addresses, Callback, Settings, Shared};
use super::store::{Batch, Store};
use super::{Receiver, grpc, http};

const MIB: usize = 1024 * 1024;

/// Settings for a [`Receiver`]. Get one from [`Receiver::builder`].
///
/// ```
/// use standpipe::receiver::{Answer, Receiver};
///
/// let receiver = Receiver::builder()
///     .on_batch(|batch| println!("{}: {}", batch.signal.name(), batch.record_count()))
///     .keep_bytes(0)
///     .first_answers([Answer::status(503)])
///     .start()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Builder {
    address: io::Result<Vec<SocketAddr>>,
    grpc_address: io::Result<Vec<SocketAddr>>,
    /// Unix sockets for HTTP and for gRPC.
    sockets: [Option<PathBuf>; 2],
    settings: Settings,
    keep_bytes: usize,
    script: Script,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            address: Ok(vec![([127, 0, 0, 1], 0).into()]),
            grpc_address: Ok(vec![([127, 0, 0, 1], 0).into()]),
            sockets: [None, None],
            settings: Settings {
                max_body_bytes: 64 * MIB,
                max_memory_bytes: 512 * MIB,
                max_header_bytes: 32 * 1024,
                max_connections: 256,
                read_timeout: Duration::from_secs(30),
                local_hosts_only: false,
                allowed_origins: None,
                on_batch: None,
                on_refusal: None,
            },
            keep_bytes: 256 * MIB,
            script: Script::default(),
        }
    }

    /// Sets the address for OTLP over HTTP. The default is `127.0.0.1:0`, a free port of this machine.
    ///
    /// If a name has several addresses, the first free one is used. Every host that can reach the address can send
    /// telemetry: the receiver checks no credentials.
    pub fn address(self, address: impl ToSocketAddrs) -> Self {
        Self { address: address.to_socket_addrs().map(Iterator::collect), ..self }
    }

    /// Sets the address for OTLP over gRPC, like [`Builder::address`] for HTTP.
    pub fn grpc_address(self, address: impl ToSocketAddrs) -> Self {
        Self { grpc_address: address.to_socket_addrs().map(Iterator::collect), ..self }
    }

    /// Also serves OTLP over HTTP on a Unix socket, for exporters with the endpoint `unix:path`. A socket without a
    /// listener at this path is replaced; the file is removed when the receiver stops. The file's mode follows the
    /// umask. On systems other than Unix, the start fails.
    ///
    /// ```
    /// use standpipe::receiver::Receiver;
    /// use standpipe::{Config, Exporter, Telemetry};
    ///
    /// # #[cfg(unix)] {
    /// let path = std::env::temp_dir().join(format!("standpipe-{}.sock", std::process::id()));
    /// let receiver = Receiver::builder().unix_socket(&path).start()?;
    /// let exporter = Exporter::http(format!("unix:{}", path.display()));
    /// let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter))?;
    /// telemetry.tracer("shop").span("checkout").end();
    /// telemetry.shutdown(std::time::Duration::from_secs(2));
    /// assert_eq!(receiver.span_count(), 1);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.sockets[0] = Some(path.into());
        self
    }

    /// Also serves OTLP over gRPC on a Unix socket, like [`Builder::unix_socket`] for HTTP.
    pub fn grpc_unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.sockets[1] = Some(path.into());
        self
    }

    /// Sets the maximum length of a decompressed body. The default is 64 MiB. A request with a longer body is answered
    /// with 413.
    ///
    /// Over gRPC, the answer is `RESOURCE_EXHAUSTED`. The bodies of all unanswered calls of one connection may together
    /// take twice this limit. A call that exceeds this is answered with `UNAVAILABLE`.
    ///
    /// A shorter body is also refused if its messages, once decoded, would take more than sixteen times the limit in
    /// memory: for example, a body of very many empty spans.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_body_bytes = bytes;
        self
    }

    /// Sets the memory limit of all requests together, while they are read, decompressed, decoded and answered, and as
    /// long as a clone of their [`Batch`] exists. The default is 512 MiB.
    ///
    /// A request that needs more than the whole limit is answered with 413, over gRPC with `RESOURCE_EXHAUSTED`. If
    /// other requests leave too little memory, the answer is 503 or `UNAVAILABLE`, which are retryable. The memory is
    /// estimated before a request is decoded: an empty span of two bytes takes about 600 bytes. Records that are kept
    /// afterwards do not count: see [`Builder::keep_bytes`].
    pub fn max_memory_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_memory_bytes = bytes;
        self
    }

    /// Sets the maximum length of a request head. The default is 32 KiB. A request with a longer head is answered with
    /// 431.
    ///
    /// Over gRPC, each header counts 32 bytes more than its name and value, and the answer is `RESOURCE_EXHAUSTED`. A
    /// header block of more than 32 KiB in compressed form ends a gRPC connection, regardless of this setting.
    pub fn max_header_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_header_bytes = bytes;
        self
    }

    /// Sets the maximum number of open connections of both protocols together. The default is 256.
    ///
    /// A further connection replaces the connection that has been idle for longest, which is closed. If all
    /// connections wait for an answer, the new one is closed at once. Each connection has one thread, and over gRPC a
    /// second thread for answers. If several calls of one connection are answered at the same time, further threads
    /// answer them: up to 256 for all connections together.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.settings.max_connections = connections;
        self
    }

    /// Sets how long a client may take to send a request, to read an answer, and to stay silent between two requests.
    /// The default is 30 seconds, the minimum one millisecond.
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.settings.read_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets a callback for every decoded request, which runs before the request is counted and answered.
    ///
    /// The callback runs on the request's thread, so it can run for several requests at a time. The client waits until
    /// the callback returns. If the callback panics, the connection is closed without an answer.
    pub fn on_batch(mut self, show: impl Fn(&Batch) + Send + Sync + 'static) -> Self {
        self.settings.on_batch = Some(Callback(Box::new(show)));
        self
    }

    /// Sets a callback for every request that the receiver refuses, with the reason. The callback runs before the
    /// request is answered.
    ///
    /// The callback runs on the request's thread, and a panic in it has the same effect as in [`Builder::on_batch`].
    /// Scripted answers ([`Receiver::script`]) are not refusals.
    ///
    /// ```
    /// use standpipe::receiver::Receiver;
    ///
    /// let receiver = Receiver::builder()
    ///     .on_refusal(|refused| eprintln!("{:?}: {}", refused.kind, refused.message))
    ///     .start()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_refusal(mut self, show: impl Fn(&RefusedRequest) + Send + Sync + 'static) -> Self {
        self.settings.on_refusal = Some(Callback(Box::new(show)));
        self
    }

    /// Accepts only requests for this machine: their `Host`, over gRPC their `:authority`, must be `localhost` or a
    /// name below it, a loopback address, the address of the listener, or a name by which containers reach their host
    /// (`host.docker.internal`, `host.containers.internal`). Requests for other hosts are answered with 403.
    ///
    /// This refuses web pages whose host name was made to resolve to this machine (DNS rebinding). The check applies
    /// to loopback listeners only: a receiver on another address is called by names that it cannot know.
    pub fn local_hosts_only(mut self) -> Self {
        self.settings.local_hosts_only = true;
        self
    }

    /// Lets web pages send telemetry over HTTP (CORS): pages from this machine (`http://localhost:3000`), and from
    /// `origins`, for example `https://shop.example`. Without this setting, browsers keep all web pages from sending.
    ///
    /// A page can send, but it cannot read records.
    pub fn allow_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.settings.allowed_origins = Some(origins.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the memory limit of the kept spans, log records and metrics together; the kept requests have a separate
    /// limit of the same size. The default is 256 MiB, and 0 keeps nothing.
    ///
    /// When a limit is exceeded, the oldest records or requests are dropped. The counts stay exact.
    pub fn keep_bytes(self, bytes: usize) -> Self {
        Self { keep_bytes: bytes, ..self }
    }

    /// Queues answers for the first requests, like [`Receiver::script`].
    pub fn first_answers(mut self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.script.answers_for(None).next.extend(answers);
        self
    }

    /// Starts the receiver.
    ///
    /// # Errors
    /// Returns an error if an address cannot be resolved or used, a socket cannot be created, or no thread can start.
    pub fn start(self) -> io::Result<Receiver> {
        let http = TcpListener::bind(self.address?.as_slice())?;
        let grpc = TcpListener::bind(self.grpc_address?.as_slice())?;
        let local_only = self.settings.local_hosts_only;
        let addresses = Addresses::of_listeners(http.local_addr()?, grpc.local_addr()?, local_only);
        let shared =
            Arc::new(Shared::new(self.settings, addresses, Store::new(self.keep_bytes), self.script));
        // If a later listener cannot be started, dropping the receiver stops the earlier ones.
        let mut receiver = Receiver { listeners: Vec::new(), shared: shared.clone() };
        receiver.listeners.push(Listener::start(http, shared.clone(), http::serve)?);
        receiver.listeners.push(Listener::start(grpc, shared.clone(), grpc::serve)?);
        let [http, grpc] = self.sockets;
        let start_http = |path| Listener::start_unix(path, shared.clone(), http::serve);
        receiver.listeners.extend(http.map(start_http).transpose()?);
        let start_grpc = |path| Listener::start_unix(path, shared.clone(), grpc::serve);
        receiver.listeners.extend(grpc.map(start_grpc).transpose()?);
        Ok(receiver)
    }

    /// Serves the web pages of the `standpipe` command-line program over HTTP/1, with the limits of a receiver, for as
    /// long as the process lives.
    ///
    /// `answer` is called with each valid request and its body, or with the refusal of an invalid one. If
    /// `answer` returns `None`, it has written to the socket itself, and the connection ends.
    #[doc(hidden)]
    pub fn serve_pages(self, listener: TcpListener, answer: Arc<http::OnPageRequest>) -> io::Result<()> {
        let address = listener.local_addr()?;
        let addresses = Addresses::of_listeners(address, address, self.settings.local_hosts_only);
        let shared = Shared::new(self.settings, addresses, Store::new(0), self.script);
        Listener::start(listener, Arc::new(shared), http::page_server(answer)).map(drop)
    }
}
