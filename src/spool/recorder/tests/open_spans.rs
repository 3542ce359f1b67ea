//! Recovery of open spans after a kill at every single instruction.

use super::*;
use crate::record::{SpanHead, SpanId, SpanKind, SpanRecord, Status, TraceId, Value};

/// Steps of a span: additions, changes of existing bytes, and steps that make the record shorter.
const STEPS: [fn(&mut SpanRecord); 14] = [
    |span| span.begin(&head("first", 1)),
    |span| span.set("a", Value::Int(1)),
    |span| span.set("text", Value::Str(&"b".repeat(200))),
    |span| span.set("a", Value::Int(2)),
    |span| {
        span.open_event("event", 20);
        span.set_in_sub_message("key", Value::Bool(true));
        span.end_sub_message();
    },
    |span| span.set_status(Status::Error("of the program")),
    |span| _ = span.set_name::<1>("another"),
    |span| span.set_kind(SpanKind::Server),
    |span| span.set("text", Value::Str("short")),
    |span| span.set("c", Value::Float(0.5)),
    SpanRecord::clear_copies,
    |span| span.begin(&head("second", 2)),
    |span| span.set("d", Value::Int(1)),
    SpanRecord::clear_copies,
];

pub(super) fn head(name: &str, id: u8) -> SpanHead<'_> {
    SpanHead {
        trace_id: TraceId([id; 16]),
        span_id: SpanId([id; 8]),
        parent: None,
        parent_is_remote: false,
        trace_flags: 1,
        trace_state: "",
        name,
        kind: SpanKind::Internal,
        start: 10,
    }
}

fn scope() -> Arc<Scope> {
    Arc::new(Scope::new(Signal::Traces, "shop", "1.0"))
}

/// Returns the request with the open spans of the file, if there are any.
fn interrupted(path: &Path) -> Result<Vec<u8>, String> {
    let mut left = OrphanedQueue::read(path, [1; 16]).map_err(|why| why.to_string())?;
    let request = left.next(Signal::Traces);
    match left.damaged {
        0 => Ok(request.map_or_else(Vec::new, |request| request.body)),
        damaged => Err(format!("{damaged} damaged")),
    }
}

/// Returns the expected request after these steps, read from a file to which the span was copied once, after the last
/// step.
fn expected_after(steps: usize) -> Vec<u8> {
    let folder = Folder::new(&format!("expected-{steps}"));
    let recorder = create(&folder.0, 0);
    let mut span = SpanRecord::default();
    span.limit(&Default::default(), usize::MAX);
    STEPS[..steps].iter().for_each(|step| step(&mut span));
    let is_open = !matches!(steps, 0 | 11 | 14);
    if is_open {
        span.copy_to(vec![recorder.take_open_span().unwrap()]);
        span.set_scope(&scope());
        span.resume_copies();
    }
    interrupted(&folder.recorder()).unwrap()
}

fn run_steps(folder: &Path) {
    let recorder = create(folder, 0);
    let mut span = SpanRecord::default();
    span.limit(&Default::default(), usize::MAX);
    span.copy_to(vec![recorder.take_open_span().unwrap()]);
    span.set_scope(&scope());
    let watches_all = share_of(16) > 1;
    stop_to_be_watched(folder);
    for (number, step) in STEPS.iter().enumerate() {
        // By default, every fifth step is traced instruction by instruction.
        let is_unwatched = !watches_all && number % 5 != 2;
        if is_unwatched {
            stop();
        }
        step(&mut span);
        if is_unwatched {
            stop();
        }
        OVER.fetch_add(1, Ordering::SeqCst);
    }
    std::process::exit(0);
}

#[test]
fn an_open_span_is_found_as_it_was_before_or_after_a_step_and_never_torn() {
    let test = "open_spans::an_open_span_is_found_as_it_was_before_or_after_a_step_and_never_torn";
    if let Some(folder) = std::env::var_os(WATCHED) {
        run_steps(Path::new(&folder));
    }
    let states: Vec<_> = (0..=STEPS.len()).map(expected_after).collect();
    let changes = states.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(
        changes,
        STEPS.len() - 1,
        "each step changes what is found, but for the status, which is replaced"
    );
    let judge = |over: usize, path: &Path| {
        let found = interrupted(path)?;
        match states[over..].iter().take(2).any(|state| *state == found) {
            true => Ok(()),
            false => Err(format!("after {over} steps: {found:?}")),
        }
    };
    let places = |header: &Header| header.open_spans_at()..header.open_spans_at() + OPEN_SPAN_SLOT_BYTES;
    let expected = Expected { decisive: places, judge: &judge };
    let right = watch(test, "", &expected);
    println!("{} instructions, {} faults", right.instructions, right.faults);
    assert!(right.instructions > 1_000 && right.faults == 0, "{right:?}");
    // Control: if a change is made wrongly, the test finds faults.
    for wrong in ["open span", "changed in place"].into_iter().take(share_of(2) as usize) {
        let watched = watch(test, wrong, &expected);
        println!("{wrong}: {} faults", watched.faults);
        assert!(watched.faults > 0, "{wrong}: {watched:?}");
    }
}

