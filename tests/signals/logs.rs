//! Log records from the call site to the collector: complete, in order, with the ids of their span, and only to
//! exporters whose level includes them.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use standpipe::config::LogLimits;
use standpipe::receiver::proto::Value as Received;
use standpipe::receiver::{Answer, ReceivedLog, Receiver};
use standpipe::{
    Config, Context, FlushOutcome, Logger, ProblemKind, Scope, Severity, Signal, SpanContext, Telemetry,
    Value, WhenFull,
};

use crate::support::scene::{A_WHILE, LONG, Problems, emit, exporter, gathering, start, start_with};

const REMOTE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Emits through a logger of a new program. Returns the received records in order.
fn arrived(emit: impl FnOnce(&Telemetry, &Logger)) -> Vec<ReceivedLog> {
    arrived_with(Config::new(), emit)
}

fn arrived_with(config: Config, emit: impl FnOnce(&Telemetry, &Logger)) -> Vec<ReceivedLog> {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(config.service_name("shop").exporter(gathering(&receiver)));
    emit(&telemetry, &telemetry.logger("shop"));
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.exporters[0].logs.delivered, ledger.lost()), (receiver.log_count(), 0), "{ledger}");
    receiver.logs()
}

/// Emits `records` records, numbered from 0 by their attribute `number`.
fn log_many(logger: &Logger, records: i64) {
    (0..records).for_each(|number| logger.info("work").set("number", number).emit());
}

fn body(log: &ReceivedLog) -> &Received {
    log.log.body.as_ref().and_then(|body| body.value.as_ref()).expect("a body")
}

fn bodies(logs: &[ReceivedLog]) -> Vec<&str> {
    let text = |log| match body(log) {
        Received::StringValue(text) => text.as_str(),
        other => panic!("{other:?}"),
    };
    logs.iter().map(text).collect()
}

fn text(value: &str) -> Received {
    Received::StringValue(value.to_owned())
}

fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

#[test]
fn a_record_arrives_with_all_that_was_set() {
    let before = nanos(SystemTime::now());
    let logs = arrived(|telemetry, _| {
        let logger = telemetry.logger(Scope::new("shop.cart").version("1.2.3"));
        logger.info("paid").set("amount", 12.5).set("currency", "SEK").set("amount", 13).emit();
    });
    let [log] = &logs[..] else { panic!("{logs:?}") };
    assert_eq!(body(log), &text("paid"));
    assert_eq!((log.log.severity_number, log.log.severity_text.as_str()), (9, "INFO"));
    assert_eq!(log.log.attributes.len(), 2, "the last value of a key counts");
    assert_eq!(log.attribute("amount"), 13);
    assert_eq!(log.attribute("currency"), "SEK");
    assert_eq!((log.scope.name.as_str(), log.scope.version.as_str()), ("shop.cart", "1.2.3"));
    assert_eq!(log.resource_attribute("service.name"), "shop");
    assert_eq!(log.log.time_unix_nano, log.log.observed_time_unix_nano);
    assert!((before..=nanos(SystemTime::now())).contains(&log.log.time_unix_nano));
    assert_eq!((log.log.event_name.as_str(), log.log.flags), ("", 0));
    assert!(log.log.trace_id.is_empty() && log.log.span_id.is_empty(), "there is no current span");
}

#[test]
fn the_six_plain_severities_and_any_other_have_their_numbers() {
    let config = Config::new();
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(config.exporter(gathering(&receiver).level(Severity::Trace)));
    let logger = telemetry.logger("shop");
    for log in [
        logger.trace("x"),
        logger.debug("x"),
        logger.info("x"),
        logger.warn("x"),
        logger.error("x"),
        logger.fatal("x"),
        logger.record(Severity::Fatal4, "x"),
    ] {
        log.emit();
    }
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let said = |log: ReceivedLog| (log.log.severity_number, log.log.severity_text.clone());
    let said: Vec<_> = receiver.logs().into_iter().map(said).collect();
    let expected =
        [(1, "TRACE"), (5, "DEBUG"), (9, "INFO"), (13, "WARN"), (17, "ERROR"), (21, "FATAL"), (24, "FATAL4")];
    assert_eq!(said, expected.map(|(number, name)| (number, name.to_owned())));
}

