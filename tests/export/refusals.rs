//! Records that a collector refuses are counted as lost once, and do not block later records.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use flate2::write::GzEncoder;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{FlushOutcome, ProblemKind, Signal};

use crate::support::scene::{LONG, Problems, emit, emit_in_time, exporter, gathering, gathering_to, start};

/// The span ids of each request, in the order they arrived.
type Seen = Arc<Mutex<Vec<Vec<Vec<u8>>>>>;

fn noting_receiver(answers: impl IntoIterator<Item = Answer>) -> (Receiver, Seen) {
    let requests = Seen::default();
    let seen = Arc::clone(&requests);
    let receiver = Receiver::builder()
        .first_answers(answers)
        .on_batch(move |batch| {
            let ids = batch.spans.iter().map(|received| received.span.span_id.clone());
            seen.lock().unwrap().push(ids.collect());
        })
        .start()
        .unwrap();
    (receiver, requests)
}

/// Every way in which collectors reject a request as too large.
fn too_large() -> [Answer; 4] {
    [
        Answer::status(413),
        Answer::status(413).message("request body too large"),
        Answer::status(400).message("http: request body too large"),
        Answer::status(400).header("content-type", "text/plain").body("Request Body Too Large\n"),
    ]
}

#[test]
fn a_refused_batch_is_dropped_once_and_the_next_one_goes() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(400).message("bad batch")]);
    let telemetry = start(gathering(&receiver));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 3);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let total = telemetry.ledger().total();
    assert_eq!((total.delivered, total.dropped.refused, total.in_flight), (0, 3, 0));

    emit(&tracer, 4);
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.accepted, total.delivered, total.dropped.refused), (7, 4, 3), "{ledger}");
    assert_eq!((ledger.lost(), receiver.request_count(), receiver.span_count()), (3, 2, 4));
}

#[test]
fn a_refused_batch_makes_room_for_callers() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(400));
    let telemetry = start(exporter(&receiver).queue_records(10));
    emit_in_time(&telemetry.tracer("shop"), 200);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().dropped.refused, ledger.lost()), (200, 200), "{ledger}");
}

#[test]
fn a_batch_that_is_too_large_is_halved_down_to_the_one_record_that_is() {
    for answer in too_large() {
        // Four requests are too large: those with all eight spans, the first four, the first two, and the first span.
        // All other requests are accepted.
        let (receiver, requests) = noting_receiver(vec![answer.clone(); 4]);
        let telemetry = start(gathering(&receiver));
        emit(&telemetry.tracer("shop"), 8);
        let ledger = telemetry.shutdown(LONG);
        let total = ledger.total();
        assert_eq!(
            (total.delivered, total.dropped.too_large, ledger.lost()),
            (7, 1, 1),
            "{answer:?}: {ledger}"
        );
        let requests = requests.lock().unwrap();
        let sizes: Vec<usize> = requests.iter().map(Vec::len).collect();
        assert_eq!(sizes, [8, 4, 2, 1, 1, 2, 4], "{answer:?}");
        let distinct: HashSet<&Vec<Vec<u8>>> = requests.iter().collect();
        assert_eq!(distinct.len(), requests.len(), "{answer:?}: the same bytes were sent twice");
        let arrived: Vec<Vec<u8>> = receiver.spans().iter().map(|r| r.span.span_id.clone()).collect();
        assert_eq!(arrived, requests[0][1..], "{answer:?}: all the others, once and in their order");
    }
}

#[test]
fn a_collector_that_finds_everything_too_large_is_asked_once_per_part() {
    for answer in too_large() {
        let (receiver, requests) = noting_receiver([]);
        receiver.always(answer.clone());
        let telemetry = start(gathering(&receiver));
        emit(&telemetry.tracer("shop"), 9);
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().dropped.too_large, ledger.lost()), (9, 9), "{answer:?}: {ledger}");
        let requests = requests.lock().unwrap();
        // The requests form a binary tree with a leaf for each of the nine records.
        assert_eq!(requests.len(), 2 * 9 - 1, "{answer:?}");
        assert_eq!(requests.iter().collect::<HashSet<_>>().len(), requests.len(), "{answer:?}");
    }
}

