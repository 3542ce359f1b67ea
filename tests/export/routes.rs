//! Two providers of one program: each with its own resource, sampler, exporters and queues, and one shutdown for both.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::DiagnosticSeverity;
use standpipe::receiver::proto::Span as Received;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{
    Application, Config, Exporter, FlushOutcome, ProblemKind, Sampler, Scope, SpanContext, Telemetry,
    WhenFull,
};

use crate::support::process;
use crate::support::scene::{
    A_WHILE, FOR_EVER, LONG, NOISE, Problems, emit, emit_in_time, exporter, exporter_to, gathering,
    start_with,
};
use crate::support::skip;
use crate::support::stubborn::Unanswered;

/// A program called `runner` that runs an application called `shop`.
fn config(main: Exporter, application: Exporter) -> Config {
    Config::new().service_name("runner").exporter(main).application(shop().exporter(application))
}

fn shop() -> Application {
    Application::new().service_name("shop")
}

fn start(main: Exporter, application: Exporter) -> Telemetry {
    start_with(config(main, application))
}

/// Returns the service and the name of each received span, sorted.
fn arrived(receiver: &Receiver) -> Vec<(String, String)> {
    let spans = receiver.spans();
    let mut arrived: Vec<_> =
        spans.iter().map(|span| (span.service_name().to_owned(), span.name().to_owned())).collect();
    arrived.sort();
    arrived
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(service, name)| ((*service).to_owned(), (*name).to_owned())).collect()
}

fn named(receiver: &Receiver, name: &str) -> Received {
    let spans = receiver.spans();
    let span = spans.iter().find(|span| span.span.name == name);
    Received::clone(&span.unwrap_or_else(|| panic!("no span {name:?} arrived")).span)
}

fn assert_child(receiver: &Receiver, child: &str, parent: &str) {
    let (child, parent) = (named(receiver, child), named(receiver, parent));
    assert_eq!((child.trace_id, child.parent_span_id), (parent.trace_id, parent.span_id));
}

#[test]
fn each_route_sends_all_signals_with_its_own_resource_though_both_go_to_the_same_place() {
    let receiver = Receiver::start().unwrap();
    let to_receiver = || exporter(&receiver).named("collector").interval(FOR_EVER);
    let application = shop().resource("shop.country", "SE").exporter(to_receiver());
    let config = Config::new().service_name("runner").resource("host.name", "north");
    let telemetry = start_with(config.exporter(to_receiver()).application(application));
    telemetry.tracer("own").span("start").end();
    telemetry.logger("own").info("started").emit();
    telemetry.meter("own").counter("runs").add(1, ());
    let application = telemetry.application();
    application.tracer(Scope::new("own").version("2")).span("checkout").end();
    application.logger("own").info("paid").emit();
    application.meter("own").counter("orders").add(1, ());

    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (6, 0), "{ledger}");
    assert_eq!(arrived(&receiver), pairs(&[("runner", "start"), ("shop", "checkout")]));
    for span in receiver.spans() {
        let is_own = span.service_name() == "runner";
        assert_eq!(span.resource_attribute("host.name").is_some(), is_own);
        assert_eq!(span.resource_attribute("shop.country").is_some(), !is_own);
        assert_eq!(span.scope.version, if is_own { "" } else { "2" });
    }
    for log in receiver.logs() {
        let expected = [("runner", "started"), ("shop", "paid")];
        assert!(expected.contains(&(log.service_name(), log.body().as_str().unwrap())), "{log:?}");
    }
    for metric in receiver.metrics() {
        let expected = [("runner", "runs"), ("shop", "orders")];
        assert!(expected.contains(&(metric.service_name(), metric.name())), "{metric:?}");
    }
    assert_eq!((receiver.log_count(), receiver.point_count()), (2, 2));
}

