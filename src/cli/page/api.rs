//! JSON API for the page's scripts: lists, the columns of a trace, the service map, series of metrics.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value as Json, json};
use standpipe::Exporter;
use standpipe::receiver::{ReceivedSpan, Records};
use standpipe::shared::spawn;

use super::super::demo_program::DemoProgram;
use super::super::describe::{self, LogView, SpanView};
use super::super::series::Series;
use super::super::text::brief;
use super::query::Query;
use super::server::{Request, Response};
use super::store::{KeptLog, Trace, is_error};
use super::{Page, details};

/// Maximum number of rows in an answer. The page requests further rows when the user scrolls to them.
const MAX_ROWS: usize = 1000;
/// Maximum number of points in the scatter plot of traces.
const MAX_POINTS: usize = 2000;
/// Number of bars that show log records over time.
const LOG_BARS: usize = 100;
/// Maximum number of lines of a loaded file that are reported one by one.
const MAX_PROBLEMS: usize = 10;
/// Time for each service of the demo to deliver its remaining records.
const DEMO_BUDGET: Duration = Duration::from_secs(5);

/// Answers a request. `path` is the part after `/api/`. `Err` has the answer to a request that fails.
pub(super) fn respond(path: &str, request: &Request<'_>, page: &Arc<Page>) -> Result<Response, Response> {
    let words: Vec<&str> = path.split('/').collect();
    let top = request.parameter("span").parse().ok();
    Ok(match (request.method, words.as_slice()) {
        ("POST", ["demo"]) => run_demo(page)?,
        ("POST", ["load"]) => Response::json(&load(request.body, page)),
        ("POST", ["clear"]) => {
            page.lock().clear();
            page.news.notify_all();
            Response::text("cleared".to_owned())
        }
        ("POST", _) => return Err(Response::failed(404, "no such path; the page is at /")),
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
        (_, ["trace", id, "find"]) => {
            Response::json(&find_spans(&*find_trace(id, page)?, &query(request)?, page))
        }
        (_, ["trace", id, form @ ("otlp" | "text")]) => {
            let part = details::part(&*find_trace(id, page)?, top, page);
            Response::text(if *form == "otlp" { part.to_json_lines() } else { details::text(&part) })
        }
        (_, ["logs"]) => list_logs(request, page)?,
        (_, ["export", kind @ ("traces" | "logs")]) => {
            Response::text(export(kind, request, page)?.to_json_lines())
        }
        (_, ["log", number]) => {
            let kept = number.parse().ok().and_then(|number| page.lock().log(number));
            let kept = kept.ok_or_else(|| Response::failed(404, "the log record is no longer kept"))?;
            Response::json(&details::log(&kept))
        }
        (_, ["metrics"]) => Response::json(&list_metrics(page)),
        (_, ["series"]) => Response::json(&series_of(request.parameter("name"), page)),
        (_, ["services"]) => Response::json(&service_map(&matching_traces(request, page)?)),
        (_, ["requests"]) => Response::json(&list_requests(page)),
        _ => return Err(Response::failed(404, "no such path; the page is at /")),
    })
}

