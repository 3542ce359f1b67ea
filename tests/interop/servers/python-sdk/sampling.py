"""Asks OpenTelemetry's composite sampler for Python about spans.

Each line of standard input is a JSON object: the sampler, the ids, the flags and the tracestate of the parent. The line
of the answer has the decision and the tracestate of the span.
"""

import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import sampling
from opentelemetry.sdk.trace import _sampling_experimental as consistent
from opentelemetry.trace import TraceFlags, TraceState


def sampler(words):
    """Makes the sampler that these words describe, such as ["parent_threshold", "probability", 0.5]."""
    name, *rest = words
    if name == "probability":
        return consistent.composable_traceid_ratio_based(rest[0])
    if name == "parent_threshold":
        return consistent.composable_parent_threshold(sampler(rest))
    return {"always_on": consistent.composable_always_on, "always_off": consistent.composable_always_off}[name]()


for line in sys.stdin:
    asked = json.loads(line)
    trace_id = int(asked["trace"], 16)
    parent = trace.SpanContext(
        trace_id,
        int(asked["span"], 16),
        is_remote=True,
        trace_flags=TraceFlags(asked["flags"]),
        trace_state=TraceState.from_header([asked["state"]]) if asked["state"] else TraceState(),
    )
    context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
    composite = consistent.composite_sampler(sampler(asked["sampler"]))
    result = composite.should_sample(context, trace_id, "span", trace_state=parent.trace_state)
    state = result.trace_state
    answer = {
        "sampled": result.decision == sampling.Decision.RECORD_AND_SAMPLE,
        "state": state.to_header() if state else "",
    }
    print(json.dumps(answer), flush=True)