#[test]
fn a_record_carries_the_ids_of_this_threads_current_span() {
    let mut contexts = Vec::new();
    let logs = arrived(|telemetry, logger| {
        let outer = telemetry.tracer("shop").span("outer");
        logger.info("in outer").emit();
        let inner = telemetry.tracer("shop").span("inner");
        logger.info("in inner").emit();
        thread::scope(|scope| _ = scope.spawn(|| logger.info("elsewhere").emit()));
        contexts = vec![outer.context().clone(), inner.context().clone()];
        drop((inner, outer));
        logger.info("outside").emit();
    });
    let find = |name: &str| logs.iter().find(|log| body(log) == &text(name)).expect(name);
    for (name, context) in [("in outer", &contexts[0]), ("in inner", &contexts[1])] {
        let log = &find(name).log;
        assert_eq!(hex(&log.trace_id), context.trace_id().to_string());
        assert_eq!(hex(&log.span_id), context.span_id().to_string());
        assert_eq!(log.flags & 1, 1, "its trace is sampled");
    }
    for name in ["elsewhere", "outside"] {
        let log = &find(name).log;
        assert!(log.trace_id.is_empty() && log.span_id.is_empty(), "{log:?}");
    }
}

#[test]
fn a_record_in_a_context_of_no_span_has_no_ids() {
    let logs = arrived(|telemetry, logger| {
        let _checkout = telemetry.tracer("shop").span("checkout");
        Context::new().run(|| logger.info("apart").emit());
        logger.info("within").emit();
    });
    assert_eq!(bodies(&logs), ["apart", "within"]);
    assert!(logs[0].log.trace_id.is_empty() && logs[0].log.span_id.is_empty());
    assert_eq!(logs[1].log.trace_id.len(), 16);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_time_of_a_record_agrees_with_the_span_that_it_is_in() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    {
        let _span = telemetry.tracer("shop").span("outer");
        telemetry.logger("shop").info("inside").emit();
    }
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let (span, log) = (receiver.spans().remove(0).span, receiver.logs().remove(0).log);
    assert!((span.start_time_unix_nano..=span.end_time_unix_nano).contains(&log.time_unix_nano));
}

