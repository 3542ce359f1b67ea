//! While telemetry is installed, all code of a program and of its forked children uses this telemetry.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, LazyLock};
use std::thread;

use standpipe::receiver::Receiver;
use standpipe::{Config, Counter, Global, Logger, Telemetry, Tracer};

use crate::support::allocator::allocations;
use crate::support::process;
use crate::support::scene::{LONG, gathering, start_with};

static TRACER: Global<Tracer> = Global::new(|| standpipe::tracer("shop"));
static LOGGER: Global<Logger> = Global::new(|| standpipe::logger("shop"));
static ORDERS: Global<Counter<u64>> = Global::new(|| standpipe::meter("shop").counter("orders"));
/// A tracer that is fetched once and never changes.
static EARLY: LazyLock<Tracer> = LazyLock::new(|| standpipe::tracer("early"));

/// Emits a span, a log record and a measurement, through each API. Returns whether they are recorded.
fn check_out() -> bool {
    let span = TRACER.span("checkout");
    LOGGER.info("paid").emit();
    ORDERS.add(1, ());
    let payment = standpipe::tracer("shop").span("payment");
    standpipe::logger("shop").info("declined").emit();
    standpipe::meter("shop").counter("payments").add(1, ());
    EARLY.span("early").end();
    assert_eq!(span.is_recording(), payment.is_recording());
    span.is_recording()
}

/// Starts telemetry with a budget that is always sufficient, even if the telemetry is dropped without a shutdown.
fn start(receiver: &Receiver) -> Telemetry {
    start_with(Config::new().service_name("shop").exporter(gathering(receiver)).drop_budget(LONG))
}

fn arrived(receiver: &Receiver) -> (u64, u64, u64) {
    (receiver.span_count(), receiver.log_count(), receiver.point_count())
}

#[test]
fn every_part_of_a_program_finds_what_is_installed_while_it_is() {
    if !process::is_alone("every_part_of_a_program_finds_what_is_installed_while_it_is") {
        return;
    }
    let receivers = [(); 3].map(|()| Receiver::start().unwrap());
    let [first, second, refused] = &receivers;
    assert!(!check_out());

    let installed = start(first).install().unwrap();
    assert!(check_out());
    let error = start(refused).install().unwrap_err();
    assert_eq!(error.to_string(), "another telemetry is installed");
    let other = error.into_telemetry();
    other.tracer("other").span("other").end();
    drop(other);
    assert!(check_out(), "what was not installed changes nothing by its end");
    let ledger = installed.shutdown(LONG);
    assert_eq!((arrived(first), ledger.lost()), ((4, 4, 2), 0), "{ledger}");
    assert_eq!(arrived(refused), (1, 0, 0));

    assert!(!check_out());
    let installed = start(second).install().unwrap();
    assert!(check_out(), "the statics go with it");
    drop(installed);
    assert!(!check_out());
    assert_eq!((arrived(first), arrived(second)), ((4, 4, 2), (2, 2, 2)));
}

#[test]
fn threads_that_use_a_static_first_at_the_same_time_all_record() {
    const THREADS: u64 = 8;
    if !process::is_alone("threads_that_use_a_static_first_at_the_same_time_all_record") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    let installed = start(&receiver).install().unwrap();
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                TRACER.span("checkout").end();
                ORDERS.add(1, ());
            });
        }
    });
    assert_eq!(installed.shutdown(LONG).total().delivered, THREADS + 1);
    assert_eq!(arrived(&receiver), (THREADS, 0, 1));
}

#[test]
fn a_static_allocates_nothing_once_it_was_used() {
    if !process::is_alone("a_static_allocates_nothing_once_it_was_used") {
        return;
    }
    let use_all = || {
        TRACER.span("checkout").end();
        LOGGER.info("paid").emit();
        ORDERS.add(1, ());
    };
    use_all();
    assert_eq!(allocations(use_all), 0, "before an installation");
    let _installed = Telemetry::start(Config::new()).unwrap().install().unwrap();
    assert!(allocations(use_all) > 0, "it is made again");
    assert_eq!(allocations(use_all), 0, "after it");
}

#[cfg(unix)]
#[test]
fn a_forked_child_uses_what_its_parent_installed() {
    if !process::is_alone("a_forked_child_uses_what_its_parent_installed") {
        return;
    }
    let receiver = Receiver::start().unwrap();
    let installed = start(&receiver).install().unwrap();
    let delivered = process::in_a_fork(|| {
        let is_recorded = check_out();
        let ledger = installed.ledger();
        is_recorded && ledger.total().accepted > 0 && installed.shutdown(LONG).lost() == 0 && !check_out()
    });
    assert!(delivered);
    // The child initializes `EARLY`, after the installation, so the span of this tracer arrives, too.
    assert_eq!(arrived(&receiver), (3, 2, 2));
}

/// A value is not kept if an installation began and ended while the value was created.
#[test]
fn what_was_made_while_an_installation_came_and_went_is_not_kept() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static NUMBER: Global<usize> = Global::new(|| {
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        if number == 0 {
            drop(Telemetry::start(Config::new()).unwrap().install().unwrap());
        }
        number
    });
    if process::is_alone("what_was_made_while_an_installation_came_and_went_is_not_kept") {
        assert_eq!((*NUMBER, *NUMBER), (1, 1), "the first may be of the installation");
    }
}