fn find_trace(id: &str, page: &Page) -> Result<Arc<Trace>, Response> {
    // The digits are checked, because `from_str_radix` also accepts a sign.
    let is_id = id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key = u128::from_str_radix(id, 16).ok().filter(|_| is_id).map(u128::to_be_bytes);
    let key = key.ok_or_else(|| Response::failed(400, "not a trace id; write 32 hexadecimal digits"))?;
    let trace = page.lock().traces.get(&key).cloned();
    trace.ok_or_else(|| Response::failed(404, "the trace was not received, or is no longer kept"))
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

/// Returns up to [`MAX_ROWS`] matches, and the number of all matches. The rows begin at the parameter `offset`. If the
/// parameter `around` is the key of a match, the rows surround this match instead, and `at` is its position.
fn list<T>(found: &[T], request: &Request<'_>, key: impl Fn(&T) -> String, row: impl Fn(&T) -> Json) -> Json {
    let around = request.parameter("around");
    let at = found.iter().position(|one| !around.is_empty() && key(one) == around);
    let offset =
        at.map(|at| at.saturating_sub(MAX_ROWS / 2)).or_else(|| request.parameter("offset").parse().ok());
    let offset = offset.unwrap_or(0).min(found.len());
    json!({
        "matched": found.len(),
        "offset": offset,
        "at": at,
        "rows": found[offset..].iter().take(MAX_ROWS).map(row).collect::<Json>(),
    })
}

/// Returns the time range of a request, in nanoseconds since 1970. The bounds are optional.
fn time_range(request: &Request<'_>) -> RangeInclusive<u64> {
    let bound =
        |name, absent| request.parameter(name).parse::<f64>().map_or(absent, |millis| (millis * 1e6) as u64);
    bound("from", 0)..=bound("to", u64::MAX)
}

/// Returns the traces that match the search and the time range of a request. A paused page sends `before`, the version
/// of the store when the pause began, to see no later traces.
fn matching_traces(request: &Request<'_>, page: &Page) -> Result<Vec<Arc<Trace>>, Response> {
    let (query, range) = (query(request)?, time_range(request));
    let before = request.parameter("before").parse().unwrap_or(u64::MAX);
    let mut traces = page.traces();
    traces.retain(|trace| {
        let is_in_range = trace.start <= *range.end() && trace.end >= *range.start();
        trace.added <= before && is_in_range && query.matches_trace(trace)
    });
    Ok(traces)
}

/// Returns matching traces, by default the latest first. `sort` selects another measure; `order=up` reverses the order.
fn list_traces(request: &Request<'_>, page: &Page) -> Result<Response, Response> {
    let mut traces = matching_traces(request, page)?;
    let measure = |trace: &Trace| match request.parameter("sort") {
        "duration" => trace.nanos(),
        "spans" => trace.spans.len() as u64,
        "errors" => trace.errors.into(),
        _ => trace.start,
    };
    traces.sort_unstable_by_key(|trace| Reverse((measure(trace), trace.start, trace.key)));
    if request.parameter("order") == "up" {
        traces.reverse();
    }
    let log_counts = page.lock().log_counts();
    let mut answer = list(
        &traces,
        request,
        |trace| describe::id(&trace.key),
        |trace| {
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
        },
    );
    let nanos = || traces.iter().map(|trace| trace.nanos());
    // The range of all matches, so that the scale of the bars does not change while rows are scrolled.
    answer["shortest"] = json!(nanos().min());
    answer["longest"] = json!(nanos().max());
    if request.parameter("points") == "1" {
        let point = |trace: &Arc<Trace>| {
            json!([trace.start as f64 / 1e6, trace.nanos(), trace.errors, describe::id(&trace.key)])
        };
        // Takes every `step`-th trace, so that the points are spread over the whole list.
        let step = traces.len().div_ceil(MAX_POINTS).max(1);
        answer["points"] = traces.iter().step_by(step).map(point).collect();
    }
    Ok(Response::json(&answer))
}

/// Returns the matching log records, the latest first. A paused page sends `before`, the number of log records when the
/// pause began, to see no later ones.
fn matching_logs(request: &Request<'_>, page: &Page) -> Result<Vec<Arc<KeptLog>>, Response> {
    let (query, range) = (query(request)?, time_range(request));
    let least = request.parameter("level").parse().unwrap_or(0);
    let before = request.parameter("before").parse().unwrap_or(u64::MAX);
    let mut logs: Vec<_> = page.lock().logs.iter().cloned().collect();
    logs.retain(|kept| {
        let is_in_range = kept.number < before && range.contains(&LogView::from(&kept.log).unix_nanos());
        is_in_range && kept.log.log.severity_number >= least && query.matches_log(&kept.log)
    });
    logs.sort_by_cached_key(|kept| Reverse((LogView::from(&kept.log).unix_nanos(), kept.number)));
    Ok(logs)
}

/// Returns matching log records and their histogram over time: for each of [`LOG_BARS`] intervals, the number of all
/// records and the number of errors.
fn list_logs(request: &Request<'_>, page: &Page) -> Result<Response, Response> {
    let logs = matching_logs(request, page)?;
    let time = |kept: &KeptLog| LogView::from(&kept.log).unix_nanos();
    let to = logs.first().map_or(0, |kept| time(kept));
    let from = logs.last().map_or(0, |kept| time(kept));
    let mut bars = [[0_u32; 2]; LOG_BARS];
    for kept in &logs {
        let part = (time(kept) - from) as u128 * LOG_BARS as u128 / ((to - from) as u128 + 1);
        let [all, errors] = &mut bars[part as usize];
        (*all, *errors) = (*all + 1, *errors + u32::from(kept.log.log.severity_number >= 17));
    }
    let mut answer = list(&logs, request, |kept| kept.number.to_string(), |kept| details::log_row(kept));
    answer["bars"] = json!(bars.as_slice());
    answer["from"] = (from as f64 / 1e6).into();
    answer["to"] = (to as f64 / 1e6).into();
    Ok(Response::json(&answer))
}

/// Returns the indices of the spans that match a search, or that have a matching log record.
fn find_spans(trace: &Trace, query: &Query, page: &Page) -> Vec<usize> {
    let logs = page.lock().logs_of(&trace.key);
    let logs = logs.iter().filter(|kept| query.matches_log(&kept.log));
    let of_logs: HashSet<&[u8]> = logs.map(|kept| &kept.log.log.span_id[..]).collect();
    let matches = |received: &ReceivedSpan| {
        query.matches_span(received) || of_logs.contains(&received.span.span_id[..])
    };
    trace.spans.iter().enumerate().filter(|(_, received)| matches(received)).map(|(index, _)| index).collect()
}

/// Returns all records of a list: matching log records, or matching traces with their log records.
fn export(kind: &str, request: &Request<'_>, page: &Page) -> Result<Records, Response> {
    let mut records = Records::default();
    if kind == "logs" {
        records.logs = matching_logs(request, page)?.iter().rev().map(|kept| kept.log.clone()).collect();
        return Ok(records);
    }
    for trace in matching_traces(request, page)? {
        let whole = details::part(&trace, None, page);
        records.spans.extend(whole.spans);
        records.logs.extend(whole.logs);
    }
    Ok(records)
}

/// Adds the records of OTLP JSON lines. Skips lines that cannot be read, and returns their number and the first errors.
fn load(text: &[u8], page: &Page) -> Json {
    let (mut count, mut problems) = (0, Vec::new());
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        match Records::from_json(line.trim_ascii()) {
            _ if line.trim_ascii().is_empty() => {}
            Ok(records) => {
                count += records.count();
                page.load(&records);
            }
            Err(error) => problems.push((number + 1, brief(&error.to_string()))),
        }
    }
    json!({ "records": count, "bad": problems.len(), "problems": problems.into_iter().take(MAX_PROBLEMS).collect::<Vec<_>>() })
}

