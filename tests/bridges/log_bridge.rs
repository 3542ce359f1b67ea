//! Records of the `log` crate arrive as log records: complete, once, and with the ids of their span.
//!
//! A process has one logger, so most tests call the bridge themselves.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use log::kv::{Error, Source, Value, VisitSource};
use log::{Level, LevelFilter, Log, Metadata, Record};
use standpipe::bridge::log::LogBridge;
use standpipe::config::LogLimits;
use standpipe::receiver::{Answer, ReceivedLog, Receiver};
use standpipe::{Application, Config, Exporter, FlushOutcome, Severity, Signal, Telemetry};

use crate::support::process;
use crate::support::scene::{LONG, exporter, gathering, start, start_with};

/// Logs through the bridge of a new program. Returns the received records in order.
fn arrived(say: impl FnOnce(&LogBridge)) -> Vec<ReceivedLog> {
    arrived_with(Config::new(), |bridge| bridge, |_, bridge| say(bridge))
}

fn arrived_with(
    config: Config,
    set_up: impl FnOnce(LogBridge) -> LogBridge,
    say: impl FnOnce(&Telemetry, &LogBridge),
) -> Vec<ReceivedLog> {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(config.exporter(gathering(&receiver).level(Severity::Trace)));
    say(&telemetry, &set_up(LogBridge::new(&telemetry)));
    let ledger = telemetry.shutdown(LONG);
    let logs = &ledger.exporters[0].logs;
    assert_eq!((logs.delivered, logs.lost()), (receiver.log_count(), logs.not_enqueued.panicked), "{ledger}");
    receiver.logs()
}

/// Returns the only log record.
#[track_caller]
fn only(logs: Vec<ReceivedLog>) -> ReceivedLog {
    assert_eq!(logs.len(), 1, "{logs:?}");
    logs.into_iter().next().unwrap()
}

/// Logs a record at this level.
fn say(logger: &dyn Log, level: Level, message: fmt::Arguments<'_>) {
    logger.log(&Record::builder().level(level).target("shop").args(message).build());
}

/// Logs a record with key-values.
fn say_with(logger: &dyn Log, key_values: &dyn Source) {
    let args = format_args!("said");
    logger.log(&Record::builder().target("shop").args(args).key_values(&key_values).build());
}

/// Logs a record like a `log` macro in line `line`, whose location is `'static`, so that the bridge caches it.
fn say_at(logger: &dyn Log, line: u32, target: &str, key_values: &[(&str, i32)]) {
    let mut record = Record::builder();
    record.file_static(Some("src/cart.rs")).module_path_static(Some("shop::cart")).line(Some(line));
    logger.log(&record.target(target).key_values(&key_values).args(format_args!("{target} {line}")).build());
}

fn body(log: &ReceivedLog) -> &str {
    log.body().as_str().unwrap_or_else(|| panic!("{log:?}"))
}

fn bodies(logs: &[ReceivedLog]) -> Vec<&str> {
    logs.iter().map(body).collect()
}

