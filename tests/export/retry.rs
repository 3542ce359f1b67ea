//! A failed request is retried if it may succeed later, after growing pauses, until the time of its batch is up.

use std::time::{Duration, Instant};

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Exporter, FlushOutcome, ProblemKind};

use crate::support::figures;
use crate::support::scene::{A_WHILE, FOR_EVER, LONG, Problems, emit, exporter, gathering, open_at, start};

mod signals;

/// Returns an exporter whose back-off never ends, so that a second attempt must have a cause other than the back-off.
fn patient(receiver: &Receiver) -> Exporter {
    exporter(receiver).retry_delays(FOR_EVER, FOR_EVER).give_up_after(FOR_EVER)
}

#[test]
fn only_statuses_that_may_pass_are_retried() {
    for (status, retried) in [
        (429, true),
        (502, true),
        (503, true),
        (504, true),
        (301, false),
        (307, false),
        (400, false),
        (401, false),
        (403, false),
        (404, false),
        (405, false),
        (408, false),
        (413, false),
        (415, false),
        (422, false),
        (500, false),
        (501, false),
        (505, false),
        (507, false),
        (599, false),
    ] {
        let receiver = Receiver::builder().first_answers([Answer::status(status)]).start().unwrap();
        let telemetry = start(exporter(&receiver));
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete, "{status}");
        let ledger = telemetry.shutdown(LONG);
        let total = ledger.total();
        let lost = total.dropped.refused + total.dropped.too_large;
        let expected = if retried { (2, 1, 0) } else { (1, 0, 1) };
        assert_eq!((receiver.request_count(), total.delivered, lost), expected, "{status}: {ledger}");
        assert_eq!(
            (receiver.span_count(), ledger.exporters[0].attempts),
            (expected.1, expected.0),
            "{status}"
        );
    }
}

#[test]
fn a_batch_is_given_up_and_counted_when_its_time_is_up() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    let problems = Problems::default();
    let time = Duration::from_secs(2);
    let telemetry = problems.start(exporter(&receiver).give_up_after(time));
    let begun = Instant::now();
    emit(&telemetry.tracer("shop"), 7);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    // The batch is given up when the next pause, of at most 20 ms, would end too late.
    assert!(begun.elapsed() >= time - Duration::from_millis(20), "{:?}", begun.elapsed());
    figures::show(format!(
        "given up after {:.0?} of {time:?} and {} attempts",
        begun.elapsed(),
        receiver.request_count()
    ));
    let total = telemetry.ledger().total();
    assert_eq!((total.dropped.gave_up, total.lost(), total.in_flight), (7, 7, 0));
    assert!(receiver.request_count() > 1, "{}", receiver.request_count());
    problems.wait_for(ProblemKind::GaveUp);

    // The next batch is not delayed.
    receiver.behave();
    emit(&telemetry.tracer("shop"), 1);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (1, 7), "{ledger}");
}

#[test]
fn pauses_grow_while_the_collector_stays_unavailable() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    let first = Duration::from_millis(1);
    let telemetry = start(exporter(&receiver).retry_delays(first, FOR_EVER).give_up_after(FOR_EVER));
    emit(&telemetry.tracer("shop"), 1);
    // The pauses before the tenth attempt take at most 1 + 2 + … + 256 ms.
    assert!(receiver.wait_for_requests(10, LONG));
    // Ten more attempts take minutes, unless every random pause is extremely short.
    assert!(!receiver.wait_for_requests(20, A_WHILE));
    receiver.behave();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger}");
}

#[test]
fn programs_that_lost_the_same_collector_do_not_come_back_together() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    let delay = Duration::from_millis(400);
    let programs = [(); 8].map(|()| start(exporter(&receiver).retry_delays(delay, delay)));
    programs.iter().for_each(|telemetry| emit(&telemetry.tracer("shop"), 1));
    assert!(receiver.wait_for_requests(24, LONG));
    let requests = receiver.requests();
    let pauses: Vec<Duration> = (1..=8)
        .flat_map(|connection| {
            let times: Vec<Instant> =
                requests.iter().filter(|r| r.connection == connection).map(|r| r.received_at).collect();
            times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
        })
        .collect();
    let (shortest, longest) = (*pauses.iter().min().unwrap(), *pauses.iter().max().unwrap());
    assert!(shortest < delay * 3 / 4 && longest - shortest > delay / 20, "{pauses:?}");
    receiver.behave();
    for telemetry in programs {
        assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    }
}

#[test]
fn retry_after_in_seconds_is_honoured_even_by_a_flush() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503).retry_after("2")]);
    let telemetry = start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 3);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    let pause = requests[1].received_at - requests[0].received_at;
    figures::show(format!("2 s asked for: {pause:.2?}"));
    assert!(pause >= Duration::from_secs(2), "{pause:?}");
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
}

#[test]
fn retry_after_a_date_that_has_passed_means_now() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(429).retry_after("Sun, 06 Nov 1994 08:49:37 GMT")]);
    let telemetry = start(patient(&receiver));
    emit(&telemetry.tracer("shop"), 3);
    assert!(receiver.wait_for_spans(3, LONG));
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
}

#[test]
fn retry_after_nonsense_is_ignored_in_favour_of_the_back_off() {
    for nonsense in ["-5", "abc", "", "2.5"] {
        let receiver = Receiver::start().unwrap();
        receiver.script([Answer::status(503).retry_after(nonsense)]);
        let telemetry = start(patient(&receiver));
        emit(&telemetry.tracer("shop"), 1);
        assert!(receiver.wait_for_requests(1, LONG));
        assert!(!receiver.wait_for_requests(2, A_WHILE), "{nonsense:?} was taken for now");
        // A flush shortens a back-off, but not a pause that the server asked for.
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete, "{nonsense:?}");
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{nonsense:?}: {ledger}");
    }
}

