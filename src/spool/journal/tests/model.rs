//! Model test: the journal against plain lists, under random steps, faults, crashes and power loss.

use std::path::PathBuf;
use std::{env, fs};

use proptest::prelude::*;

use super::*;
use crate::spool::storage::Files;

const LIMITS: Limits =
    Limits { bytes: 2000, age: Duration::from_secs(1), segment_bytes: 400, sync: SpoolSync::Never };

#[derive(Debug, Clone)]
enum Step {
    Append {
        signal: Signal,
        records: u64,
        len: usize,
        cut: usize,
    },
    Next(Signal),
    /// Calls `next` until the oldest entry is read, or has failed too often.
    Insist(Signal),
    /// Makes an entry permanently unreadable.
    Spoil(Signal, usize),
    Done(Signal),
    PutBack(Signal),
    /// Moves the clock forward or back.
    Wait(i64),
    Expire,
    Sync,
    Fault(Fault),
    /// The process dies. The next process finds all written data.
    Crash,
    /// Power loss: any part of the unsynced data may be missing. The number seeds the choices.
    PowerLoss(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let signal = || prop::sample::select(&Signal::ALL[..]);
    let append = (signal(), 0..100u64, 8..200usize, 0..200usize);
    let fault = (0..6u8, any::<u8>());
    let step = prop_oneof![
        10 => append.prop_map(|(signal, records, len, cut)| Step::Append { signal, records, len, cut }),
        6 => signal().prop_map(Step::Next),
        1 => signal().prop_map(Step::Insist),
        1 => (signal(), any::<usize>()).prop_map(|(signal, nth)| Step::Spoil(signal, nth)),
        5 => signal().prop_map(Step::Done),
        1 => signal().prop_map(Step::PutBack),
        2 => (-200..500i64).prop_map(Step::Wait),
        1 => Just(Step::Expire),
        2 => Just(Step::Sync),
        4 => fault.prop_map(|(after, effect)| Step::Fault(Fault { after, effect })),
        1 => Just(Step::Crash),
        1 => any::<u64>().prop_map(Step::PowerLoss),
    ];
    prop::collection::vec(step, 0..120)
}

/// The storage of a journal, which outlives the journal.
trait Medium {
    type Storage: Storage;
    fn storage(&self) -> Self::Storage;
    /// Returns an empty storage without locks.
    fn nothing(&self) -> Self::Storage;
    /// Returns the number of segments and their total size.
    fn contents(&self) -> (usize, u64);
    /// Returns the number of failed calls.
    fn faults(&self) -> u64 {
        0
    }
    fn arm(&self, _fault: Option<Fault>) {}
    /// Makes a byte unreadable. Returns whether the storage supports this fault.
    fn spoil(&self, _segment: u64, _offset: u64) -> bool {
        false
    }
    /// Drops unsynced data. Returns whether the storage supports this fault.
    fn lose_power(&self, _seed: u64) -> bool {
        false
    }
}

impl Medium for Disk {
    type Storage = Disk;

    fn storage(&self) -> Disk {
        self.clone()
    }

    fn nothing(&self) -> Disk {
        Disk::default()
    }

    fn contents(&self) -> (usize, u64) {
        (self.lens().len(), self.bytes())
    }

    fn faults(&self) -> u64 {
        self.faults()
    }

    fn arm(&self, fault: Option<Fault>) {
        fault.map_or_else(|| self.disarm(), |fault| self.arm(fault));
    }

    fn spoil(&self, segment: u64, offset: u64) -> bool {
        self.spoil(segment, offset, libc::EIO);
        true
    }

