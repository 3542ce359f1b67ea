//! The page of `receive --page`: it shows in a browser on this machine what arrives.
//!
//! | file | content |
//! |---|---|
//! | `store.rs` | what is kept to be shown, within a bound of memory |
//! | `query.rs` | the words of the search |
//! | `api.rs` | which request of the scripts gets which answer; lists, the map of services |
//! | `details.rs` | a trace, a span, a log record |
//! | `server.rs` | which requests are answered; files, JSON, the stream of news |
//! | `assets/` | HTML, CSS and JavaScript as they are, without a build step |

mod api;
mod details;
mod query;
mod server;
mod store;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use standpipe::receiver::{Batch, Receiver, RefusedRequest};

use self::store::{Store, Trace};

/// Memory of the kept telemetry: 100,000 spans with five attributes each take half of it.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// A page that listens. Clones show the same.
#[derive(Clone)]
pub(crate) struct Page {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// What the receiver's threads and the page's share.
#[derive(Default)]
pub(super) struct Shared {
    store: Mutex<Store>,
    news: Condvar,
    /// Open streams of news.
    streams: AtomicUsize,
    /// Where telemetry is to be sent, by HTTP and by gRPC.
    endpoints: OnceLock<[String; 2]>,
    /// Whether the pretend shop is running.
    is_demo_running: AtomicBool,
}

impl Page {
    /// # Errors
    /// When the address cannot be listened on.
    pub(crate) fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { store: Mutex::new(Store::new(MAX_BYTES)), ..Shared::default() });
        server::start(listener, shared.clone())?;
        Ok(Self { shared, address })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows where the receiver listens.
    pub(crate) fn set_receiver(&self, receiver: &Receiver) {
        let _ = self.shared.endpoints.set([receiver.endpoint(), receiver.grpc_endpoint()]);
    }

    /// Takes what arrived. The sender waits only until others have added theirs.
    pub(crate) fn show(&self, batch: &Batch) {
        self.shared.lock().add(batch);
        self.shared.news.notify_all();
    }

    /// Takes a refusal, with what to do about it.
    pub(crate) fn show_refusal(&self, refused: &RefusedRequest, advice: String) {
        self.shared.lock().refuse(refused, advice, SystemTime::now());
        self.shared.news.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn traces(&self) -> Vec<Arc<Trace>> {
        self.lock().traces.values().cloned().collect()
    }

    /// The version, as soon as it is another than `seen`, or the same after `timeout`.
    fn wait_for_news(&self, seen: Option<u64>, timeout: Duration) -> Option<u64> {
        let waited = self.news.wait_timeout_while(self.lock(), timeout, |store| Some(store.version) == seen);
        let (store, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Some(store.version)
    }

    /// Where telemetry is to be sent; empty until the receiver listens.
    fn endpoints(&self) -> [&str; 2] {
        self.endpoints.get().map_or([""; 2], |endpoints| endpoints.each_ref().map(String::as_str))
    }
}
