//! The exporter of a simulation, driven by a simulated thread or by callers, and its transport.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{World, world};
use crate::config::provider::Sampler;
use crate::context::Owner;
use crate::pipeline::clock;
use crate::pipeline::exporter_handle::{ExporterHandle, ExporterSpec};
use crate::pipeline::exporter_set::{self, ExporterSet, ProviderSpec};
use crate::pipeline::worker::manual::OnEnd;
use crate::pipeline::worker::{Progress, Worker};
use crate::process::Driver;
use crate::record::{LogLimits, SpanLimits};
use crate::transport::{Payload, Transport, Verdict};

/// Longest time between two calls of `pump` in a program that drives its exporters itself.
const PUMP_EVERY: Duration = Duration::from_millis(20);

/// The exporter. Either a simulated thread or callers drive its worker.
pub(super) enum Exporter {
    Thread { handle: Box<ExporterHandle>, worker: RefCell<Option<(Box<Worker>, OnEnd)>>, sleep: Cell<Sleep> },
    Caller { set: ExporterSet, next_pump: Cell<Instant> },
}

#[derive(Clone, Copy)]
pub(super) enum Sleep {
    Awake,
    Until(Option<Instant>),
}

impl Exporter {
    pub(super) fn start(spec: ExporterSpec) -> Self {
        if spec.driver == Driver::OwnThread {
            let (handle, worker, on_end) = ExporterHandle::assemble(spec.prepare());
            let (handle, worker) = (Box::new(handle), RefCell::new(Some((Box::new(worker), on_end))));
            return Self::Thread { handle, worker, sleep: Cell::new(Sleep::Awake) };
        }
        let spec = ProviderSpec {
            owner: Owner::default(),
            exporters: vec![spec],
            limits: SpanLimits::default(),
            log_limits: LogLimits::default(),
            baggage_attributes: Vec::new(),
            sampler: Sampler::default(),
            id_generator: None,
            scope_levels: Vec::new(),
            span_counts: None,
        };
        let set = ExporterSet::start(Arc::new(spec)).expect("no thread is started");
        Self::Caller { set, next_pump: Cell::new(clock::now()) }
    }

    pub(super) fn handle(&self) -> &ExporterHandle {
        match self {
            Self::Thread { handle, .. } => handle,
            Self::Caller { set, .. } => &set.running()[0],
        }
    }

    /// Ends the exporter between two steps, as `kill -9` does: only the spool and the flight recorder survive.
    pub(super) fn kill(&self) {
        self.handle().abandon();
        if let Self::Thread { worker, .. } = self {
            // Dropped without calling `on_end`.
            drop(worker.take());
        }
    }

    /// Does one step of the worker, if a step is due and no step is under way.
    pub(super) fn step(&self, world: &World) -> bool {
        match self {
            Self::Thread { worker, sleep, .. } => {
                let Ok(mut worker) = worker.try_borrow_mut() else { return false };
                let Some((awake, _)) = &mut *worker else { return false };
                let is_due = |until: Option<Instant>| until.is_some_and(|until| until <= clock::now());
                match sleep.get() {
                    Sleep::Until(until) if !is_due(until) && !awake.is_called() => return false,
                    Sleep::Until(_) => awake.wake_up(),
                    Sleep::Awake => {}
                }
                world.turns.set(world.turns.get() + 1);
                sleep.set(match awake.step_or_sleep() {
                    Progress::DueAt(until) => Sleep::Until(until),
                    Progress::Worked => Sleep::Awake,
                    Progress::Ended => {
                        worker.take().into_iter().for_each(|(_, on_end)| on_end());
                        Sleep::Awake
                    }
                });
                true
            }
            Self::Caller { set, next_pump } => {
                if next_pump.get() > clock::now() || !world.is_free() {
                    return false;
                }
                let latest = clock::now() + PUMP_EVERY;
                let due = exporter_set::pump(&[set], 0, latest);
                next_pump.set(due.map_or(latest, |due| due.min(latest)).max(clock::now()));
                true
            }
        }
    }

    /// Returns the time at which the next step is due, if nothing happens before.
    pub(super) fn next(&self, world: &World) -> Option<Instant> {
        match self {
            Self::Thread { worker, sleep, .. } => match sleep.get() {
                Sleep::Until(until) if worker.try_borrow_mut().is_ok() => until,
                _ => None,
            },
            Self::Caller { next_pump, .. } => Some(next_pump.get()).filter(|_| world.is_free()),
        }
    }
}

/// The transport, which passes requests to the simulation on the same thread.
pub(super) struct Network;

impl Transport for Network {
    fn forget_cut(&mut self) {
        world().is_cut.set(false);
    }

    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        world().send(payload, deadline)
    }

    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(|| world().is_interrupted.set(true))
    }

    fn cutter(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(|| world().is_cut.set(true))
    }
}
