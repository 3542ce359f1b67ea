//! One caller and one worker, step by step against a model of two lists.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Push {
        len: usize,
    },
    Drain,
    /// The worker settles the oldest of what it has taken.
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

/// What a queue is, if nobody is in a hurry.
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
    // each is long: half as many as usual
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn one_caller_and_one_worker_see_what_the_model_says(
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
                    fixture.push(number as u64, *len);
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
