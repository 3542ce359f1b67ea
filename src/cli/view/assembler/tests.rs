use standpipe::receiver::Records;

use super::*;
use crate::tests::size_within;

/// A span of trace `trace` with the id `id`, which is a root if `parent` is 0.
fn span(trace: u8, id: u64, parent: u64) -> ReceivedSpan {
    ended_span(trace, id, parent, 2)
}

fn ended_span(trace: u8, id: u64, parent: u64, end: u64) -> ReceivedSpan {
    let parent = if parent == 0 { String::new() } else { format!("{parent:016x}") };
    let text = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{:032x}","spanId":"{id:016x}",
        "parentSpanId":"{parent}","name":"span {id}","startTimeUnixNano":"{id}","endTimeUnixNano":"{end}"}}]}}]}}]}}"#,
        u128::from(trace)
    );
    Records::from_json(text.as_bytes()).expect("it is OTLP").spans.remove(0)
}

fn log(trace: u8, span: u64) -> ReceivedLog {
    let text = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"traceId":"{:032x}","spanId":"{span:016x}"}}]}}]}}]}}"#,
        u128::from(trace)
    );
    Records::from_json(text.as_bytes()).expect("it is OTLP").logs.remove(0)
}

/// An assembler and a clock that is set by hand.
struct Bench {
    assembler: Assembler,
    start: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { assembler: Assembler::new(1 << 30), start: Instant::now() }
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    fn add(&mut self, millis: u64, spans: &[ReceivedSpan]) {
        let now = self.at(millis);
        spans.iter().for_each(|span| self.assembler.add_span(span, 100, now));
    }

    fn take(&mut self, millis: u64) -> Option<Block> {
        self.assembler.take_due(self.at(millis))
    }

    /// Returns the blocks that are drawn at this time: the number of spans and the state.
    fn drawn(&mut self, millis: u64) -> Vec<(usize, String)> {
        let mut drawn = Vec::new();
        while let Some(block) = self.take(millis) {
            drawn.push((block.spans.len(), summary(&block)));
        }
        drawn
    }
}

fn summary(block: &Block) -> String {
    match &block.state {
        State::Complete => "complete".to_owned(),
        State::Partial { root, missing_parents, cause } => {
            let root = match root {
                Root::Missing => "no root",
                Root::Open => "open root",
                Root::Ended => "root",
            };
            format!("{root} {missing_parents} {cause:?}")
        }
        State::Late { .. } => {
            let mut names: Vec<&str> =
                block.ancestors.iter().map(|ancestor| ancestor.span.name.as_str()).collect();
            names.sort_unstable();
            format!("late under {}", names.join(", "))
        }
    }
}

fn one(spans: usize, summary: &str) -> Vec<(usize, String)> {
    vec![(spans, summary.to_owned())]
}

#[test]
fn a_complete_trace_is_drawn_after_a_second_of_quiet() {
    let mut bench = Bench::new();
    bench.add(0, &[span(1, 2, 1)]);
    bench.add(900, &[span(1, 1, 0)]);
    bench.add(1500, &[span(1, 3, 2)]);
    assert_eq!(bench.assembler.next_due(), Some(bench.at(2500)));
    assert_eq!(bench.drawn(2499), []);
    assert_eq!(bench.drawn(2500), one(3, "complete"));
    assert_eq!((bench.assembler.next_due(), bench.assembler.open.len()), (None, 0));
    assert_eq!((bench.assembler.spans, bench.assembler.bytes), (0, 0));
}

#[test]
fn a_trace_without_its_root_is_drawn_after_six_seconds_of_quiet() {
    let mut bench = Bench::new();
    bench.add(0, &[span(1, 2, 1), span(1, 3, 2), span(1, 4, 2)]);
    assert_eq!(bench.drawn(5999), []);
    assert_eq!(bench.drawn(6000), one(3, "no root 1 Quiet"));
}

