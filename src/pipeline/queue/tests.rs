mod threads;

use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::shard::IDLE_SPARES;
use super::*;
use crate::config::WhenFull;
use crate::pipeline::ledger::Counts;
use crate::record::frames;

const LONG: Duration = Duration::from_secs(20);

/// A queue, the channel that wakes its worker, and its counters.
struct Fixture {
    queue: Queue,
    woken: Receiver<()>,
    counters: Arc<Counters>,
    scope: Arc<Scope>,
}

fn fixture(settings: QueueSettings) -> Fixture {
    fixture_for(settings, usize::MAX)
}

fn fixture_for(settings: QueueSettings, largest_record: usize) -> Fixture {
    let (wake, woken) = bounded(1);
    let counters = Arc::new(Counters::default());
    let reporter = Arc::new(ProblemReporter::new("memory", None, None));
    let shared = Shared::new(Arc::clone(&counters), reporter, wake);
    let queue = Queue::new(&settings, largest_record, shared);
    Fixture { queue, woken, counters, scope: Arc::new(Scope::new(Signal::Traces, "shop", "")) }
}

fn lossy(records: usize, bytes: usize) -> Fixture {
    fixture(QueueSettings { records, bytes, when_full: WhenFull::DropNewest, block_timeout: None })
}

/// A queue whose callers wait, but not forever, so that a failing test ends.
fn blocking(records: usize, bytes: usize) -> Fixture {
    fixture(QueueSettings { records, bytes, when_full: WhenFull::Block, block_timeout: Some(LONG) })
}

/// A queue with a short timeout, for records of up to 100 bytes, where a caller already waits for room for
/// `waiting_records` records.
fn with_waiters(records: usize, bytes: usize, waiting_records: usize) -> Fixture {
    let block_timeout = Some(Duration::from_millis(1));
    let fixture =
        fixture_for(QueueSettings { records, bytes, when_full: WhenFull::Block, block_timeout }, 100);
    std::mem::forget(fixture.queue.backpressure.join(waiting_records));
    fixture
}

impl Fixture {
    fn enqueue(&self, number: u64, len: usize) {
        self.queue.enqueue(&self.scope, &record(number, len), 1, &Wait::FromNow);
    }

    /// Drains the queue like the worker. Returns the numbers of the records and their sizes.
    fn drain(&self) -> Vec<(u64, usize)> {
        let mut records = Vec::new();
        self.queue.drain(|chunk| {
            records.extend(contents(&chunk));
            self.queue.give_back(chunk);
        });
        records
    }

    fn release(&self, records: &[(u64, usize)]) {
        self.queue.release(records.len(), records.iter().map(|(_, len)| len).sum());
    }

    fn counts(&self) -> Counts {
        self.counters.read("test", || [self.queue.accepted(), 0, 0]).traces
    }

    fn is_pressing(&self) -> bool {
        self.queue.is_pressing(self.queue.level())
    }

    fn until_queued_up(&self) {
        let deadline = Instant::now() + LONG;
        while !self.queue.backpressure.has_waiters() {
            assert!(Instant::now() < deadline, "no caller waits");
            thread::yield_now();
        }
    }
}

/// A framed record of `len` bytes that carries a number. The length prefix always takes three bytes.
fn record(number: u64, len: usize) -> Vec<u8> {
    let body = len - 4;
    let mut record = vec![0x12, body as u8 | 0x80, (body >> 7) as u8 | 0x80, (body >> 14) as u8];
    record.extend_from_slice(&number.to_le_bytes());
    record.resize(len, b'x');
    record
}

fn contents(chunk: &Chunk) -> Vec<(u64, usize)> {
    let number = |frame: &[u8]| u64::from_le_bytes(frame[4..12].try_into().expect("eight bytes"));
    let frames = chunk.runs().iter().flat_map(|run| frames(chunk.bytes(run.start, run.end)));
    frames.map(|frame| (number(frame), frame.len())).collect()
}

