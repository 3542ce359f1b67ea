//! Runs contenders in child processes, and checks what arrives.

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

/// Spans of the short run in which every span is inspected.
const LOOKED_AT: u64 = 2_000;
/// Spans per burst when instructions are counted, and the bursts in the short and in the long run.
///
/// Any queue can hold a burst. The difference of the counts gives the instructions per span.
const COUNTED: u64 = 4_096;
const BURSTS: (u64, u64) = (1, 3);

/// Starts contenders and checks that their spans arrive.
pub(super) struct Runs<'a> {
    collector: &'a Collector,
}

/// Properties of the spans of a run, and of the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) attributes: u64,
    pub(super) producers: u64,
    pub(super) is_compressed: bool,
    /// Delay of each response of the collector.
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

    /// Inspects every span of a short run, so that a contender cannot win by sending less than it declares.
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

    /// Sends this many spans, all of which must arrive.
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

    /// Counts the instructions per span, without the warm-up.
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

    /// Runs a task other than `Task::Send`, and returns the number of spans that arrived.
    pub(super) fn ask(
        &self,
        contender: &Contender,
        task: Task,
        spans: u64,
    ) -> Result<(Findings, u64), Error> {
        // The kernel accepts connections to this listener, but nothing reads from them.
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

/// Task of a child, with its parameters.
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
            ("lossless", &!self.task.is_lossy()),
        ]);
        outcome.map_err(|error| format!("{}, {}: {error}", contender.name, self.task.name()).into())
    }
}