#[test]
fn a_collector_that_finds_everything_too_large_is_not_asked_for_each_record() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(413));
    let telemetry = start(gathering(&receiver));
    for _ in 0..2 {
        emit(&telemetry.tracer("shop"), 1024);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let total = telemetry.ledger().total();
    assert_eq!((total.dropped.too_large, total.lost()), (2048, 2048), "{total}");
    let requests = receiver.request_count();
    assert!(requests < 100, "{requests} requests");

    // The exporter drops records without an attempt only for some time. Then it sends requests again.
    receiver.behave();
    let deadline = Instant::now() + LONG;
    while receiver.span_count() == 0 {
        assert!(Instant::now() < deadline, "{}", telemetry.ledger());
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn the_size_that_a_collector_takes_is_remembered_for_later_batches() {
    let receiver = Receiver::builder().max_body_bytes(20_000).start().unwrap();
    let telemetry = start(gathering(&receiver));
    let refused = || receiver.requests().iter().filter(|request| request.status == Some(413)).count();
    emit(&telemetry.tracer("shop"), 2000);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let at_first = refused();
    assert!(at_first > 0);
    for _ in 0..5 {
        emit(&telemetry.tracer("shop"), 2000);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    assert_eq!(refused(), at_first, "later batches begin with what the collector takes");
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (12_000, 0), "{ledger}");
}

#[test]
fn halves_keep_scope_and_resource() {
    let receiver = Receiver::start().unwrap();
    receiver.script(vec![Answer::status(413); 3]);
    let telemetry = start(gathering(&receiver));
    let tracers = ["cart", "till", "stock"].map(|scope| (scope, telemetry.tracer(scope)));
    for (scope, tracer) in tracers.iter().cycle().take(30) {
        tracer.span(scope).end();
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (30, 0), "{ledger}");
    let spans = receiver.spans();
    assert_eq!(spans.len(), 30);
    for received in spans {
        assert_eq!(received.span.name, received.scope.name);
        assert!(received.resource_attribute("service.name").is_some());
    }
}

#[test]
fn a_collector_with_a_small_limit_gets_all_but_the_records_above_it() {
    let receiver = Receiver::builder().max_body_bytes(2000).start().unwrap();
    let telemetry = start(gathering(&receiver));
    let tracer = telemetry.tracer("shop");
    let large = "x".repeat(3000);
    for number in 0..60 {
        let mut span = tracer.span("work");
        if number % 20 == 7 {
            span.set("text", large.as_str());
        }
    }
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.delivered, total.dropped.too_large, ledger.lost()), (57, 3, 3), "{ledger}");
    assert_eq!(receiver.span_count(), 57);
}

#[test]
fn a_refusal_before_a_large_request_is_read_arrives() {
    let receiver = Receiver::builder().max_body_bytes(1 << 20).start().unwrap();
    let telemetry = start(gathering(&receiver));
    let tracer = telemetry.tracer("shop");
    let text = "x".repeat(400 << 10);
    for _ in 0..8 {
        tracer.span("large").set("text", text.as_str());
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (8, 0), "{ledger}");
    // Requests with eight and four records are too large; those with two records fit.
    assert_eq!(ledger.exporters[0].attempts, 3 + 4, "{ledger}");
}