#[test]
fn a_program_that_flushes_all_the_time_does_not_send_all_the_time() {
    const MIN_PAUSE: Duration = Duration::from_millis(100);
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    let telemetry = start(patient(&receiver));
    let begun = Instant::now();
    emit(&telemetry.tracer("shop"), 1);
    for _ in 0..300 {
        assert_eq!(telemetry.flush(Duration::from_millis(1)), FlushOutcome::TimedOut { left: 1 });
    }
    let (requests, elapsed) = (receiver.request_count(), begun.elapsed());
    figures::show(format!("{requests} requests in {elapsed:.2?} of flushes"));
    assert!(
        requests <= 1 + (elapsed.as_millis() / MIN_PAUSE.as_millis()) as u64,
        "{requests} in {elapsed:?}"
    );
    receiver.behave();
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger}");
}

#[test]
fn retry_after_thousands_of_years_keeps_the_records() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503).retry_after("1000000000000")]);
    let telemetry = start(gathering(&receiver).batch_records(3));
    emit(&telemetry.tracer("shop"), 3);
    assert!(receiver.wait_for_requests(1, LONG));
    assert_eq!(telemetry.flush(A_WHILE), FlushOutcome::TimedOut { left: 3 });
    assert_eq!(receiver.request_count(), 1, "it did not wait");
    // A shutdown makes one more attempt despite the delay that the server asked for.
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
}

#[test]
fn retry_after_beyond_the_batchs_time_ends_with_one_last_attempt_and_holds_for_the_next_batch() {
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503).retry_after("30"));
    let time = Duration::from_secs(3);
    let telemetry = start(gathering(&receiver).batch_records(3).give_up_after(time));
    let begun = Instant::now();
    emit(&telemetry.tracer("shop"), 6);
    assert!(receiver.wait_for_requests(2, LONG), "there was no last attempt");
    assert!(!receiver.wait_for_requests(3, A_WHILE), "the next batch did not wait");
    // The measured pause begins before the first attempt, so network delays can only make it longer.
    let pause = receiver.requests()[1].received_at - begun;
    figures::show(format!("30 s asked for, {time:?} left: last attempt after {pause:.2?}"));
    assert!(pause >= time, "{pause:?}");
    receiver.behave();
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().dropped.gave_up, ledger.total().delivered), (3, 3), "{ledger}");
    assert_eq!(receiver.request_count(), 3);
}

#[test]
fn a_server_that_asks_for_no_pause_is_not_hammered() {
    for (answer, is_grpc) in [
        (Answer::status(503).retry_after("0"), false),
        (Answer::status(429).retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), false),
        (Answer::status(503).retry_delay(Duration::ZERO), true),
    ] {
        let receiver = Receiver::start().unwrap();
        receiver.always(answer.clone());
        let exporter = match is_grpc {
            true => Exporter::grpc(receiver.grpc_endpoint()).throttle(Duration::ZERO),
            false => exporter(&receiver),
        };
        let telemetry = start(exporter.retry_delays(FOR_EVER, FOR_EVER).give_up_after(FOR_EVER));
        emit(&telemetry.tracer("shop"), 1);
        assert!(receiver.wait_for_requests(2, LONG), "{answer:?}: it is honoured once");
        assert!(!receiver.wait_for_requests(3, A_WHILE), "{answer:?}: it is honoured again and again");
        receiver.behave();
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{answer:?}: {ledger}");
    }
}

#[test]
fn a_connection_lost_without_an_answer_is_retried() {
    for lost in [
        Answer::reset(),
        Answer::reset_after_request(),
        Answer::close(),
        // A status does not count before its line is complete.
        Answer::garbage(""),
        Answer::garbage("HTTP/1.1 2"),
        Answer::garbage("HTTP/1.1 200 OK\r\nContent-Le"),
    ] {
        let receiver = Receiver::builder().first_answers([lost.clone()]).start().unwrap();
        let telemetry = start(gathering(&receiver));
        emit(&telemetry.tracer("shop"), 5);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete, "{lost:?}");
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (5, 0), "{lost:?}: {ledger}");
        assert_eq!((receiver.span_count(), ledger.exporters[0].attempts), (5, 2), "{lost:?}");
    }
}

#[test]
fn a_reset_in_the_middle_of_a_large_request_is_retried() {
    let receiver = Receiver::builder().first_answers([Answer::reset(), Answer::reset()]).start().unwrap();
    let telemetry = start(exporter(&receiver));
    // More than the socket buffers can hold: the exporter is still writing when the connection is reset.
    let tracer = telemetry.tracer("shop");
    for _ in 0..3 {
        tracer.span("large").set("text", "x".repeat(1 << 20).as_str());
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
    assert_eq!(receiver.span_count(), 3);
}

#[test]
fn an_answer_cut_short_after_its_200_counts_as_delivered_with_a_warning() {
    let receiver = Receiver::builder().first_answers([Answer::ok().cut_short()]).start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 5);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let problem = problems.wait_for(ProblemKind::PartialSuccess);
    assert!(problem.message.contains("cut short"), "{problem}");
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (5, 0), "{ledger}");
    assert_eq!((receiver.span_count(), receiver.request_count()), (5, 1));
}

#[test]
fn a_connection_closed_while_idle_costs_no_failed_attempt() {
    let before = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(exporter(&before));
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    // The collector restarts, and the exporter still has the old connection.
    before.stop_listening();
    let after = open_at(before.address());
    emit(&tracer, 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((before.span_count(), after.span_count()), (1, 1));
    assert_eq!((ledger.exporters[0].attempts, ledger.lost()), (2, 0), "{ledger}");
    assert_eq!(problems.reported(), []);
}
