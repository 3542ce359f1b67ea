//! The spans of one request are one tree across both processes. They follow OpenTelemetry's conventions.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use standpipe::SpanContext;
use standpipe::Status;
use standpipe::receiver::Receiver;

use super::browser;
use super::service::Service;
use super::stage::{Arrived, Stage};
use super::tree::{self, has_remote_parent, is_child_of};
use crate::support::scene::closed_endpoint;
use crate::support::size_within;

const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

const TREE: [&str; 6] = [
    "storefront server GET /checkout",
    "  storefront internal check_out",
    "    storefront internal price",
    "    storefront client POST /reservations",
    "      warehouse server POST /reservations",
    "        warehouse internal take_from_shelf",
];

#[test]
fn a_request_is_one_tree_across_both_processes() {
    let stage = Stage::open();
    assert_eq!(stage.check_out("order=4711", &[]).0, 200);
    let trace = tree::only_trace(&stage.close().spans);
    assert_eq!(trace.draw(), TREE);
    assert_eq!(trace.span("storefront", "GET /checkout").span.parent_span_id, b"");
    let from_elsewhere: Vec<_> = trace.spans().iter().filter(|span| has_remote_parent(span)).collect();
    assert_eq!(from_elsewhere, [trace.span("warehouse", "POST /reservations")]);
}

#[test]
fn a_browser_s_own_trace_goes_on_with_its_state() {
    let stage = Stage::open();
    let headers = [("traceparent", SAMPLED), ("tracestate", "rojo=1"), ("tracestate", "congo=2")];
    assert_eq!(stage.check_out("order=4711", &headers).0, 200);
    let trace = tree::only_trace(&stage.close().spans);
    assert_eq!(trace.draw(), TREE);
    let top = trace.span("storefront", "GET /checkout");
    assert!(is_child_of(top, &SpanContext::from_traceparent(SAMPLED).unwrap()) && has_remote_parent(top));
    assert!(trace.spans().iter().all(|received| received.span.trace_state == "rojo=1,congo=2"));
}

#[test]
fn a_broken_or_ambiguous_header_begins_a_trace_of_its_own() {
    let stage = Stage::open();
    let broken = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7")];
    let ambiguous = [("traceparent", SAMPLED), ("traceparent", UNSAMPLED)];
    assert_eq!(stage.check_out("order=4711", &broken).0, 200);
    assert_eq!(stage.check_out("order=4712", &ambiguous).0, 200);
    let traces = tree::traces(&stage.close().spans);
    assert_eq!(traces.len(), 2);
    for trace in traces {
        assert_eq!(trace.draw(), TREE);
        assert_eq!(trace.span("storefront", "GET /checkout").span.parent_span_id, b"");
    }
}

#[test]
fn requests_are_described_by_the_conventions_for_http() {
    let stage = Stage::open();
    assert_eq!(stage.check_out("order=4711&items=2", &[]).0, 200);
    let ports = [stage.storefront.port(), stage.warehouse.port()];
    let reservations = format!("{}/reservations", stage.warehouse.url);
    let trace = tree::only_trace(&stage.close().spans);

    let server = trace.span("storefront", "GET /checkout");
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.route", "/checkout"),
        ("url.path", "/checkout"),
        ("url.query", "order=4711&items=2"),
        ("url.scheme", "http"),
        ("server.address", "127.0.0.1"),
    ] {
        assert_eq!(server.attribute(key), value, "{key}");
    }
    assert_eq!(server.attribute("server.port"), ports[0]);
    assert_eq!(server.attribute("http.response.status_code"), 200);

    let client = trace.span("storefront", "POST /reservations");
    for (key, value) in [
        ("http.request.method", "POST"),
        ("url.full", reservations.as_str()),
        ("server.address", "127.0.0.1"),
    ] {
        assert_eq!(client.attribute(key), value, "{key}");
    }
    assert_eq!(client.attribute("server.port"), ports[1]);
    assert_eq!(client.attribute("http.response.status_code"), 201);

    let server = trace.span("warehouse", "POST /reservations");
    assert_eq!(server.attribute("http.route"), "/reservations");
    assert!(server.attribute("url.query").is_none());
    assert_eq!(server.attribute("http.response.status_code"), 201);
    assert!(trace.spans().iter().all(|received| received.attribute("error.type").is_none()));
    // Fields that only tell the bridge how to build the span do not become attributes.
    let attributes = trace.spans().iter().flat_map(|received| &received.span.attributes);
    assert_eq!(attributes.filter(|attribute| attribute.key.starts_with("otel.")).count(), 0);
}

#[test]
fn a_refused_order_is_an_error_to_the_one_who_asked() {
    let stage = Stage::open();
    assert_eq!(stage.check_out("order=4711&items=1001", &[]).0, 409);
    let trace = tree::only_trace(&stage.close().spans);
    assert_eq!(
        trace.draw(),
        [
            "storefront server GET /checkout",
            "  storefront internal check_out (error)",
            "    storefront internal price",
            "    storefront client POST /reservations (error)",
            "      warehouse server POST /reservations",
            "        warehouse internal take_from_shelf",
        ]
    );
    let client = trace.span("storefront", "POST /reservations");
    assert_eq!(client.attribute("error.type"), "409");
    let check_out = trace.span("storefront", "check_out");
    let reason = "out of stock: 1001 wanted, 1000 left";
    assert_eq!(check_out.status(), Some(Status::Error(reason)));
    let events = check_out.events();
    let exception = events.iter().find(|event| event.name() == "exception").unwrap();
    assert_eq!(exception.attribute("exception.message"), reason);
}