#[test]
fn time_context_event_name_and_severity_text_can_be_given() {
    let remote = SpanContext::from_traceparent(REMOTE).unwrap();
    let then = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let logs = arrived(|telemetry, logger| {
        let _span = telemetry.tracer("shop").span("not this one");
        logger
            .warn("came late")
            .time(then)
            .context(&remote)
            .event_name("first name")
            .event_name("message.late")
            .severity_text("Warnung")
            .emit();
    });
    let log = &logs[0].log;
    assert_eq!(log.time_unix_nano, 1_000_000_000_000_000_000);
    assert!(log.observed_time_unix_nano > log.time_unix_nano, "it is observed now");
    assert_eq!(hex(&log.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!((hex(&log.span_id), log.flags), ("00f067aa0ba902b7".to_owned(), 1));
    assert_eq!((log.event_name.as_str(), log.severity_text.as_str()), ("message.late", "Warnung"));
    assert_eq!(log.severity_number, 13);
}

#[test]
fn a_body_can_be_any_value() {
    let map = [("order", Value::Int(4711)), ("items", Value::Strs(&["tea", "cup"]))];
    let logs = arrived(|_, logger| {
        logger.info(4711).emit();
        logger.info(12.5).emit();
        logger.info(true).emit();
        logger.info([0u8, 255].as_slice()).emit();
        logger.info(["a", "b"].as_slice()).emit();
        logger.info(map.as_slice()).emit();
        logger.info("").emit();
    });
    let bodies: Vec<_> = logs.iter().map(body).collect();
    assert_eq!(
        bodies[..3],
        [&Received::IntValue(4711), &Received::DoubleValue(12.5), &Received::BoolValue(true)]
    );
    assert_eq!(bodies[3], &Received::BytesValue(vec![0, 255]));
    assert!(matches!(bodies[4], Received::ArrayValue(array) if array.values.len() == 2));
    assert!(matches!(bodies[5], Received::KvlistValue(list) if list.values[0].key == "order"));
    assert_eq!(bodies[6], &text(""), "an empty text is a body, too");
}

#[test]
fn what_is_not_emitted_is_not_sent() {
    let logs = arrived(|_, logger| {
        drop(logger.info("thought better of it").set("key", 1));
        logger.info("said").emit();
    });
    assert_eq!(bodies(&logs), ["said"]);
    assert!(logs[0].log.attributes.is_empty(), "something of the other one was left");
}

#[test]
fn limits_hold_for_attributes_and_not_for_the_body() {
    let config = Config::new().log_limits(LogLimits::default().attributes(2).value_length(3));
    let logs = arrived_with(config, |_, logger| {
        logger.info("a long body").set("a", "long").set("b", 1).set("c", 2).set("a", "four").emit();
    });
    let log = &logs[0];
    assert_eq!(body(log), &text("a long body"));
    assert_eq!(log.attribute("a"), "fou");
    assert!(log.attribute("c").is_none());
    assert_eq!((log.log.attributes.len(), log.log.dropped_attributes_count), (2, 1));
}

#[test]
fn without_a_setting_a_record_has_128_attributes() {
    let logs = arrived(|_, logger| {
        let log = (0..130).fold(logger.info("many"), |log, number| log.set(&format!("key {number}"), number));
        log.emit();
    });
    assert_eq!((logs[0].log.attributes.len(), logs[0].log.dropped_attributes_count), (128, 2));
}

#[test]
fn records_of_a_thread_arrive_in_their_order_with_spans_between_them() {
    const RECORDS: i64 = 2000;
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).batch_records(64));
    let (logger, tracer) = (telemetry.logger("shop"), telemetry.tracer("shop"));
    for number in 0..RECORDS {
        logger.info("work").set("number", number).emit();
        tracer.span("work").set("number", number);
    }
    let ledger = telemetry.shutdown(LONG);
    let counts = &ledger.exporters[0];
    assert_eq!(
        (counts.logs.delivered, counts.traces.delivered),
        (RECORDS as u64, RECORDS as u64),
        "{ledger}"
    );
    let of_logs: Vec<_> =
        receiver.logs().iter().map(|log| log.attribute("number").as_i64().unwrap()).collect();
    let of_spans: Vec<_> =
        receiver.spans().iter().map(|span| span.attribute("number").as_i64().unwrap()).collect();
    assert_eq!(of_logs, (0..RECORDS).collect::<Vec<_>>());
    assert_eq!(of_spans, of_logs);
}

#[test]
fn a_flush_sends_what_was_logged_before_it() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    log_many(&telemetry.logger("shop"), 10);
    assert!(!receiver.wait_for_logs(1, A_WHILE), "it gathers");
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!(receiver.log_count(), 10);
}

#[test]
fn each_exporter_gets_only_what_its_own_level_lets_pass() {
    let receivers = [(); 3].map(|()| Receiver::start().unwrap());
    let levels = [Some(Severity::Debug), Some(Severity::Error), None];
    let mut config = Config::new();
    for (index, (receiver, level)) in receivers.iter().zip(levels).enumerate() {
        config = config.exporter(gathering(receiver).named(format!("number-{index}")).level(level));
    }
    let telemetry = start_with(config);
    let logger = telemetry.logger("shop");
    logger.trace("trace").emit();
    logger.debug("debug").emit();
    logger.record(Severity::Warn4, "nearly an error").emit();
    logger.error("error").emit();
    telemetry.tracer("shop").span("no level is asked of a span").end();
    let enabled = [Severity::Trace4, Severity::Debug, Severity::Fatal];
    assert_eq!(enabled.map(|severity| logger.is_enabled(severity)), [false, true, true]);

    let ledger = telemetry.shutdown(LONG);
    let arrived = receivers.each_ref().map(Receiver::logs);
    assert_eq!(bodies(&arrived[0]), ["debug", "nearly an error", "error"]);
    assert_eq!(bodies(&arrived[1]), ["error"]);
    assert_eq!(bodies(&arrived[2]), [""; 0]);
    assert_eq!(receivers.each_ref().map(Receiver::span_count), [1; 3]);
    let counts = ledger.exporters.iter().map(|counts| (counts.logs.accepted, counts.logs.filtered));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [(3, 1), (1, 3), (0, 4)],
        "each has counted what its level kept out"
    );
    assert_eq!((ledger.lost(), ledger.total().filtered), (0, 8));
}

