"""Reads headers with OpenTelemetry's B3 propagator for Python, and writes the headers that it passes on.

Each line of standard input is a JSON object of headers. Its answer has the trace id, the span id and the sampling
decision that were read, and the headers of both forms.
"""

import json
import sys

from opentelemetry import trace
from opentelemetry.propagators.b3 import B3MultiFormat, B3SingleFormat

for line in sys.stdin:
    context = B3MultiFormat().extract(json.loads(line))
    span = trace.get_current_span(context).get_span_context()
    answer = {
        "trace": format(span.trace_id, "032x"),
        "span": format(span.span_id, "016x"),
        "sampled": span.trace_flags.sampled,
        "single": {},
        "multi": {},
    }
    B3SingleFormat().inject(answer["single"], context)
    B3MultiFormat().inject(answer["multi"], context)
    print(json.dumps(answer), flush=True)