/// Creates a recorder with one open span, to which the first `steps` steps were applied.
fn one_open_span(folder: &Folder, steps: usize) -> (Arc<Recorder>, SpanRecord) {
    let recorder = create(&folder.0, 2);
    let mut span = SpanRecord::default();
    span.limit(&Default::default(), usize::MAX);
    span.copy_to(vec![recorder.take_open_span().unwrap()]);
    span.set_scope(&scope());
    STEPS[..steps].iter().for_each(|step| step(&mut span));
    (recorder, span)
}

#[test]
fn a_span_that_is_not_sampled_is_neither_found_nor_damage() {
    let folder = Folder::new("unsampled");
    let (_recorder, mut span) = one_open_span(&folder, 0);
    span.begin(&SpanHead { trace_flags: 0, ..head("undecided", 1) });
    assert_eq!(interrupted(&folder.recorder()), Ok(Vec::new()));
}

#[test]
fn a_span_that_grows_too_large_is_found_as_it_was_before() {
    let folder = Folder::new("large");
    let (_recorder, mut span) = one_open_span(&folder, 3);
    let before = interrupted(&folder.recorder()).unwrap();
    span.set("large", Value::Str(&"x".repeat(2000)));
    span.set("later", Value::Int(1));
    assert_eq!(interrupted(&folder.recorder()).unwrap(), before);
    span.set("large", Value::Str("small"));
    let after = interrupted(&folder.recorder()).unwrap();
    assert!(after.len() > before.len() && after.windows(5).any(|word| word == b"later"), "{after:?}");
}

#[test]
fn a_span_that_outgrows_what_can_be_sent_is_found_as_it_was_before() {
    let mut outgrown = 0;
    // Low limits stop the record at some byte of the event that is added below. High limits allow the whole event.
    for most in 300..600 {
        let folder = Folder::new("outgrown");
        let (_recorder, mut span) = one_open_span(&folder, 0);
        span.limit(&Default::default(), most);
        STEPS[..3].iter().for_each(|step| step(&mut span));
        let before = interrupted(&folder.recorder()).unwrap();
        span.open_event("event", 20);
        span.set_in_sub_message("text", Value::Str(&"x".repeat(150)));
        span.end_sub_message();
        let found = interrupted(&folder.recorder()).unwrap_or_else(|fault| panic!("{most} bytes: {fault}"));
        let is_whole = span.finish(30).is_some();
        assert_eq!(found == before, !is_whole, "{most} bytes");
        outgrown += usize::from(!is_whole);
    }
    assert!((100..300).contains(&outgrown), "{outgrown}");
}

#[test]
fn a_span_that_has_reached_the_queue_is_not_found_as_interrupted_as_well() {
    let folder = Folder::new("ended");
    let (recorder, mut span) = one_open_span(&folder, 2);
    let frame = span.finish(30).unwrap().to_vec();
    let mut chunk = Chunk::with_capacity(Signal::Traces, 0);
    chunk.move_to(recorder.take(Signal::Traces, frame.len() + scope().run_header().len()).unwrap());
    chunk.append(&scope(), &frame, 1);
    let mut left = OrphanedQueue::read(&folder.recorder(), [1; 16]).unwrap();
    let request = left.next(Signal::Traces).unwrap();
    assert_eq!(request.records, 1, "the chunk");
    assert_eq!(left.next(Signal::Traces), None);
    left.settle(&request.place).unwrap();
    let settled = OrphanedQueue::read(&folder.recorder(), [1; 16]).unwrap();
    assert!(!settled.has(Signal::Traces), "neither the chunk nor the span");
}

#[test]
fn spans_that_are_open_when_the_exporter_ends_and_after_another_boot_do_not_count() {
    let folder = Folder::new("closed");
    let (recorder, _span) = one_open_span(&folder, 2);
    let path = folder.recorder();
    let of_other_boot = OrphanedQueue::read(&path, [2; 16]).unwrap();
    assert!(!of_other_boot.has(Signal::Traces));
    assert!(!interrupted(&path).unwrap().is_empty());
    recorder.close();
    assert!(interrupted(&path).unwrap().is_empty());
}

#[test]
fn whatever_byte_of_an_open_span_has_changed_reading_ends_in_order() {
    let folder = Folder::new("changed-open");
    let (_recorder, _span) = one_open_span(&folder, 6);
    let path = folder.recorder();
    let mut page = [0; PAGE];
    File::open(&path).unwrap().read_exact_at(&mut page, 0).unwrap();
    let at = Header::read(&page).unwrap().open_spans_at();
    let whole = fs::read(&path).unwrap();
    let mut found = 0;
    let copy = folder.0.join("copy").join(path.file_name().unwrap());
    fs::create_dir(copy.parent().unwrap()).unwrap();
    for offset in at..at + 8 + 400 {
        for bit in [1, 0x80] {
            let mut changed = whole.clone();
            changed[offset] ^= bit;
            fs::write(&copy, &changed).unwrap();
            let request = interrupted(&copy).unwrap_or_default();
            found += usize::from(!request.is_empty());
            assert!(request.is_empty() || Chunk::of_request(Signal::Traces, &request).is_some(), "{offset}");
        }
    }
    assert!(found > 0, "most bytes are values");
}
