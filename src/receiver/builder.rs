//! A receiver with other than the usual settings.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::listener::{self, Listener};
use super::refusal::RefusedRequest;
use super::request_sink::Script;
use super::state::{Addresses, Callback, Settings, Shared};
use super::store::{Batch, ReceivedRequest, Store};
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
    settings: Settings,
    keep_bytes: usize,
    script: Script,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            address: Ok(vec![([127, 0, 0, 1], 0).into()]),
            grpc_address: Ok(vec![([127, 0, 0, 1], 0).into()]),
            settings: Settings {
                max_body_bytes: 64 * MIB,
                max_memory_bytes: 512 * MIB,
                max_header_bytes: 32 * 1024,
                max_connections: 256,
                read_timeout: Duration::from_secs(30),
                local_hosts_only: false,
                on_batch: None,
                on_refusal: None,
            },
            keep_bytes: 256 * MIB,
            script: Script::default(),
        }
    }

    /// Where to listen for OTLP over HTTP; `127.0.0.1:0`, a free port of this machine, by default.
    ///
    /// If a name stands for several addresses, the first that is free is taken. Every host that can reach the address can
    /// send: the receiver checks no credentials.
    pub fn address(mut self, address: impl ToSocketAddrs) -> Self {
        self.address = address.to_socket_addrs().map(Iterator::collect);
        self
    }

    /// Where to listen for OTLP over gRPC, as [`Builder::address`] for HTTP.
    pub fn grpc_address(mut self, address: impl ToSocketAddrs) -> Self {
        self.grpc_address = address.to_socket_addrs().map(Iterator::collect);
        self
    }

    /// The longest body, after decompression, that is not answered with 413; 64 MiB by default.
    ///
    /// Over gRPC the answer is `RESOURCE_EXHAUSTED`. The calls of one connection that are on their way in or not answered
    /// yet may have twice as much together; what is more is answered with `UNAVAILABLE`.
    ///
    /// A shorter body of very many empty messages is refused likewise, when it would take sixteen times this in memory.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_body_bytes = bytes;
        self
    }

    /// How many bytes of memory all requests together may take, of all connections: while they are read, decompressed,
    /// decoded and answered, and as long as a clone of their [`Batch`] is kept; 512 MiB by default.
    ///
    /// A request that needs more than all of it is answered with 413, over gRPC with `RESOURCE_EXHAUSTED`; one that needs
    /// what others use with 503 or `UNAVAILABLE`, which are retryable. The memory is estimated before a
    /// request is decoded: an empty span of two bytes takes about 600. What is kept afterwards is not part of it: see
    /// [`Builder::keep_bytes`].
    pub fn max_memory_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_memory_bytes = bytes;
        self
    }

    /// The longest request head that is not answered with 431; 32 KiB by default.
    ///
    /// Over gRPC each header counts for 32 bytes more than its name and value, and the answer is `RESOURCE_EXHAUSTED`.
    /// There, more than 32 KiB in compressed form end the connection regardless of this setting.
    pub fn max_header_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_header_bytes = bytes;
        self
    }

    /// How many connections, of both protocols together, may be open at a time; 256 by default.
    ///
    /// A further one takes the place of the connection that brought nothing for longest, which is closed. If all wait for an
    /// answer, the new one is closed at once. Each has a thread, over gRPC one more that answers; up to 256 more threads are
    /// for calls that are answered at the same time on one connection, of all connections together.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.settings.max_connections = connections;
        self
    }

    /// How long a client may take to send a request, to take in an answer, and to stay silent between two
    /// requests; 30 seconds by default, and a millisecond at least.
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.settings.read_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Shows every decoded request before it is counted and answered.
    ///
    /// It is called on the thread of the request, so for several requests at a time; as long as it takes, the client
    /// waits. If it panics, the connection is closed without an answer.
    pub fn on_batch(mut self, show: impl Fn(&Batch) + Send + Sync + 'static) -> Self {
        self.settings.on_batch = Some(Callback(Box::new(show)));
        self
    }

    /// Shows every request that is refused by itself, before it is answered: what a client got wrong, and what it is answered.
    ///
    /// It is called as [`Builder::on_batch`] is. Answers that were ordered ([`Receiver::script`]) are no refusals.
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

    /// Takes only requests that are meant for this machine: their `Host`, over gRPC their `:authority`, must be `localhost`
    /// or a name below it, an address of loopback, or the address that is listened on. Others are answered with 403.
    ///
    /// So no web page can send here under a name of its own (DNS rebinding). It holds for addresses of loopback; a receiver
    /// that listens on another is called by names that it cannot know.
    pub fn local_hosts_only(mut self) -> Self {
        self.settings.local_hosts_only = true;
        self
    }

    /// How many bytes of memory the kept spans, log records and metrics may take together, and as many the kept
    /// requests; 256 MiB by default, 0 keeps nothing.
    ///
    /// Beyond it the oldest are forgotten. The counts stay exact.
    pub fn keep_bytes(mut self, bytes: usize) -> Self {
        self.keep_bytes = bytes;
        self
    }

    /// Answers for the first requests, as by [`Receiver::script`].
    pub fn first_answers(mut self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.script.answers_for(None).next.extend(answers);
        self
    }

    /// Starts listening.
    ///
    /// # Errors
    /// When an address cannot be resolved or is in use, or when no thread can be started.
    pub fn start(self) -> io::Result<Receiver> {
        let http = TcpListener::bind(self.address?.as_slice())?;
        let grpc = TcpListener::bind(self.grpc_address?.as_slice())?;
        let local_only = self.settings.local_hosts_only;
        let addresses = Addresses::of_listeners(http.local_addr()?, grpc.local_addr()?, local_only);
        let shared =
            Arc::new(Shared::new(self.settings, addresses, Store::new(self.keep_bytes), self.script));
        let http = Listener::start(http, shared.clone(), http::serve)?;
        match Listener::start(grpc, shared.clone(), grpc::serve) {
            Ok(grpc) => Ok(Receiver { shared, http, grpc }),
            Err(error) => {
                listener::stop(&[&http], &shared);
                Err(error)
            }
        }
    }

    /// Serves pages with the receiver's HTTP/1 server and its limits, for as long as the process lives. The command uses it.
    ///
    /// `answer` gets a request without a body, or why a request is refused. If it returns `None`, it has written its answer
    /// to the socket, and the connection ends.
    #[doc(hidden)]
    pub fn serve_pages(
        self,
        listener: TcpListener,
        answer: impl Fn(Result<&ReceivedRequest, &RefusedRequest>, &TcpStream) -> Option<Answer>
        + Send
        + Sync
        + 'static,
    ) -> io::Result<()> {
        let address = listener.local_addr()?;
        let addresses = Addresses::of_listeners(address, address, self.settings.local_hosts_only);
        let shared = Shared::new(self.settings, addresses, Store::new(0), self.script);
        let answer: Arc<http::OnPageRequest> = Arc::new(answer);
        let serve = move |shared: &Shared, socket: &TcpStream, number| {
            http::serve_pages(shared, socket, number, &*answer);
        };
        Listener::start(listener, Arc::new(shared), serve).map(drop)
    }
}
