//! What the exporters have in common: where their records go, and when that is over.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};

use super::scopes::Scopes;
use crate::context::{self, Suppression};
use crate::pipeline::exporter_set::{ExporterSet, FlushOutcome};
use crate::pipeline::ledger::NotEnqueuedReason;
use crate::record::{Scope, Signal};
use crate::telemetry::provider::Provider;

/// How long a flush may take for which the SDK names no time.
const FLUSH_BUDGET: Duration = Duration::from_secs(5);

/// The way of one exporter into a provider.
pub(super) struct SdkInput {
    provider: Provider,
    signal: Signal,
    scopes: Scopes,
    is_shut_down: AtomicBool,
}

/// What becomes of records that the SDK hands over.
#[derive(Debug, Clone, Copy)]
pub(super) enum Disposition {
    /// No record may be larger.
    Sent {
        largest: usize,
    },
    Counted(NotEnqueuedReason),
}

impl fmt::Debug for SdkInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SdkInput").field("signal", &self.signal).finish_non_exhaustive()
    }
}

impl SdkInput {
    pub(super) fn new(provider: &Provider, signal: Signal) -> Self {
        let scopes = Scopes::new(signal);
        Self { provider: provider.clone(), signal, scopes, is_shut_down: AtomicBool::new(false) }
    }

    pub(super) fn set_resource(&mut self, resource: &Resource) {
        self.scopes.set_resource(resource);
    }

    pub(super) fn scope(&self, scope: &InstrumentationScope, target: Option<&str>) -> Arc<Scope> {
        self.scopes.find(scope, target)
    }

    pub(super) fn exporters(&self) -> &ExporterSet {
        self.provider.exporters()
    }

    /// Whether records are sent or counted: not if no exporter takes any, nor if they are made by what sends them.
    pub(super) fn is_of_use(&self) -> bool {
        !context::runs_exporter_code() && self.exporters().largest_record(self.signal).is_some()
    }

    /// Sends records, or counts them where they come too late or from a thread of the provider's own exporters.
    pub(super) fn take(&self, send_or_count: impl FnOnce(Disposition)) -> OTelSdkResult {
        let is_over = self.is_shut_down.load(Ordering::Relaxed);
        let exporters = self.exporters();
        let suppression =
            if context::may_be_suppressed() { exporters.suppression() } else { Suppression::None };
        match (exporters.largest_record(self.signal), suppression) {
            (None, _) | (_, Suppression::Uncounted) => {}
            (Some(_), _) if is_over => send_or_count(Disposition::Counted(NotEnqueuedReason::AfterShutdown)),
            (Some(_), Suppression::Counted) => {
                send_or_count(Disposition::Counted(NotEnqueuedReason::Suppressed))
            }
            (Some(largest), Suppression::None) => send_or_count(Disposition::Sent { largest }),
        }
        if is_over { Err(OTelSdkError::AlreadyShutdown) } else { Ok(()) }
    }

    pub(super) fn force_flush(&self) -> OTelSdkResult {
        if self.is_shut_down.load(Ordering::Relaxed) {
            return Err(OTelSdkError::AlreadyShutdown);
        }
        self.flush(FLUSH_BUDGET)
    }

    /// The provider goes on: it is for its owner to end it.
    pub(super) fn shut_down(&self, timeout: Duration) -> OTelSdkResult {
        if self.is_shut_down.swap(true, Ordering::Relaxed) {
            return Err(OTelSdkError::AlreadyShutdown);
        }
        self.flush(timeout)
    }

    fn flush(&self, budget: Duration) -> OTelSdkResult {
        if context::may_be_suppressed() {
            return Err(OTelSdkError::InternalFailure(
                "an exporter's thread cannot wait for itself".to_owned(),
            ));
        }
        match self.provider.flush(budget) {
            FlushOutcome::Complete => Ok(()),
            FlushOutcome::TimedOut { .. } => Err(OTelSdkError::Timeout(budget)),
        }
    }
}
