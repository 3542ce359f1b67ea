//! Flush, shutdown and a full queue: no call waits longer than its timeout, and nothing is lost without being counted.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry::Context;
use opentelemetry::logs::{Logger, LoggerProvider};
use opentelemetry::trace::{Span as _, Tracer, TracerProvider};
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter as _};
use standpipe::bridge::opentelemetry::{LogExporter, SpanExporter};
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, FlushOutcome, Telemetry, WhenFull};

use crate::support::scene::{A_WHILE, LONG, exporter, gathering, start, start_with};

fn provider(telemetry: &Telemetry) -> SdkTracerProvider {
    SdkTracerProvider::builder().with_span_processor(SpanExporter::new(telemetry)).build()
}

fn end_a_span(provider: &SdkTracerProvider) {
    provider.tracer("till").start("checkout").end();
}

#[test]
fn a_providers_flush_reaches_the_collector() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let provider = provider(&telemetry);
    end_a_span(&provider);
    provider.force_flush().unwrap();
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn a_shutdown_that_runs_out_of_time_says_so_and_loses_nothing() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver));
    let provider = provider(&telemetry);
    end_a_span(&provider);
    let begun = Instant::now();
    let ended = provider.shutdown_with_timeout(A_WHILE);
    assert!(ended.is_err() && begun.elapsed() >= A_WHILE, "{ended:?}");
    receiver.resume();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger}");
}

#[test]
fn an_exporter_that_was_shut_down_takes_no_more_and_the_telemetry_goes_on() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    let exporter = SpanExporter::new(&telemetry);
    let is_over = |result| matches!(result, Err(OTelSdkError::AlreadyShutdown));
    assert!(exporter.shutdown_with_timeout(LONG).is_ok());
    assert!(is_over(exporter.shutdown_with_timeout(LONG)));
    let mut exported = std::pin::pin!(exporter.export(Vec::new()));
    let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
    match exported.as_mut().poll(&mut waker) {
        std::task::Poll::Ready(result) => assert!(is_over(result)),
        std::task::Poll::Pending => panic!("it is ready at once"),
    }
    telemetry.tracer("shop").span("checkout").end();
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 1);
}

#[test]
fn records_after_the_telemetrys_end_are_counted() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let (tracers, loggers) = (provider(&telemetry), loggers(&telemetry));
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    end_a_span(&tracers);
    let logger = loggers.logger("till");
    logger.emit(logger.create_log_record());
    assert_eq!(telemetry.ledger().total().not_enqueued.after_shutdown, 2);
}

#[test]
fn records_after_the_exporters_own_end_are_counted() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let (spans, loggers) = (SpanExporter::new(&telemetry), loggers(&telemetry));
    let logger = loggers.logger("till");
    // A tracer provider that is shut down passes no spans to its processor. So only the processor is shut down, and
    // then a new provider gets it. A logger provider that is shut down still passes on log records.
    spans.shutdown_with_timeout(LONG).unwrap();
    loggers.shutdown().unwrap();
    end_a_span(&SdkTracerProvider::builder().with_span_processor(spans).build());
    logger.emit(logger.create_log_record());
    let ledger = telemetry.shutdown(LONG);
    for counts in [ledger.exporters[0].traces, ledger.exporters[0].logs] {
        assert_eq!((counts.accepted, counts.not_enqueued.after_shutdown), (0, 1), "{ledger}");
    }
}

fn loggers(telemetry: &Telemetry) -> opentelemetry_sdk::logs::SdkLoggerProvider {
    opentelemetry_sdk::logs::SdkLoggerProvider::builder()
        .with_log_processor(LogExporter::new(telemetry))
        .build()
}

#[test]
fn a_full_queue_makes_the_caller_wait_until_there_is_room() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).queue_records(2));
    let provider = provider(&telemetry);
    let (progress, ended) = mpsc::channel();
    let caller = thread::spawn(move || {
        for number in 0..5 {
            end_a_span(&provider);
            progress.send(number).unwrap();
        }
    });
    assert_eq!((ended.recv_timeout(LONG), ended.recv_timeout(LONG)), (Ok(0), Ok(1)));
    assert_eq!(ended.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout), "the caller did not wait");
    receiver.resume();
    caller.join().unwrap();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (5, 0), "{ledger}");
}