#[test]
fn drops_newest_and_counts_it_when_full() {
    let fixture = lossy(5, 1 << 20);
    (0..8).for_each(|number| fixture.enqueue(number, 20));
    assert_eq!(fixture.queue.level(), (5, 100));
    let kept: Vec<_> = fixture.drain().into_iter().map(|(number, _)| number).collect();
    assert_eq!(kept, [0, 1, 2, 3, 4]);
    assert_eq!((fixture.counts().accepted, fixture.counts().not_enqueued.queue_full), (5, 3));
}

#[test]
fn enforces_bytes_exactly() {
    for (bytes, accepted) in [(59, 2), (60, 3), (61, 3)] {
        let fixture = lossy(100, bytes);
        (0..5).for_each(|number| fixture.enqueue(number, 20));
        assert_eq!(fixture.counts().accepted, accepted, "{bytes}");
    }
}

#[test]
fn releases_room_when_records_are_settled_not_when_taken() {
    let fixture = lossy(2, 1 << 20);
    (0..2).for_each(|number| fixture.enqueue(number, 20));
    let taken = fixture.drain();
    fixture.enqueue(2, 20);
    assert_eq!(fixture.counts().not_enqueued.queue_full, 1, "in the worker's hands they still count");
    fixture.release(&taken);
    fixture.enqueue(3, 20);
    assert_eq!((fixture.counts().accepted, fixture.queue.level()), (3, (1, 20)));
}

#[test]
fn drain_takes_all_records_queued_before_it_while_callers_continue() {
    let fixture = lossy(100_000, 16 << 20);
    let full = |fixture: &Fixture| fixture.queue.full.1.len();
    let before = (0..1000).find(|number| {
        fixture.enqueue(*number, 100);
        full(&fixture) == 1
    });
    let mut taken = Vec::new();
    fixture.queue.drain(|chunk| {
        if taken.is_empty() {
            // While the worker handles the first chunk, callers fill a chunk, which moves to the channel.
            (1000..2000).find(|number| {
                fixture.enqueue(*number, 100);
                full(&fixture) == 1
            });
        }
        taken.extend(contents(&chunk).into_iter().map(|(number, _)| number));
    });
    let missed = (0..=before.expect("a full chunk")).filter(|number| !taken.contains(number)).count();
    assert_eq!(missed, 0);
}

#[test]
fn rejects_record_larger_than_the_queue_without_waiting() {
    let fixture = blocking(10, 100);
    fixture.enqueue(0, 101);
    fixture.enqueue(1, 100);
    assert_eq!((fixture.counts().not_enqueued.too_large, fixture.queue.level()), (1, (1, 100)));
}

#[test]
fn wakes_worker_once_at_its_threshold() {
    let fixture = lossy(100, 1 << 20);
    assert!(!fixture.queue.wake_at(WakeAt { records: 3, bytes: 1000 }));
    let wake_ups = [0, 1, 2, 3].map(|number| {
        fixture.enqueue(number, 20);
        fixture.woken.try_iter().count()
    });
    assert_eq!(wake_ups, [0, 0, 1, 0]);
    assert!(fixture.queue.wake_at(WakeAt { records: 100, bytes: 80 }), "it is there already");
}

#[test]
fn does_not_wake_worker_below_its_threshold() {
    let fixture = lossy(10_000, 1 << 20);
    assert!(!fixture.queue.wake_at(WakeAt { records: 300, bytes: usize::MAX }));
    let woken_by = (1..400).find(|number| {
        fixture.enqueue(*number, 20);
        !fixture.woken.is_empty()
    });
    assert_eq!(woken_by, Some(300));
}

#[test]
fn callers_of_different_shards_fill_the_queue_completely() {
    let fixture = lossy(1000, 1 << 20);
    thread::scope(|scope| scope.spawn(|| fixture.enqueue(0, 20)).join()).expect("a caller");
    assert_eq!(fixture.queue.level(), (1, 20));
    (1..1100).for_each(|number| fixture.enqueue(number, 20));
    assert_eq!((fixture.counts().accepted, fixture.counts().not_enqueued.queue_full), (1000, 100));
    assert_eq!(fixture.queue.level(), (1000, 20_000));
}