/// A logger that remembers its records and their targets.
#[derive(Clone)]
struct Listener {
    finest: LevelFilter,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    fn up_to(finest: LevelFilter) -> Self {
        Self { finest, heard: Arc::default() }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

impl Log for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= self.finest
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.heard.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {
        self.heard.lock().unwrap().push("flushed".to_owned());
    }
}

#[test]
fn a_record_arrives_with_all_that_was_set() {
    let log = only(arrived(|bridge| {
        let left = 3;
        let mut record = Record::builder();
        let record = record
            .level(Level::Warn)
            .target("shop::cart")
            .file(Some("src/cart.rs"))
            .line(Some(42))
            .module_path(Some("shop::cart::rows"))
            .key_values(&[("order", 4711)]);
        bridge.log(&record.args(format_args!("only {left} left")).build());
    }));
    assert_eq!(body(&log), "only 3 left");
    assert_eq!((log.log.severity_number, log.log.severity_text.as_str()), (13, "WARN"));
    assert_eq!((log.scope.name.as_str(), log.scope.version.as_str()), ("shop::cart", ""));
    assert_eq!(log.attribute("code.file.path"), "src/cart.rs");
    assert_eq!(log.attribute("code.line.number"), 42);
    assert_eq!(log.attribute("code.module.name"), "shop::cart::rows");
    assert_eq!(log.attribute("order"), 4711);
    assert_eq!(log.log.attributes.len(), 4);
    assert!(log.log.time_unix_nano > 0);
    assert!(log.log.trace_id.is_empty() && log.log.span_id.is_empty(), "there is no current span");
}

#[test]
fn a_level_is_a_severity_of_the_same_name() {
    let logs = arrived(|bridge| Level::iter().for_each(|level| say(bridge, level, format_args!("said"))));
    let severities: Vec<_> =
        logs.iter().map(|log| (log.log.severity_number, log.log.severity_text.as_str())).collect();
    assert_eq!(severities, [(17, "ERROR"), (13, "WARN"), (9, "INFO"), (5, "DEBUG"), (1, "TRACE")]);
}

#[test]
fn what_is_not_known_is_left_out() {
    let log = only(arrived(|bridge| say(bridge, Level::Info, format_args!("said"))));
    assert!(log.log.attributes.is_empty(), "{log:?}");
}

#[test]
fn the_location_can_be_left_out() {
    let log = only(arrived_with(
        Config::new(),
        |bridge| bridge.location(false),
        |_, bridge| {
            let record =
                Record::builder().file(Some("src/cart.rs")).line(Some(42)).module_path(Some("shop")).build();
            bridge.log(&record);
        },
    ));
    assert!(log.log.attributes.is_empty(), "{log:?}");
}

#[test]
fn caches_the_location_of_a_call_site_but_not_its_target() {
    let said = [(1, "shop"), (2, "shop"), (1, "shop"), (1, "bank"), (1, "shop")];
    let logs = arrived(|bridge| said.iter().for_each(|(line, target)| say_at(bridge, *line, target, &[])));
    assert_eq!(logs.len(), said.len());
    for log in &logs {
        let (target, line) = body(log).split_once(' ').unwrap();
        assert_eq!(log.scope.name, target);
        assert_eq!(log.attribute("code.line.number"), line.parse::<i64>().unwrap());
        assert_eq!(log.attribute("code.file.path"), "src/cart.rs");
        assert_eq!(log.attribute("code.module.name"), "shop::cart");
        assert_eq!(log.log.attributes.len(), 3);
    }
}

#[test]
fn a_cached_location_yields_to_limits_and_key_values() {
    let limits = LogLimits::default().attributes(3).value_length(8);
    let config = Config::new().log_limits(limits);
    let said = |_: &Telemetry, bridge: &LogBridge| {
        for _ in 0..2 {
            say_at(bridge, 42, "shop", &[("code.line.number", 7), ("more", 1)]);
        }
    };
    for log in arrived_with(config, |bridge| bridge, said) {
        assert_eq!(log.attribute("code.file.path"), "src/cart");
        assert_eq!(log.attribute("code.module.name"), "shop::ca");
        assert_eq!(log.attribute("code.line.number"), 7);
        assert_eq!((log.log.attributes.len(), log.log.dropped_attributes_count), (3, 1));
    }
}

#[test]
fn the_location_can_be_turned_on_after_the_first_record() {
    let logs = arrived_with(
        Config::new(),
        |bridge| {
            let silent = bridge.location(false);
            say_at(&silent, 42, "shop", &[]);
            silent.location(true)
        },
        |_, bridge| say_at(bridge, 42, "shop", &[]),
    );
    let counts: Vec<_> = logs.iter().map(|log| log.log.attributes.len()).collect();
    assert_eq!(counts, [0, 3]);
}

#[test]
fn the_macros_need_one_line_at_start_and_filter_for_free() {
    if !process::is_alone("the_macros_need_one_line_at_start_and_filter_for_free") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver).level(Severity::Debug));
    LogBridge::new(&telemetry).install().unwrap();
    assert_eq!(log::max_level(), LevelFilter::Debug);
    assert!(LogBridge::new(&telemetry).install().is_err(), "there is a logger now");

    log::info!("a customer came in");
    log::debug!(target: "shop::till", express = true, order = 4711, total:% = 12.5; "paid {}", "cash");
    log::trace!("{}", panics());
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.exporters[0].logs.delivered, ledger.lost()), (2, 0), "{ledger}");

    let logs = receiver.logs();
    assert_eq!(bodies(&logs), ["a customer came in", "paid cash"]);
    assert_eq!(logs[0].scope.name, module_path!());
    assert_eq!(logs[0].attribute("code.module.name"), module_path!());
    assert_eq!(logs[0].attribute("code.file.path"), file!());
    assert_eq!(logs[1].scope.name, "shop::till");
    assert_eq!(logs[1].attribute("express"), true);
    assert_eq!(logs[1].attribute("order"), 4711);
    assert_eq!(logs[1].attribute("total"), "12.5");

    fn panics() -> &'static str {
        panic!("nobody wants a record this fine")
    }
}

