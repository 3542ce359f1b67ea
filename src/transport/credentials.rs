//! Renews headers whose values change: headers that a function returns, and headers that contain the text of a file.
//!
//! [`Renewing`] wraps the transport of an exporter with such headers, so that other exporters pay nothing for them.
//! Before an attempt, [`Renewing`] fetches the values that are no longer valid. A function may hang, so it runs on its
//! own thread; if the attempt ends first, the next attempt waits for the same call. After a refusal (401, 403) all
//! values are fetched again, and the request is repeated once if a value has changed. The verdict on a refusal is
//! `TryLater`, because a later value may be accepted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dial::{Interrupter, Mailbox};
use super::redact::Secrets;
use super::response::printable;
use super::{Payload, ResponseStatus, SetupError, Transport, Verdict};
use crate::config::{ConnectionSettings, HeaderSource, Secret, demand};
use crate::process::{Driver, contain_panic};

/// Interval at which a wait for a function checks whether the attempt was interrupted.
const INTERRUPTION_CHECK: Duration = Duration::from_millis(20);
/// Time for which headers are used unless the function sets another time.
const DEFAULT_VALIDITY: Duration = Duration::from_secs(60);
/// Maximum validity, so that its end stays within the range of `Instant`.
const MAX_VALIDITY: Duration = Duration::from_secs(86_400);

type Headers = Vec<(String, Secret)>;
/// Headers and their validity, or a message.
type Fetched = Result<(Headers, Duration), String>;

/// A transport that sends headers.
pub(super) trait SendsHeaders: Transport {
    /// Replaces the headers of later requests by those of `settings`.
    fn set_headers(&mut self, settings: &ConnectionSettings) -> Result<(), SetupError>;

    /// Returns the interrupter of attempts, and the secrets that messages must not show.
    fn parts(&self) -> (&Interrupter, &Secrets);
}

/// Wraps a transport if it has headers that change.
pub(super) fn renewing<T: SendsHeaders + 'static>(
    inner: T,
    settings: &ConnectionSettings,
    driver: Driver,
) -> Box<dyn Transport> {
    if settings.header_sources.is_empty() || !demand::CREDENTIALS.is_raised() {
        return Box::new(inner);
    }
    Box::new(Renewing { inner, sources: sources(settings), settings: settings.clone(), driver })
}

/// Returns the settings with the current values of all headers, for a probe.
///
/// # Errors
/// Returns the error of the first function or file that fails.
pub(crate) fn with_current_headers(settings: &ConnectionSettings) -> Result<ConnectionSettings, SetupError> {
    let mut sources = sources(settings);
    for source in &mut sources {
        source.headers = fetch(&source.source)?.0;
    }
    Ok(merge(settings, &sources))
}

struct Renewing<T> {
    inner: T,
    /// Settings with the configured headers.
    settings: ConnectionSettings,
    sources: Vec<Source>,
    driver: Driver,
}

struct Source {
    source: HeaderSource,
    headers: Headers,
    /// `None` before the first fetch, after a refusal, and after headers that could not be used.
    valid_until: Option<Instant>,
    /// Unfinished call of an earlier attempt.
    pending: Option<Arc<Mailbox<Fetched>>>,
}

fn sources(settings: &ConnectionSettings) -> Vec<Source> {
    let new =
        |it: &HeaderSource| Source { source: it.clone(), headers: vec![], valid_until: None, pending: None };
    settings.header_sources.iter().map(new).collect()
}

fn merge(settings: &ConnectionSettings, sources: &[Source]) -> ConnectionSettings {
    let mut merged = settings.clone();
    for (name, value) in sources.iter().flat_map(|source| &source.headers) {
        merged.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        merged.headers.push((name.clone(), value.clone()));
    }
    merged
}

fn fetch(source: &HeaderSource) -> Fetched {
    match contain_panic(|| (source.get)()) {
        Ok(Ok(found)) => Ok((found.headers, found.valid_for.unwrap_or(DEFAULT_VALIDITY))),
        Ok(Err(error)) => Err(printable(&error.to_string())),
        Err(panic) => Err(format!("the function panicked: {}", printable(&panic))),
    }
}

