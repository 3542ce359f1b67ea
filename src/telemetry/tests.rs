use crate::{
    BoundCounter, BoundGauge, BoundHistogram, BoundUpDownCounter, Counter, Counts, FlushOutcome, Gauge,
    Histogram, InstrumentBuilder, Ledger, Meter, Observation, Provider, Telemetry, UpDownCounter,
};

const fn is_shared_by_threads<T: Send + Sync>() {}

/// Checked by the compiler: programs keep these in statics and hand them to any thread.
const _: () = {
    is_shared_by_threads::<Telemetry>();
    is_shared_by_threads::<Provider>();
    is_shared_by_threads::<Meter>();
    is_shared_by_threads::<InstrumentBuilder<'_>>();
    is_shared_by_threads::<Observation>();
    is_shared_by_threads::<(Counter, BoundCounter)>();
    is_shared_by_threads::<(UpDownCounter, BoundUpDownCounter)>();
    is_shared_by_threads::<(Gauge, BoundGauge)>();
    is_shared_by_threads::<(Histogram, BoundHistogram)>();
    is_shared_by_threads::<(Ledger, Counts, FlushOutcome)>();
};
