//! Scopes and resources with all their fields, decoded from the bodies of the requests by `opentelemetry-proto`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use standpipe::config::Detector;
use standpipe::receiver::Receiver;
use standpipe::{Application, Config, Exporter, Scope, Telemetry, Value};

use crate::support::scene::{LONG, exporter, exporter_to, start, start_with};

const SCOPE_SCHEMA: &str = "https://schema.example/scope";
const RESOURCE_SCHEMA: &str = "https://schema.example/resource";

/// Runs a program, and returns the paths and bodies of its requests, which all arrive on one connection.
fn requests(config: Config, program: impl FnOnce(&Telemetry)) -> Vec<(String, Vec<u8>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (connection, _) = listener.accept().unwrap();
        connection.set_read_timeout(Some(LONG)).unwrap();
        let (mut answers, mut reader) = (connection.try_clone().unwrap(), BufReader::new(connection));
        let mut requests = Vec::new();
        loop {
            let (mut path, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap() == 0 {
                    return requests;
                }
                match line.trim_end().split_once(' ') {
                    Some(("POST", rest)) => path = rest.split(' ').next().unwrap().to_owned(),
                    Some((name, value)) if name.eq_ignore_ascii_case("content-length:") => {
                        length = value.parse().unwrap();
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            answers.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            requests.push((path, body));
        }
    });
    let telemetry = start_with(config.exporter(exporter_to(&format!("http://{address}"))));
    program(&telemetry);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    drop(telemetry);
    server.join().unwrap()
}

/// The source of some records: the resource, the scope, and the schema URLs of both.
#[derive(Debug, PartialEq)]
struct Source {
    resource: Resource,
    resource_schema: String,
    scope: InstrumentationScope,
    scope_schema: String,
}

/// Decodes a request, and returns its only source.
fn source((path, body): &(String, Vec<u8>)) -> Source {
    macro_rules! only {
        ($request:ident, $resources:ident, $scopes:ident) => {{
            let mut all = $request::decode(&body[..]).unwrap().$resources;
            assert_eq!((all.len(), all[0].$scopes.len()), (1, 1), "{path}");
            let of_scope = all[0].$scopes.remove(0);
            Source {
                resource: all[0].resource.take().unwrap(),
                resource_schema: all[0].schema_url.clone(),
                scope: of_scope.scope.unwrap(),
                scope_schema: of_scope.schema_url,
            }
        }};
    }
    match path.as_str() {
        "/v1/traces" => only!(ExportTraceServiceRequest, resource_spans, scope_spans),
        "/v1/logs" => only!(ExportLogsServiceRequest, resource_logs, scope_logs),
        "/v1/metrics" => only!(ExportMetricsServiceRequest, resource_metrics, scope_metrics),
        other => panic!("{other}"),
    }
}

#[test]
fn records_of_every_signal_carry_their_scope_and_both_schema_urls() {
    let scope = Scope::new("shop.cart")
        .version("1.2")
        .schema_url(SCOPE_SCHEMA)
        .set("team", "first")
        .set("parts", Value::Ints(&[1, 2]))
        .set("", 1)
        .set("team", "checkout");
    let config = Config::new().service_name("shop").schema_url(RESOURCE_SCHEMA);
    let requests = requests(config, |telemetry| {
        telemetry.tracer(&scope).span("checkout").end();
        telemetry.logger(&scope).info("paid").emit();
        telemetry.meter(&scope).counter("orders").add(1, ());
    });
    let sources: Vec<Source> = requests.iter().map(source).collect();
    assert_eq!(sources.len(), 3);
    for Source { resource, resource_schema, scope, scope_schema } in sources {
        assert_eq!((scope.name.as_str(), scope.version.as_str()), ("shop.cart", "1.2"));
        assert_eq!((&*scope_schema, &*resource_schema), (SCOPE_SCHEMA, RESOURCE_SCHEMA));
        let attributes = scope.attributes.iter().map(|attribute| {
            format!("{}: {:?}", attribute.key, attribute.value.as_ref().and_then(|value| value.value.clone()))
        });
        let attributes: Vec<_> = attributes.collect();
        assert_eq!(attributes.len(), 2, "{attributes:?}");
        assert!(attributes[0].contains("team") && attributes[0].contains("checkout"), "{attributes:?}");
        assert!(
            attributes[1].starts_with("parts") && attributes[1].contains("IntValue(2)"),
            "{attributes:?}"
        );
        assert!(resource.attributes.iter().any(|attribute| attribute.key == "service.name"));
    }
}

#[test]
fn a_plain_name_has_no_version_no_attributes_and_no_schema() {
    let requests = requests(Config::new(), |telemetry| telemetry.tracer("shop").span("checkout").end());
    let Source { scope, scope_schema, resource_schema, .. } = source(&requests[0]);
    assert_eq!(scope, InstrumentationScope { name: "shop".into(), ..Default::default() });
    assert_eq!((scope_schema, resource_schema), (String::new(), String::new()));
}

#[test]
fn scopes_that_differ_in_one_field_are_distinct_and_equal_ones_are_one() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).linger(Duration::from_secs(3600)));
    let plain = || Scope::new("shop");
    for scope in [
        plain(),
        plain().version("1"),
        plain().schema_url(SCOPE_SCHEMA),
        plain().set("a", 1),
        plain().set("a", 2),
        plain().set("a", 2),
    ] {
        telemetry.tracer(&scope).span("checkout").end();
    }
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let spans = receiver.spans();
    let scopes: std::collections::HashSet<_> =
        spans.iter().map(|span| std::sync::Arc::as_ptr(&span.scope)).collect();
    assert_eq!((spans.len(), scopes.len()), (6, 5));
}

#[test]
fn detected_attributes_are_sent_with_their_schema_and_set_ones_take_precedence() {
    let config = Config::new().detect(Detector::ALL).resource("host.arch", "own");
    let requests = requests(config, |telemetry| telemetry.tracer("shop").span("checkout").end());
    let Source { resource, resource_schema, .. } = source(&requests[0]);
    let value = |key: &str| {
        let mut all = resource.attributes.iter().filter(|attribute| attribute.key == key);
        let found = all.next().map(|attribute| format!("{:?}", attribute.value));
        assert!(all.next().is_none(), "{key} is sent twice");
        found.unwrap_or_default()
    };
    assert!(value("process.pid").contains(&format!("IntValue({})", std::process::id())));
    assert!(value("host.arch").contains("own"));
    assert!(value("os.type").contains("StringValue"));
    assert!(resource_schema.starts_with("https://opentelemetry.io/schemas/1."), "{resource_schema}");
}

#[test]
fn the_application_has_its_own_schema_and_the_id_of_the_process() {
    let receiver = Receiver::start().unwrap();
    let application = Application::new()
        .service_name("shop")
        .schema_url(RESOURCE_SCHEMA)
        .exporter(Exporter::http(receiver.endpoint()));
    let config = Config::new().service_name("runner").exporter(exporter(&receiver)).application(application);
    let telemetry = start_with(config);
    telemetry.tracer("runner").span("start").end();
    telemetry.application().tracer("shop").span("checkout").end();
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let id = |name: &str| {
        let spans = receiver.spans();
        let span = spans.iter().find(|span| span.span.name == name).unwrap();
        span.resource_attribute("service.instance.id").as_str().unwrap().to_owned()
    };
    assert_eq!(id("start"), id("checkout"));
}