#[test]
fn a_parent_that_is_missing_below_the_root_is_waited_for_as_well() {
    let mut bench = Bench::new();
    bench.add(0, &[span(1, 1, 0), span(1, 3, 2)]);
    assert_eq!(bench.drawn(5999), []);
    assert_eq!(bench.drawn(6000), one(2, "root 1 Quiet"));
}

#[test]
fn a_root_without_an_end_is_still_under_way() {
    let mut bench = Bench::new();
    bench.add(0, &[ended_span(1, 1, 0, 0)]);
    assert_eq!(bench.drawn(5999), []);
    assert_eq!(bench.drawn(6000), one(1, "open root 0 Quiet"));
}

#[test]
fn a_parent_of_zeros_is_none() {
    let mut bench = Bench::new();
    let mut root = span(1, 1, 9);
    Arc::make_mut(&mut root.span).parent_span_id = vec![0; 8];
    bench.add(0, &[root]);
    assert_eq!(bench.drawn(1000), one(1, "complete"));
}

#[test]
fn a_trace_that_is_never_quiet_is_drawn_after_thirty_seconds() {
    let mut bench = Bench::new();
    for second in 0..60 {
        bench.add(second * 500, &[span(1, second + 2, 1)]);
        assert_eq!(bench.drawn(second * 500), []);
    }
    assert_eq!(bench.drawn(30_000), one(60, "no root 1 Age"));
}

#[test]
fn traces_come_in_the_order_in_which_they_became_quiet_and_each_as_a_whole() {
    let mut bench = Bench::new();
    bench.add(0, &[span(1, 1, 0), span(2, 1, 0)]);
    bench.add(500, &[span(1, 2, 1), span(3, 1, 0)]);
    let mut traces = Vec::new();
    while let Some(block) = bench.take(10_000) {
        assert!(block.spans.iter().all(|span| span.span.trace_id == block.spans[0].span.trace_id));
        traces.push((block.spans[0].span.trace_id[15], block.spans.len()));
    }
    assert_eq!(traces, [(2, 1), (1, 2), (3, 1)]);
}

#[test]
fn spans_that_come_late_are_drawn_below_their_ancestors() {
    let mut bench = Bench::new();
    bench.add(0, &[span(1, 1, 0), span(1, 2, 1), span(1, 3, 1)]);
    assert_eq!(bench.drawn(1000), one(3, "complete"));
    bench.add(5000, &[span(1, 4, 2), span(1, 5, 4)]);
    assert_eq!(bench.drawn(5999), []);
    assert_eq!(bench.drawn(6000), one(2, "late under span 1, span 2"));
    // The late spans are remembered, too.
    bench.add(7000, &[span(1, 6, 5)]);
    assert_eq!(bench.drawn(8000), one(1, "late under span 1, span 2, span 4, span 5"));
}

#[test]
fn a_late_span_whose_parent_never_came_is_waited_for_like_any_other() {
    let mut bench = Bench::new();
    bench.add(0, &[span(1, 1, 0)]);
    assert_eq!(bench.drawn(1000), one(1, "complete"));
    bench.add(2000, &[span(1, 9, 8)]);
    assert_eq!(bench.drawn(7999), []);
    assert_eq!(bench.drawn(8000), one(1, "late under "));
}

#[test]
fn a_log_record_waits_for_its_trace_and_comes_late_like_a_span() {
    let mut bench = Bench::new();
    let now = bench.at(0);
    bench.assembler.add_log(&log(1, 2), 100, now);
    bench.add(0, &[span(1, 1, 0), span(1, 2, 1)]);
    let block = bench.take(1000).expect("it is complete");
    assert_eq!((block.spans.len(), block.logs.len()), (2, 1));
    let later = bench.at(2000);
    bench.assembler.add_log(&log(1, 2), 100, later);
    assert_eq!(bench.drawn(3000), one(0, "late under span 1, span 2"));
    // Without any span of its trace, the log record is shown alone.
    bench.assembler.add_log(&log(9, 2), 100, later);
    assert_eq!(bench.drawn(8000), one(0, "complete"));
    bench.add(8000, &[span(9, 1, 0)]);
    assert_eq!(bench.drawn(9000), one(1, "complete"));
}

