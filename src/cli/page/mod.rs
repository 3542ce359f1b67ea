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

/// A page that listens, shared by the receiver's threads and those of the page.
pub(crate) struct Page {
    pub(crate) address: SocketAddr,
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
    pub(crate) fn start(address: SocketAddr) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind(address)?;
        let page = Arc::new(Self {
            address: listener.local_addr()?,
            store: Mutex::new(Store::new(MAX_BYTES)),
            news: Condvar::new(),
            streams: AtomicUsize::new(0),
            endpoints: OnceLock::new(),
            is_demo_running: AtomicBool::new(false),
        });
        server::start(listener, page.clone())?;
        Ok(page)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Shows where the receiver listens.
    pub(crate) fn set_receiver(&self, receiver: &Receiver) {
        let _ = self.endpoints.set([receiver.endpoint(), receiver.grpc_endpoint()]);
    }

    /// Shows a batch. The sender waits only until others have added theirs.
    pub(crate) fn show(&self, batch: &Batch) {
        self.lock().add(batch);
        self.news.notify_all();
    }

    /// Shows a refusal, with what to do about it.
    pub(crate) fn show_refusal(&self, refused: &RefusedRequest, advice: String) {
        self.lock().refuse(refused, advice, SystemTime::now());
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn traces(&self) -> Vec<Arc<Trace>> {
        self.lock().traces.values().cloned().collect()
    }

    /// Returns the version as soon as it is not `seen`, or after `timeout`.
    fn wait_for_news(&self, seen: Option<u64>, timeout: Duration) -> Option<u64> {
        let waited = self.news.wait_timeout_while(self.lock(), timeout, |store| Some(store.version) == seen);
        let (store, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Some(store.version)
    }

    /// Returns where telemetry is to be sent; empty until the receiver listens.
    fn endpoints(&self) -> [&str; 2] {
        self.endpoints.get().map_or([""; 2], |endpoints| endpoints.each_ref().map(String::as_str))
    }
}