#[test]
fn each_route_has_its_own_sampler() {
    for (main, application, expected) in [
        (Sampler::always_off(), Sampler::always_on(), [("shop", "theirs")]),
        (Sampler::always_on(), Sampler::always_off(), [("runner", "own")]),
    ] {
        let receiver = Receiver::start().unwrap();
        let application = shop().sampler(application).exporter(exporter(&receiver));
        let config = Config::new().service_name("runner").sampler(main).exporter(exporter(&receiver));
        let telemetry = start_with(config.application(application));
        telemetry.tracer("t").span("own").end();
        telemetry.application().tracer("t").span("theirs").end();
        assert_eq!(telemetry.shutdown(LONG).total().delivered, 1);
        assert_eq!(arrived(&receiver), pairs(&expected));
    }
}

#[test]
fn a_span_of_one_route_inside_a_span_of_the_other_is_its_child() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver), exporter(&receiver));
    let (own, theirs) = (telemetry.tracer("t"), telemetry.application().tracer("t"));
    {
        let _run = own.span("run");
        let _checkout = theirs.span("checkout");
        telemetry.logger("t").info("running").emit();
        let _cleanup = own.span("clean up");
        own.span_builder("own trace").root().start().end();
    }
    telemetry.shutdown(LONG);
    assert_child(&receiver, "checkout", "run");
    assert_child(&receiver, "clean up", "checkout");
    assert_eq!(receiver.logs()[0].log.span_id, named(&receiver, "checkout").span_id);
    assert_eq!(named(&receiver, "own trace").parent_span_id, b"");
    assert_ne!(named(&receiver, "own trace").trace_id, named(&receiver, "run").trace_id);
}

#[test]
fn a_sampler_that_asks_no_parent_keeps_spans_inside_an_unsampled_span_of_the_other_route() {
    for (sampler, is_kept) in [
        (Sampler::trace_id_ratio(1.0), true),
        (Sampler::trace_id_ratio(0.0), false),
        (Sampler::trace_id_ratio(1.0).parent_based(), false),
    ] {
        let receiver = Receiver::start().unwrap();
        let application = shop().sampler(sampler.clone()).exporter(exporter(&receiver));
        let telemetry = start_with(
            Config::new()
                .sampler(Sampler::always_off().parent_based())
                .exporter(exporter(&receiver))
                .application(application),
        );
        let (own, theirs) = (telemetry.tracer("t"), telemetry.application().tracer("t"));
        let run = own.span("run");
        let checkout = theirs.span("checkout");
        assert_eq!((run.is_recording(), checkout.is_recording()), (false, is_kept), "{sampler}");
        assert_eq!(checkout.context().trace_id(), run.context().trace_id(), "{sampler}");
        // The parent's decision applies, whichever provider the parent belongs to.
        assert_eq!(own.span("inside").is_recording(), is_kept, "{sampler}");
        let run_context = run.context().clone();
        drop((checkout, run));
        telemetry.shutdown(LONG);
        assert_eq!(receiver.span_count(), if is_kept { 2 } else { 0 }, "{sampler}");
        if is_kept {
            assert_eq!(named(&receiver, "checkout").parent_span_id, run_context.span_id().to_bytes());
            assert_child(&receiver, "inside", "checkout");
        }
    }
}

#[test]
fn a_span_of_a_route_without_an_exporter_leaves_no_gap_in_a_trace_of_the_other() {
    let (own, theirs) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let only_main = start_with(Config::new().exporter(exporter(&own)));
    let only_application = start_with(Config::new().application(shop().exporter(exporter(&theirs))));
    let remote = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let remote = SpanContext::from_traceparent(remote).unwrap();
    for (receiver, recorded, idle) in [
        (own, only_main.tracer("t"), only_main.application().tracer("t")),
        (theirs, only_application.application().tracer("t"), only_application.tracer("t")),
    ] {
        {
            let _unseen = idle.span("unseen");
            recorded.span("root").end();
            let outer = recorded.span("outer");
            let unseen = idle.span("unseen");
            assert!(!unseen.is_recording());
            assert_eq!(unseen.context(), outer.context());
            recorded.span("inner").end();
        }
        {
            let _unseen = idle.span_builder("unseen").parent(&remote).start();
            recorded.span("handed on").end();
        }
        assert!(receiver.wait_for_spans(4, LONG));
        assert_eq!(named(&receiver, "root").parent_span_id, b"");
        assert_child(&receiver, "inner", "outer");
        assert_eq!(named(&receiver, "handed on").parent_span_id, remote.span_id().to_bytes());
    }
}