#[test]
fn a_caller_that_waits_is_let_go_by_the_telemetrys_end() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).queue_records(1));
    let provider = provider(&telemetry);
    let (progress, ended) = mpsc::channel();
    thread::spawn(move || {
        for number in 0..3 {
            end_a_span(&provider);
            progress.send(number).unwrap();
        }
    });
    assert_eq!(ended.recv_timeout(LONG), Ok(0));
    assert_eq!(ended.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout), "the caller did not wait");
    let ledger = telemetry.shutdown(Duration::from_millis(50));
    assert_eq!(ledger.total().dropped.shutdown, 1, "{ledger}");
    assert_eq!((ended.recv_timeout(LONG), ended.recv_timeout(LONG)), (Ok(1), Ok(2)));
    assert_eq!(telemetry.ledger().total().not_enqueued.after_shutdown, 2);
}

#[test]
fn a_full_queue_that_drops_counts_what_it_drops() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).queue_records(2).when_full(WhenFull::DropNewest));
    let provider = provider(&telemetry);
    (0..5).for_each(|_| end_a_span(&provider));
    assert_eq!(telemetry.ledger().total().not_enqueued.queue_full, 3);
    receiver.resume();
    assert_eq!(telemetry.shutdown(LONG).total().delivered, 2);
}

#[test]
fn what_is_made_on_the_exporters_own_thread_never_comes_back_in() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(400)]);
    let provider: Arc<OnceLock<SdkTracerProvider>> = Arc::default();
    let of_hook = Arc::clone(&provider);
    let made = Arc::new(AtomicBool::new(false));
    let in_hook = Arc::clone(&made);
    // The hook is called on the exporter's thread. In a new context, the SDK does not know that instrumentation is
    // suppressed on this thread.
    let hook = move |_: &standpipe::Problem| {
        let tracer = of_hook.get().unwrap().tracer("till");
        in_hook.store(tracer.start_with_context("problem", &Context::new()).is_recording(), Ordering::SeqCst);
    };
    let telemetry =
        start_with(Config::new().service_name("shop").exporter(exporter(&receiver)).on_problem(hook));
    provider.set(self::provider(&telemetry)).unwrap();
    end_a_span(provider.get().unwrap());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert!(made.load(Ordering::SeqCst), "nothing was made: this test proves nothing");
    let not_enqueued = total.not_enqueued;
    assert_eq!((total.accepted, not_enqueued.suppressed, not_enqueued.total()), (1, 1, 1), "{ledger}");
}

#[test]
fn a_flush_on_the_exporters_own_thread_does_not_wait_for_itself() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(400)]);
    let provider: Arc<OnceLock<SdkTracerProvider>> = Arc::default();
    let of_hook = Arc::clone(&provider);
    let (say, heard) = mpsc::channel();
    let hook = move |_: &standpipe::Problem| {
        let begun = Instant::now();
        let flushed = of_hook.get().unwrap().force_flush();
        say.send((flushed.is_err(), begun.elapsed())).unwrap();
    };
    let telemetry =
        start_with(Config::new().service_name("shop").exporter(exporter(&receiver)).on_problem(hook));
    provider.set(self::provider(&telemetry)).unwrap();
    end_a_span(provider.get().unwrap());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let (is_refused, took) = heard.recv_timeout(LONG).unwrap();
    assert!(is_refused && took < Duration::from_secs(4), "{took:?}");
}

/// Shuts down the telemetry on drop, without time to send.
struct Ends(Telemetry);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.shutdown(Duration::ZERO);
    }
}

thread_local! {
    static OF_THREAD: RefCell<Option<Ends>> = const { RefCell::new(None) };
}

#[test]
fn a_telemetry_may_end_with_its_thread_and_after_the_sdks_context() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver));
    thread::spawn(move || {
        telemetry.tracer("shop").span("checkout").end();
        // Thread-locals are dropped in reverse order of their first use.
        OF_THREAD.with_borrow_mut(|_| ());
        drop(Context::new().attach());
        OF_THREAD.set(Some(Ends(telemetry)));
    })
    .join()
    .unwrap();
}
