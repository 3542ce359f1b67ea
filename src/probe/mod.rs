//! Checks stage by stage whether a collector can be reached, and reports problems with advice.
//!
//! ```text
//! Exporter → each endpoint → resolve → connect → TLS → HTTP/2 → empty export → Report
//!                               └────────┴───────┴───────┴──────────┴ the first failure ends the probe
//! ```
//!
//! A probe connects like the exporter, with its proxy, certificates and headers. It sends no telemetry: an export
//! without records is an empty body. It follows no redirect and shows no secret.

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
use self::stages::{ProbeTarget, probe_grpc, probe_http};
use crate::config::{ConnectionSettings, Exporter, Transport};
use crate::escape::{escape_all_but, shows_itself};
use crate::process::spawn_scoped;
use crate::record::Signal;
use crate::transport::{GrpcSpec, HttpSpec, SetupError, with_current_headers};

/// Replaces a budget whose deadline the clock cannot represent.
const MAX_BUDGET: Duration = Duration::from_secs(3600);

/// Checks for each endpoint of an exporter whether it would accept telemetry.
///
/// All endpoints are probed at the same time, each within the budget. Behind a proxy they are probed one after the
/// other. After the first failure to reach the collector, the further endpoints are not probed and get the same result,
/// so that a wrong proxy password is sent only once. Console and file exporters have no endpoints. The function blocks
/// until the last endpoint has answered or the budget is used up. It never fails: problems are in the report.
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
    let spec = with_current_headers(&exporter.connection).and_then(|settings| Spec::new(&settings));
    let has_proxy = spec.as_ref().is_ok_and(|spec| spec.proxy().is_some());
    let probe = |endpoint: &Endpoint| probe_endpoint(&exporter.connection, &spec, endpoint, deadline);
    let stages = if has_proxy { one_by_one(&endpoints, probe) } else { all_at_once(&endpoints, &probe) };
    let report = |(Endpoint { shown: url, signals, .. }, stages)| EndpointReport { url, signals, stages };
    let endpoints = endpoints.into_iter().zip(stages).map(report).collect();
    Report { exporter: exporter.name().to_owned(), endpoints }
}

/// Probes endpoints behind a proxy. The first failure to reach the collector is the result for all further endpoints,
/// which are not probed: each attempt would send the password again, and proxies lock accounts.
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
            // If no thread can be started, the endpoint is probed on this one.
            spawn_scoped(scope, "standpipe-probe", probe).map_err(|_| probe())
        };
        let probes: Vec<_> = endpoints.iter().map(start).collect();
        let stages = probes.into_iter().map(|probe| match probe {
            // A panic of a probe must not discard the reports of the other endpoints.
            Ok(thread) => thread.join().unwrap_or_else(|_| panicked_stages()),
            Err(stages) => stages,
        });
        stages.collect()
    })
}

/// The result of [`probe`] for an exporter. `Display` shows one line per stage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a probe has no effect: it only returns a report"]
pub struct Report {
    /// [Name](Exporter::name) of the exporter.
    pub exporter: String,
    /// Results by URL.
    pub endpoints: Vec<EndpointReport>,
}

impl Report {
    /// Returns whether no stage failed.
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

/// The result for one URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointReport {
    /// The URL, without its query.
    pub url: String,
    /// Signals that are sent to the URL.
    pub signals: Vec<Signal>,
    /// Stages in their order. A failed stage is the last one.
    pub stages: Vec<Stage>,
}

impl EndpointReport {
    /// Returns whether no stage failed.
    pub fn is_good(&self) -> bool {
        self.failure().is_none()
    }

    /// Returns the failed stage, if there is one.
    pub fn failure(&self) -> Option<&Stage> {
        self.stages.iter().find(|stage| matches!(stage.outcome, Outcome::Failed { .. }))
    }
}

/// One stage of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stage {
    /// Kind of the stage.
    pub kind: StageKind,
    /// Duration of the stage.
    pub took: Duration,
    /// Outcome of the stage.
    pub outcome: Outcome,
    /// True if an exporter would drop records after this failure, instead of sending them again. Examples: a response
    /// such as 404 or UNAUTHENTICATED, an invalid certificate, a peer that speaks another protocol.
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