#[test]
fn key_values_keep_their_kinds() {
    let error = std::num::IntErrorKind::PosOverflow;
    let log = only(arrived(|bridge| {
        let key_values = [
            ("truth", Value::from(true)),
            ("small", Value::from(-7_i8)),
            ("large", Value::from(i64::MIN)),
            ("unsigned", Value::from(u64::MAX >> 1)),
            ("wide", Value::from(-1_i128)),
            ("wider", Value::from(1_u128)),
            ("double", Value::from(-0.5)),
            ("text", Value::from("Åsa \"Ö\"")),
            ("letter", Value::from('Ö')),
            ("debug", Value::from_debug(&error)),
            ("display", Value::from_display(&12.5)),
        ];
        say_with(bridge, &key_values);
    }));
    for (key, value) in [
        ("truth", standpipe::Value::Bool(true)),
        ("small", standpipe::Value::Int(-7)),
        ("large", standpipe::Value::Int(i64::MIN)),
        ("unsigned", standpipe::Value::Int(i64::MAX)),
        ("wide", standpipe::Value::Int(-1)),
        ("wider", standpipe::Value::Int(1)),
        ("double", standpipe::Value::Float(-0.5)),
        ("text", standpipe::Value::Str("Åsa \"Ö\"")),
        ("letter", standpipe::Value::Str("Ö")),
        ("debug", standpipe::Value::Str("PosOverflow")),
        ("display", standpipe::Value::Str("12.5")),
    ] {
        assert_eq!(log.attribute(key), value, "{key}");
    }
}

#[test]
fn integers_beyond_64_bits_lose_no_digit() {
    let log = only(arrived(|bridge| {
        say_with(
            bridge,
            &[
                ("u64", Value::from(u64::MAX)),
                ("u128", Value::from(u128::MAX)),
                ("i128", Value::from(i128::MIN)),
            ],
        );
    }));
    assert_eq!(log.attribute("u64"), "18446744073709551615");
    assert_eq!(log.attribute("u128"), "340282366920938463463374607431768211455");
    assert_eq!(log.attribute("i128"), "-170141183460469231731687303715884105728");
}

#[test]
fn a_key_without_a_value_is_left_out() {
    let log = only(arrived(|bridge| {
        say_with(
            bridge,
            &[("none", Value::null()), ("unit", Value::from_any(&())), ("some", Value::from(1))],
        );
    }));
    assert_eq!(log.log.attributes.len(), 1, "{log:?}");
    assert_eq!(log.attribute("some"), 1);
    assert_eq!(log.log.dropped_attributes_count, 0);
}

#[test]
fn of_a_key_the_last_value_counts_also_against_the_location() {
    let log = only(arrived(|bridge| {
        let key_values =
            [("a", Value::from(1)), ("code.line.number", Value::from("mine")), ("a", Value::from("2"))];
        bridge.log(&Record::builder().line(Some(42)).key_values(&key_values).build());
    }));
    assert_eq!(log.attribute("a"), "2");
    assert_eq!(log.attribute("code.line.number"), "mine");
    assert_eq!(log.log.attributes.len(), 2);
}

#[test]
fn the_limits_of_log_records_hold() {
    let limits = LogLimits::default().attributes(2).value_length(3);
    let log = only(arrived_with(
        Config::new().log_limits(limits),
        |bridge| bridge,
        |_, bridge| {
            say_with(
                bridge,
                &[("a", Value::from("abcdef")), ("b", Value::from_display(&12345)), ("c", Value::from(1))],
            )
        },
    ));
    assert_eq!(log.attribute("a"), "abc");
    assert_eq!(log.attribute("b"), "123");
    assert_eq!((log.attribute("c").is_some(), log.log.dropped_attributes_count), (false, 1));
}

