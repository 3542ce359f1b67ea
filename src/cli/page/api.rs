//! What do the page's scripts ask for? Lists, the columns of a trace, the map of services, series of metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use standpipe::Exporter;

use super::super::demo_program::DemoProgram;
use super::super::describe;
use super::super::log_view::LogView;
use super::query::Query;
use super::request::Request;
use super::series::SeriesPoint;
use super::server::Response;
use super::store::{Counts, Trace, TraceKey};
use super::{Shared, details, one_trace, service_map};

/// Rows of a list. Who wants others narrows the search.
const MOST_ROWS: usize = 1000;
const DEMO_BUDGET: Duration = Duration::from_secs(5);

/// Answers a request for what is behind `/api/`.
pub(super) fn respond(path: &str, request: &Request<'_>, shared: &Arc<Shared>) -> Response {
    let words: Vec<&str> = path.split('/').collect();
    match (request.method, words.as_slice()) {
        ("POST", ["demo"]) => run_demo(shared),
        ("POST", _) => Response::failed(404, "no such action"),
        (_, ["state"]) => Response::json(&state(shared)),
        (_, ["traces"]) => list_traces(request, shared),
        (_, ["trace", id]) => with_trace(id, shared, |trace| {
            let known = ["changed", "logs"].map(|name| request.parameter(name).parse().ok());
            let logs = shared.lock().log_count_of(&trace.key);
            let is_known = known == [Some(trace.changed), Some(u64::from(logs))];
            // the large answer, only if it is another than before
            Response::json(&(!is_known).then(|| one_trace::columns(&trace, shared)))
        }),
        (_, ["trace", id, "span", index]) => with_trace(id, shared, |trace| {
            let span = index.parse().ok().and_then(|index: usize| trace.spans.get(index));
            span.map_or_else(no_such_span, |span| {
                Response::json(&details::span(&span.received, &one_trace::logs(&trace, shared)))
            })
        }),
        (_, ["trace", id, "otlp"]) => {
            with_trace(id, shared, |trace| Response::text(one_trace::otlp(&trace, span_of(request), shared)))
        }
        (_, ["trace", id, "text"]) => {
            with_trace(id, shared, |trace| Response::text(one_trace::text(&trace, span_of(request), shared)))
        }
        (_, ["logs"]) => list_logs(request, shared),
        (_, ["log", number]) => {
            let kept = number.parse().ok().and_then(|number| shared.lock().log(number));
            kept.map_or_else(
                || Response::failed(404, "this log record is not here any more"),
                |kept| Response::json(&details::log(&kept)),
            )
        }
        (_, ["metrics"]) => Response::json(&list_metrics(shared)),
        (_, ["series"]) => Response::json(&series_of(request.parameter("name"), shared)),
        (_, ["services"]) => Response::json(&service_map::of(&shared.traces())),
        (_, ["requests"]) => Response::json(&list_requests(shared)),
        _ => Response::failed(404, "no such resource"),
    }
}

/// The span that a part of a trace is below.
fn span_of(request: &Request<'_>) -> Option<usize> {
    request.parameter("span").parse().ok()
}

fn no_such_span() -> Response {
    Response::failed(404, "the trace has no such span")
}

fn with_trace(id: &str, shared: &Shared, show: impl FnOnce(Arc<Trace>) -> Response) -> Response {
    let Some(key) = parse_id(id) else {
        return Response::failed(400, "a trace id has 32 hexadecimal digits");
    };
    let trace = shared.lock().trace(&key);
    trace.map_or_else(|| Response::failed(404, "this trace is not here, or not any more"), show)
}

