//! Logs and metrics next to traces: each is received, counted and refused separately.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use standpipe::Signal;
use standpipe::receiver::{Answer, Receiver};

use super::client::{Client, SOON, ask, logs, metrics, post, post_to, traces};

fn counts(receiver: &Receiver) -> (u64, u64, u64) {
    (receiver.span_count(), receiver.log_count(), receiver.point_count())
}

/// The names of the kept metrics, with how many points of each were kept.
fn kept_points(receiver: &Receiver) -> Vec<(String, usize)> {
    receiver.metrics().iter().map(|received| (received.metric.name.clone(), received.point_count())).collect()
}

fn point_counts(points: &[usize]) -> Vec<(String, usize)> {
    points.iter().enumerate().map(|(number, points)| (format!("metric {number}"), *points)).collect()
}

#[test]
fn log_records_arrive_with_their_resource_and_scope() {
    let receiver = Receiver::start().unwrap();
    let reply = ask(&receiver, &post_to(Signal::Logs, &logs(3)));
    assert_eq!(reply.status, 200);
    assert_eq!(ExportLogsServiceResponse::decode(&reply.body[..]).unwrap(), Default::default());

    assert_eq!(counts(&receiver), (0, 3, 0));
    let logs = receiver.logs();
    let bodies: Vec<_> = logs.iter().filter_map(|log| log.body().as_str()).collect();
    assert_eq!(bodies, ["log 0", "log 1", "log 2"]);
    assert_eq!(logs[2].scope.name, "shop");
    assert_eq!(logs[2].attribute("order.id"), "4711");
    assert_eq!(logs[2].resource_attribute("service.name"), "till");
    assert!(logs[2].attribute("nothing").is_none());
}

#[test]
fn metrics_arrive_with_their_resource_and_scope_and_count_by_their_points() {
    let receiver = Receiver::start().unwrap();
    let reply = ask(&receiver, &post_to(Signal::Metrics, &metrics(&[2, 0, 3])));
    assert_eq!(reply.status, 200);
    assert_eq!(ExportMetricsServiceResponse::decode(&reply.body[..]).unwrap(), Default::default());

    assert_eq!(counts(&receiver), (0, 0, 5));
    assert_eq!(kept_points(&receiver), point_counts(&[2, 0, 3]));
    let metrics = receiver.metrics();
    assert_eq!(metrics[2].scope.name, "shop");
    assert_eq!(metrics[2].resource_attribute("service.name"), "till");
}

#[test]
fn each_signal_is_counted_and_waited_for_on_its_own() {
    let receiver = Receiver::start().unwrap();
    assert!(!receiver.wait_for_logs(1, Duration::from_millis(5)));
    assert!(!receiver.wait_for_points(1, Duration::from_millis(5)));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receiver.wait_for_logs(2, SOON) && receiver.wait_for_points(4, SOON));
        let mut client = Client::connect(&receiver);
        client.ask(&post(&traces(1)));
        client.ask(&post_to(Signal::Logs, &logs(2)));
        client.ask(&post_to(Signal::Metrics, &metrics(&[3, 1])));
        assert!(waiting.join().unwrap());
    });
    assert_eq!(counts(&receiver), (1, 2, 4));
}

#[test]
fn a_request_says_its_signal_and_its_records() {
    let receiver = Receiver::start().unwrap();
    ask(&receiver, &post(&traces(1)));
    ask(&receiver, &post_to(Signal::Logs, &logs(2)));
    ask(&receiver, &post_to(Signal::Metrics, &metrics(&[3, 1])));
    ask(&receiver, &post_to(Signal::Logs, b"nonsense"));
    ask(&receiver, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let seen: Vec<_> = receiver
        .requests()
        .iter()
        .map(|request| (request.signal, request.records, request.status.unwrap()))
        .collect();
    let expected = [
        (Some(Signal::Traces), 1, 200),
        (Some(Signal::Logs), 2, 200),
        (Some(Signal::Metrics), 4, 200),
        (Some(Signal::Logs), 0, 400),
        (None, 0, 404),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_batch_holds_the_records_of_its_signal_only() {
    let (show, shown) = channel();
    let show = Mutex::new(show);
    let receiver = Receiver::builder()
        .on_batch(move |batch| show.lock().unwrap().send(batch.clone()).unwrap())
        .first_answers([Answer::ok(), Answer::partial(1, "one"), Answer::partial(2, "two")])
        .start()
        .unwrap();
    ask(&receiver, &post(&traces(1)));
    ask(&receiver, &post_to(Signal::Logs, &logs(2)));
    ask(&receiver, &post_to(Signal::Metrics, &metrics(&[3, 1])));
    let batches: Vec<_> = shown.try_iter().collect();
    let lengths: Vec<_> =
        batches.iter().map(|batch| (batch.spans.len(), batch.logs.len(), batch.metrics.len())).collect();
    assert_eq!(lengths, [(1, 0, 0), (0, 2, 0), (0, 0, 2)]);
    let records: Vec<_> =
        batches.iter().map(|batch| (batch.signal, batch.record_count(), batch.accepted)).collect();
    assert_eq!(records, [(Signal::Traces, 1, 1), (Signal::Logs, 2, 1), (Signal::Metrics, 4, 2)]);
    assert_eq!(batches[2].metrics[0].point_count(), 3, "a batch shows what was sent, not what was accepted");
}

#[test]
fn a_wrong_path_is_answered_with_all_right_ones() {
    let receiver = Receiver::start().unwrap();
    let reply = ask(&receiver, b"POST / HTTP/1.1\r\nHost: a\r\n\r\n");
    let message = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(reply.status, 404);
    for path in ["/v1/traces", "/v1/logs", "/v1/metrics"] {
        assert!(message.contains(path), "{message}");
    }
}

#[test]
fn a_partial_success_takes_the_first_log_records() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::partial(2, "too old")]);
    let reply = ask(&receiver, &post_to(Signal::Logs, &logs(5)));
    let partial = ExportLogsServiceResponse::decode(&reply.body[..]).unwrap().partial_success.unwrap();
    assert_eq!((partial.rejected_log_records, partial.error_message.as_str()), (2, "too old"));
    assert_eq!((receiver.log_count(), receiver.logs().len()), (3, 3));
    assert_eq!(receiver.requests()[0].records, 5);
}