#[test]
fn a_source_that_fails_keeps_what_came_before() {
    struct Failing;
    impl Source for Failing {
        fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), Error> {
            visitor.visit_pair("first".into(), 1.into())?;
            Err(Error::msg("no more"))
        }
    }
    let log = only(arrived(|bridge| say_with(bridge, &Failing)));
    assert_eq!(log.body(), "said");
    assert_eq!(log.attribute("first"), 1);
}

#[test]
fn a_value_that_fails_to_be_formatted_keeps_what_came_before() {
    struct Failing;
    impl fmt::Display for Failing {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half a ")?;
            Err(fmt::Error)
        }
    }
    let logs = arrived(|bridge| {
        say(bridge, Level::Info, format_args!("this is {Failing} word"));
        say_with(bridge, &[("key", Value::from_display(&Failing))]);
    });
    assert_eq!(body(&logs[0]), "this is half a ");
    assert_eq!(logs[1].attribute("key"), "half a ");
}

#[test]
fn a_record_belongs_to_the_current_span() {
    let mut context = None;
    let log = only(arrived_with(
        Config::new(),
        |bridge| bridge,
        |telemetry, bridge| {
            let span = telemetry.tracer("shop").span("checkout");
            context = Some(span.context().clone());
            say(bridge, Level::Info, format_args!("paid"));
        },
    ));
    let context = context.unwrap();
    assert_eq!(log.log.trace_id, context.trace_id().to_bytes());
    assert_eq!(log.log.span_id, context.span_id().to_bytes());
    assert_eq!(log.log.flags & 1, 1);
}

/// A value that logs through the bridge while it is formatted, and while its key-values are visited.
struct Talkative<'a>(&'a LogBridge);

impl fmt::Display for Talkative<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = 7;
        self.0.log(&Record::builder().target("inner").args(format_args!("inner {inner}")).build());
        f.write_str("outer")
    }
}

impl Source for Talkative<'_> {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), Error> {
        visitor.visit_pair("before".into(), Value::from_display(self))?;
        say_with(self.0, &[("inner", Value::from_display(&1))]);
        visitor.visit_pair("after".into(), Value::from_display(self))
    }
}

#[test]
fn what_logs_while_it_is_formatted_makes_records_of_its_own() {
    let logs = arrived(|bridge| say(bridge, Level::Info, format_args!("<{}>", Talkative(bridge))));
    assert_eq!(bodies(&logs), ["inner 7", "<outer>"]);
}

#[test]
fn key_values_that_log_make_records_of_their_own() {
    let logs = arrived(|bridge| say_with(bridge, &Talkative(bridge)));
    assert_eq!(bodies(&logs), ["inner 7", "inner 7", "said", "said"], "in order within a scope");
    assert_eq!(logs[2].attribute("inner"), "1");
    assert_eq!(logs[3].attribute("before"), "outer");
    assert_eq!(logs[3].attribute("after"), "outer");
}

#[test]
fn a_panic_while_formatting_costs_only_its_own_record() {
    struct Panicking;
    impl fmt::Display for Panicking {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half")?;
            std::panic::resume_unwind(Box::new("quietly"))
        }
    }
    let logs = arrived(|bridge| {
        for _ in 0..10 {
            let in_body = || say(bridge, Level::Info, format_args!("{Panicking}"));
            catch_unwind(AssertUnwindSafe(in_body)).unwrap_err();
            let in_value = || say_with(bridge, &[("key", Value::from_display(&Panicking))]);
            catch_unwind(AssertUnwindSafe(in_value)).unwrap_err();
        }
        say_with(bridge, &[("key", Value::from_display(&"whole"))]);
    });
    let log = only(logs);
    assert_eq!(log.body(), "said");
    assert_eq!(log.attribute("key"), "whole");
}

#[test]
fn a_record_whose_values_panic_is_counted() {
    struct Panicking;
    impl fmt::Display for Panicking {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            std::panic::resume_unwind(Box::new("quietly"))
        }
    }
    arrived_with(
        Config::new(),
        |bridge| bridge,
        |telemetry, bridge| {
            let in_body = || say(bridge, Level::Info, format_args!("{Panicking}"));
            catch_unwind(AssertUnwindSafe(in_body)).unwrap_err();
            assert_eq!(telemetry.ledger().exporters[0].logs.not_enqueued.panicked, 1);
        },
    );
}

