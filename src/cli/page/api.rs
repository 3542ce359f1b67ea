//! What do the page's scripts ask for? Lists, the columns of a trace, the map of services, series of metrics.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value as Json, json};
use standpipe::Exporter;

use super::super::demo_program::DemoProgram;
use super::super::describe::{self, SpanView};
use super::super::log_view::LogView;
use super::query::Query;
use super::server::{Request, Response};
use super::store::{KeptSpan, Trace, TraceKey, is_error};
use super::{Shared, details};

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
            Response::json(&(!is_known).then(|| details::columns(&trace, shared)))
        }),
        (_, ["trace", id, "span", index]) => with_trace(id, shared, |trace| {
            let span = index.parse().ok().and_then(|index: usize| trace.spans.get(index));
            span.map_or_else(no_such_span, |span| {
                Response::json(&details::span(&span.received, &details::logs(&trace, shared)))
            })
        }),
        (_, ["trace", id, "otlp"]) => {
            with_trace(id, shared, |trace| Response::text(details::otlp(&trace, span_of(request), shared)))
        }
        (_, ["trace", id, "text"]) => {
            with_trace(id, shared, |trace| Response::text(details::text(&trace, span_of(request), shared)))
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
        (_, ["services"]) => Response::json(&service_map(&shared.traces())),
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

/// Returns what the head and the foot of the page show.
fn state(shared: &Shared) -> Json {
    let [http, grpc] = shared.endpoints();
    let store = shared.lock();
    json!({
        "version": store.version,
        "http": http,
        "grpc": grpc,
        "services": store.services(),
        "counts": store.counts,
        "kept_traces": store.trace_count(),
        "kept_logs": store.log_count(),
        "bytes": store.bytes(),
        "limit": store.limit,
    })
}

/// Returns the first rows of those that match, and how many match.
fn list<T>(found: Vec<T>, row: impl FnMut(T) -> Json) -> Response {
    let matched = found.len();
    Response::json(&json!({
        "matched": matched,
        "rows": found.into_iter().take(MOST_ROWS).map(row).collect::<Json>(),
    }))
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
    list(traces, |trace| {
        json!({
            "id": describe::id(&trace.key),
            // milliseconds since 1970
            "start": trace.start as f64 / 1e6,
            "nanos": trace.nanos(),
            "name": details::shorten(&trace.head().span.name),
            "has_root": trace.root.is_some(),
            // with the number of spans of each
            "services": trace.services,
            "spans": trace.spans.len(),
            "logs": store.log_count_of(&trace.key),
            "errors": trace.errors,
        })
    })
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
    list(logs, |kept| details::log_row(&kept))
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

fn series_of(name: &str, shared: &Shared) -> Json {
    let store = shared.lock();
    let of_name = store.series.iter().filter(|(key, _)| key.name == name);
    let rows = of_name.map(|(key, series)| {
        json!({
            "id": series.id,
            "service": key.service,
            "attributes": key.attributes,
            "instance": series.instance,
            "kind": series.kind,
            "points": series.points,
        })
    });
    rows.collect()
}

/// Returns the refused requests, the latest first.
fn list_requests(shared: &Shared) -> Json {
    let store = shared.lock();
    let mut refusals: Vec<_> = store.refusals.iter().collect();
    refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.at));
    let rows = refusals.into_iter().map(|refusal| {
        // milliseconds since 1970
        let at = refusal.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        json!({ "at": at, "status": refusal.status, "what": refusal.what, "count": refusal.count })
    });
    rows.collect()
}

/// Which service calls which.
#[derive(Default, Serialize)]
struct ServiceMap {
    nodes: Vec<ServiceNode>,
    edges: Vec<ServiceEdge>,
}

#[derive(Serialize)]
struct ServiceNode {
    name: String,
    spans: u64,
    errors: u64,
}

#[derive(Serialize)]
struct ServiceEdge {
    /// Indices of nodes.
    from: usize,
    to: usize,
    calls: u64,
    errors: u64,
    nanos: u64,
}

/// Counts the spans whose parent is of another service.
fn service_map(traces: &[Arc<Trace>]) -> ServiceMap {
    let mut map = ServiceMap::default();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut edges: HashMap<(usize, usize), ServiceEdge> = HashMap::new();
    for trace in traces {
        let mut of_span: HashMap<&[u8], usize> = HashMap::new();
        for KeptSpan { received, .. } in &trace.spans {
            let name = received.service_name();
            let number = *numbers.entry(name).or_insert_with(|| {
                map.nodes.push(ServiceNode { name: details::shorten(name), spans: 0, errors: 0 });
                map.nodes.len() - 1
            });
            map.nodes[number].spans += 1;
            map.nodes[number].errors += u64::from(is_error(received));
            of_span.insert(&received.span.span_id, number);
        }
        for KeptSpan { received, .. } in &trace.spans {
            let to = numbers[received.service_name()];
            let from = of_span.get(&received.span.parent_span_id[..]).copied().filter(|from| *from != to);
            if let Some(from) = from {
                let edge = edges.entry((from, to)).or_insert(ServiceEdge {
                    from,
                    to,
                    calls: 0,
                    errors: 0,
                    nanos: 0,
                });
                edge.calls += 1;
                edge.errors += u64::from(is_error(received));
                edge.nanos = edge.nanos.saturating_add(SpanView::from(received).nanos());
            }
        }
    }
    map.edges = edges.into_values().collect();
    map.edges.sort_by_key(|edge| (edge.from, edge.to));
    map
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
