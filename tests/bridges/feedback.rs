//! Logs that are routed into the exporter cause no records about the exporter itself, whatever it does.
//!
//! Each test runs in its own process, whose logger turns every record of the `log` crate into a span or a log record,
//! at the finest level. The records are counted at the receiver.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use opentelemetry::logs::{LogRecord as _, Logger as _, LoggerProvider as _};
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use standpipe::bridge::opentelemetry::LogExporter;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Logger, Severity, Telemetry, Tracer};

use crate::support::tls::{TestCa, TlsFront};
use crate::support::{figures, process};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Many times longer than an exporter without a throttle needs to send its records.
const QUIET: Duration = Duration::from_millis(200);
const ROUNDS: u64 = 5;

/// Current destination of the records of the `log` crate; `None` drops them.
static ROUTE: Mutex<Option<Route>> = Mutex::new(None);

/// Destination of the records of the `log` crate.
#[derive(Clone)]
enum Route {
    Spans(Tracer),
    Logs(Logger),
    /// Through the OpenTelemetry SDK.
    Sdk(SdkLogger),
}
/// Number of records of the `log` crate from the exporter's threads.
static OWN: AtomicU32 = AtomicU32::new(0);

struct IntoTelemetry;

impl log::Log for IntoTelemetry {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        match thread::current().name() {
            Some(name) if name.starts_with("standpipe-") => _ = OWN.fetch_add(1, Ordering::SeqCst),
            // The TLS server is in this process, too: its threads have no names, and its records are ignored.
            None if record.target().starts_with("rustls") => return,
            _ => {}
        }
        // No lock is held while the record is built, because building it may log again.
        let route = ROUTE.lock().expect("nobody panics with it").clone();
        let text = record.args().to_string();
        match route {
            Some(Route::Spans(tracer)) => {
                tracer.span("log record").set("target", record.target()).set("text", &text);
            }
            Some(Route::Logs(logger)) => logger.info(&text).set("target", record.target()).emit(),
            Some(Route::Sdk(logger)) => {
                let mut log = logger.create_log_record();
                log.set_body(text.into());
                logger.emit(log);
            }
            None => {}
        }
    }

    fn flush(&self) {}
}

/// A program whose logs go into its own telemetry, until it is dropped.
struct Program {
    telemetry: Telemetry,
}

impl Program {
    fn start(exporter: Exporter) -> Self {
        Self::start_with(exporter, |telemetry| Route::Spans(telemetry.tracer("log")))
    }

    fn start_with(exporter: Exporter, route: impl FnOnce(&Telemetry) -> Route) -> Self {
        log::set_logger(&IntoTelemetry).expect("the first logger");
        log::set_max_level(log::LevelFilter::Trace);
        let exporter = exporter
            .throttle(Duration::ZERO)
            .retry_delays(Duration::from_millis(1), Duration::from_millis(5));
        // A hook that logs is the most likely cause of feedback.
        let config = Config::new()
            .service_name("shop")
            .exporter(exporter)
            .on_problem(|problem| log::warn!("{problem}"));
        let telemetry = Telemetry::start(config).expect("a sound configuration");
        *ROUTE.lock().expect("nobody panics with it") = Some(route(&telemetry));
        Self { telemetry }
    }

    /// Logs once on this thread, and waits until the record is settled.
    fn log_once(&self) {
        log::info!("a customer came in");
        assert_eq!(self.telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }

    /// Asserts that the exporter's threads logged, and that the telemetry accepted only the program's records.
    #[track_caller]
    fn assert_only(&self, records: u64) {
        let total = self.telemetry.ledger().total();
        // Records that the hook emits are counted as suppressed and not sent.
        let not_enqueued = total.not_enqueued;
        assert_eq!((total.accepted, not_enqueued.total()), (records, not_enqueued.suppressed), "{total}");
        assert!(OWN.load(Ordering::SeqCst) > 0, "exporting is not logged any more: this test proves nothing");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        *ROUTE.lock().expect("nobody panics with it") = None;
    }
}

#[test]
fn after_one_record_of_the_program_the_exporter_falls_silent() {
    const NAME: &str = "after_one_record_of_the_program_the_exporter_falls_silent";
    if process::task().is_none() {
        return process::run(NAME, "in a process of its own").iter().for_each(figures::show);
    }
    let receiver = Receiver::start().unwrap();
    let program = Program::start(Exporter::http(receiver.endpoint()));
    for round in 1..=ROUNDS {
        program.log_once();
        assert!(!receiver.wait_for_requests(round + 1, QUIET), "round {round}: a request nobody asked for");
        assert_eq!(receiver.span_count(), round);
        program.assert_only(round);
    }
    let idle = Duration::from_millis(figures::amount("STANDPIPE_IDLE_MS", 0));
    assert!(!receiver.wait_for_requests(ROUNDS + 1, idle), "a request without a record of the program");
    program.assert_only(ROUNDS);
    let ledger = program.telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, ledger.lost()), (ROUNDS, 0), "{ledger}");
    process::report(format!(
        "{ROUNDS} of the program, 0 of its own making, idle for {:?}",
        idle + ROUNDS as u32 * QUIET
    ));
}