#[test]
fn a_partial_success_takes_the_first_points_and_may_cut_a_metric() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::partial(4, "too old")]);
    let reply = ask(&receiver, &post_to(Signal::Metrics, &metrics(&[2, 3, 2])));
    let partial = ExportMetricsServiceResponse::decode(&reply.body[..]).unwrap().partial_success.unwrap();
    assert_eq!((partial.rejected_data_points, partial.error_message.as_str()), (4, "too old"));
    assert_eq!((receiver.point_count(), receiver.requests()[0].records), (3, 7));
    assert_eq!(kept_points(&receiver), point_counts(&[2, 1]));
}

#[test]
fn what_is_refused_is_not_kept_not_even_a_metric_without_points() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503), Answer::status(503)]);
    ask(&receiver, &post_to(Signal::Logs, &logs(1)));
    ask(&receiver, &post_to(Signal::Metrics, &metrics(&[0, 1])));
    assert_eq!(counts(&receiver), (0, 0, 0));
    assert!(receiver.logs().is_empty() && receiver.metrics().is_empty());
}

#[test]
fn taking_forgets_all_signals_and_leaves_their_counts() {
    let receiver = Receiver::start().unwrap();
    ask(&receiver, &post(&traces(1)));
    ask(&receiver, &post_to(Signal::Logs, &logs(2)));
    ask(&receiver, &post_to(Signal::Metrics, &metrics(&[3])));
    assert_eq!(receiver.take().len(), 1);
    assert!(receiver.logs().is_empty() && receiver.metrics().is_empty() && receiver.requests().is_empty());
    assert_eq!(counts(&receiver), (1, 2, 3));
}

#[test]
fn one_signal_can_be_refused_while_the_others_are_taken() {
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Logs, Answer::status(404));
    let mut client = Client::connect(&receiver);
    let mut round = || {
        [
            client.ask(&post(&traces(1))).status,
            client.ask(&post_to(Signal::Logs, &logs(1))).status,
            client.ask(&post_to(Signal::Metrics, &metrics(&[1]))).status,
        ]
    };
    assert_eq!((round(), round()), ([200, 404, 200], [200, 404, 200]));
    assert_eq!(counts(&receiver), (2, 0, 2));
    receiver.behave();
    assert_eq!(round(), [200, 200, 200]);
}

#[test]
fn what_is_ordered_for_a_signal_outranks_what_is_ordered_for_all() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(500)]);
    receiver.always(Answer::status(501));
    receiver.script_for(Signal::Logs, [Answer::status(502)]);
    receiver.always_for(Signal::Logs, Answer::status(503));
    receiver.script_for(Signal::Metrics, [Answer::status(504)]);
    let mut client = Client::connect(&receiver);
    let statuses: Vec<u16> = [
        Signal::Logs,
        Signal::Logs,
        Signal::Logs,
        Signal::Metrics,
        Signal::Metrics,
        Signal::Metrics,
        Signal::Traces,
    ]
    .iter()
    .map(|signal| client.ask(&post_to(*signal, b"")).status)
    .collect();
    assert_eq!(statuses, [502, 503, 503, 504, 500, 501, 501]);
    receiver.behave();
    assert!(Signal::ALL.iter().all(|signal| client.ask(&post_to(*signal, b"")).status == 200));
}

/// Returns a message or string with its key and length.
fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut field);
    field.extend(content);
    field
}

#[test]
fn a_body_that_unfolds_to_too_much_is_refused_for_every_signal() {
    let receiver = Receiver::builder().max_body_bytes(10_000).start().unwrap();
    // Two bytes each on the wire, but more in memory.
    let many = |tag: u8| [tag << 3 | 2, 0].repeat(4000);
    let request = |record: &[u8]| field(1, &field(2, record));
    let log_records = request(&many(2));
    let points_of = |kind| request(&field(2, &field(kind, &many(1))));
    let body_of_pairs = request(&field(2, &field(5, &field(6, &many(1)))));
    // On a 32-bit machine, a pair takes 32 bytes of memory, so this body stays within the limit of 16 times
    // `max_body_bytes`.
    let pairs = (usize::BITS == 64).then_some((Signal::Logs, body_of_pairs));
    for (signal, body) in pairs.into_iter().chain([
        (Signal::Logs, log_records),
        (Signal::Metrics, request(&many(2))),
        (Signal::Metrics, points_of(5)),
        (Signal::Metrics, points_of(7)),
        (Signal::Metrics, points_of(9)),
        (Signal::Metrics, points_of(10)),
        (Signal::Metrics, points_of(11)),
    ]) {
        let reply = ask(&receiver, &post_to(signal, &body));
        assert_eq!(reply.status, 413, "{signal:?}: {body:?}");
        assert!(String::from_utf8_lossy(&reply.body).contains("too many messages"));
    }
    assert_eq!(counts(&receiver), (0, 0, 0));
    assert_eq!(ask(&receiver, &post_to(Signal::Logs, &logs(1))).status, 200);
    assert_eq!(ask(&receiver, &post_to(Signal::Metrics, &metrics(&[1]))).status, 200);
}
