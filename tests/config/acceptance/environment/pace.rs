//! Delays, sizes of queues and batches, and exports of metrics.

use crate::acceptance::table::{Row, row};

pub(super) const PACE: &[Row] = &[
    row("no throttle", "", &["throttle = 0s", "check throttle_ms = 0"]),
    row(
        "spans linger for five seconds",
        "OTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["linger = 5s"],
    ),
    row("logs linger for one", "OTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none", &["linger = 1s"]),
    row(
        "a delay of spans",
        "OTEL_BSP_SCHEDULE_DELAY=200\nOTEL_LOGS_EXPORTER=none",
        &["linger = 200ms", "linger from OTEL_BSP_SCHEDULE_DELAY"],
    ),
    row(
        "a delay of logs",
        "OTEL_BLRP_SCHEDULE_DELAY=200\nOTEL_TRACES_EXPORTER=none",
        &["linger = 200ms", "linger from OTEL_BLRP_SCHEDULE_DELAY"],
    ),
    row(
        "a time to deliver spans",
        "OTEL_BSP_EXPORT_TIMEOUT=30000\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["give-up-after = 30s"],
    ),
    row(
        "a time to deliver logs",
        "OTEL_BLRP_EXPORT_TIMEOUT=30000\nOTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["give-up-after = 30s"],
    ),
    row(
        "a queue of spans",
        "OTEL_BSP_MAX_QUEUE_SIZE=7\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["queue-records = 7"],
    ),
    row(
        "a queue of logs",
        "OTEL_BLRP_MAX_QUEUE_SIZE=7\nOTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["queue-records = 7"],
    ),
    row(
        "a batch of spans",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=7\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["batch-records = 7"],
    ),
    row(
        "a batch of logs",
        "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE=7\nOTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["batch-records = 7"],
    ),
    row(
        "a full queue drops",
        "OTEL_BSP_ON_QUEUE_FULL=DROP\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["lossy = true", "lossy from OTEL_BSP_ON_QUEUE_FULL"],
    ),
    row(
        "a full queue lets wait",
        "OTEL_BSP_ON_QUEUE_FULL=BLOCK\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["lossy = false", "block-timeout = 5s"],
    ),
    row(
        "a full queue drops unless it is set to block",
        "OTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["lossy = true", "lossy from default"],
    ),
    row(
        "a full queue of logs lets wait",
        "OTEL_BLRP_ON_QUEUE_FULL=block\nOTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["lossy = false"],
    ),
    row(
        "the longest wait for room",
        "OTEL_BSP_ON_QUEUE_FULL=BLOCK\nOTEL_BSP_BLOCK_ON_QUEUE_FULL_TIMEOUT=2000\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["block-timeout = 2s"],
    ),
    row(
        "a wait for room without limit",
        "OTEL_BSP_ON_QUEUE_FULL=BLOCK\nOTEL_BSP_BLOCK_ON_QUEUE_FULL_TIMEOUT=none\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["block-timeout = none"],
    ),
    row(
        "a limit to waits that never happen",
        "OTEL_BSP_BLOCK_ON_QUEUE_FULL_TIMEOUT=2000\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &[
            "lossy = true",
            "warning: OTEL_BSP_BLOCK_ON_QUEUE_FULL_TIMEOUT: has no effect: no caller waits; set OTEL_BSP_ON_QUEUE_FULL=BLOCK",
        ],
    ),
    row(
        "an unknown answer to a full queue",
        "OTEL_BSP_ON_QUEUE_FULL=SPILL",
        &[
            "lossy = true",
            "warning: OTEL_BSP_ON_QUEUE_FULL: ignored: \"SPILL\" is not known; write DROP or BLOCK",
        ],
    ),
    row(
        "a delay with a unit",
        "OTEL_BLRP_SCHEDULE_DELAY=5s\nOTEL_TRACES_EXPORTER=none",
        &[
            "linger = 1s",
            "warning: OTEL_BLRP_SCHEDULE_DELAY: ignored: \"5s\" is not a whole number of milliseconds; write 5000",
        ],
    ),
    row(
        "a bad number",
        "OTEL_BSP_MAX_QUEUE_SIZE=lots",
        &[
            "queue-records = 32768",
            "warning: OTEL_BSP_MAX_QUEUE_SIZE: ignored: \"lots\" is not a whole number; write 1 to 16777215",
        ],
    ),
    row(
        "different values for spans and logs",
        "OTEL_BSP_MAX_QUEUE_SIZE=7\nOTEL_BLRP_MAX_QUEUE_SIZE=8\nOTEL_METRICS_EXPORTER=none",
        &[
            "exporters = otlp.traces, otlp.logs",
            "otlp.traces/queue-records = 7",
            "otlp.logs/queue-records = 8",
        ],
    ),
    row(
        "an interval",
        "OTEL_METRIC_EXPORT_INTERVAL=5000",
        &["interval = 5s", "interval from OTEL_METRIC_EXPORT_INTERVAL"],
    ),
    row("one minute between pushes", "", &["interval = 1m", "check interval_ms = 60000"]),
    row(
        "a time to deliver metrics",
        "OTEL_METRIC_EXPORT_TIMEOUT=3000\nOTEL_TRACES_EXPORTER=none\nOTEL_LOGS_EXPORTER=none",
        &["give-up-after = 3s"],
    ),
    row("delta", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta", &["temporality = delta"]),
    row(
        "cumulative",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=cumulative",
        &["temporality = cumulative"],
    ),
    row(
        "low memory, in any case",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=LowMemory",
        &["temporality = lowmemory"],
    ),
    row(
        "an unknown temporality",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=often",
        &[
            "temporality = cumulative",
            "warning: OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: ignored: \"often\" is not known; write cumulative, delta or lowmemory",
        ],
    ),
    row(
        "exponential",
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=base2_exponential_bucket_histogram",
        &["histograms = exponential"],
    ),
    row(
        "explicit",
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=explicit_bucket_histogram",
        &["histograms = explicit"],
    ),
    row(
        "an unknown aggregation",
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=linear",
        &[
            "histograms = explicit",
            "warning: OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: ignored: \"linear\" is not known; write explicit_bucket_histogram or base2_exponential_bucket_histogram",
        ],
    ),
];