#[test]
fn only_records_that_would_have_been_emitted_are_counted_as_filtered() {
    let receiver = Receiver::start().unwrap();
    let config = Config::new()
        .exporter(exporter(&receiver).level(Severity::Warn))
        .exporter(exporter(&receiver).named("spans").signals([Signal::Traces]));
    let telemetry = start_with(config);
    let logger = telemetry.logger("shop");
    assert!(!logger.is_enabled(Severity::Info));
    drop(logger.info("begun").set("number", 1));
    assert_eq!(telemetry.ledger().total().filtered, 0);
    logger.info("emitted").set("number", 1).emit();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.exporters[0].logs.filtered, ledger.exporters[1].logs.filtered), (1, 0), "{ledger}");
}

#[test]
fn what_is_filtered_is_counted_exactly_from_many_threads() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).level(Severity::Warn));
    let logger = telemetry.logger("shop");
    // More threads than shards.
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| (0..1000).for_each(|number| logger.debug("work").set("number", number).emit()));
        }
    });
    assert_eq!(telemetry.shutdown(LONG).total().filtered, 20_000);
}

#[test]
fn each_exporter_gets_only_the_signals_that_it_sends() {
    let (spans, logs) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let telemetry = start_with(
        Config::new()
            .exporter(gathering(&spans).named("spans").signals([Signal::Traces]))
            .exporter(gathering(&logs).named("logs").signals([Signal::Logs])),
    );
    emit(&telemetry.tracer("shop"), 3);
    log_many(&telemetry.logger("shop"), 5);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((spans.span_count(), spans.log_count()), (3, 0));
    assert_eq!((logs.span_count(), logs.log_count()), (0, 5));
    let accepted =
        |index: usize| (ledger.exporters[index].traces.accepted, ledger.exporters[index].logs.accepted);
    assert_eq!((accepted(0), accepted(1)), ((3, 0), (0, 5)), "{ledger}");
}

#[test]
fn a_signal_that_no_exporter_takes_is_not_recorded_and_context_goes_on() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver).signals([Signal::Logs]));
    let span = telemetry.tracer("shop").span("not sent");
    telemetry.logger("shop").info("sent").emit();
    let context = span.context().clone();
    drop(span);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().accepted, receiver.log_count()), (1, 1), "{ledger}");
    assert_eq!(hex(&receiver.logs()[0].log.trace_id), context.trace_id().to_string());

    let deaf = start(gathering(&receiver).signals([Signal::Traces]));
    let logger = deaf.logger("shop");
    assert!(!logger.is_enabled(Severity::Fatal4));
    logger.fatal("unheard").emit();
    assert_eq!(deaf.shutdown(LONG).total().accepted, 0);
}

#[test]
fn the_largest_log_record_is_that_of_the_exporters_that_take_logs() {
    let (large, small) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let telemetry = start_with(
        Config::new()
            .exporter(gathering(&large).named("large").signals([Signal::Traces]))
            .exporter(gathering(&small).named("small").signals([Signal::Logs]).batch_bytes(4096)),
    );
    let text = "x".repeat(8192);
    telemetry.logger("shop").info(text.as_str()).emit();
    telemetry.tracer("shop").span("large").set("text", text.as_str());
    let ledger = telemetry.shutdown(LONG);
    let (large, small) = (&ledger.exporters[0], &ledger.exporters[1]);
    assert_eq!((large.traces.delivered, large.logs.not_enqueued.too_large), (1, 0), "{ledger}");
    assert_eq!((small.logs.not_enqueued.too_large, small.traces.not_enqueued.too_large), (1, 0), "{ledger}");
}

