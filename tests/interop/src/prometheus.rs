//! Exemplars with Prometheus, which stores the exemplars of counters and of the buckets of histograms. The test reads
//! them back.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use standpipe::config::Proxy;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, FlushOutcome, Signal, Telemetry, View};

use crate::Error;
use crate::cases::Environment;
use crate::process::{Process, Recipe, free_port, text};
use crate::table::{Row, Table};

pub(crate) const NAME: &str = "prometheus";
const PATIENCE: Duration = Duration::from_secs(60);
/// Bounds of the histogram. The test measures one value per bucket, and one above the last bound.
const BOUNDS: [f64; 3] = [0.1, 1.0, 10.0];

#[derive(Deserialize)]
struct Answer {
    data: Vec<Series>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    series_labels: HashMap<String, String>,
    exemplars: Vec<Exemplar>,
}

#[derive(Deserialize)]
struct Exemplar {
    labels: HashMap<String, String>,
    value: String,
}

pub(crate) fn run(environment: &Environment<'_>, table: &mut Table) {
    let outcome = exchange(environment).into();
    table.push(Row { server: NAME, transport: "http", what: "exemplars".to_owned(), outcome });
}

fn exchange(environment: &Environment<'_>) -> Result<String, Error> {
    let (port, folder) = (free_port()?, environment.scratch.join(NAME));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let settings = folder.join("prometheus.yml");
    fs::write(&settings, "{}\n")?;
    let recipe = Recipe {
        program: environment.tools.join(NAME).join("prometheus"),
        arguments: vec![
            format!("--config.file={}", text(&settings)),
            format!("--storage.tsdb.path={}", text(&folder.join("data"))),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--web.enable-otlp-receiver".to_owned(),
            "--enable-feature=exemplar-storage".to_owned(),
        ],
        variables: Vec::new(),
        log: folder.join("log"),
    };
    let _prometheus = Process::start(&recipe, port)?;
    let receiver = Receiver::start()?;
    let metrics = Exporter::http(format!("http://127.0.0.1:{port}/api/v1/otlp")).signals([Signal::Metrics]);
    let traces = Exporter::http(receiver.endpoint()).signals([Signal::Traces]);
    let config = Config::new()
        .service_name("shop")
        .exporter(metrics.proxy(Proxy::Off).named("prometheus"))
        .exporter(traces.proxy(Proxy::Off).named("receiver"))
        .view(View::new("*").remove(["user.id"]));
    let telemetry = Telemetry::start(config)?;
    let meter = telemetry.meter("shop");
    let (orders, duration) =
        (meter.counter("orders"), meter.build("checkout.duration").unit("s").bounds(&BOUNDS).histogram());
    // Ids of trace and span, by the value that was measured in the span.
    let mut made = HashMap::new();
    for value in [0.05, 0.5, 5.0, 50.0] {
        let span = telemetry.tracer("shop").span("checkout");
        duration.record(value, &[("user.id", 7)]);
        orders.add(1, &[("user.id", 7)]);
        let context = span.context();
        made.insert(value.to_string(), (context.trace_id().to_string(), context.span_id().to_string()));
    }
    if telemetry.flush(PATIENCE) != FlushOutcome::Complete {
        return Err(format!("not delivered: {}", telemetry.shutdown(PATIENCE)).into());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    // {__name__=~".+"}
    let query = format!("query=%7B__name__%3D~%22.%2B%22%7D&start={}&end={}", now - 600, now + 60);
    let answer = get(port, &format!("/api/v1/query_exemplars?{query}"))?;
    let answer: Answer = serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))?;
    let mut names: Vec<&str> = Vec::new();
    for Series { series_labels, exemplars } in &answer.data {
        let name = series_labels.get("__name__").map_or("", String::as_str);
        for Exemplar { labels, value } in exemplars {
            names.push(name);
            let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
            let ids = (label("trace_id"), label("span_id"));
            let is_known = match name.starts_with("orders") {
                true => value == "1" && made.values().any(|of_span| *of_span == ids),
                false => made.get(value) == Some(&ids),
            };
            let user = labels.iter().find(|(key, _)| key.starts_with("user")).map(|(_, value)| &**value);
            if !is_known || user != Some("7") {
                return Err(format!("{name}: {value} with {labels:?}").into());
            }
        }
    }
    let sent = receiver.wait_for_spans(made.len() as u64, PATIENCE);
    let are_sent = made
        .values()
        .all(|(trace, _)| trace.parse().is_ok_and(|trace| receiver.trace(trace).spans().len() == 1));
    if !sent || !are_sent {
        return Err("a trace of an exemplar was not sent".into());
    }
    names.sort_unstable();
    let expected = [&["checkout_duration_seconds_bucket"; BOUNDS.len() + 1][..], &["orders_total"]].concat();
    if names != expected {
        return Err(format!("exemplars of {names:?} instead of {expected:?}").into());
    }
    Ok(format!("{} exemplars read back", names.len()))
}

/// Returns the body of the answer to a GET request.
fn get(port: u16, target: &str) -> Result<String, Error> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the server closes the connection at the end of the body.
    write!(stream, "GET {target} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    match head.lines().next() {
        Some(status) if status.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(format!("{head}: {body}").into()),
    }
}
