//! What do the page's scripts ask for? Lists, the columns of a trace, the map of services, series of metrics.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use standpipe::Exporter;

use super::super::demo_program::DemoProgram;
use super::super::describe::{self, SpanView};
use super::super::log_view::LogView;
use super::super::style::{Palette, plain_style};
use super::super::waterfall;
use super::query::Query;
use super::request::Request;
use super::series::SeriesPoint;
use super::server::Response;
use super::store::{Counts, KeptLog, Trace, TraceKey, is_error, key_of};
use super::{Shared, details};

/// Rows of a list. Who wants others narrows the search.
const MOST_ROWS: usize = 1000;
/// Cells of a trace that is copied as text.
const TEXT_WIDTH: usize = 110;
const DEMO_BUDGET: Duration = Duration::from_secs(5);

/// Answers a request for what is behind `/api/`.
pub(super) fn respond(path: &str, request: &Request, shared: &Arc<Shared>) -> Response {
    let words: Vec<&str> = path.split('/').collect();
    match (request.method.as_str(), words.as_slice()) {
        ("POST", ["demo"]) => run_demo(shared),
        ("POST", _) => Response::failed(404, "no such action"),
        (_, ["state"]) => Response::json(&state(shared)),
        (_, ["traces"]) => list_traces(request, shared),
        (_, ["trace", id]) => with_trace(id, shared, |trace| {
            let known = ["changed", "logs"].map(|name| request.parameter(name).parse().ok());
            let logs = shared.lock().log_count_of(&trace.key);
            let is_known = known == [Some(trace.changed), Some(u64::from(logs))];
            // the large answer, only if it is another than before
            Response::json(&(!is_known).then(|| columns(&trace, shared)))
        }),
        (_, ["trace", id, "span", index]) => with_trace(id, shared, |trace| {
            let span = index.parse().ok().and_then(|index: usize| trace.spans.get(index));
            span.map_or_else(no_such_span, |span| {
                Response::json(&details::span(span, &logs_of(&trace, shared)))
            })
        }),
        (_, ["trace", id, "text"]) => {
            with_trace(id, shared, |trace| Response::text(text(&trace, request, shared)))
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
        (_, ["services"]) => Response::json(&map_services(&shared.traces())),
        (_, ["requests"]) => Response::json(&list_requests(shared)),
        _ => Response::failed(404, "no such resource"),
    }
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
fn list_traces(request: &Request, shared: &Shared) -> Response {
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

/// All spans of a trace by columns, in the order they came: a fraction of what rows with attributes would be. Names are
/// numbers of a list, parents are indices, times are nanoseconds since the start.
#[derive(Default, Serialize)]
struct Columns {
    id: String,
    /// Nanoseconds since 1970, which a number of JavaScript cannot hold.
    base: String,
    nanos: u64,
    changed: u64,
    left_out: u64,
    names: Vec<String>,
    name: Vec<u32>,
    service: Vec<u32>,
    /// Sixteen digits for each span.
    ids: String,
    /// −1 without one, −2 if it is not here.
    parent: Vec<i32>,
    start: Vec<u64>,
    duration: Vec<u64>,
    kind: Vec<u8>,
    error: Vec<u8>,
    /// Span and time.
    events: Vec<(usize, u64)>,
    /// Span, time and severity; −1 for those of the trace that belong to none of these spans.
    logs: Vec<(i32, u64, i32)>,
}

fn columns(trace: &Trace, shared: &Shared) -> Columns {
    let mut columns = Columns {
        id: describe::id(&trace.key),
        base: trace.start.to_string(),
        nanos: trace.nanos(),
        changed: trace.changed,
        left_out: trace.left_out,
        ..Columns::default()
    };
    let mut names: HashMap<&str, u32> = HashMap::new();
    let numbers = service_numbers(shared);
    let indices: HashMap<&[u8], usize> =
        trace.spans.iter().enumerate().rev().map(|(index, span)| (&span.span.span_id[..], index)).collect();
    for (index, received) in trace.spans.iter().enumerate() {
        let span = &received.span;
        let name = *names.entry(&span.name).or_insert_with(|| {
            columns.names.push(details::shorten(&span.name));
            columns.names.len() as u32 - 1
        });
        columns.name.push(name);
        columns.service.push(numbers.get(received.service_name()).copied().unwrap_or(0));
        let id: String = describe::id(&span.span_id).chars().chain("0".repeat(16).chars()).take(16).collect();
        columns.ids.push_str(&id);
        columns.parent.push(match (received.parent_id(), indices.get(&span.parent_span_id[..])) {
            (None, _) => -1,
            (Some(_), None) => -2,
            (Some(_), Some(parent)) => *parent as i32,
        });
        columns.start.push(span.start_time_unix_nano - trace.start);
        columns.duration.push(span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano));
        columns.kind.push(u8::try_from(span.kind).unwrap_or(0));
        columns.error.push(u8::from(is_error(received)));
        let events = span.events.iter();
        columns.events.extend(events.map(|event| (index, event.time_unix_nano.saturating_sub(trace.start))));
    }
    columns.logs = logs_of(trace, shared)
        .iter()
        .map(|kept| {
            let span = indices.get(&kept.log.log.span_id[..]).map_or(-1, |index| *index as i32);
            let time = LogView::from(&kept.log).unix_nanos().saturating_sub(trace.start);
            (span, time, kept.log.log.severity_number)
        })
        .collect();
    columns
}

fn service_numbers(shared: &Shared) -> HashMap<String, u32> {
    let store = shared.lock();
    store.services().iter().cloned().zip(0..).collect()
}

/// The kept log records that carry the id of a trace, in the order they came.
fn logs_of(trace: &Trace, shared: &Shared) -> Vec<Arc<KeptLog>> {
    let mut logs = {
        let store = shared.lock();
        if store.log_count_of(&trace.key) == 0 {
            return Vec::new();
        }
        store.logs()
    };
    logs.retain(|kept| key_of(&kept.log.log.trace_id) == trace.key && !kept.log.log.trace_id.is_empty());
    logs
}

/// The trace, or what is below one of its spans, as the terminal shows it.
fn text(trace: &Trace, request: &Request, shared: &Shared) -> String {
    let chosen = subtree(trace, request.parameter("span").parse().ok());
    let spans: Vec<SpanView<'_>> = chosen.iter().map(|index| SpanView::from(&trace.spans[*index])).collect();
    let logs = logs_of(trace, shared);
    let is_of_chosen =
        |kept: &&Arc<KeptLog>| spans.iter().any(|view| view.span.span_id == kept.log.log.span_id);
    let logs: Vec<LogView<'_>> =
        logs.iter().filter(is_of_chosen).map(|kept| LogView::from(&kept.log)).collect();
    let mut lines = waterfall::draw(&spans, &logs, &mut Palette::default(), &plain_style(TEXT_WIDTH));
    lines.push(String::new());
    lines.join("\n")
}

/// The indices of a span and all below it, or of all spans.
fn subtree(trace: &Trace, top: Option<usize>) -> Vec<usize> {
    let Some(top) = top.filter(|top| *top < trace.spans.len()) else {
        return (0..trace.spans.len()).collect();
    };
    let mut children: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (index, received) in trace.spans.iter().enumerate() {
        children.entry(&received.span.parent_span_id).or_default().push(index);
    }
    let mut chosen = Vec::new();
    let mut waiting = vec![top];
    while let Some(index) = waiting.pop() {
        chosen.push(index);
        // taken out: parents may go round in a circle
        waiting.extend(children.remove(&trace.spans[index].span.span_id[..]).unwrap_or_default());
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// The latest first.
fn list_logs(request: &Request, shared: &Shared) -> Response {
    let query = match Query::parse(request.parameter("q")) {
        Ok(query) => query,
        Err(error) => return Response::failed(400, error),
    };
    let mut logs = shared.lock().logs();
    logs.retain(|kept| query.matches_log(&kept.log));
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
        kind: series.kind.clone(),
        points: series.points.iter().cloned().collect(),
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

fn map_services(traces: &[Arc<Trace>]) -> ServiceMap {
    let mut map = ServiceMap::default();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut edges: HashMap<(usize, usize), ServiceEdge> = HashMap::new();
    for trace in traces {
        let mut of_span: HashMap<&[u8], usize> = HashMap::new();
        for received in &trace.spans {
            let name = received.service_name();
            let number = *numbers.entry(name).or_insert_with(|| {
                map.nodes.push(ServiceNode { name: name.to_owned(), spans: 0, errors: 0 });
                map.nodes.len() - 1
            });
            map.nodes[number].spans += 1;
            map.nodes[number].errors += u64::from(is_error(received));
            of_span.insert(&received.span.span_id, number);
        }
        for received in &trace.spans {
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
                edge.nanos += SpanView::from(received).nanos();
            }
        }
    }
    map.edges = edges.into_values().collect();
    map.edges.sort_by_key(|edge| (edge.from, edge.to));
    map
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