#[test]
fn a_refusal_is_read_even_if_the_collector_hangs_up_on_the_rest_of_the_request() {
    const LIMIT: usize = 1 << 20;
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let telemetry = start(gathering_to(&format!("http://{}", collector.local_addr().unwrap())));
    let tracer = telemetry.tracer("shop");
    let text = "x".repeat(400 << 10);
    for _ in 0..8 {
        tracer.span("large").set("text", text.as_str());
    }
    let (note, lengths) = mpsc::channel();
    thread::spawn(move || (0..7).try_for_each(|_| note.send(take_or_hang_up(&collector, LIMIT))));
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (8, 0), "{ledger}");
    let too_large = lengths.iter().filter(|length| *length > LIMIT).count();
    assert_eq!(too_large, 3, "eight spans, and twice four");
}

/// Serves one request per connection. A request above the limit is refused and not read: the client is still writing
/// when the connection is reset.
fn take_or_hang_up(collector: &TcpListener, limit: usize) -> usize {
    let (socket, _) = collector.accept().unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut reader = BufReader::new(&socket);
    let mut length = 0;
    for line in reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
    }
    let status = if length > limit { "413 Content Too Large" } else { "200 OK" };
    if length <= limit {
        io::copy(&mut reader.take(length as u64), &mut io::sink()).unwrap();
    }
    // The answer is one write, because bytes that are not yet written when the connection is reset are lost.
    let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    (&socket).write_all(answer.as_bytes()).unwrap();
    length
}

#[test]
fn a_partial_success_is_final_and_its_rejected_records_are_counted() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::partial(3, "three are too old")]);
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 10);
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.delivered, total.rejected, ledger.lost()), (7, 3, 3), "{ledger}");
    assert_eq!((receiver.request_count(), receiver.span_count()), (1, 7));
    let problem = problems.wait_for(ProblemKind::PartialSuccess);
    assert!(problem.message.contains("three are too old"), "{problem}");
}

#[test]
fn a_rejection_is_reported_in_whole_words_also_where_the_server_gives_no_reason() {
    for (rejected, why, words) in
        [(1, "", "1 record rejected"), (2, "", "2 records rejected"), (1, "old", "1 record rejected: old")]
    {
        let receiver = Receiver::start().unwrap();
        receiver.script([Answer::partial(rejected, why)]);
        let problems = Problems::default();
        let telemetry = problems.start(gathering(&receiver));
        emit(&telemetry.tracer("shop"), 10);
        telemetry.shutdown(LONG);
        assert_eq!(problems.wait_for(ProblemKind::PartialSuccess).message, words);
    }
}

#[test]
fn no_more_records_are_rejected_than_were_sent() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::partial(u64::MAX, "all and more")]);
    let telemetry = start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 10);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.total().rejected), (0, 10), "{ledger}");
}

#[test]
fn an_empty_partial_success_is_plain_success() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::empty_partial());
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 10);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (10, 0), "{ledger}");
    assert_eq!((receiver.request_count(), problems.reported()), (1, vec![]));
}

#[test]
fn a_message_without_rejected_records_is_only_a_warning() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::partial(0, "please use v2")]);
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 10);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (10, 0), "{ledger}");
    assert_eq!(receiver.request_count(), 1);
    let problem = problems.wait_for(ProblemKind::PartialSuccess);
    assert!(problem.message.contains("please use v2"), "{problem}");
}