#[test]
fn circles_and_repeated_ids_are_drawn_too() {
    let mut bench = Bench::new();
    bench.add(0, &[span(1, 1, 2), span(1, 2, 1)]);
    bench.add(0, &[span(2, 1, 0), span(2, 1, 0), span(2, 1, 1)]);
    assert_eq!(bench.drawn(1000), one(3, "complete"));
    assert_eq!(bench.drawn(6000), one(2, "no root 0 Quiet"));
    bench.add(7000, &[span(1, 3, 1)]);
    assert_eq!(bench.drawn(8000), one(1, "late under span 1, span 2"));
}

#[test]
fn beyond_its_bytes_the_trace_that_is_due_next_is_drawn() {
    let mut bench = Bench::new();
    bench.assembler.max_bytes = 3 * (100 + OVERHEAD + TRACE_OVERHEAD);
    bench.add(0, &[span(1, 2, 1)]);
    bench.add(1, &[span(2, 1, 0), span(3, 1, 0)]);
    assert_eq!(bench.drawn(1), []);
    bench.add(2, &[span(4, 2, 1)]);
    assert_eq!(bench.drawn(2), one(1, "complete"));
    // A single trace above the limit is drawn incomplete.
    bench.add(3, &(3..=16).map(|id| span(4, id, 1)).collect::<Vec<_>>());
    let expected = [(1, "complete"), (1, "no root 1 Memory"), (15, "no root 1 Memory")];
    assert_eq!(bench.drawn(3), expected.map(|(spans, text)| (spans, text.to_owned())));
}

#[test]
fn memory_stays_bounded_however_many_traces_come() {
    let mut bench = Bench::new();
    // The bounds are proportional to the number of traces.
    let traces = u64::from(size_within(2_000..=10_000));
    let max_drawn_bytes = 100 * traces as usize;
    (bench.assembler.max_bytes, bench.assembler.max_drawn_bytes) = (max_drawn_bytes / 10, max_drawn_bytes);
    let (pattern, mut drawn) = (span(1, 1, 7), 0);
    for number in 0..traces {
        let now = bench.at(number / 100);
        let id = number.to_be_bytes();
        let mut received = pattern.clone();
        Arc::make_mut(&mut received.span).trace_id = id.to_vec();
        bench.assembler.add_span(&received, 100, now);
        while bench.assembler.take_due(now).is_some() {
            drawn += 1;
        }
        assert!(bench.assembler.bytes <= bench.assembler.max_bytes);
    }
    assert_eq!(drawn + bench.assembler.open.len(), traces as usize);
    let Assembler { drawn, drawn_order, drawn_bytes, .. } = bench.assembler;
    assert!((max_drawn_bytes / 2..=max_drawn_bytes).contains(&drawn_bytes), "{drawn_bytes}");
    assert_eq!(drawn_order.len(), drawn.len());
    assert_eq!(drawn_bytes, drawn.values().map(|drawn| drawn.bytes).sum::<usize>());
}

#[test]
fn at_the_end_all_that_is_open_is_drawn_by_its_start() {
    let mut bench = Bench::new();
    bench.add(0, &[span(1, 5, 4), span(2, 3, 0), span(3, 4, 0)]);
    let drawn: Vec<_> = bench.assembler.finish().iter().map(summary).collect();
    assert_eq!(drawn, ["complete", "complete", "no root 1 End"]);
    assert_eq!((bench.assembler.next_due(), bench.assembler.bytes), (None, 0));
}

#[test]
fn a_parent_that_was_forgotten_is_not_waited_for() {
    let mut bench = Bench::new();
    let all: Vec<ReceivedSpan> = (1..=2000).map(|id| span(1, id, id - 1)).collect();
    bench.add(0, &all);
    assert_eq!(bench.drawn(1000), one(2000, "complete"));
    bench.add(2000, &[span(1, 3000, 2000)]);
    let block = bench.take(3000).expect("it does not wait");
    assert!(matches!(block.state, State::Late { is_cut: true, .. }));
}