fn parse_id(id: &str) -> Option<TraceKey> {
    // of one sign alone, the number would be of another length
    (id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .then(|| u128::from_str_radix(id, 16).ok().map(u128::to_be_bytes))
        .flatten()
}

/// What stands at the head and the foot of the page.
#[derive(Serialize)]
struct State {
    version: u64,
    http: String,
    grpc: String,
    services: Vec<String>,
    counts: Counts,
    kept_traces: usize,
    kept_logs: usize,
    bytes: usize,
    limit: usize,
}

fn state(shared: &Shared) -> State {
    let [http, grpc] = shared.endpoints();
    let store = shared.lock();
    State {
        version: store.version,
        http: http.to_owned(),
        grpc: grpc.to_owned(),
        services: store.services().to_vec(),
        counts: store.counts,
        kept_traces: store.trace_count(),
        kept_logs: store.log_count(),
        bytes: store.bytes(),
        limit: store.limit,
    }
}

/// The first rows of those that match, and how many that are.
#[derive(Serialize)]
struct Listed<T> {
    matched: usize,
    rows: Vec<T>,
}

fn list<T, U>(found: Vec<T>, row: impl FnMut(T) -> U) -> Listed<U> {
    Listed { matched: found.len(), rows: found.into_iter().take(MOST_ROWS).map(row).collect() }
}

#[derive(Serialize)]
struct TraceRow {
    id: String,
    /// Milliseconds since 1970.
    start: f64,
    nanos: u64,
    name: String,
    has_root: bool,
    /// With the number of spans of each.
    services: Vec<(u32, u32)>,
    spans: usize,
    logs: u32,
    errors: u32,
}

/// The latest first.
fn list_traces(request: &Request<'_>, shared: &Shared) -> Response {
    let query = match Query::parse(request.parameter("q")) {
        Ok(query) => query,
        Err(error) => return Response::failed(400, error),
    };
    let mut traces = shared.traces();
    traces.retain(|trace| query.matches_trace(trace));
    traces.sort_unstable_by_key(|trace| std::cmp::Reverse((trace.start, trace.key)));
    let store = shared.lock();
    Response::json(&list(traces, |trace| TraceRow {
        id: describe::id(&trace.key),
        start: trace.start as f64 / 1e6,
        nanos: trace.nanos(),
        name: details::shorten(&trace.head().span.name),
        has_root: trace.root.is_some(),
        services: trace.services.clone(),
        spans: trace.spans.len(),
        logs: store.log_count_of(&trace.key),
        errors: trace.errors,
    }))
}

/// The latest first.
fn list_logs(request: &Request<'_>, shared: &Shared) -> Response {
    let query = match Query::parse(request.parameter("q")) {
        Ok(query) => query,
        Err(error) => return Response::failed(400, error),
    };
    let least = request.parameter("level").parse().unwrap_or(0);
    let mut logs = shared.lock().logs();
    logs.retain(|kept| kept.log.log.severity_number >= least && query.matches_log(&kept.log));
    logs.sort_by_cached_key(|kept| std::cmp::Reverse((LogView::from(&kept.log).unix_nanos(), kept.number)));
    Response::json(&list(logs, |kept| details::log_row(&kept)))
}

/// A metric with the names of its services; its series are asked for by name.
#[derive(Serialize)]
struct MetricRow {
    name: String,
    kind: String,
    unit: String,
    description: String,
    services: Vec<u32>,
    series: usize,
    points: usize,
}

fn list_metrics(shared: &Shared) -> Vec<MetricRow> {
    let store = shared.lock();
    let mut rows: Vec<MetricRow> = Vec::new();
    for (key, series) in store.series.iter() {
        if rows.last().is_none_or(|row| row.name != key.name) {
            rows.push(MetricRow {
                name: key.name.clone(),
                kind: series.kind.clone(),
                unit: series.unit.clone(),
                description: series.description.clone(),
                services: Vec::new(),
                series: 0,
                points: 0,
            });
        }
        if let Some(row) = rows.last_mut() {
            row.series += 1;
            row.points += series.points.len();
            if row.services.last() != Some(&key.service) {
                row.services.push(key.service);
            }
        }
    }
    rows
}

#[derive(Serialize)]
struct SeriesRow {
    id: u64,
    service: u32,
    attributes: String,
    instance: String,
    kind: String,
    points: Vec<SeriesPoint>,
}

fn series_of(name: &str, shared: &Shared) -> Vec<SeriesRow> {
    let store = shared.lock();
    let of_name = store.series.iter().filter(|(key, _)| key.name == name);
    let rows = of_name.map(|(key, series)| SeriesRow {
        id: series.id,
        service: key.service,
        attributes: key.attributes.clone(),
        instance: series.instance.clone(),
        kind: series.kind.clone(),
        points: series.points.iter().cloned().collect(),
    });
    rows.collect()
}

#[derive(Serialize)]
struct RequestRow {
    /// Milliseconds since 1970.
    at: u128,
    status: u16,
    what: String,
    count: u64,
}

/// The refused ones, the latest first.
fn list_requests(shared: &Shared) -> Vec<RequestRow> {
    let store = shared.lock();
    let mut rows: Vec<RequestRow> = store
        .refusals
        .iter()
        .map(|refusal| RequestRow {
            at: refusal.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis(),
            status: refusal.status,
            what: refusal.what.clone(),
            count: refusal.count,
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.at));
    rows
}

/// Lets the pretend shop of `standpipe demo` send here, once at a time.
fn run_demo(shared: &Arc<Shared>) -> Response {
    if shared.is_demo_running.swap(true, Ordering::SeqCst) {
        return Response::failed(409, "the pretend shop is still open");
    }
    let run = {
        let shared = shared.clone();
        move || {
            let exporter = Exporter::http(shared.endpoints()[0]);
            if let Ok(shop) = DemoProgram::start(&exporter, None) {
                shop.run();
                shop.shutdown(DEMO_BUDGET);
            }
            shared.is_demo_running.store(false, Ordering::SeqCst);
        }
    };
    match thread::Builder::new().name("standpipe-demo".to_owned()).spawn(run) {
        Ok(_) => Response { status: 202, ..Response::text("the pretend shop is open".to_owned()) },
        Err(error) => {
            shared.is_demo_running.store(false, Ordering::SeqCst);
            Response::failed(503, error.to_string())
        }
    }
}