/// The stages, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StageKind {
    /// Check of the exporter's settings. Present only if it failed.
    Settings,
    /// Lookup of the host.
    Resolve,
    /// Opening of a connection, through a proxy if one is configured.
    Connect,
    /// TLS handshake and verification of the certificate; only for `https`.
    Tls,
    /// HTTP/2 preface and settings; only for gRPC.
    Http2,
    /// Export of a request without records; over gRPC, one request for each signal.
    Export,
}

impl StageKind {
    /// Returns the name of the stage in lower case.
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

/// Outcome of a stage. All texts are single lines without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The stage passed.
    Passed {
        /// Finding, such as `127.0.0.1:4318`.
        detail: String,
    },
    /// The stage passed, with a remark.
    Noted {
        /// The remark.
        detail: String,
    },
    /// The stage failed, and the probe ends.
    Failed {
        /// The problem.
        what: String,
        /// Advice, which may be empty.
        advice: String,
    },
}

/// Transport to probe, made from checked settings.
enum Spec {
    Http(Box<HttpSpec>),
    Grpc(Box<GrpcSpec>),
}

impl Spec {
    fn new(settings: &ConnectionSettings) -> Result<Self, SetupError> {
        match settings.transport {
            Transport::Grpc => GrpcSpec::for_probe(settings).map(|spec| Self::Grpc(Box::new(spec))),
            // Files and the console have no endpoints, so this spec is not used for them.
            _ => HttpSpec::for_probe(settings).map(|spec| Self::Http(Box::new(spec))),
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
    /// True if the next endpoint behind a proxy is probed as well. False only if an OTLP/HTTP request got no response.
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
                Spec::Http(spec) => probe_http(&target, spec, &mut stages),
                Spec::Grpc(spec) => {
                    probe_grpc(&target, spec, &mut stages);
                    // Over gRPC, all signals have the same endpoint, so no other endpoint is left to probe.
                    true
                }
            }
        }
        Err(problem) => {
            stages.fail(StageKind::Settings, Instant::now(), problem, false);
            // The next endpoint is probed as well: its settings may be valid.
            true
        }
    };
    Probed { stages: stages.done, is_answered }
}

/// Returns the stages of a probe that panicked, which is a bug of this library.
fn panicked_stages() -> Vec<Stage> {
    let now = Instant::now();
    let mut stages = Stages { done: Vec::new(), since: now };
    let problem = Problem::new("the probe panicked", "this is a bug in standpipe, please report it");
    stages.fail(StageKind::Settings, now, problem, false);
    stages.done
}

/// Recorder of stages. Each stage begins at the end of the one before it.
struct Stages {
    done: Vec<Stage>,
    since: Instant,
}

impl Stages {
    fn pass(&mut self, kind: StageKind, at: Instant, detail: impl Into<String>) {
        self.push(kind, at, Outcome::Passed { detail: detail.into() }, false);
    }

    fn fail(&mut self, kind: StageKind, at: Instant, problem: Problem, is_refused: bool) {
        self.push(kind, at, Outcome::Failed { what: problem.what, advice: problem.advice }, is_refused);
    }

    fn push(&mut self, kind: StageKind, at: Instant, outcome: Outcome, is_refused: bool) {
        let shown = |text: String| escape_all_but(shows_itself, &text).into_owned();
        // Texts may contain control characters from peers and proxies.
        let outcome = match outcome {
            Outcome::Passed { detail } => Outcome::Passed { detail: shown(detail) },
            Outcome::Noted { detail } => Outcome::Noted { detail: shown(detail) },
            Outcome::Failed { what, advice } => Outcome::Failed { what: shown(what), advice: shown(advice) },
        };
        let took = at.saturating_duration_since(self.since);
        self.since = at.max(self.since);
        self.done.push(Stage { kind, took, outcome, is_refused });
    }

    /// Records the outcome of an answered export. `is_retryable` is true if an exporter would send its records again
    /// after this response.
    fn answer(&mut self, at: Instant, outcome: Outcome, is_retryable: bool) {
        let is_refused = matches!(outcome, Outcome::Failed { .. }) && !is_retryable;
        self.push(StageKind::Export, at, outcome, is_refused);
    }
}
