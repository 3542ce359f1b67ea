//! The script of a simulation, derived from one seed: the exporter's settings, the faults, and the callers' actions.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::{BatchSettings, PaceSettings, QueueSettings, RetrySettings, SpoolSync, WhenFull};
use crate::process::Driver;
use crate::record::Signal;

pub(super) const SIGNALS: [Signal; 2] = [Signal::Traces, Signal::Logs];

pub(super) const HAS_SPOOL: bool = cfg!(all(feature = "spool", target_os = "linux"));

/// Longest time for which the process is frozen.
const MAX_FREEZE: Duration = Duration::from_secs(6 * 3600);

pub(super) const SCOPES: [&str; 2] = ["shop", "warehouse"];

/// A SplitMix64 generator: numbers that depend only on the seed.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn number(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.bits() % (range.end() - range.start() + 1)
    }

    /// Returns a number with a uniformly distributed magnitude: small numbers are as likely as large ones.
    fn magnitude(&mut self, range: RangeInclusive<u64>) -> u64 {
        let most = range.end() >> self.number(0..=u64::from(range.end().ilog2()));
        self.number(*range.start()..=most.max(*range.start()))
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.number(1..=100) <= percent
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.number(0..=from.len() as u64 - 1) as usize]
    }

    /// Returns a time of at most `most`.
    pub(super) fn time(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.number(0..=most.as_micros() as u64))
    }

    fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.magnitude(range))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) settings: Settings,
    /// The network's faults over time.
    pub(super) weather: Vec<Phase>,
    /// Actions in order, with their times since the start.
    pub(super) actions: Vec<(Duration, Action)>,
}

/// An exporter's settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) driver: Driver,
    pub(super) queue: QueueSettings,
    pub(super) batch: BatchSettings,
    pub(super) pace: PaceSettings,
    pub(super) retry: RetrySettings,
    pub(super) attempt_timeout: Duration,
    pub(super) spool: Option<SpoolScript>,
}

/// Settings of the spool, and the faults of its disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpoolScript {
    pub(super) bytes: usize,
    pub(super) sync: SpoolSync,
    /// Percentage of calls to the disk that fail.
    pub(super) faults: u64,
    /// True if the program is killed instead of stopped.
    pub(super) is_killed: bool,
}

/// The network's faults for some time. After the last phase there are no faults.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    pub(super) until: Duration,
    /// The fault of each signal.
    pub(super) faults: [Fault; SIGNALS.len()],
    /// Percentage of each signal's requests that meet the signal's fault.
    pub(super) share: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// There is no server.
    Unreachable,
    /// 429 or 503.
    Later(Option<Duration>),
    /// 400.
    Refused,
    /// 404.
    NotTaken,
    /// 413 for requests of more bytes than this.
    TooLarge(usize),
    /// Some records of a request are rejected.
    Partial,
    /// Answers take up to twice the timeout of an attempt.
    Slow,
    /// The server accepts the request, but its answer is lost.
    LostAnswer,
    /// The transport panics.
    Panic,
    /// 407.
    ProxyRefused,
}

/// An action of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Emits `records` records of up to `bytes` bytes, one after the other.
    Burst {
        signal: Signal,
        records: u64,
        bytes: u64,
    },
    /// Flushes. The caller waits for at most this time.
    Flush(Duration),
    /// The process is frozen for this time, as by a serverless platform, or when its machine is suspended.
    Freeze(Duration),
    /// Stops with this budget.
    Stop(Duration),
    /// The next three actions are steps of a stop that runs on a thread other than the worker's:
    /// [`exporter_set::stop`](crate::pipeline::exporter_set::stop).
    CutOldAttempt,
    Interrupt,
    FinishStop,
}