/// Returns the metrics, each with the numbers that identify its services. The scripts request series by metric name.
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
/// the number of these spans, their errors, and the mean and the 95th percentile of their durations.
fn service_map(traces: &[Arc<Trace>]) -> Json {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    // For each node, its name and the numbers of spans and errors; for each edge, the errors and all durations.
    let mut nodes: Vec<(&str, [u64; 2])> = Vec::new();
    let mut edges: BTreeMap<(usize, usize), (u64, Vec<u64>)> = BTreeMap::new();
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
                let (errors, nanos) = edges.entry((from, to)).or_default();
                *errors += u64::from(is_error(received));
                nanos.push(SpanView::from(received).nanos());
            }
        }
    }
    let nodes = nodes
        .into_iter()
        .map(|(name, [spans, errors])| json!({ "name": brief(name), "spans": spans, "errors": errors }));
    let edges = edges.into_iter().map(|((from, to), (errors, mut nanos))| {
        let calls = nanos.len();
        let mean = nanos.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)) / calls as u64;
        let (_, p95, _) = nanos.select_nth_unstable((calls * 95).div_ceil(100) - 1);
        json!({ "from": from, "to": to, "calls": calls, "errors": errors, "mean": mean, "p95": *p95 })
    });
    json!({ "nodes": nodes.collect::<Json>(), "edges": edges.collect::<Json>() })
}

/// Starts the program of `standpipe demo`, which sends to the page's receiver. Fails while an earlier demo runs.
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
