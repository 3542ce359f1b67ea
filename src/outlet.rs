//! The callers' way to the exporters: a record is encoded once and handed to each.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::fork;
use crate::pipeline::{Blueprint, Pipeline};
use crate::record::{Scope, Signal, SpanLimits};
use crate::sample::Sampler;
use crate::stats::Ledger;

/// How long interrupted workers may take to come to their end.
const LAST_GRACE: Duration = Duration::from_millis(30);

/// The exporters of one process. In a forked child it gives way to an heir, which starts exporters of
/// its own at the child's first record; what the child inherited is the parent's to send.
#[derive(Debug)]
pub(crate) struct Outlet {
    plan: Arc<Plan>,
    largest_record: Option<usize>,
    generation: u32,
    /// Not dropped in a forked child, where its locks and channels belong to threads that do not exist.
    pipelines: ManuallyDrop<Vec<Pipeline>>,
    heir: OnceLock<Box<Outlet>>,
    /// A child of a program that had shut down starts nothing.
    stopped: AtomicBool,
}

/// What the exporters are built from.
pub(crate) struct Plan {
    pub(crate) blueprints: Vec<Blueprint>,
    pub(crate) limits: SpanLimits,
    pub(crate) sampler: Sampler,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Outlet {
    /// Starts all exporters.
    ///
    /// # Errors
    /// When a thread could not be started; none is left running then.
    pub(crate) fn start(plan: Arc<Plan>) -> io::Result<Self> {
        fork::watch();
        fork::undisturbed(|| {
            let pipelines = plan.blueprints.iter().map(Pipeline::start).collect::<io::Result<Vec<_>>>()?;
            Ok(Self::with(plan, pipelines))
        })
    }

    fn with(plan: Arc<Plan>, pipelines: Vec<Pipeline>) -> Self {
        Self {
            largest_record: plan.blueprints.iter().map(Blueprint::largest_record).max(),
            plan,
            generation: fork::generation(),
            pipelines: ManuallyDrop::new(pipelines),
            heir: OnceLock::new(),
            stopped: AtomicBool::new(false),
        }
    }

    pub(crate) fn limits(&self) -> &SpanLimits {
        &self.plan.limits
    }

    pub(crate) fn sampler(&self) -> Sampler {
        self.plan.sampler
    }

    /// The largest record that any exporter can send; `None` if there is no exporter.
    pub(crate) fn largest_record(&self) -> Option<usize> {
        self.largest_record
    }

    /// Hands a framed record to every exporter.
    #[inline]
    pub(crate) fn push(&self, scope: &Arc<Scope>, record: &[u8]) {
        for pipeline in &*self.here().pipelines {
            pipeline.push(scope, record);
        }
    }

    /// Starts the exporters of a forked child that has something to send.
    pub(crate) fn start_in_child(&self) {
        self.here();
    }

    /// Counts a record that has outgrown what can be sent.
    pub(crate) fn turn_away_too_large(&self, signal: Signal) {
        for pipeline in &*self.here().pipelines {
            pipeline.turn_away_too_large(signal);
        }
    }

    /// The exporters of this process; in a child that has sent nothing yet, none.
    pub(crate) fn running(&self) -> &[Pipeline] {
        if self.generation == fork::generation() {
            return &self.pipelines;
        }
        self.heir.get().map_or(&[], |heir| heir.running())
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger { exporters: self.running().iter().map(Pipeline::ledger).collect() }
    }

    /// Gives every exporter until the deadline to empty itself, all at the same time. Whoever comes while
    /// another's stop is under way waits for its end, but does not cut it short.
    pub(crate) fn stop(&self, deadline: Instant) {
        let is_first = !self.stopped.swap(true, Ordering::SeqCst);
        let running = self.running();
        if is_first {
            running.iter().for_each(|pipeline| pipeline.start_stop(deadline));
        }
        // a worker that was left behind by an earlier stop is not waited for again
        let open = running.iter().filter(|pipeline| !pipeline.is_settled());
        let (ended, late): (Vec<_>, Vec<_>) = open.partition(|pipeline| pipeline.ended_by(deadline));
        ended.iter().for_each(|pipeline| pipeline.finish_stop());
        if !is_first {
            return;
        }
        late.iter().for_each(|pipeline| pipeline.interrupt());
        // one for all, or several exporters that are stuck would add theirs up
        let grace_ends = Instant::now() + LAST_GRACE;
        late.iter().for_each(|pipeline| {
            pipeline.ended_by(grace_ends);
        });
        late.iter().for_each(|pipeline| pipeline.finish_stop());
    }

    #[inline]
    fn here(&self) -> &Outlet {
        if self.generation == fork::generation() { self } else { self.heir() }
    }

    #[cold]
    fn heir(&self) -> &Outlet {
        if let Some(heir) = self.heir.get() {
            return heir.here();
        }
        let blueprints = match self.stopped.load(Ordering::Relaxed) {
            true => &[],
            false => &self.plan.blueprints[..],
        };
        fork::undisturbed(|| {
            self.heir.get_or_init(|| {
                // a child that gets no thread goes on without those exporters, as emitting never fails
                let started = blueprints.iter().filter_map(|blueprint| Pipeline::start(blueprint).ok());
                Box::new(Self::with(Arc::clone(&self.plan), started.collect()))
            })
        })
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            drop(std::mem::take(&mut *self.pipelines));
        }
    }
}
