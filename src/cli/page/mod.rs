//! The web page of `receive --page`, `show --page` and `demo --page`, which shows telemetry in a browser.
//!
//! | file | content |
//! |---|---|
//! | `store.rs` | the kept records, within a memory limit |
//! | `query.rs` | the search language |
//! | `api.rs` | the JSON API for the page's scripts: lists, the service map |
//! | `details.rs` | JSON of a trace, a span, a log record |
//! | `server.rs` | the HTTP server: access checks, files, the event stream |
//! | `assets/` | HTML, CSS and JavaScript, served unchanged without a build step |

mod api;
mod details;
pub(crate) mod query;
mod server;
pub(crate) mod store;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use standpipe::receiver::{Batch, Receiver, Records, RefusedRequest};

use self::store::{Store, Trace};
use super::style::{Ink, Style};
use super::{Failure, on_interrupt, print};

/// Maximum memory of the kept telemetry. 100,000 spans, each with five attributes, take half of this memory.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// A running page, shared by the threads of the receiver and of the page's server.
pub(crate) struct Page {
    pub(crate) address: SocketAddr,
    store: Mutex<Store>,
    /// Notified when the version of the store changes.
    news: Condvar,
    /// Number of open event streams.
    streams: AtomicUsize,
    /// The receiver's endpoints for HTTP and gRPC.
    endpoints: OnceLock<[String; 2]>,
    /// Whether the demo is running.
    is_demo_running: AtomicBool,
}

impl Page {
    /// Starts the page's server.
    ///
    /// # Errors
    /// Returns an error if listening on the address fails.
    pub(crate) fn start(address: SocketAddr) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind(address)?;
        let page = Self::without_server(listener.local_addr()?);
        server::start(listener, page.clone())?;
        Ok(page)
    }

    /// Returns a page that keeps telemetry. Browsers can open the page only if a server is started for it.
    pub(crate) fn without_server(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            address,
            store: Mutex::new(Store::new(MAX_BYTES)),
            news: Condvar::new(),
            streams: AtomicUsize::new(0),
            endpoints: OnceLock::new(),
            is_demo_running: AtomicBool::new(false),
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Sets the receiver whose endpoints the page shows.
    pub(crate) fn set_receiver(&self, receiver: &Receiver) {
        let _ = self.endpoints.set([receiver.endpoint(), receiver.grpc_endpoint()]);
    }

    /// Prints the address of the page, and waits for Ctrl-C.
    pub(crate) fn show_until_interrupt(&self, style: &Style) -> Result<(), Failure> {
        let (end, ended) = mpsc::channel();
        on_interrupt(move || _ = end.send(()))?;
        let mut line = style.line();
        line.put(Ink::PLAIN, "page at ").put_rest(Ink::PLAIN.bold(), &self.url());
        print(&[line.put_rest(Ink::FAINT, "  (Ctrl-C stops)").finish()])?;
        let _ = ended.recv();
        Ok(())
    }

    /// Adds a batch. The sender of the batch waits only for the lock of the store.
    pub(crate) fn show(&self, batch: &Batch) {
        self.lock().add(batch);
        self.news.notify_all();
    }

    /// Adds records that were not received, but read from a file.
    pub(crate) fn load(&self, records: &Records) {
        self.lock().add_records(records, usize::MAX);
        self.news.notify_all();
    }

    /// Adds a refused request with its remedy.
    pub(crate) fn show_refusal(&self, refused: &RefusedRequest, advice: String) {
        self.lock().refuse(refused, advice, SystemTime::now());
        self.news.notify_all();
    }

    /// Returns the version of the store, which increases with each change.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn traces(&self) -> Vec<Arc<Trace>> {
        self.lock().traces.values().cloned().collect()
    }

    /// Waits until the version differs from `seen`, at most for `timeout`. Returns the version.
    fn wait_for_news(&self, seen: Option<u64>, timeout: Duration) -> Option<u64> {
        let waited = self.news.wait_timeout_while(self.lock(), timeout, |store| Some(store.version) == seen);
        let (store, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Some(store.version)
    }

    /// Returns the receiver's endpoints for HTTP and gRPC; empty texts until the receiver is set.
    pub(crate) fn endpoints(&self) -> [&str; 2] {
        self.endpoints.get().map_or([""; 2], |endpoints| endpoints.each_ref().map(String::as_str))
    }
}