impl Source {
    /// Fetches the headers. A function runs on its own thread. If the function is still running at `deadline`, or when
    /// the attempt is interrupted, the result is an error. If the caller drives the exporter, the function runs on this
    /// thread without a deadline. A file is always read on this thread.
    fn fetch_until(&mut self, driver: Driver, deadline: Instant, interrupter: &Interrupter) -> Fetched {
        if self.source.written.is_some() || driver == Driver::Caller {
            return fetch(&self.source);
        }
        loop {
            let (now, source) = (Instant::now(), self.source.clone());
            let end = deadline.min(now + INTERRUPTION_CHECK);
            let fetched = Mailbox::call(&mut self.pending, end, "standpipe-headers", move || fetch(&source));
            if let Some(fetched) = fetched.map_err(|error| error.to_string())? {
                return fetched;
            }
            if now >= deadline || interrupter.is_broken() {
                return Err("the function did not return in time".to_owned());
            }
        }
    }
}

impl<T: SendsHeaders> Renewing<T> {
    /// Fetches the headers that are no longer valid. If one has changed, sets all headers again and returns true.
    fn renew(&mut self, deadline: Instant) -> Result<bool, String> {
        let (now, mut has_changed) = (Instant::now(), false);
        for source in &mut self.sources {
            if source.valid_until.is_some_and(|until| now < until) {
                continue;
            }
            match source.fetch_until(self.driver, deadline, self.inner.parts().0) {
                Ok((headers, valid_for)) => {
                    has_changed |= source.headers != headers;
                    source.headers = headers;
                    source.valid_until = Some(Instant::now() + valid_for.min(MAX_VALIDITY));
                }
                // A file may be unreadable while it is replaced, so its last text stays in use.
                Err(_) if source.source.written.is_some() && source.valid_until.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        if has_changed {
            let merged = merge(&self.settings, &self.sources);
            let checked = merged.check_headers().map_err(|fault| SetupError::from(fault.to_string()));
            let set =
                checked.and_then(|()| self.inner.set_headers(&merged)).map_err(|error| error.to_string());
            // The fetched headers already count as valid, but the transport still has the old ones. Expire them, so
            // that the next attempt fetches and sets headers again.
            set.inspect_err(|_| self.expire())?;
        }
        Ok(has_changed)
    }

    fn expire(&mut self) {
        self.sources.iter_mut().for_each(|it| (it.valid_until, it.headers) = (None, Headers::new()));
    }

    fn is_refused(&self) -> bool {
        match self.inner.last_status() {
            Some(ResponseStatus::Http(status)) => matches!(status, 401 | 403),
            Some(ResponseStatus::Grpc(name)) => matches!(&*name, "UNAUTHENTICATED" | "PERMISSION_DENIED"),
            None => false,
        }
    }

    fn failed(&self, error: &str) -> Verdict {
        let reason = format!("the headers of the exporter cannot be renewed: {error}");
        Verdict::TryLater { after: None, reason: self.inner.parts().1.redact(reason) }
    }
}

impl<T: SendsHeaders> Transport for Renewing<T> {
    fn encode(&mut self, payload: &Payload<'_>, max_bytes: usize) -> bool {
        self.inner.encode(payload, max_bytes)
    }

    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        if let Err(error) = self.renew(deadline) {
            return self.failed(&error);
        }
        let mut verdict = self.inner.send(payload, deadline);
        if !self.is_refused() {
            return verdict;
        }
        self.sources.iter_mut().for_each(|source| source.valid_until = None);
        match self.renew(deadline) {
            // Encodes again, because `send` has freed the encoded request. No limit is needed: the same request was
            // within the limit before.
            Ok(true) if self.inner.encode(payload, usize::MAX) => {
                verdict = self.inner.send(payload, deadline)
            }
            Ok(_) => {}
            Err(error) => return self.failed(&error),
        }
        match verdict {
            Verdict::Refused { reason } if self.is_refused() => {
                self.sources.iter_mut().for_each(|source| source.valid_until = None);
                Verdict::TryLater { after: None, reason }
            }
            verdict => verdict,
        }
    }

    fn last_status(&self) -> Option<ResponseStatus> {
        self.inner.last_status()
    }

    fn attempts(&self) -> Option<&Arc<Interrupter>> {
        self.inner.attempts()
    }
}