    fn lose_power(&self, seed: u64) -> bool {
        let mut state = seed | 1;
        self.lose_power(|below| {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize % below
        });
        true
    }
}

struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = env::temp_dir().join(format!("standpipe-journal-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary directory can be made");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Medium for Directory {
    type Storage = Files;

    fn storage(&self) -> Files {
        Files::new(&self.0, "model")
    }

    fn nothing(&self) -> Files {
        Files::new(&self.0, "nothing")
    }

    fn contents(&self) -> (usize, u64) {
        let files = fs::read_dir(&self.0).expect("it is there");
        let len = |file: io::Result<fs::DirEntry>| {
            file.and_then(|file| file.metadata()).expect("it is a file").len()
        };
        files.map(len).fold((0, 0), |(files, bytes), len| (files + 1, bytes + len))
    }
}

/// An appended entry or, without a body, a failed append.
#[derive(Debug, Clone)]
struct Item {
    header: Header,
    body: Vec<u8>,
    /// True if the entry must survive a power loss: it was synced, or has survived one.
    is_synced: bool,
    /// True if a power loss has changed the body.
    is_damaged: bool,
    /// True if the body cannot be read any more.
    is_spoiled: bool,
    /// Segment of the entry; `None` if the append failed.
    segment: Option<u64>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Settled,
    /// Settled, but the mark may be missing because a call failed.
    PerhapsUnmarked,
}

struct Model<M: Medium> {
    medium: M,
    journal: Journal<M::Storage>,
    /// All entries and failed appends, by number.
    items: Vec<Item>,
    /// Numbers of the pending entries, oldest first.
    lanes: [Vec<usize>; Signal::COUNT],
    is_in_hand: [bool; Signal::COUNT],
    /// Consecutive failed reads of each signal's oldest entry.
    failed_reads: [u32; Signal::COUNT],
    now_ms: i64,
    /// State of the medium when the journal was opened last: the number of faults until then, and the bytes of all
    /// segments.
    opened: (u64, u64),
    left_alone: Vec<u64>,
    had_fault_or_power_loss: bool,
}

impl<M: Medium> Model<M> {
    fn new(medium: M) -> Self {
        let (journal, _) = Journal::open(medium.storage(), LIMITS).expect("nothing fails");
        Self {
            medium,
            journal,
            items: Vec::new(),
            lanes: Default::default(),
            is_in_hand: [false; Signal::COUNT],
            failed_reads: [0; Signal::COUNT],
            now_ms: 10_000,
            opened: (0, 0),
            left_alone: Vec::new(),
            had_fault_or_power_loss: false,
        }
    }

    fn run(mut self, steps: &[Step]) {
        for step in steps {
            let faults = self.medium.faults();
            self.step(step);
            self.had_fault_or_power_loss |= self.medium.faults() > faults;
            self.check();
        }
        self.reopen(None);
        for signal in Signal::ALL {
            while !self.lanes[signal as usize].is_empty() {
                self.step(&Step::Next(signal));
                self.step(&Step::Done(signal));
            }
        }
        self.check();
        assert_eq!(self.medium.contents().0, self.left_alone.len(), "nothing else is left");
    }

    fn check(&self) {
        for signal in Signal::ALL {
            let headers = || self.lanes[signal as usize].iter().map(|number| self.items[*number].header);
            let expected = (headers().count(), headers().map(|header| u64::from(header.records)).sum());
            assert_eq!(pending(&self.journal, signal), expected);
        }
        let (_, bytes) = self.medium.contents();
        assert!(bytes <= (Signal::COUNT as u64 * LIMITS.bytes).max(self.opened.1), "{bytes}");
        assert!(bytes <= self.journal.bytes());
        if self.medium.faults() == self.opened.0 {
            assert_eq!(bytes, self.journal.bytes());
        }
    }

    fn step(&mut self, step: &Step) {
        let faults = self.medium.faults();
        match *step {
            Step::Append { signal, records, len, cut } => self.append(signal, records, len, cut),
            Step::Next(signal) => self.next(signal),
            Step::Insist(signal) => (0..MAX_FAILED_READS).for_each(|_| self.next(signal)),
            Step::Spoil(signal, nth) => self.spoil(signal, nth),
            Step::Done(signal) => {
                let result = self.journal.done(signal);
                let has_failed = self.medium.faults() > faults;
                assert!(result.is_ok() || has_failed);
                if mem::take(&mut self.is_in_hand[signal as usize]) {
                    self.settle(signal, 0, has_failed);
                }
            }
            Step::PutBack(signal) => {
                self.journal.put_back(signal);
                self.is_in_hand[signal as usize] = false;
            }
            Step::Wait(millis) => self.now_ms += millis,
            Step::Expire => self.expire(),
            Step::Sync => {
                let result = self.journal.sync();
                assert!(result.is_ok() || self.medium.faults() > faults);
                if result.is_ok() {
                    self.lanes.iter().flatten().for_each(|number| self.items[*number].is_synced = true);
                }
            }
            Step::Fault(fault) => self.medium.arm(Some(fault)),
            Step::Crash => self.reopen(None),
            Step::PowerLoss(seed) => self.reopen(Some(seed)),
        }
    }

    fn append(&mut self, signal: Signal, records: u64, len: usize, cut: usize) {
        let faults = self.medium.faults();
        let mut body = (self.items.len() as u64).to_le_bytes().repeat(len.div_ceil(8));
        body.truncate(len);
        let (front, back) = body.split_at(cut.min(len));
        let now_ms = self.now_ms as u64;
        let header = Header::new(signal, records, now_ms, &[&body]).expect("it is short");
        // The segments of this signal, and those that are left alone, count against the limit of the signal.
        let bytes = self.own_bytes(signal);
        // A failed append adds an item without a body: no other entry gets its number, and no process may find it.
        let (mut state, mut segment) = (State::Settled, None);
        match self.journal.append(signal, records, &[front, back], now_ms, |_| ()) {
            Ok(()) => {
                self.lanes[signal as usize].push(self.items.len());
                state = State::Pending;
                segment = self.journal.lanes[signal as usize].slots.back().map(|slot| slot.place.segment);
            }
            Err(error) if error.kind() == StorageFull => {
                assert!(bytes + self.medium.storage().header_len() + header.entry_len() > LIMITS.bytes)
            }
            Err(_) => assert!(self.medium.faults() > faults),
        }
        if state == State::Settled {
            body.clear();
        }
        let [is_synced, is_damaged, is_spoiled] = [false; 3];
        self.items.push(Item { header, body, is_synced, is_damaged, is_spoiled, segment, state });
    }

    /// Returns the size of a signal's segments and of the segments that are left alone, in bytes.
    fn own_bytes(&self, signal: Signal) -> u64 {
        self.journal.left_alone + self.journal.bytes_of(signal)
    }

    fn spoil(&mut self, signal: Signal, nth: usize) {
        let lane = &self.lanes[signal as usize];
        let Some(index) = nth.checked_rem(lane.len()) else { return };
        let Place { segment, offset } = self.journal.lanes[signal as usize].slots[index].place;
        let is_spoiled = self.medium.spoil(segment, offset + HEADER_LEN as u64);
        self.items[lane[index]].is_spoiled = is_spoiled;
    }

    fn next(&mut self, signal: Signal) {
        let faults = self.medium.faults();
        let result = self.journal.next(signal);
        let has_failed = self.medium.faults() > faults;
        let lane = &self.lanes[signal as usize];
        if self.is_in_hand[signal as usize] {
            assert!(matches!(result, Ok(None)), "one is in hand");
            return;
        }
        let skipped = lane.len() - self.journal.pending(signal);
        let mut damage = [0; Signal::COUNT];
        for _ in 0..skipped {
            let item = &self.items[self.lanes[signal as usize][0]];
            let is_given_up =
                (item.is_spoiled || has_failed) && self.failed_reads[signal as usize] + 1 == MAX_FAILED_READS;
            assert!(item.is_damaged || is_given_up, "no other entry is skipped");
            damage[signal as usize] += u64::from(item.header.records);
            self.settle(signal, 0, has_failed);
        }
        assert_eq!(self.journal.take_all_damage().records, damage);
        let first = self.lanes[signal as usize].first().map(|number| &self.items[*number]);
        match result {
            Ok(entry) => {
                let records = |item: &Item| u64::from(item.header.records);
                let expected = first.map(|item| (records(item), item.header.time_ms, &item.body));
                assert_eq!(entry.as_ref().map(|entry| (entry.records, entry.time_ms, &entry.body)), expected);
                self.is_in_hand[signal as usize] = entry.is_some();
                self.failed_reads[signal as usize] = 0;
            }
            Err(_) => {
                assert!(has_failed || first.is_some_and(|item| item.is_spoiled));
                self.failed_reads[signal as usize] += 1;
                assert!(self.failed_reads[signal as usize] < MAX_FAILED_READS, "it holds up the others");
            }
        }
    }

    fn expire(&mut self) {
        let faults = self.medium.faults();
        let records = self.journal.expire(self.now_ms as u64);
        let has_failed = self.medium.faults() > faults;
        let expected = Signal::ALL.map(|signal| {
            let mut records = 0;
            let mut index = usize::from(self.is_in_hand[signal as usize]);
            while let Some(number) = self.lanes[signal as usize].get(index) {
                let header = self.items[*number].header;
                if self.now_ms - header.time_ms as i64 > LIMITS.age.as_millis() as i64 {
                    records += u64::from(header.records);
                    self.settle(signal, index, has_failed);
                } else {
                    index += 1;
                }
            }
            records
        });
        assert_eq!(records, expected);
    }

    fn settle(&mut self, signal: Signal, index: usize, has_failed: bool) {
        let number = self.lanes[signal as usize].remove(index);
        self.failed_reads[signal as usize] = 0;
        self.items[number].state = if has_failed { State::PerhapsUnmarked } else { State::Settled };
    }

    /// Starts the next process, after a power loss if there is a seed.
    fn reopen(&mut self, power_loss: Option<u64>) {
        let is_power_loss = power_loss.is_some_and(|seed| self.medium.lose_power(seed));
        self.journal = Journal::open(self.medium.nothing(), LIMITS).expect("nothing fails").0;
        // Models a process that ends right after its start. A fault that is still armed affects this process, not the
        // next one.
        let _ = Journal::open(self.medium.storage(), LIMITS);
        self.medium.arm(None);
        self.opened = (self.medium.faults(), self.medium.contents().1);
        self.had_fault_or_power_loss |= is_power_loss;
        let (journal, found) = Journal::open(self.medium.storage(), LIMITS).expect("nothing fails");
        self.journal = journal;
        self.left_alone = found.left_alone.iter().map(|(id, _)| *id).collect();
        if !self.had_fault_or_power_loss {
            assert_eq!((self.journal.take_all_damage(), self.left_alone.len()), (Damage::default(), 0));
        }
        self.journal.take_damage();
        (self.is_in_hand, self.failed_reads) = ([false; Signal::COUNT], [0; Signal::COUNT]);
        for signal in Signal::ALL {
            self.find(signal, is_power_loss);
        }
    }

    /// Compares a signal's entries in the new journal with the model, then changes the model to these entries.
    fn find(&mut self, signal: Signal, is_power_loss: bool) {
        let slots: Vec<Slot> = self.journal.lanes[signal as usize].slots.iter().copied().collect();
        let mut found = Vec::new();
        for Slot { place, header } in slots {
            let is_same = |item: &Item| item.header == header && !item.body.is_empty();
            let number = self.items.iter().position(is_same).expect("only what was appended is found");
            assert!(!found.contains(&number), "it is found once");
            let item = &mut self.items[number];
            let mut body = vec![0; item.body.len()];
            let read = self.journal.storage.read(place.segment, place.offset + HEADER_LEN as u64, &mut body);
            assert!(read.is_ok() || item.is_spoiled, "it is there");
            let is_intact = body == item.body;
            let may_be_damaged = item.is_damaged || is_power_loss && !item.is_synced;
            assert!(is_intact || may_be_damaged, "it has changed: {item:?}");
            assert!(item.state != State::Settled || is_power_loss, "it comes again: {item:?}");
            item.state = State::Pending;
            item.is_damaged = !is_intact;
            item.is_synced |= is_power_loss;
            found.push(number);
        }
        let before = mem::replace(&mut self.lanes[signal as usize], found);
        let found = &self.lanes[signal as usize];
        let is_lost = |number: &&usize| !found.contains(number);
        for number in before.iter().filter(is_lost) {
            let is_spoiled = |other: &Item| other.is_spoiled && other.segment == self.items[*number].segment;
            // If unreadable bytes follow damage, the scan fails, and the journal leaves the segment alone.
            let is_left_alone = self.items[*number].segment.is_some_and(|id| self.left_alone.contains(&id))
                && self.had_fault_or_power_loss
                && self.items.iter().any(is_spoiled);
            let item = &mut self.items[*number];
            assert!(is_power_loss && !item.is_synced || is_left_alone, "an entry is lost: {item:?}");
            item.state = if is_left_alone { State::PerhapsUnmarked } else { State::Settled };
        }
        let kept: Vec<_> = before.iter().filter(|number| found.contains(number)).collect();
        let in_order: Vec<_> = found.iter().filter(|number| before.contains(number)).collect();
        assert_eq!(in_order, kept, "the order is that of the appends");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::tests::share_of(512)))]

    #[test]
    fn the_journal_keeps_its_promises_on_a_disk_that_fails(steps in steps()) {
        Model::new(Disk::default()).run(&steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::tests::share_of(64)))]

    #[test]
    fn the_journal_keeps_its_promises_on_files(steps in steps()) {
        Model::new(Directory::new()).run(&steps);
    }
}