#[test]
fn wakes_worker_when_full_at_any_threshold() {
    let fixture = lossy(2, 1 << 20);
    fixture.queue.wake_at(WakeAt { records: 100, bytes: usize::MAX });
    (0..2).for_each(|number| fixture.enqueue(number, 20));
    assert!(fixture.woken.is_empty());
    fixture.enqueue(2, 20);
    assert_eq!(fixture.woken.len(), 1);
}

#[test]
fn three_quarters_full_is_pressing() {
    for (capacity, pressing) in [(1, 1), (2, 1), (3, 1), (4, 3), (8, 6), (100, 75)] {
        let fixture = lossy(capacity, 1 << 20);
        let level = (0..capacity).find(|number| {
            assert!(!fixture.is_pressing() || *number >= pressing);
            fixture.enqueue(*number as u64, 20);
            fixture.is_pressing()
        });
        assert_eq!(level.map(|number| number + 1), Some(pressing), "of {capacity}");
    }
}

#[test]
fn is_pressing_while_one_more_large_record_fits() {
    for (len, pressing) in [(50, 15), (125, 6), (126, 6), (200, 4), (300, 2), (350, 1), (500, 1), (600, 1)] {
        let fixture = lossy(100, 1000);
        let level = (1..=20).find(|number| {
            fixture.enqueue(*number, len);
            fixture.is_pressing()
        });
        assert_eq!((level, fixture.counts().not_enqueued.total()), (Some(pressing), 0), "{len} bytes each");
    }
}

#[test]
fn is_pressing_earlier_with_frames_of_many_records() {
    let fixture = lossy(100, 1 << 20);
    let pressing = [1, 2, 3].map(|number| {
        fixture.queue.enqueue(&fixture.scope, &record(number, 20), 30, &Wait::FromNow);
        fixture.is_pressing()
    });
    assert_eq!(pressing, [false, true, true]);
}

#[test]
fn wakes_worker_to_compute_its_threshold_again_after_a_larger_record() {
    let fixture = lossy(100, 1000);
    let wake_ups = [100, 300, 300, 100].map(|len| {
        // As if the worker were about to set a threshold, but had not done so yet.
        fixture.queue.stay_awake();
        fixture.enqueue(0, len);
        fixture.woken.try_iter().count()
    });
    assert_eq!(wake_ups, [0, 1, 0, 0]);
}

#[test]
fn keeps_worker_awake_after_a_rejected_record_below_three_quarters() {
    let fixture = lossy(100, 1000);
    (0..3).for_each(|number| fixture.enqueue(number, 100));
    let threshold = fixture.queue.pressure();
    fixture.enqueue(3, 800);
    assert_eq!(fixture.counts().not_enqueued.queue_full, 1);
    assert!(fixture.is_pressing());
    assert!(fixture.queue.wake_at(threshold), "also where the threshold was chosen before");
}

#[test]
fn is_pressing_while_a_caller_waits() {
    let fixture = blocking(100, 100);
    fixture.enqueue(0, 40);
    thread::scope(|scope| {
        scope.spawn(|| fixture.enqueue(1, 80));
        fixture.until_queued_up();
        let asked = [fixture.is_pressing(), fixture.queue.wake_at(WakeAt::NEVER)];
        fixture.release(&fixture.drain());
        assert_eq!(asked, [true, true]);
    });
    assert_eq!(fixture.queue.level(), (1, 80));
}

#[test]
fn overtakes_waiters_only_if_their_room_remains() {
    let fixture = with_waiters(10, 200, 1);
    (0..8).for_each(|number| fixture.enqueue(number, 20));
    // 100 bytes are reserved for the waiter, whatever the size of its record.
    assert_eq!(fixture.queue.level(), (5, 100));
    assert_eq!(fixture.counts().not_enqueued.queue_full, 3);
}

#[test]
fn new_callers_use_all_room_except_that_of_waiters() {
    let fixture = with_waiters(1000, 1 << 20, 50);
    (0..960).for_each(|number| fixture.enqueue(number, 20));
    assert_eq!(fixture.queue.level(), (950, 19_000));
}