#[test]
fn control_and_bidi_characters_of_an_answer_are_escaped() {
    let said = "pay \u{202e}001\u{2069} or\u{1b}[2J\u{9b}1A\u{7f}\u{2028}leave\u{200f}\u{61c}";
    let answers = [
        Answer::status(400).message(said),
        Answer::status(403).header("content-type", "text/plain").body(said),
        Answer::partial(1, said),
        Answer::redirect(307, format!("http://a.example/{}", "\u{202e}gpj.exe")),
    ];
    for answer in answers {
        let receiver = Receiver::start().unwrap();
        receiver.script([answer.clone()]);
        let problems = Problems::default();
        let telemetry = problems.start(gathering(&receiver));
        emit(&telemetry.tracer("shop"), 1);
        telemetry.shutdown(LONG);
        let reported = problems.reported();
        let text = reported.iter().map(|problem| format!("{problem}{}", problem.message)).collect::<String>();
        assert!(!text.is_empty(), "{answer:?}: nothing is reported");
        let obeyed = |c: &char| c.is_control() || "\u{202e}\u{2069}\u{2028}\u{200f}\u{61c}".contains(*c);
        assert_eq!(text.chars().find(obeyed), None, "{answer:?}: {text:?}");
        assert!(!text.contains("pay") || text.contains("pay \\u{202e}001\\u{2069} or"), "{text:?}");

        receiver.script([answer]);
        let exporter = gathering(&receiver).signals([standpipe::Signal::Traces]);
        let report = standpipe::probe::probe(&exporter, LONG).to_string();
        assert_eq!(report.trim_end().replace('\n', "").chars().find(obeyed), None, "{report:?}");
    }
}

#[test]
fn the_reason_in_the_body_of_an_error_reaches_the_program() {
    for (status, kind) in [
        (400, ProblemKind::Refused),
        (401, ProblemKind::Refused),
        (413, ProblemKind::TooLarge),
        (429, ProblemKind::Unavailable),
        (503, ProblemKind::Unavailable),
    ] {
        let receiver = Receiver::start().unwrap();
        receiver.script([Answer::status(status).message("the tenant \"blue\" is unknown")]);
        let problems = Problems::default();
        let telemetry = problems.start(exporter(&receiver));
        emit(&telemetry.tracer("shop"), 1);
        let problem = problems.wait_for(kind);
        assert!(problem.message.contains("the tenant \"blue\" is unknown"), "{status}: {problem}");
        assert!(problem.message.contains(&status.to_string()), "{status}: {problem}");
        assert_eq!(problem.exporter, "otlp");
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
}

#[test]
fn the_code_in_the_body_of_an_error_decides_nothing() {
    // google.rpc.Status { code: 14 UNAVAILABLE, message: "later" } and { code: 3 INVALID_ARGUMENT, message: "never" }
    let later = b"\x08\x0e\x12\x05later";
    let never = b"\x08\x03\x12\x05never";
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(400).body(later), Answer::status(503).body(never)]);
    let telemetry = start(exporter(&receiver));
    let tracer = telemetry.tracer("shop");
    for _ in 0..2 {
        emit(&tracer, 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.dropped.refused, total.delivered, receiver.request_count()), (1, 1, 3), "{ledger}");
}

#[test]
fn a_status_that_says_that_there_is_no_such_signal_is_reported_as_that() {
    for status in [404, 405, 501] {
        let receiver = Receiver::start().unwrap();
        receiver.always_for(Signal::Logs, Answer::status(status));
        let problems = Problems::default();
        let telemetry = problems.start(gathering(&receiver));
        let (logger, tracer) = (telemetry.logger("shop"), telemetry.tracer("shop"));
        for _ in 0..2 {
            logger.error("no stock").emit();
            emit(&tracer, 1);
            assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        }
        let ledger = telemetry.shutdown(LONG);
        let counts = &ledger.exporters[0];
        assert_eq!((counts.traces.delivered, counts.logs.dropped.refused), (2, 2), "{status}: {ledger}");
        let reported = problems.reported();
        let [problem] = &reported[..] else { panic!("{status}: reported once, not {reported:?}") };
        assert_eq!(problem.kind, ProblemKind::NotTaken, "{problem}");
        assert!(problem.message.contains(&status.to_string()), "{problem}");
    }
}