#[test]
fn a_route_without_an_exporter_has_no_thread_and_no_socket() {
    if process::task().is_none() {
        let name = "a_route_without_an_exporter_has_no_thread_and_no_socket";
        process::run(name, "in a process of its own");
        return;
    }
    let Some(mut expected) = process::threads_and_sockets() else {
        return skip("this system does not show how many threads there are");
    };
    // All telemetries are kept until the end: the thread of a dropped one might still be counted.
    let mut started = Vec::new();
    for (config, threads) in [
        (Config::new(), 0),
        (Config::new().application(shop()), 0),
        (Config::new().exporter(exporter_to("http://127.0.0.1:1")), 1),
        (Config::new().application(shop().exporter(exporter_to("http://127.0.0.1:1"))), 1),
        (config(exporter_to("http://127.0.0.1:1"), exporter_to("http://127.0.0.1:1")), 2),
    ] {
        let telemetry = start_with(config);
        assert_eq!(telemetry.ledger().exporters.len(), threads);
        let is_idle = telemetry.ledger().exporters.iter().all(|exporter| exporter.name != "application/otlp");
        if is_idle {
            let application = telemetry.application();
            emit(&application.tracer("shop"), 10);
            application.logger("shop").fatal("unheard").emit();
            application.meter("shop").counter("orders").add(1, &[("shop.country", "SE")]);
            application.meter("shop").build("asked").observe_gauge(|_| unreachable!("nobody collects"));
        }
        expected.0 += threads;
        assert_eq!(process::threads_and_sockets(), Some(expected));
        started.push(telemetry);
    }
}

#[test]
fn a_route_without_an_exporter_keeps_no_callback_that_no_collection_calls() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(Config::new().exporter(exporter(&receiver).interval(FOR_EVER)));
    for (meter, is_kept) in [(telemetry.meter("t"), true), (telemetry.application().meter("t"), false)] {
        let asked = Arc::new(());
        let held = Arc::clone(&asked);
        drop(
            meter
                .build("asked")
                .observe_gauge(move |observer| observer.observe(Arc::strong_count(&held) as f64, ())),
        );
        assert_eq!(Arc::strong_count(&asked) > 1, is_kept);
    }
}

#[test]
fn a_route_whose_collector_is_dead_holds_up_its_own_callers_and_not_those_of_the_other() {
    for dead_is_application in [true, false] {
        let (dead, healthy) = (Receiver::start().unwrap(), Receiver::start().unwrap());
        dead.pause();
        let (blocking, free) = (exporter(&dead).queue_records(1), exporter(&healthy).queue_records(1));
        let telemetry = if dead_is_application { start(free, blocking) } else { start(blocking, free) };
        let (own, theirs) = (telemetry.tracer("t"), telemetry.application().tracer("t"));
        let (held_up, free) = if dead_is_application { (theirs, own) } else { (own, theirs) };
        emit(&held_up, 1);
        assert!(dead.wait_for_held(1, LONG));
        let (done, ended) = mpsc::channel();
        let blocked = thread::spawn(move || {
            emit(&held_up, 1);
            done.send(()).unwrap();
        });
        emit_in_time(&free, 100);
        assert!(healthy.wait_for_spans(100, LONG));
        assert_eq!(ended.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout), "the caller did not wait");
        dead.resume();
        blocked.join().unwrap();
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (102, 0), "{ledger}");
    }
}