#[test]
fn new_callers_leave_room_for_all_records_of_a_waiting_frame() {
    let fixture = with_waiters(10, 1 << 20, 6);
    (0..6).for_each(|number| fixture.enqueue(number, 20));
    assert_eq!(fixture.queue.level().0, 4);
    assert_eq!(fixture.counts().not_enqueued.queue_full, 2);
}

#[test]
fn enqueues_frame_of_several_records_completely_or_not_at_all() {
    let fixture = lossy(10, 1 << 20);
    for records in [6, 5, 4, 1] {
        fixture.queue.enqueue(&fixture.scope, &record(records as u64, 20), records, &Wait::FromNow);
    }
    assert_eq!(fixture.queue.level(), (10, 40));
    assert_eq!((fixture.counts().accepted, fixture.counts().not_enqueued.queue_full), (10, 6));
    assert_eq!(fixture.drain(), [(6, 20), (4, 20)]);
}

#[test]
fn rejects_frame_with_more_records_than_the_queue_without_waiting() {
    let fixture = blocking(10, 1 << 20);
    fixture.queue.enqueue(&fixture.scope, &record(0, 20), 11, &Wait::FromNow);
    assert_eq!((fixture.counts().accepted, fixture.counts().not_enqueued.too_large), (0, 11));
    fixture.queue.enqueue(&fixture.scope, &record(0, 20), 10, &Wait::FromNow);
    assert_eq!(fixture.counts().accepted, 10);
}

#[test]
fn enqueues_waiting_frame_once_all_its_records_fit() {
    let fixture = blocking(10, 1 << 20);
    fixture.queue.enqueue(&fixture.scope, &record(0, 20), 3, &Wait::FromNow);
    fixture.queue.enqueue(&fixture.scope, &record(1, 20), 3, &Wait::FromNow);
    thread::scope(|scope| {
        scope.spawn(|| fixture.queue.enqueue(&fixture.scope, &record(2, 20), 8, &Wait::FromNow));
        fixture.until_queued_up();
        fixture.queue.release(3, 20);
        assert!(fixture.queue.backpressure.has_waiters(), "seven places are too few");
        fixture.queue.release(3, 20);
    });
    assert_eq!((fixture.queue.level(), fixture.counts().accepted), ((8, 20), 14));
}

#[test]
fn counts_record_as_queue_full_after_block_timeout() {
    let block_timeout = Some(Duration::from_millis(20));
    let settings = QueueSettings { records: 1, bytes: 1000, when_full: WhenFull::Block, block_timeout };
    let fixture = fixture(settings);
    let begun = Instant::now();
    (0..2).for_each(|number| fixture.enqueue(number, 20));
    assert!(begun.elapsed() >= Duration::from_millis(20));
    assert_eq!((fixture.counts().accepted, fixture.counts().not_enqueued.queue_full), (1, 1));
}

#[test]
fn close_ends_waits_and_rejects_new_records() {
    let fixture = blocking(1, 1000);
    fixture.enqueue(0, 20);
    thread::scope(|scope| {
        scope.spawn(|| fixture.enqueue(1, 20));
        fixture.until_queued_up();
        fixture.queue.close();
    });
    fixture.release(&fixture.drain());
    fixture.enqueue(2, 20);
    let counts = fixture.counts();
    assert_eq!((counts.accepted, counts.not_enqueued.after_shutdown), (1, 2));
    assert_eq!(fixture.queue.level(), (0, 0), "what is not enqueued takes no room");
    assert!(fixture.drain().is_empty());
}

#[test]
fn trim_keeps_the_chunks_that_callers_needed_since_the_last_trim() {
    let fixture = lossy(100_000, 16 << 20);
    let burst = || {
        (0..4000).for_each(|number| fixture.enqueue(number, 100));
        fixture.drain();
        fixture.queue.spares.len()
    };
    let needed = burst();
    assert!(needed > IDLE_SPARES, "{needed}");
    for _ in 0..3 {
        fixture.queue.trim();
        assert_eq!(fixture.queue.spares.len(), needed, "kept for the next burst");
        assert_eq!(burst(), needed);
    }
    fixture.queue.trim();
    fixture.queue.trim();
    assert_eq!(fixture.queue.spares.len(), IDLE_SPARES, "no burst between the two");
    fixture.queue.trim();
    assert_eq!(fixture.queue.spares.len(), IDLE_SPARES);
}