impl Script {
    pub(super) fn new(dice: &mut Dice) -> Self {
        // A second generator, so that adding freezes does not change the other random numbers of a script.
        let mut freezes = Dice(!dice.0);
        let settings = Settings::new(dice);
        let time = Duration::from_millis(dice.pick(&[200, 2_000, 20_000]));
        let mut actions: Vec<_> =
            (0..dice.magnitude(3..=60)).map(|_| (dice.time(time), Action::new(dice, &settings))).collect();
        // Half of the scripts have a stop. In the others, unless the program is killed, the network recovers at the
        // end, and all records must be settled.
        if dice.chance(50) {
            actions.push((time, Action::Stop(dice.millis(0..=5_000))));
        }
        if freezes.chance(30) {
            let freeze = Action::Freeze(freezes.millis(1_000..=MAX_FREEZE.as_millis() as u64));
            actions.push((freezes.time(time), freeze));
        }
        actions.sort_by_key(|(at, _)| *at);
        let phases = dice.number(0..=6) as u32;
        let weather = (1..=phases).map(|number| Phase::new(dice, &settings, time * 2 * number / phases));
        Self { weather: weather.collect(), settings, actions }
    }
}

impl Settings {
    fn new(dice: &mut Dice) -> Self {
        let first_delay = dice.millis(1..=250);
        let when_full = dice.pick(&[WhenFull::Block, WhenFull::DropNewest]);
        let block_timeout = if dice.chance(30) { None } else { Some(dice.millis(1..=5_000)) };
        Self {
            driver: dice.pick(&[Driver::OwnThread, Driver::OwnThread, Driver::Caller]),
            queue: QueueSettings {
                when_full,
                block_timeout,
                records: dice.magnitude(1..=256) as usize,
                bytes: dice.magnitude(1 << 10..=256 << 10) as usize,
            },
            batch: BatchSettings {
                records: dice.magnitude(1..=64) as usize,
                bytes: dice.magnitude(1 << 10..=64 << 10) as usize,
            },
            pace: PaceSettings { throttle: dice.millis(0..=1_000), linger: dice.millis(0..=500) },
            retry: RetrySettings {
                give_up_after: dice.millis(10..=30_000),
                first_delay,
                max_delay: first_delay.max(dice.millis(1..=5_000)),
                max_retry_after: dice.millis(100..=10_000),
            },
            attempt_timeout: dice.millis(5..=5_000),
            // Few scripts have a spool, since simulations without a disk are faster.
            spool: (HAS_SPOOL && dice.chance(30)).then(|| SpoolScript::new(dice)),
        }
    }
}

impl SpoolScript {
    fn new(dice: &mut Dice) -> Self {
        Self {
            bytes: dice.magnitude(4 << 10..=1 << 20) as usize,
            sync: dice.pick(&[SpoolSync::EveryBatch, SpoolSync::EverySecond, SpoolSync::Never]),
            faults: dice.pick(&[0, 0, 5, 50]),
            is_killed: dice.chance(50),
        }
    }
}

impl Phase {
    fn new(dice: &mut Dice, settings: &Settings, until: Duration) -> Self {
        let fault = Fault::new(dice, settings);
        let other = if dice.chance(50) { fault } else { Fault::new(dice, settings) };
        Self { until, faults: [fault, other], share: dice.pick(&[10, 60, 100]) }
    }
}

impl Fault {
    fn new(dice: &mut Dice, settings: &Settings) -> Self {
        let after = if dice.chance(20) { Duration::ZERO } else { dice.millis(1..=20_000) };
        let most = dice.magnitude(16..=settings.batch.bytes as u64) as usize;
        dice.pick(&[
            Self::None,
            Self::Unreachable,
            Self::Later(None),
            Self::Later(Some(after)),
            Self::Refused,
            Self::NotTaken,
            Self::TooLarge(most),
            Self::Partial,
            Self::Slow,
            Self::LostAnswer,
            Self::Panic,
            Self::ProxyRefused,
        ])
    }
}

impl Action {
    fn new(dice: &mut Dice, settings: &Settings) -> Self {
        if dice.chance(10) {
            return Self::Flush(dice.millis(1..=10_000));
        }
        let largest = if dice.chance(5) { 2 * settings.batch.bytes as u64 } else { 256 };
        let (records, bytes) = (dice.magnitude(1..=128), dice.magnitude(16..=largest));
        Self::Burst { signal: dice.pick(&SIGNALS), records, bytes }
    }
}