#[test]
fn looking_up_a_name_and_tls_make_no_record_either() {
    if !process::is_alone("looking_up_a_name_and_tls_make_no_record_either") {
        return;
    }
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    let program = Program::start(Exporter::http(front.url()).ca_pem(ca.pem()));
    for round in 1..=ROUNDS {
        // a new connection each time
        receiver.script([Answer::ok().header("connection", "close").then_close()]);
        program.log_once();
        program.assert_only(round);
    }
    assert!(!receiver.wait_for_requests(ROUNDS + 1, QUIET), "a request nobody asked for");
}

#[test]
fn failures_retries_and_their_reports_make_no_record_either() {
    if !process::is_alone("failures_retries_and_their_reports_make_no_record_either") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    receiver.script([
        Answer::status(503).retry_after("0"),
        Answer::reset_after_request(),
        Answer::ok(),
        Answer::status(400).message("no"),
        Answer::partial(1, "one was bad"),
        Answer::redirect(308, "http://127.0.0.1:1/"),
        Answer::garbage("nothing of HTTP"),
    ]);
    let program = Program::start(Exporter::http(receiver.endpoint()));
    for round in 1..=ROUNDS {
        program.log_once();
        program.assert_only(round);
    }
    assert!(!receiver.wait_for_requests(8, QUIET), "a request nobody asked for");
}

#[test]
fn a_shutdown_that_has_to_break_a_connection_makes_no_record_either() {
    if !process::is_alone("a_shutdown_that_has_to_break_a_connection_makes_no_record_either") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::hang());
    let program = Program::start(Exporter::http(receiver.endpoint()));
    log::info!("a customer came in");
    assert!(receiver.wait_for_requests(1, PATIENCE));
    let ledger = program.telemetry.shutdown(Duration::from_millis(50));
    assert_eq!(ledger.total().dropped.shutdown, 1, "{ledger}");
    program.assert_only(1);
}

#[test]
fn the_end_of_an_exporter_makes_no_record_at_another() {
    if !process::is_alone("the_end_of_an_exporter_makes_no_record_at_another") {
        return;
    }
    let (receiver, other) = (Receiver::start().unwrap(), Receiver::start().unwrap());
    let program = Program::start(Exporter::http(receiver.endpoint()));
    let telemetry = Telemetry::start(Config::new().exporter(Exporter::http(other.endpoint()))).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    drop(telemetry);
    program.log_once();
    assert_eq!(receiver.span_count(), 1);
    program.assert_only(1);
}

#[test]
fn log_records_of_the_exporter_about_itself_never_come_back_in() {
    if !process::is_alone("log_records_of_the_exporter_about_itself_never_come_back_in") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503).retry_after("0"), Answer::ok(), Answer::status(404), Answer::ok()]);
    let exporter = Exporter::http(receiver.endpoint()).level(Severity::Trace);
    let program = Program::start_with(exporter, |telemetry| Route::Logs(telemetry.logger("log")));
    for round in 1..=ROUNDS {
        program.log_once();
        program.assert_only(round);
    }
    assert!(!receiver.wait_for_requests(ROUNDS + 2, QUIET), "a request nobody asked for");
    let ledger = program.telemetry.shutdown(PATIENCE);
    let logs = ledger.exporters[0].logs;
    assert_eq!((logs.accepted, logs.delivered, logs.dropped.refused), (ROUNDS, ROUNDS - 1, 1), "{ledger}");
}

#[test]
fn log_records_that_the_sdk_sends_from_a_thread_of_its_own_never_come_back_in_either() {
    if !process::is_alone("log_records_that_the_sdk_sends_from_a_thread_of_its_own_never_come_back_in_either")
    {
        return;
    }
    let receiver = Receiver::start().unwrap();
    let provider_of = |telemetry: &Telemetry| {
        SdkLoggerProvider::builder().with_batch_exporter(LogExporter::new(telemetry)).build()
    };
    let mut provider = None;
    let program =
        Program::start_with(Exporter::http(receiver.endpoint()).level(Severity::Trace), |telemetry| {
            Route::Sdk(provider.insert(provider_of(telemetry)).logger("log"))
        });
    let provider = provider.unwrap();
    for round in 1..=ROUNDS {
        log::info!("a customer came in");
        provider.force_flush().unwrap();
        assert_eq!(program.telemetry.flush(PATIENCE), FlushOutcome::Complete);
        // If the export had caused log records, they would be in the SDK's queue now.
        provider.force_flush().unwrap();
        program.assert_only(round);
    }
}