#[test]
fn reuses_chunks_unless_they_grew() {
    let fixture = lossy(100, 1 << 20);
    fixture.enqueue(0, 20);
    fixture.drain();
    assert_eq!(fixture.queue.spares.len(), 1);
    fixture.enqueue(1, Chunk::BYTES + 1);
    assert_eq!(fixture.queue.spares.len(), 0, "taken from the spares");
    fixture.drain();
    assert_eq!(fixture.queue.spares.len(), 0, "too large to be kept");
}

// Compares every step of one caller and one worker with a model that consists of two lists.

#[derive(Debug, Clone)]
enum Step {
    Push {
        len: usize,
    },
    Drain,
    /// The worker settles the oldest records that it has taken.
    Settle {
        records: usize,
    },
    Trim,
    Close,
}

fn any_step() -> impl Strategy<Value = Step> {
    let len =
        prop_oneof![8 => 16usize..200, 1 => 10_000usize..Chunk::BYTES, 1 => Chunk::BYTES..3 * Chunk::BYTES];
    prop_oneof![
        40 => len.prop_map(|len| Step::Push { len }),
        6 => Just(Step::Drain),
        6 => (1usize..10).prop_map(|records| Step::Settle { records }),
        2 => Just(Step::Trim),
        1 => Just(Step::Close),
    ]
}

/// The expected behavior of a queue, without threads.
#[derive(Default)]
struct Model {
    queued: Vec<(u64, usize)>,
    taken: Vec<(u64, usize)>,
    accepted: u64,
    queue_full: u64,
    too_large: u64,
    after_shutdown: u64,
    closed: bool,
}

impl Model {
    fn level(&self) -> (usize, usize) {
        let both = || self.queued.iter().chain(&self.taken);
        (both().count(), both().map(|(_, len)| len).sum())
    }

    fn push(&mut self, number: u64, len: usize, settings: &QueueSettings) {
        let (records, bytes) = self.level();
        if len > settings.bytes {
            self.too_large += 1;
        } else if self.closed {
            self.after_shutdown += 1;
        } else if records + 1 > settings.records || bytes + len > settings.bytes {
            self.queue_full += 1;
        } else {
            self.accepted += 1;
            self.queued.push((number, len));
        }
    }
}

proptest! {
    // Each case is long, so run half the usual number.
    #![proptest_config(ProptestConfig::with_cases(crate::tests::share_of(128)))]

    #[test]
    fn agrees_with_the_model_for_one_caller_and_one_worker(
        steps in prop::collection::vec(any_step(), 0..200),
        records in 1usize..60,
        bytes in prop_oneof![100usize..5000, 50_000usize..400_000],
    ) {
        let settings =
            QueueSettings { records, bytes, when_full: WhenFull::DropNewest, block_timeout: None };
        let fixture = fixture(settings);
        let mut model = Model::default();
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Push { len } => {
                    fixture.enqueue(number as u64, *len);
                    model.push(number as u64, *len, &settings);
                }
                Step::Drain => {
                    prop_assert_eq!(&fixture.drain(), &model.queued, "all of it, in order");
                    model.taken.append(&mut model.queued);
                }
                Step::Settle { records } => {
                    let records = model.taken.len().min(*records);
                    fixture.release(&model.taken.drain(..records).collect::<Vec<_>>());
                }
                Step::Trim => fixture.queue.trim(),
                Step::Close => {
                    fixture.queue.close();
                    model.closed = true;
                }
            }
            prop_assert_eq!(fixture.queue.level(), model.level());
        }
        let counts = fixture.counts();
        prop_assert_eq!(counts.accepted, model.accepted);
        let not_enqueued = counts.not_enqueued;
        prop_assert_eq!(not_enqueued.queue_full, model.queue_full);
        prop_assert_eq!(not_enqueued.too_large, model.too_large);
        prop_assert_eq!(not_enqueued.after_shutdown, model.after_shutdown);
    }
}
