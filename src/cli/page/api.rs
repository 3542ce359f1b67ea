//! JSON API for the page's scripts: lists, the columns of a trace, the service map, series of metrics.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value as Json, json};
use standpipe::Exporter;
use standpipe::shared::spawn;

use super::super::demo_program::DemoProgram;
use super::super::describe::{self, LogView, SpanView};
use super::super::series::Series;
use super::super::text::brief;
use super::query::Query;
use super::server::{Request, Response};
use super::store::{Trace, is_error};
use super::{Page, details};

/// Maximum number of rows in a list. Users find other rows with a narrower search.
const MAX_ROWS: usize = 1000;
/// Time for each service of the demo to deliver its remaining records.
const DEMO_BUDGET: Duration = Duration::from_secs(5);

/// Answers a request. `path` is the part after `/api/`. `Err` has the answer to a request that fails.
pub(super) fn respond(path: &str, request: &Request<'_>, page: &Arc<Page>) -> Result<Response, Response> {
    let words: Vec<&str> = path.split('/').collect();
    let top = request.parameter("span").parse().ok();
    Ok(match (request.method, words.as_slice()) {
        ("POST", ["demo"]) => run_demo(page)?,
        ("POST", _) => return Err(Response::failed(404, "no such action")),
        (_, ["state"]) => Response::json(&state(page)),
        (_, ["traces"]) => list_traces(request, page)?,
        (_, ["trace", id]) => {
            let trace = find_trace(id, page)?;
            let known = ["changed", "logs"].map(|name| request.parameter(name).parse().ok());
            let is_known = known == [Some(trace.changed), Some(page.lock().logs_of(&trace.key).len() as u64)];
            // The answer may be large, so it is `null` if nothing has changed since the script's last request.
            Response::json(&(!is_known).then(|| details::columns(&trace, page)))
        }
        (_, ["trace", id, "span", index]) => {
            let trace = find_trace(id, page)?;
            let span = index.parse().ok().and_then(|index: usize| trace.spans.get(index));
            let span = span.ok_or_else(|| Response::failed(404, "the trace has no such span"))?;
            Response::json(&details::span(span, &page.lock().logs_of(&trace.key)))
        }
        (_, ["trace", id, form @ ("otlp" | "text")]) => {
            let part = details::part(&*find_trace(id, page)?, top, page);
            Response::text(if *form == "otlp" { part.to_json_lines() } else { details::text(&part) })
        }
        (_, ["logs"]) => list_logs(request, page)?,
        (_, ["log", number]) => {
            let kept = number.parse().ok().and_then(|number| page.lock().log(number));
            let kept = kept.ok_or_else(|| Response::failed(404, "this log record is no longer kept"))?;
            Response::json(&details::log(&kept))
        }
        (_, ["metrics"]) => Response::json(&list_metrics(page)),
        (_, ["series"]) => Response::json(&series_of(request.parameter("name"), page)),
        (_, ["services"]) => Response::json(&service_map(&page.traces())),
        (_, ["requests"]) => Response::json(&list_requests(page)),
        _ => return Err(Response::failed(404, "no such resource")),
    })
}

fn find_trace(id: &str, page: &Page) -> Result<Arc<Trace>, Response> {
    // The digits are checked, because `from_str_radix` also accepts a sign.
    let is_id = id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key = u128::from_str_radix(id, 16).ok().filter(|_| is_id).map(u128::to_be_bytes);
    let key = key.ok_or_else(|| Response::failed(400, "a trace id has 32 hexadecimal digits"))?;
    let trace = page.lock().traces.get(&key).cloned();
    trace.ok_or_else(|| Response::failed(404, "this trace was not received, or is no longer kept"))
}

/// Returns the values that the head and the foot of the page show.
fn state(page: &Page) -> Json {
    let [http, grpc] = page.endpoints();
    let store = page.lock();
    json!({
        "version": store.version,
        "http": http,
        "grpc": grpc,
        "services": store.services,
        "counts": store.counts,
        "kept_traces": store.traces.len(),
        "kept_logs": store.logs.len(),
        "bytes": store.bytes(),
        "limit": store.limit,
    })
}

/// Parses the search of a request.
fn query(request: &Request<'_>) -> Result<Query, Response> {
    Query::parse(request.parameter("q")).map_err(|error| Response::failed(400, error))
}

/// Returns the first [`MAX_ROWS`] matches, and the number of all matches.
fn list<T>(found: Vec<T>, row: impl FnMut(T) -> Json) -> Response {
    let matched = found.len();
    Response::json(&json!({
        "matched": matched,
        "rows": found.into_iter().take(MAX_ROWS).map(row).collect::<Json>(),
    }))
}

/// Returns the matching traces, the latest first.
fn list_traces(request: &Request<'_>, page: &Page) -> Result<Response, Response> {
    let query = query(request)?;
    let mut traces = page.traces();
    traces.retain(|trace| query.matches_trace(trace));
    traces.sort_unstable_by_key(|trace| Reverse((trace.start, trace.key)));
    let log_counts = page.lock().log_counts();
    Ok(list(traces, |trace| {
        json!({
            "id": describe::id(&trace.key),
            // In milliseconds since 1970.
            "start": trace.start as f64 / 1e6,
            "nanos": trace.nanos(),
            "name": brief(&trace.head().span.name),
            "has_root": trace.root.is_some(),
            // For each service, its number (an identifier) and the count of its spans.
            "services": trace.services,
            "spans": trace.spans.len(),
            "logs": log_counts.get(&trace.key).unwrap_or(&0),
            "errors": trace.errors,
        })
    }))
}

