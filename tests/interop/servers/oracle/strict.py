"""Finds violations of the OTLP specification in a request, even those that every server accepts."""

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

SPAN = "opentelemetry.proto.trace.v1.Span"
LINK = "opentelemetry.proto.trace.v1.Span.Link"
LOG = "opentelemetry.proto.logs.v1.LogRecord"
HISTOGRAM_POINT = "opentelemetry.proto.metrics.v1.HistogramDataPoint"
EXPONENTIAL_HISTOGRAM_POINT = "opentelemetry.proto.metrics.v1.ExponentialHistogramDataPoint"
POINTS = ["opentelemetry.proto.metrics.v1.NumberDataPoint", HISTOGRAM_POINT, EXPONENTIAL_HISTOGRAM_POINT]


def complaints(request, length):
    """Yields one text for each fault of a request whose body has `length` bytes."""
    if not request.ListFields():
        yield "an empty request"
    if request.ByteSize() != length:
        yield f"the body has {length} bytes, encoded again it has {request.ByteSize()}"
    yield from of_message(request, request.DESCRIPTOR.name)


def of_message(message, path):
    for field in UnknownFieldSet(message):
        yield f"{path}: unknown field {field.field_number}"
    yield from of_kind(message, path)
    for field, value in message.ListFields():
        below = f"{path}.{field.name}"
        if isinstance(value, Message):
            yield from of_message(value, below)
        elif field.message_type is not None:
            for item in value:
                yield from of_message(item, below)
            if field.message_type.name == "KeyValue":
                yield from of_keys([item.key for item in value], below)


def of_keys(keys, path):
    if "" in keys:
        yield f"{path}: an empty key"
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        yield f"{path}: the key {key} more than once"


def of_kind(message, path):
    kind = message.DESCRIPTOR.full_name
    if kind == SPAN:
        yield from of_id(message.trace_id, 16, f"{path}.trace_id")
        yield from of_id(message.span_id, 8, f"{path}.span_id")
        if message.parent_span_id:
            yield from of_id(message.parent_span_id, 8, f"{path}.parent_span_id")
        if not message.name:
            yield f"{path}: no name"
        if not message.kind:
            yield f"{path}: no kind"
        if not message.start_time_unix_nano or message.end_time_unix_nano < message.start_time_unix_nano:
            yield f"{path}: ends at {message.end_time_unix_nano}, before its start at {message.start_time_unix_nano}"
    elif kind == LINK:
        yield from of_id(message.trace_id, 16, f"{path}.trace_id")
        yield from of_id(message.span_id, 8, f"{path}.span_id")
    elif kind == LOG:
        if message.trace_id or message.span_id:
            yield from of_id(message.trace_id, 16, f"{path}.trace_id")
            yield from of_id(message.span_id, 8, f"{path}.span_id")
        if not message.observed_time_unix_nano:
            yield f"{path}: never observed"
        if not 1 <= message.severity_number <= 24:
            yield f"{path}: severity {message.severity_number}"
    elif kind in POINTS:
        if not message.time_unix_nano or message.time_unix_nano < message.start_time_unix_nano:
            yield f"{path}: at {message.time_unix_nano}, before its start at {message.start_time_unix_nano}"
    if kind == HISTOGRAM_POINT:
        yield from of_buckets(message, path)


def of_id(id, length, path):
    if len(id) != length:
        yield f"{path}: {len(id)} bytes instead of {length}"
    elif not any(id):
        yield f"{path}: all zero"


def of_buckets(point, path):
    if len(point.bucket_counts) != len(point.explicit_bounds) + 1:
        yield f"{path}: {len(point.bucket_counts)} buckets between {len(point.explicit_bounds)} bounds"
    if sum(point.bucket_counts) != point.count:
        yield f"{path}: {sum(point.bucket_counts)} values in the buckets, {point.count} in all"
    if list(point.explicit_bounds) != sorted(set(point.explicit_bounds)):
        yield f"{path}: the bounds do not rise"