#[test]
fn a_lossy_route_loses_its_own_records_and_none_of_the_other() {
    let (dead, healthy) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    dead.pause();
    let lossy = exporter(&dead).queue_records(1).when_full(WhenFull::DropNewest);
    let telemetry = start(exporter(&healthy), lossy);
    emit(&telemetry.application().tracer("t"), 1);
    assert!(dead.wait_for_held(1, LONG));
    emit(&telemetry.application().tracer("t"), 10);
    emit(&telemetry.tracer("t"), 100);
    assert!(healthy.wait_for_spans(100, LONG));
    dead.resume();
    let ledger = telemetry.shutdown(LONG);
    let [own, theirs] = &ledger.exporters[..] else { panic!("{ledger}") };
    assert_eq!((own.traces.delivered, own.traces.lost()), (100, 0), "{ledger}");
    assert_eq!((theirs.traces.delivered, theirs.traces.not_enqueued.queue_full), (1, 10), "{ledger}");
}

#[test]
fn a_flush_is_for_both_routes() {
    let (healthy, slow) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let telemetry = start(gathering(&healthy), gathering(&slow));
    emit(&telemetry.tracer("t"), 2);
    emit(&telemetry.application().tracer("t"), 3);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    assert_eq!((healthy.span_count(), slow.span_count()), (2, 3));

    slow.pause();
    emit(&telemetry.application().tracer("t"), 3);
    assert_eq!(telemetry.flush(A_WHILE), FlushOutcome::TimedOut { left: 3 });
    slow.resume();
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 8);
}

#[test]
fn ledger_and_problems_call_the_exporters_of_the_application_by_its_name() {
    let refusing = Receiver::start().unwrap();
    refusing.always(Answer::status(400));
    let healthy = Receiver::start().unwrap();
    let problems = Problems::default();
    let main = exporter(&healthy).named("collector");
    let application = exporter(&refusing).named("collector");
    let telemetry = problems.start_with(config(main, application));
    emit(&telemetry.application().tracer("t"), 1);
    assert_eq!(problems.wait_for(ProblemKind::Refused).exporter, "application/collector");
    let ledger = telemetry.shutdown(LONG);
    let names: Vec<_> = ledger.exporters.iter().map(|exporter| exporter.name.as_str()).collect();
    assert_eq!(names, ["collector", "application/collector"]);
    assert_eq!(ledger.exporters[1].traces.dropped.refused, 1, "{ledger}");
    assert!(ledger.to_string().contains("\napplication/collector traces: 1 accepted"), "{ledger}");
}

#[test]
fn what_is_wrong_with_either_route_is_reported_at_once_and_the_rest_can_be_used() {
    let receiver = Receiver::start().unwrap();
    let broken = || exporter(&receiver).named("broken").ca_pem("no certificate");
    let application = shop().exporter(exporter(&receiver)).exporter(broken());
    let config = Config::new().exporter(exporter(&receiver)).exporter(broken()).application(application);
    let error = Telemetry::start(config).unwrap_err();
    let errors =
        error.diagnostics().iter().filter(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error);
    assert_eq!(errors.count(), 2, "{error}");
    let telemetry = start_with(error.into_usable());
    emit(&telemetry.tracer("t"), 1);
    emit(&telemetry.application().tracer("t"), 1);
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 2);
}

#[test]
fn an_id_may_be_there_on_each_route_but_not_twice_on_one() {
    let receiver = Receiver::start().unwrap();
    drop(start(exporter(&receiver), exporter(&receiver)));
    let twice = shop().exporter(exporter(&receiver)).exporter(exporter(&receiver));
    assert!(Telemetry::start(Config::new().application(twice)).is_err());
}

/// A port that neither accepts nor refuses connections, and a collector that takes a request and never answers.
fn two_dead_collectors() -> (Unanswered, Receiver) {
    let hanging = Receiver::start().unwrap();
    hanging.always(Answer::hang());
    (Unanswered::start(), hanging)
}

/// Shutdown budget that two unreachable providers share.
const SHARED: Duration = NOISE.saturating_add(Duration::from_secs(1));

/// Emits records that cannot be delivered, to both providers.
fn emit_to_the_dead(telemetry: &Telemetry) {
    emit(&telemetry.tracer("t"), 100);
    emit(&telemetry.application().tracer("t"), 100);
    let deadline = Instant::now() + LONG;
    while telemetry.ledger().exporters.iter().any(|exporter| exporter.attempts == 0) {
        assert!(Instant::now() < deadline, "no attempt was made");
        thread::yield_now();
    }
}

