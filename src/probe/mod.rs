//! Checks, stage by stage, whether a collector can be reached, and reports what is wrong and what to do about it.
//!
//! ```text
//! Exporter → each endpoint → resolve → connect → TLS → HTTP/2 → empty export → Report
//!                               └────────┴───────┴───────┴──────────┴ the first failure ends it, with advice
//! ```
//!
//! A probe connects as the exporter does, with its proxy, certificates and headers. No telemetry is sent: an export without
//! records is an empty body. No redirect is followed, and no secret is shown.

mod advice;
mod certificate;
mod endpoint;
mod responses;
mod stages;

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use self::advice::Problem;
use self::endpoint::{Endpoint, EndpointUrl, endpoints};
use self::stages::{ProbeTarget, ask_grpc, ask_http};
use crate::config::{ConnectionSettings, Exporter, Transport};
use crate::escape::{escape_all_but, shows_itself};
use crate::process::spawn_scoped;
use crate::record::Signal;
use crate::transport::{GrpcSpec, HttpSpec, SetupError};

/// Stands in for a budget that no clock can hold.
const MAX_BUDGET: Duration = Duration::from_secs(3600);

/// Checks for each endpoint of an exporter whether it would take what is sent there.
///
/// All endpoints are probed at the same time, each within the budget. Behind a proxy they are probed one after the other, and the first
/// failure to reach the collector is the result of all: a wrong password is sent once. Console exporters have no endpoints. This
/// function blocks until the last endpoint has answered or the budget is used up, and never fails: problems are in the report.
///
/// ```
/// use std::time::Duration;
/// use standpipe::Exporter;
/// use standpipe::probe::probe;
///
/// # let receiver = standpipe::receiver::Receiver::start()?;
/// # let endpoint = receiver.endpoint();
/// # /*
/// let endpoint = "http://localhost:4318";
/// # */
/// let report = probe(&Exporter::http(endpoint), Duration::from_secs(5));
/// assert!(report.is_good(), "{report}");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn probe(exporter: &Exporter, budget: Duration) -> Report {
    let now = Instant::now();
    let deadline = now.checked_add(budget).unwrap_or(now + MAX_BUDGET);
    let endpoints = endpoints(exporter);
    let spec = Spec::new(&exporter.connection);
    let has_proxy = spec.as_ref().is_ok_and(|spec| spec.proxy().is_some());
    let probe = |endpoint: &Endpoint| probe_endpoint(&exporter.connection, &spec, endpoint, deadline);
    let stages = if has_proxy { one_by_one(&endpoints, probe) } else { all_at_once(&endpoints, &probe) };
    let report = |(Endpoint { shown: url, signals, .. }, stages)| EndpointReport { url, signals, stages };
    let endpoints = endpoints.into_iter().zip(stages).map(report).collect();
    Report { exporter: exporter.name().to_owned(), endpoints }
}

/// Probes endpoints behind a proxy. A result that is not the collector's holds for all of them: each attempt would repeat the
/// password, and proxies lock accounts.
fn one_by_one(endpoints: &[Endpoint], probe: impl Fn(&Endpoint) -> Probed) -> Vec<Vec<Stage>> {
    let mut failed: Option<Vec<Stage>> = None;
    let stages = endpoints.iter().map(|endpoint| {
        failed.clone().unwrap_or_else(|| {
            let Probed { stages, is_answered } = probe(endpoint);
            failed = (!is_answered).then(|| stages.clone());
            stages
        })
    });
    stages.collect()
}

fn all_at_once(endpoints: &[Endpoint], probe: &(impl Fn(&Endpoint) -> Probed + Sync)) -> Vec<Vec<Stage>> {
    thread::scope(|scope| {
        let start = |endpoint| {
            let probe = move || probe(endpoint).stages;
            // Where no more threads can be started, one after the other.
            spawn_scoped(scope, "standpipe-probe", probe).map_err(|_| probe())
        };
        let probes: Vec<_> = endpoints.iter().map(start).collect();
        let stages = probes.into_iter().map(|probe| match probe {
            Ok(thread) => thread.join().unwrap_or_else(|_| given_up()),
            Err(stages) => stages,
        });
        stages.collect()
    })
}

/// What was found out about an exporter, from [`probe`]. Shown as a line for each stage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a probe changes nothing: its report is all there is"]
pub struct Report {
    /// The exporter's [name](Exporter::name).
    pub exporter: String,
    /// Each URL that signals are sent to, once.
    pub endpoints: Vec<EndpointReport>,
}

impl Report {
    /// Whether nothing failed.
    pub fn is_good(&self) -> bool {
        self.endpoints.iter().all(EndpointReport::is_good)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for endpoint in &self.endpoints {
            for stage in &endpoint.stages {
                writeln!(f, "exporter {}: {}: {stage}", self.exporter, endpoint.url)?;
            }
        }
        Ok(())
    }
}

/// How far the way to one URL could be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointReport {
    /// The URL, without its query.
    pub url: String,
    /// What is sent there.
    pub signals: Vec<Signal>,
    /// The stages that were gone through, in their order. After one that failed there is no other.
    pub stages: Vec<Stage>,
}

impl EndpointReport {
    /// Whether no stage failed.
    pub fn is_good(&self) -> bool {
        self.failure().is_none()
    }

    /// The stage that failed.
    pub fn failure(&self) -> Option<&Stage> {
        self.stages.iter().find(|stage| matches!(stage.outcome, Outcome::Failed { .. }))
    }
}

