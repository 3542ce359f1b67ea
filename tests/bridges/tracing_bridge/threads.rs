//! Spans that are moved, shared and closed elsewhere.

use std::sync::{Barrier, mpsc};
use std::thread;

use tracing::{Span, dispatcher, info, info_span};

use super::stage::run;

#[test]
fn a_span_may_be_closed_on_another_thread() {
    let arrived = run(|| {
        let span = info_span!("moved");
        span.in_scope(|| {});
        let dispatch = dispatcher::get_default(Clone::clone);
        thread::spawn(move || {
            dispatcher::with_default(&dispatch, || {
                span.in_scope(|| info!("there"));
                drop(span);
            });
        })
        .join()
        .unwrap();
    });
    assert_eq!(arrived.span("moved").span.events[0].name, "there");
}

#[test]
fn a_span_may_be_closed_where_no_subscriber_is() {
    let arrived = run(|| {
        let span = info_span!("moved");
        thread::spawn(move || drop(span)).join().unwrap();
    });
    assert_eq!(arrived.names(), ["moved"]);
}

#[test]
fn a_span_may_be_entered_on_several_threads_at_once() {
    const THREADS: usize = 4;
    let arrived = run(|| {
        let (shared, together) = (info_span!("shared"), Barrier::new(THREADS));
        let dispatch = dispatcher::get_default(Clone::clone);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (shared, together, dispatch) = (&shared, &together, &dispatch);
                scope.spawn(move || {
                    dispatcher::with_default(dispatch, || {
                        let _entered = shared.enter();
                        together.wait();
                        info_span!("child", number).in_scope(|| info!("event of the child"));
                        info!("event");
                        together.wait();
                    });
                });
            }
        });
    });
    let shared = &arrived.span("shared").span;
    let children: Vec<_> = arrived.spans.iter().filter(|received| received.span.name == "child").collect();
    assert_eq!((children.len(), shared.events.len()), (THREADS, THREADS));
    assert!(children.iter().all(|child| child.span.parent_span_id == shared.span_id));
    assert!(children.iter().all(|child| child.span.events.len() == 1));
}

#[test]
fn spans_of_a_pool_of_threads_are_not_mixed_up() {
    const ROUNDS: usize = 200;
    let arrived = run(|| {
        let dispatch = dispatcher::get_default(Clone::clone);
        let (jobs, queue) = mpsc::channel::<(usize, Span)>();
        let worker = thread::spawn(move || {
            dispatcher::with_default(&dispatch, || {
                for (number, span) in queue {
                    span.in_scope(|| info_span!("work", number).in_scope(|| {}));
                }
            });
        });
        for number in 0..ROUNDS {
            let job = info_span!("job", number);
            jobs.send((number, job)).unwrap();
        }
        drop(jobs);
        worker.join().unwrap();
    });
    assert_eq!(arrived.spans.len(), 2 * ROUNDS);
    for work in arrived.spans.iter().filter(|received| received.span.name == "work") {
        let job = arrived.spans.iter().find(|job| job.span.span_id == work.span.parent_span_id).unwrap();
        assert_eq!((job.attribute("number"), job.span.name.as_str()), (work.attribute("number"), "job"));
    }
}