/// Asserts that `end` is in time.
///
/// If the providers used the budget one after the other, `end` would take twice the budget, which exceeds this limit.
#[track_caller]
fn ends_in_time<T>(end: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let ended = end();
    let took = start.elapsed();
    assert!(took <= SHARED + Duration::from_millis(50) + NOISE, "{took:?} for a budget of {SHARED:?}");
    ended
}

fn is_shut_down_in_time(telemetry: &Telemetry) {
    emit_to_the_dead(telemetry);
    let ledger = ends_in_time(|| telemetry.shutdown(SHARED));
    for exporter in &ledger.exporters {
        assert_eq!((exporter.traces.accepted, exporter.traces.dropped.shutdown), (100, 100), "{ledger}");
    }
    // Neither provider accepts another record, and a second shutdown has nothing to wait for.
    emit(&telemetry.tracer("t"), 1);
    emit(&telemetry.application().tracer("t"), 1);
    let start = Instant::now();
    assert_eq!(telemetry.shutdown(LONG).total().not_enqueued.after_shutdown, 2);
    assert!(start.elapsed() < SHARED, "{:?}", start.elapsed());
}

#[test]
fn both_routes_share_the_budget_of_a_shutdown_or_a_drop() {
    let (unanswered, hanging) = two_dead_collectors();
    let (one, other) = (|| exporter_to(&unanswered.url()), || exporter(&hanging));
    thread::scope(|scope| {
        scope.spawn(|| is_shut_down_in_time(&start(one(), other())));
        scope.spawn(|| is_shut_down_in_time(&start(other(), one())));
        let telemetry = start_with(config(one(), other()).drop_budget(SHARED));
        emit_to_the_dead(&telemetry);
        ends_in_time(|| drop(telemetry));
    });
}

#[test]
fn a_route_that_is_dead_takes_nothing_of_the_time_that_the_other_has_at_a_shutdown() {
    let is_delivered = |dead_is_application| {
        let (unanswered, healthy) = (Unanswered::start(), Receiver::start().unwrap());
        let (dead, gathering) = (exporter_to(&unanswered.url()), gathering(&healthy));
        let telemetry = if dead_is_application { start(gathering, dead) } else { start(dead, gathering) };
        emit(&telemetry.tracer("t"), 100);
        emit(&telemetry.application().tracer("t"), 100);
        let ledger = telemetry.shutdown(NOISE);
        assert_eq!((ledger.total().delivered, ledger.total().dropped.shutdown), (100, 100), "{ledger}");
        assert_eq!(healthy.span_count(), 100);
    };
    thread::scope(|scope| {
        scope.spawn(|| is_delivered(true));
        is_delivered(false);
    });
}

#[test]
fn a_drop_sends_what_both_routes_have() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(config(gathering(&receiver), gathering(&receiver)).drop_budget(LONG));
    emit(&telemetry.tracer("t"), 2);
    emit(&telemetry.application().tracer("t"), 3);
    drop(telemetry);
    assert_eq!(receiver.span_count(), 5);
}

#[test]
fn a_flush_of_one_route_leaves_the_other_as_it_was() {
    let (of_main, of_application) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let telemetry = start(gathering(&of_main), gathering(&of_application));
    telemetry.tracer("runner").span("main").end();
    telemetry.application().tracer("shop").span("application").end();
    assert_eq!(telemetry.application().flush(LONG), FlushOutcome::Complete);
    assert_eq!((of_main.span_count(), of_application.span_count()), (0, 1));
    of_main.pause();
    assert_eq!(telemetry.flush(A_WHILE), FlushOutcome::TimedOut { left: 1 });
    assert_eq!(
        telemetry.application().flush(LONG),
        FlushOutcome::Complete,
        "the main one's business is its own"
    );
    of_main.resume();
}