#[test]
fn what_no_exporter_takes_is_not_formatted() {
    struct Unasked;
    impl fmt::Display for Unasked {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("nobody wants it")
        }
    }
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).level(Severity::Warn));
    let bridge = LogBridge::new(&telemetry);
    say(&bridge, Level::Info, format_args!("{Unasked}"));
    let coarse = LogBridge::new(&telemetry).level(LevelFilter::Error);
    say(&coarse, Level::Warn, format_args!("{Unasked}"));
    assert!(!bridge.enabled(&Metadata::builder().level(Level::Info).build()));
    let total = telemetry.shutdown(LONG).total();
    assert_eq!((total.accepted, total.lost()), (0, 0));
    assert_eq!(total.filtered, 1, "what the exporter's level kept out, not what the bridge's did");
}

#[test]
fn the_finest_level_is_that_of_the_exporters_and_of_the_bridge() {
    let to_nobody = |level: Option<Severity>| Exporter::http("http://localhost:4318").level(level);
    let finest = |config: Config, level| LogBridge::new(start_with(config)).level(level).max_level();
    for (exporters, level, expected) in [
        (vec![to_nobody(Some(Severity::Warn))], LevelFilter::Trace, LevelFilter::Warn),
        (vec![to_nobody(Some(Severity::Trace))], LevelFilter::Trace, LevelFilter::Trace),
        (vec![to_nobody(Some(Severity::Trace))], LevelFilter::Info, LevelFilter::Info),
        (
            vec![to_nobody(Some(Severity::Error)), to_nobody(Some(Severity::Debug)).named("other")],
            LevelFilter::Trace,
            LevelFilter::Debug,
        ),
        // The exporter's level is between two levels of `log`. The maximum is the finest level whose records all pass.
        (vec![to_nobody(Some(Severity::Info2))], LevelFilter::Trace, LevelFilter::Warn),
        (vec![to_nobody(Some(Severity::Trace))], LevelFilter::Off, LevelFilter::Off),
        (vec![to_nobody(None)], LevelFilter::Trace, LevelFilter::Off),
        (
            vec![to_nobody(Some(Severity::Trace)).signals([Signal::Traces])],
            LevelFilter::Trace,
            LevelFilter::Off,
        ),
        (vec![], LevelFilter::Trace, LevelFilter::Off),
    ] {
        let config = exporters.into_iter().fold(Config::new(), Config::exporter);
        assert_eq!(finest(config, level), expected, "{level}");
    }
}

#[test]
fn leaves_out_what_ureq_logs_at_trace() {
    let logs = arrived(|bridge| {
        for (target, level, expected) in [
            ("ureq", Level::Trace, false),
            ("ureq_proto::client", Level::Trace, false),
            ("ureq", Level::Debug, true),
            ("shop", Level::Trace, true),
        ] {
            let record =
                Record::builder().level(level).target(target).args(format_args!("Basic c2hvcA==")).build();
            assert_eq!(bridge.enabled(record.metadata()), expected, "{target} {level}");
            bridge.log(&record);
        }
    });
    let scopes: Vec<_> = logs.iter().map(|log| log.scope.name.as_str()).collect();
    assert_eq!(scopes, ["ureq", "shop"]);
}

#[test]
fn a_chained_logger_gets_every_record_and_filters_for_itself() {
    let listener = Listener::up_to(LevelFilter::Debug);
    let chained = listener.clone();
    let logs = arrived_with(
        Config::new(),
        |bridge| bridge.level(LevelFilter::Warn).chain(chained),
        |_, bridge| {
            assert_eq!(bridge.max_level(), LevelFilter::Trace, "it may want more of some targets");
            for level in Level::iter() {
                say(bridge, level, format_args!("{level}"));
                let metadata = Metadata::builder().level(level).build();
                assert_eq!(bridge.enabled(&metadata), level <= LevelFilter::Debug, "{level}");
            }
            bridge.flush();
        },
    );
    assert_eq!(bodies(&logs), ["ERROR", "WARN"]);
    assert_eq!(listener.heard(), ["ERROR", "WARN", "INFO", "DEBUG", "flushed"]);
}