#[test]
fn a_full_queue_drops_a_log_record_and_counts_it() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).queue_records(4).when_full(WhenFull::DropNewest));
    log_many(&telemetry.logger("shop"), 10);
    let logs = telemetry.ledger().exporters[0].logs;
    assert_eq!((logs.accepted, logs.not_enqueued.queue_full), (4, 6), "{logs}");
    receiver.resume();
    assert_eq!(telemetry.shutdown(LONG).exporters[0].logs.delivered, 4);
}

#[test]
fn a_full_queue_lets_the_caller_of_a_log_record_wait() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).queue_records(4));
    let logger = telemetry.logger("shop");
    let (done, ended) = mpsc::channel();
    let caller = thread::spawn(move || {
        log_many(&logger, 10);
        done.send(()).unwrap();
    });
    assert!(ended.recv_timeout(A_WHILE).is_err(), "the caller did not wait");
    receiver.resume();
    assert_eq!(ended.recv_timeout(LONG), Ok(()));
    caller.join().unwrap();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.exporters[0].logs.delivered, ledger.lost()), (10, 0), "{ledger}");
}

#[test]
fn after_a_shutdown_a_log_record_is_turned_away() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let logger = telemetry.logger("shop");
    telemetry.shutdown(LONG);
    logger.error("too late").emit();
    assert_eq!(telemetry.ledger().exporters[0].logs.not_enqueued.after_shutdown, 1);
}

#[test]
fn a_collector_that_takes_no_logs_gets_all_spans_and_is_reported_once() {
    const ROUNDS: u64 = 5;
    for status in [404, 501] {
        let receiver = Receiver::start().unwrap();
        receiver.always_for(Signal::Logs, Answer::status(status));
        let problems = Problems::default();
        let telemetry = problems.start(gathering(&receiver));
        let (logger, tracer) = (telemetry.logger("shop"), telemetry.tracer("shop"));
        for _ in 0..ROUNDS {
            log_many(&logger, 3);
            emit(&tracer, 2);
            assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        }
        let ledger = telemetry.shutdown(LONG);
        let counts = &ledger.exporters[0];
        assert_eq!((counts.traces.delivered, counts.traces.lost()), (2 * ROUNDS, 0), "{ledger}");
        assert_eq!((counts.logs.delivered, counts.logs.dropped.refused), (0, 3 * ROUNDS), "{ledger}");
        let reported = problems.reported();
        let [problem] = &reported[..] else { panic!("reported once, not {reported:?}") };
        assert_eq!((problem.kind, problem.occurrences), (ProblemKind::NotTaken, 1));
        let url = format!("{}/v1/logs", receiver.endpoint());
        assert!(problem.message.starts_with("collector does not accept logs"), "{problem}");
        assert!(problem.message.contains(&url) && problem.message.contains(&status.to_string()), "{problem}");
    }
}

#[test]
fn a_collector_that_stops_taking_logs_again_is_reported_again() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&receiver));
    let logger = telemetry.logger("shop");
    for answer in [Answer::status(404), Answer::status(404), Answer::ok(), Answer::status(404)] {
        receiver.script_for(Signal::Logs, [answer]);
        log_many(&logger, 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let kinds: Vec<_> = problems.reported().iter().map(|problem| problem.kind).collect();
    assert_eq!(kinds, [ProblemKind::NotTaken; 2]);
}

#[test]
fn a_scope_has_its_own_level_beside_those_of_the_exporters() {
    let config = Config::new().scope_level("noisy", Severity::Warn).scope_level("silent", Severity::Fatal4);
    let logs = arrived_with(config, |telemetry, shop| {
        let noisy = telemetry.logger("noisy");
        for logger in [&noisy, shop, &telemetry.logger("silent")] {
            logger.info("info").emit();
            logger.warn("warn").emit();
        }
        let levels = [Severity::Info, Severity::Info4, Severity::Warn, Severity::Error];
        assert_eq!(levels.map(|severity| noisy.is_enabled(severity)), [false, false, true, true]);
        assert_eq!(levels.map(|severity| noisy.is_event_enabled(severity, "a")), [false, false, true, true]);
        assert!(shop.is_enabled(Severity::Trace));
        assert_eq!(telemetry.ledger().total().filtered, 0, "no exporter's level excludes them");
    });
    assert_eq!(bodies(&logs), ["warn", "info", "warn"]);
}