#[test]
fn a_warehouse_that_is_gone_is_an_error_all_the_way_up() {
    let receiver = Receiver::start().unwrap();
    let storefront = Service::storefront(&receiver, &closed_endpoint());
    let (status, text_of_it) = browser::check_out(&storefront.url, "order=4711", &[]);
    assert!(
        status == 502 && text_of_it.starts_with("the warehouse cannot be asked: "),
        "{status} {text_of_it}"
    );
    let trace = tree::only_trace(&Arrived::of(&receiver, &[storefront.end()]).spans);
    assert_eq!(
        trace.draw(),
        [
            "storefront server GET /checkout (error)",
            "  storefront internal check_out (error)",
            "    storefront internal price",
            "    storefront client POST /reservations (error)",
        ]
    );
    assert_eq!(trace.span("storefront", "GET /checkout").attribute("error.type"), "502");
    let client = trace.span("storefront", "POST /reservations");
    assert_eq!(client.attribute("error.type"), "ConnectionRefused");
}

#[test]
fn many_requests_at_once_are_as_many_trees_and_none_has_a_span_of_another() {
    const CLIENTS: u64 = 8;
    let requests = u64::from(size_within(5..=20));
    let stage = Stage::open();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let storefront = &stage.storefront.url;
            scope.spawn(move || {
                for request in 0..requests {
                    let query = format!("order={}", client * requests + request);
                    assert_eq!(browser::check_out(storefront, &query, &[]).0, 200);
                }
            });
        }
    });
    let traces = tree::traces(&stage.close().spans);
    let mut orders = BTreeSet::new();
    for trace in &traces {
        assert_eq!(trace.draw(), TREE);
        // Each process sets the order's attribute itself.
        let order = trace.span("storefront", "check_out").attribute("order").as_i64().unwrap();
        assert_eq!(
            trace.span("storefront", "GET /checkout").attribute("url.query"),
            format!("order={order}")
        );
        assert_eq!(trace.span("warehouse", "take_from_shelf").attribute("order"), order);
        orders.insert(order);
    }
    assert_eq!((traces.len() as u64, orders.len() as u64), (CLIENTS * requests, CLIENTS * requests));
}

#[test]
fn a_trace_that_the_browser_does_not_record_is_recorded_by_no_service() {
    let stage = Stage::open();
    assert_eq!(stage.check_out("order=4711", &[("traceparent", UNSAMPLED)]).0, 200);
    assert_eq!(stage.check_out("order=4712", &[]).0, 200);
    let arrived = stage.close();
    let trace = tree::only_trace(&arrived.spans);
    assert_eq!(trace.span("storefront", "check_out").attribute("order"), 4712);
    // The context was propagated nevertheless: log records of both services contain it, with the flag "not sampled".
    let logs = arrived.logs.iter().filter(|received| tree::hex(&received.log.trace_id) == UNSAMPLED[3..35]);
    let services: BTreeSet<_> = logs
        .inspect(|received| assert_eq!(received.log.flags & 1, 0))
        .map(|received| received.service_name())
        .collect();
    assert_eq!(services, BTreeSet::from(["storefront", "warehouse"]));
}

#[test]
fn what_the_next_service_hears_of_a_trace_is_what_was_decided_before() {
    for (given, flags) in [(SAMPLED, "01"), (UNSAMPLED, "00")] {
        let receiver = Receiver::start().unwrap();
        let warehouse = TcpListener::bind("127.0.0.1:0").unwrap();
        let storefront =
            Service::storefront(&receiver, &format!("http://{}", warehouse.local_addr().unwrap()));
        let heard = thread::spawn(move || hear_one_request(&warehouse));
        let headers = [("traceparent", given), ("tracestate", "rojo=1")];
        assert_eq!(browser::check_out(&storefront.url, "order=4711", &headers).0, 200);
        let heard = heard.join().unwrap();
        let spans = Arrived::of(&receiver, &[storefront.end()]).spans;

        let parent = heard.iter().find_map(|line| line.strip_prefix("traceparent: ")).unwrap();
        let parts: Vec<&str> = parent.split('-').collect();
        assert_eq!((parts[0], parts[1], parts[3]), ("00", &given[3..35], flags));
        assert_eq!(heard.iter().find(|line| line.starts_with("tracestate")).unwrap(), "tracestate: rojo=1");
        match flags {
            "01" => {
                let trace = tree::only_trace(&spans);
                let client = trace.span("storefront", "POST /reservations");
                assert_eq!(parts[2], tree::hex(&client.span.span_id));
            }
            _ => assert_eq!(spans, []),
        }
    }
}

/// Answers a request as a warehouse would. Returns the lines of its head.
fn hear_one_request(listener: &TcpListener) -> Vec<String> {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(browser::PATIENCE)).unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let head = lines.take_while(|line| !line.is_empty()).collect();
    stream.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 8\r\n\r\nreserved").unwrap();
    head
}
