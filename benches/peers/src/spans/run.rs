//! Runs contenders in child processes, and checks the spans that arrive.

use std::fmt::Display;
use std::net::TcpListener;
use std::time::Duration;

use super::NAME;
use super::collector::{Arrived, Collector};
use super::contender::{Arrives, Contender};
use super::task::{MEASURED, Task};
use crate::support::Error;
use crate::support::callgrind::{self, Instructions, OTHER_THREADS};
use crate::support::child::{self, Findings};
use crate::support::workload::ATTRIBUTES;

/// Number of spans that are checked one by one.
const LOOKED_AT: u64 = 2_000;
/// Number of spans in a burst whose instructions are counted, which fits into any queue; and the numbers of bursts in
/// the two runs whose counts are subtracted.
const COUNTED: u64 = 4_096;
const BURSTS: (u64, u64) = (1, 3);

/// Starts contenders and checks that their spans arrive.
pub(super) struct Runs<'a> {
    collector: &'a Collector,
}

/// Properties of the spans and of the collector in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) attributes: u64,
    pub(super) producers: u64,
    pub(super) is_compressed: bool,
    /// Time that the collector takes for each response.
    pub(super) delay: Duration,
}

impl Conditions {
    pub(super) const USUAL: Self =
        Self { attributes: ATTRIBUTES, producers: 1, is_compressed: false, delay: Duration::ZERO };
}

impl<'a> Runs<'a> {
    pub(super) fn new(collector: &'a Collector) -> Self {
        Self { collector }
    }

    /// Checks every span of a short run: a contender that does less than it claims must not win.
    pub(super) fn validate(&self, contender: &Contender) -> Result<(), Error> {
        self.collector.look_closely(true);
        let run = self.send(contender, LOOKED_AT, &Conditions::USUAL);
        self.collector.look_closely(false);
        let (_, arrived) = run?;
        let expected = match contender.arrives {
            Arrives::Everything => [LOOKED_AT; 3],
            Arrives::WithoutKind => [LOOKED_AT, 0, LOOKED_AT],
            Arrives::TextWithoutKind => [LOOKED_AT, 0, 0],
            Arrives::Nothing => [0; 3],
        };
        match [arrived.complete, arrived.with_kind, arrived.with_types] == expected {
            true => Ok(()),
            false => Err(format!("{}: not what was promised: {arrived:?}", contender.name).into()),
        }
    }

    /// Sends this many spans. All of them must arrive.
    pub(super) fn send(
        &self,
        contender: &Contender,
        spans: u64,
        conditions: &Conditions,
    ) -> Result<(Findings, Arrived), Error> {
        self.collector.take_time(conditions.delay);
        let run = self.all_of(contender, &Order { task: Task::Send, spans, bursts: 1, conditions }, play);
        self.collector.take_time(Duration::ZERO);
        run
    }

    /// Returns the instructions per span, with storage that is reused.
    pub(super) fn instructions(
        &self,
        contender: &Contender,
        conditions: &Conditions,
    ) -> Result<Instructions, Error> {
        let count = |bursts| {
            let count = |settings: Settings<'_>| callgrind::count(NAME, settings, &[MEASURED, OTHER_THREADS]);
            let order = Order { task: Task::Send, spans: COUNTED, bursts, conditions };
            self.all_of(contender, &order, count).map(|(counts, _)| counts)
        };
        let (short, long) = BURSTS;
        Ok(Instructions::between(count(short)?, count(long)?, (long - short) * COUNTED))
    }

    /// Runs a task that need not send everything. Also returns the number of spans that arrived.
    pub(super) fn ask(
        &self,
        contender: &Contender,
        task: Task,
        spans: u64,
    ) -> Result<(Findings, u64), Error> {
        // The system accepts connections for this listener, but nothing reads from them.
        let silent = TcpListener::bind(("127.0.0.1", 0))?;
        let endpoint = match task {
            Task::Silence => format!("http://{}", silent.local_addr()?),
            _ => self.collector.endpoint(),
        };
        let before = self.collector.arrived();
        let order = Order { task, spans, bursts: 1, conditions: &Conditions::USUAL };
        let findings = order.give(contender, &endpoint, play)?;
        Ok((findings, self.collector.arrived().since(before).spans))
    }

    /// Runs an order whose spans must all arrive.
    fn all_of<T>(
        &self,
        contender: &Contender,
        order: &Order<'_>,
        run: impl FnOnce(Settings<'_>) -> Result<T, Error>,
    ) -> Result<(T, Arrived), Error> {
        let before = self.collector.arrived();
        let outcome = order.give(contender, &self.collector.endpoint(), run)?;
        let arrived = self.collector.arrived().since(before);
        let expected = if contender.arrives == Arrives::Nothing { 0 } else { order.spans * order.bursts };
        match arrived.spans == expected {
            true => Ok((outcome, arrived)),
            false => Err(format!("{}: {expected} must arrive, {} did", contender.name, arrived.spans).into()),
        }
    }
}

type Settings<'a> = &'a [(&'a str, &'a dyn Display)];

fn play(settings: Settings<'_>) -> Result<Findings, Error> {
    child::play(&[], NAME, settings)
}

/// The task of a child, and its settings.
struct Order<'a> {
    task: Task,
    spans: u64,
    bursts: u64,
    conditions: &'a Conditions,
}

impl Order<'_> {
    fn give<T>(
        &self,
        contender: &Contender,
        endpoint: &str,
        run: impl FnOnce(Settings<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Conditions { attributes, producers, is_compressed, .. } = self.conditions;
        let outcome = run(&[
            ("contender", &contender.name),
            ("task", &self.task.name()),
            ("endpoint", &endpoint),
            ("spans", &self.spans),
            ("bursts", &self.bursts),
            ("attributes", attributes),
            ("producers", producers),
            ("gzip", is_compressed),
            ("lossless", &(self.task != Task::Hurry)),
        ]);
        outcome.map_err(|error| format!("{}, {}: {error}", contender.name, self.task.name()).into())
    }
}