/// One step on the way to a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stage {
    /// Which step.
    pub kind: StageKind,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub outcome: Outcome,
    /// Whether the server gave an answer after which an exporter drops records, as 404 or UNAUTHENTICATED, and does not send
    /// them again.
    pub is_refused: bool,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Passed { detail } => write!(f, "{}: {detail}", self.kind),
            Outcome::Noted { detail } => write!(f, "{}: note: {detail}", self.kind),
            Outcome::Failed { what, advice } => {
                let separator = if advice.is_empty() { "" } else { "; " };
                write!(f, "{}: failed: {what}{separator}{advice}", self.kind)
            }
        }
    }
}

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StageKind {
    /// Making sense of the exporter's settings; only there if that failed.
    Settings,
    /// Looking up the host's addresses.
    Resolve,
    /// Opening a connection, by way of a proxy if there is one.
    Connect,
    /// Agreeing on encryption, and verifying the certificate; only for `https`.
    Tls,
    /// The HTTP/2 preface and settings; only for gRPC.
    Http2,
    /// Sending a request without records; over gRPC one for each signal.
    Export,
}

impl StageKind {
    /// In lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Http2 => "http/2",
            Self::Export => "export",
        }
    }
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What came of a stage. All texts are lines without line breaks, and without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All is well.
    Passed {
        /// What was found, such as `127.0.0.1:4318`.
        detail: String,
    },
    /// Neither good nor bad, but worth knowing.
    Noted {
        /// What to know.
        detail: String,
    },
    /// It ends here.
    Failed {
        /// What is wrong.
        what: String,
        /// What to do about it; may be empty.
        advice: String,
    },
}

/// The transport to probe, checked.
enum Spec {
    Http(Box<HttpSpec>),
    Grpc(Box<GrpcSpec>),
}

impl Spec {
    fn new(settings: &ConnectionSettings) -> Result<Self, SetupError> {
        match settings.transport {
            Transport::Grpc => GrpcSpec::for_probe(settings).map(|spec| Self::Grpc(Box::new(spec))),
            // A console has no endpoint to probe.
            Transport::Http | Transport::Console => {
                HttpSpec::for_probe(settings).map(|spec| Self::Http(Box::new(spec)))
            }
        }
    }

    fn proxy(&self) -> Option<String> {
        match self {
            Self::Http(spec) => spec.proxy(),
            Self::Grpc(spec) => spec.proxy(),
        }
    }
}

/// The stages of an endpoint.
struct Probed {
    stages: Vec<Stage>,
    /// The collector answered. Only then can another endpoint have another result.
    is_answered: bool,
}

fn probe_endpoint(
    settings: &ConnectionSettings,
    spec: &Result<Spec, SetupError>,
    endpoint: &Endpoint,
    deadline: Instant,
) -> Probed {
    let mut stages = Stages { done: Vec::new(), since: Instant::now() };
    let unreadable =
        || Problem::new("the endpoint cannot be read", "write a URL like \"http://localhost:4318\"");
    let url = EndpointUrl::parse(&endpoint.url, &endpoint.shown).ok_or_else(unreadable);
    let spec = spec.as_ref().map_err(|error| Problem::new(error.to_string(), ""));
    let is_answered = match url.and_then(|url| Ok((url, spec?))) {
        Ok((url, spec)) => {
            let target = ProbeTarget { settings, endpoint, url: &url, proxy: spec.proxy(), deadline };
            match spec {
                Spec::Http(spec) => ask_http(&target, spec, &mut stages),
                Spec::Grpc(spec) => {
                    ask_grpc(&target, spec, &mut stages);
                    true
                }
            }
        }
        Err(problem) => {
            stages.fail(StageKind::Settings, Instant::now(), problem);
            true
        }
    };
    Probed { stages: stages.done, is_answered }
}

/// A panic on the way is a bug of ours, but the other endpoints still have their reports.
fn given_up() -> Vec<Stage> {
    let now = Instant::now();
    let mut stages = Stages { done: Vec::new(), since: now };
    stages.fail(StageKind::Settings, now, Problem::new("the probe panicked", "please report this"));
    stages.done
}

/// A report as it grows: each stage lasts from the end of the one before it.
struct Stages {
    done: Vec<Stage>,
    since: Instant,
}

impl Stages {
    fn pass(&mut self, kind: StageKind, at: Instant, detail: impl Into<String>) {
        self.push(kind, at, Outcome::Passed { detail: detail.into() }, false);
    }

    fn fail(&mut self, kind: StageKind, at: Instant, problem: Problem) {
        self.push(kind, at, Outcome::Failed { what: problem.what, advice: problem.advice }, false);
    }

    fn push(&mut self, kind: StageKind, at: Instant, outcome: Outcome, is_refused: bool) {
        let shown = |text: String| escape_all_but(shows_itself, &text).into_owned();
        // they hold text from peers and proxies
        let outcome = match outcome {
            Outcome::Passed { detail } => Outcome::Passed { detail: shown(detail) },
            Outcome::Noted { detail } => Outcome::Noted { detail: shown(detail) },
            Outcome::Failed { what, advice } => Outcome::Failed { what: shown(what), advice: shown(advice) },
        };
        let took = at.saturating_duration_since(self.since);
        self.since = at.max(self.since);
        self.done.push(Stage { kind, took, outcome, is_refused });
    }

    /// Records the outcome of an export that was answered; `is_retryable` if an exporter sends again after this answer.
    fn answer(&mut self, at: Instant, outcome: Outcome, is_retryable: bool) {
        let is_refused = matches!(outcome, Outcome::Failed { .. }) && !is_retryable;
        self.push(StageKind::Export, at, outcome, is_refused);
    }
}