#[test]
fn loggers_can_be_chained_one_after_another() {
    let [one, other] = [(); 2].map(|()| Listener::up_to(LevelFilter::Info));
    let chained = (one.clone(), other.clone());
    let logs = arrived_with(
        Config::new(),
        |bridge| bridge.chain(chained.0).chain(chained.1),
        |_, bridge| say(bridge, Level::Info, format_args!("said")),
    );
    assert_eq!(
        (logs.len(), one.heard(), other.heard()),
        (1, vec!["said".to_owned()], vec!["said".to_owned()])
    );
}

#[test]
fn an_exporters_own_thread_is_heard_by_the_chained_logger_only() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(400).message("no")]);
    let listener = Listener::up_to(LevelFilter::Trace);
    let bridge: Arc<Mutex<Option<LogBridge>>> = Arc::default();
    let of_hook = Arc::clone(&bridge);
    // the hook runs on the exporter's thread
    let config =
        Config::new().service_name("shop").exporter(exporter(&receiver)).on_problem(move |problem| {
            let bridge = of_hook.lock().unwrap();
            let bridge = bridge.as_ref().unwrap();
            say(bridge, Level::Error, format_args!("{:?}", problem.kind));
            say(bridge, Level::Error, format_args!("{}", thread::current().name().unwrap_or_default()));
        });
    let telemetry = start_with(config);
    *bridge.lock().unwrap() = Some(LogBridge::new(&telemetry).chain(listener.clone()));
    telemetry.tracer("shop").span("refused").end();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!(listener.heard(), ["Refused", "standpipe-otlp"]);
    let logs = ledger.exporters[0].logs;
    assert_eq!((logs.accepted, logs.not_enqueued.suppressed, logs.lost()), (0, 2, 2), "{ledger}");
    bridge.lock().unwrap().take();
}

#[test]
fn records_after_the_shutdown_are_counted() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let bridge = LogBridge::new(&telemetry);
    say(&bridge, Level::Info, format_args!("before"));
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    say(&bridge, Level::Info, format_args!("after"));
    let ledger = telemetry.ledger();
    let logs = ledger.exporters[0].logs;
    assert_eq!((logs.delivered, logs.not_enqueued.after_shutdown), (1, 1), "{ledger}");
    drop(telemetry);
    say(&bridge, Level::Info, format_args!("long after"));
    assert_eq!(receiver.log_count(), 1);
}

#[test]
fn a_flush_of_the_logger_sends_what_was_logged() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let bridge = LogBridge::new(&telemetry);
    say(&bridge, Level::Info, format_args!("said"));
    bridge.flush();
    assert_eq!(receiver.log_count(), 1);
}

#[test]
fn a_flush_on_an_exporters_own_thread_does_not_wait_for_itself() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(400).message("no")]);
    let bridge: Arc<Mutex<Option<LogBridge>>> = Arc::default();
    let of_hook = Arc::clone(&bridge);
    let (flushed, flushes) = mpsc::channel();
    let config = Config::new().service_name("shop").exporter(exporter(&receiver)).on_problem(move |_| {
        let begun = Instant::now();
        of_hook.lock().unwrap().as_ref().unwrap().flush();
        flushed.send(begun.elapsed()).unwrap();
    });
    let telemetry = start_with(config);
    *bridge.lock().unwrap() = Some(LogBridge::new(&telemetry));
    telemetry.tracer("shop").span("refused").end();
    let took = flushes.recv_timeout(LONG).unwrap();
    assert!(took < Duration::from_secs(2), "{took:?}");
    telemetry.shutdown(LONG);
    bridge.lock().unwrap().take();
}

#[test]
fn records_go_by_the_route_that_the_bridge_was_made_from() {
    let (main, application) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let shop = Application::new().exporter(exporter(&application));
    let telemetry = start_with(Config::new().exporter(exporter(&main)).application(shop));
    say(&LogBridge::new(telemetry.application()), Level::Info, format_args!("said"));
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((main.log_count(), application.log_count()), (0, 1));
}

#[test]
fn many_threads_with_many_targets_lose_nothing_and_mix_nothing_up() {
    const THREADS: usize = 8;
    const TARGETS: usize = 300;
    let logs = arrived(|bridge| {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for number in 0..TARGETS {
                        let target = format!("shop::module_{number}");
                        bridge.log(&Record::builder().target(&target).args(format_args!("{target}")).build());
                    }
                });
            }
        });
    });
    assert_eq!(logs.len(), THREADS * TARGETS);
    assert!(logs.iter().all(|log| log.scope.name == body(log)));
}