/// A login page of a proxy or a portal: the batch never reached a collector.
#[test]
fn a_web_page_in_place_of_an_answer_is_refused_and_not_delivered() {
    let answer =
        |content_type: &str, body: &str| Answer::ok().header("content-type", content_type).body(body);
    let page = "<!doctype html><title>Log in</title>";
    for answer in [
        answer("text/html", page),
        answer("Text/HTML; charset=utf-8", page),
        answer("text/html", page).cut_short(),
        answer("text/plain", "ok"),
        answer("application/x-protobuf-or-not", page),
        answer("application/octet-stream", page),
        answer("application/json", page),
        answer("application/json", "[]"),
        answer("application/json", "{\"error\":\"Log in first\"}"),
        answer("application/json", "{\"error\":\"Log in first\"}").cut_short(),
    ] {
        let receiver = Receiver::start().unwrap();
        receiver.always(answer.clone());
        let problems = Problems::default();
        let telemetry = problems.start(gathering(&receiver));
        emit(&telemetry.tracer("shop"), 3);
        let ledger = telemetry.shutdown(LONG);
        let total = ledger.total();
        assert_eq!((total.delivered, total.dropped.refused), (0, 3), "{answer:?}: {ledger}");
        assert_eq!(receiver.request_count(), 1, "{answer:?}: it was sent again");
        let problem = problems.wait_for(ProblemKind::Refused);
        assert!(
            problem.message.contains("200 OK: the answer is not from a collector: content type"),
            "{problem}"
        );
        assert!(!problem.message.contains("Log in"), "{problem}");
    }
}

/// Some servers compress their answer if the request was compressed.
#[test]
fn a_compressed_answer_is_read_and_what_it_rejects_is_counted() {
    let packed = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let receiver = Receiver::start().unwrap();
    let compressed = |answer: Answer, text: &str| {
        answer
            .header("content-encoding", "GZIP")
            .header("content-type", "application/json")
            .body(packed(text))
    };
    let rejects = "{\"partialSuccess\":{\"rejectedSpans\":2,\"errorMessage\":\"too old\"}}";
    receiver.script([
        compressed(Answer::ok(), rejects),
        compressed(Answer::status(400), "{\"message\":\"not yours\"}"),
    ]);
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 3);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    emit(&telemetry.tracer("shop"), 1);
    let total = telemetry.shutdown(LONG).total();
    assert_eq!((total.delivered, total.rejected, total.dropped.refused), (1, 2, 1), "{total}");
    let reported: Vec<String> = problems.reported().into_iter().map(|problem| problem.message).collect();
    assert!(reported[0].contains("too old") && reported[1].contains("not yours"), "{reported:?}");
}

/// Some collectors always answer in JSON.
#[test]
fn a_success_in_json_is_one_with_its_rejected_records() {
    for (body, rejected, said) in [
        ("", 0, ""),
        ("{}", 0, ""),
        (" { }\r\n", 0, ""),
        ("{\"partialSuccess\":{}}", 0, ""),
        ("{\"partialSuccess\":null}", 0, ""),
        ("{\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":\"too \\u006fld\"}}", 2, "too old"),
        ("{\"partialSuccess\":{\"errorMessage\":\"bad\",\"rejectedSpans\":3}}", 3, "bad"),
        ("{\"partialSuccess\":{\"errorMessage\":\"use v2\"}}", 0, "use v2"),
        ("{\"partialSuccess\":{\"rejec", 0, "the answer was cut short"),
    ] {
        let receiver = Receiver::start().unwrap();
        receiver.always(Answer::ok().header("content-type", "Application/JSON; charset=utf-8").body(body));
        let problems = Problems::default();
        let telemetry = problems.start(gathering(&receiver));
        emit(&telemetry.tracer("shop"), 3);
        let ledger = telemetry.shutdown(LONG);
        let total = ledger.total();
        assert_eq!((total.delivered, total.rejected), (3 - rejected, rejected), "{body}: {ledger}");
        let reported = problems.reported();
        assert_eq!(reported.is_empty(), said.is_empty(), "{body}: {reported:?}");
        for problem in reported {
            assert_eq!(problem.kind, ProblemKind::PartialSuccess, "{body}: {problem}");
            assert!(problem.message.contains(said), "{body}: {problem}");
        }
    }
}