/// Returns the matching log records, the latest first.
fn list_logs(request: &Request<'_>, page: &Page) -> Result<Response, Response> {
    let query = query(request)?;
    let least = request.parameter("level").parse().unwrap_or(0);
    let mut logs: Vec<_> = page.lock().logs.iter().cloned().collect();
    logs.retain(|kept| kept.log.log.severity_number >= least && query.matches_log(&kept.log));
    logs.sort_by_cached_key(|kept| Reverse((LogView::from(&kept.log).unix_nanos(), kept.number)));
    Ok(list(logs, |kept| details::log_row(&kept)))
}

/// Returns the metrics, each with the numbers of its services. The scripts request the series of a metric by its name.
fn list_metrics(page: &Page) -> Json {
    let store = page.lock();
    let mut by_name: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
    store.series.all.values().for_each(|series| by_name.entry(&series.name).or_default().push(series));
    let rows = by_name.into_iter().filter_map(|(name, all)| {
        let first = all.iter().min_by_key(|series| series.id)?;
        let services: BTreeSet<u32> =
            all.iter().map(|series| store.service_number(&series.service)).collect();
        Some(json!({
            "name": name,
            "kind": first.kind,
            "unit": first.unit,
            "description": first.description,
            "services": services,
            "series": all.len(),
            "points": all.iter().map(|series| series.points.len()).sum::<usize>(),
        }))
    });
    rows.collect()
}

fn series_of(name: &str, page: &Page) -> Json {
    let store = page.lock();
    let mut of_name: Vec<&Series> = store.series.all.values().filter(|series| series.name == name).collect();
    of_name.sort_by_key(|series| (store.service_number(&series.service), &series.attributes, series.id));
    let rows = of_name.into_iter().map(|series| {
        json!({
            "id": series.id,
            "service": store.service_number(&series.service),
            "attributes": series.attributes,
            "instance": series.instance,
            "kind": series.kind,
            "points": series.points,
        })
    });
    rows.collect()
}

/// Returns the refused requests, the latest first.
fn list_requests(page: &Page) -> Json {
    let store = page.lock();
    let mut refusals: Vec<_> = store.refusals.iter().collect();
    refusals.sort_by_key(|refusal| Reverse(refusal.at));
    json!(refusals)
}

/// Returns the graph of services. An edge aggregates the spans of one service whose parents belong to another service:
/// the number of these spans, their errors and their total duration.
fn service_map(traces: &[Arc<Trace>]) -> Json {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    // A node has the number of spans and errors; an edge has the number of calls and errors, and the duration in
    // nanoseconds.
    let mut nodes: Vec<(&str, [u64; 2])> = Vec::new();
    let mut edges: BTreeMap<(usize, usize), [u64; 3]> = BTreeMap::new();
    for trace in traces {
        let mut of_span: HashMap<&[u8], usize> = HashMap::new();
        for received in &trace.spans {
            let name = received.service_name();
            let number = *numbers.entry(name).or_insert_with(|| {
                nodes.push((name, [0; 2]));
                nodes.len() - 1
            });
            let [spans, errors] = &mut nodes[number].1;
            (*spans, *errors) = (*spans + 1, *errors + u64::from(is_error(received)));
            of_span.insert(&received.span.span_id, number);
        }
        // The edges need a second pass, because a parent may follow its children in the list.
        for received in &trace.spans {
            let to = numbers[received.service_name()];
            let from = of_span.get(&received.span.parent_span_id[..]).copied().filter(|from| *from != to);
            if let Some(from) = from {
                let added = [1, u64::from(is_error(received)), SpanView::from(received).nanos()];
                let sums = edges.entry((from, to)).or_default();
                sums.iter_mut().zip(added).for_each(|(sum, more)| *sum = sum.saturating_add(more));
            }
        }
    }
    let nodes = nodes
        .into_iter()
        .map(|(name, [spans, errors])| json!({ "name": brief(name), "spans": spans, "errors": errors }));
    let edges = edges.into_iter().map(|((from, to), [calls, errors, nanos])| {
        json!({ "from": from, "to": to, "calls": calls, "errors": errors, "nanos": nanos })
    });
    json!({ "nodes": nodes.collect::<Json>(), "edges": edges.collect::<Json>() })
}

/// Runs the program of `standpipe demo`, which sends to the page's receiver. Only one can run at a time.
fn run_demo(page: &Arc<Page>) -> Result<Response, Response> {
    // `swap` lets only one of several concurrent requests through.
    if page.is_demo_running.swap(true, Ordering::SeqCst) {
        return Err(Response::failed(409, "the demo is still running"));
    }
    let run = {
        let page = page.clone();
        move || {
            let exporter = Exporter::http(page.endpoints()[0]);
            if let Ok(shop) = DemoProgram::start(&exporter, None) {
                shop.run();
                shop.shutdown(DEMO_BUDGET);
            }
            page.is_demo_running.store(false, Ordering::SeqCst);
        }
    };
    spawn("standpipe-demo", run).map_err(|error| {
        page.is_demo_running.store(false, Ordering::SeqCst);
        Response::failed(503, error.to_string())
    })?;
    Ok(Response { status: 202, ..Response::text("the demo is running".to_owned()) })
}
