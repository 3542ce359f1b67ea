"""Sends records of all signals through ctypes: story.py LIBRARY ENDPOINT"""

import sys
from ctypes import CDLL, POINTER, Structure, Union, byref, c_bool, c_char_p, c_double, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p, sizeof

NUL_TERMINATED = c_size_t(-1).value


class Text(Structure):
    _fields_ = [("ptr", c_char_p), ("len", c_size_t)]


class Content(Union):
    _fields_ = [("text", Text), ("i", c_int64), ("d", c_double)]


class Value(Structure):
    _fields_ = [("kind", c_uint32), ("reserved", c_uint32), ("content", Content)]


class Attr(Structure):
    _fields_ = [("key", Text), ("value", Value)]


class Options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("endpoint", c_char_p),
        ("service", c_char_p),
        ("flags", c_uint32),
        ("reserved", c_uint32),
        ("problem", c_void_p),
        ("user", c_void_p),
    ]


class SpanOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int32),
        ("is_root", c_uint32),
        ("parent", c_void_p),
        ("traceparent", c_char_p),
        ("tracestate", c_char_p),
        ("start_unix_ns", c_uint64),
        ("attrs", POINTER(Attr)),
        ("n", c_size_t),
    ]


class InstrumentOptions(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int32),
        ("reserved", c_uint32),
        ("name", c_char_p),
        ("unit", c_char_p),
        ("description", c_char_p),
        ("bounds", POINTER(c_double)),
        ("n", c_size_t),
    ]


def attrs(**values):
    """Returns an array of attributes, and their number."""
    array = (Attr * len(values))()
    for attr, (key, value) in zip(array, values.items()):
        attr.key = Text(key.encode(), NUL_TERMINATED)
        if isinstance(value, int):
            attr.value.kind, attr.value.content.i = 2, value
        elif isinstance(value, float):
            attr.value.kind, attr.value.content.d = 3, value
        else:
            attr.value.kind, attr.value.content.text = 1, Text(value.encode(), len(value.encode()))
    return array, len(values)


def bind(library):
    """Declares the results of the functions, and the arguments that are not pointers."""
    for name in ["tracer_new", "logger_new", "meter_new", "instrument_new", "instrument_bind", "span_start", "span_start_with"]:
        getattr(library, "standpipe_" + name).restype = c_void_p
    pointer, text = c_void_p, c_char_p
    library.standpipe_tracer_new.argtypes = [pointer, text, text]
    library.standpipe_logger_new.argtypes = [pointer, text, text]
    library.standpipe_meter_new.argtypes = [pointer, text, text]
    library.standpipe_span_start.argtypes = [pointer, text, pointer]
    library.standpipe_span_start_with.argtypes = [pointer, pointer]
    library.standpipe_span_set_int.argtypes = [pointer, text, c_int64]
    library.standpipe_span_set_str.argtypes = [pointer, text, text]
    library.standpipe_span_set_double.argtypes = [pointer, text, c_double]
    library.standpipe_span_set_bool.argtypes = [pointer, text, c_bool]
    library.standpipe_span_event.argtypes = [pointer, text, pointer, c_size_t]
    library.standpipe_span_status.argtypes = [pointer, c_int32, text]
    library.standpipe_log.argtypes = [pointer, c_int32, text, pointer, pointer, c_size_t]
    library.standpipe_instrument_new.argtypes = [pointer, pointer]
    library.standpipe_add.argtypes = [pointer, c_int64, pointer, c_size_t]
    library.standpipe_record.argtypes = [pointer, c_double, pointer, c_size_t]
    library.standpipe_shutdown.argtypes = [pointer, c_uint32, pointer]
    for name in ["free", "tracer_free", "logger_free", "meter_free", "instrument_free"]:
        getattr(library, "standpipe_" + name).argtypes = [pointer]
    return library


def main(path, endpoint):
    lib = bind(CDLL(path))
    options = Options(size=sizeof(Options), endpoint=endpoint.encode(), service=b"shop")
    telemetry = c_void_p()
    assert lib.standpipe_start(byref(options), byref(telemetry), None) == 0
    tracer = lib.standpipe_tracer_new(telemetry, b"till", None)
    logger = lib.standpipe_logger_new(telemetry, b"till", None)
    meter = lib.standpipe_meter_new(telemetry, b"shop", None)

    options = SpanOptions(size=sizeof(SpanOptions), name=b"checkout", kind=2)
    checkout = c_void_p(lib.standpipe_span_start_with(tracer, byref(options)))
    lib.standpipe_span_set_int(checkout, b"order.id", 4711)
    lib.standpipe_span_set_str(checkout, b"card", b"visa")
    lib.standpipe_span_set_double(checkout, b"total", 12.5)
    lib.standpipe_span_set_bool(checkout, b"express", True)
    payment = c_void_p(lib.standpipe_span_start(tracer, b"payment", checkout))
    lib.standpipe_span_event(payment, b"retry", *attrs(attempt=2))
    lib.standpipe_log(logger, 13, b"declined", payment, *attrs(amount=12.5))
    lib.standpipe_span_status(payment, 2, b"card declined")
    lib.standpipe_span_end(byref(payment))
    lib.standpipe_span_end(byref(checkout))
    assert not payment and not checkout

    def instrument(**fields):
        options = InstrumentOptions(size=sizeof(InstrumentOptions), **fields)
        return lib.standpipe_instrument_new(meter, byref(options))

    orders = instrument(kind=1, name=b"orders", unit=b"{order}", description=b"all")
    heat = instrument(kind=3, name=b"heat")
    total = instrument(kind=4, name=b"total", bounds=(c_double * 2)(1, 10), n=2)
    assert lib.standpipe_add(orders, 3, *attrs(country="SE")) == 0
    assert lib.standpipe_record(heat, 21.5, None, 0) == 0
    assert lib.standpipe_record(total, 0.5, None, 0) == 0
    assert lib.standpipe_record(total, 49.5, None, 0) == 0

    assert lib.standpipe_shutdown(telemetry, 10000, None) == 0
    for instrument in [orders, heat, total]:
        lib.standpipe_instrument_free(instrument)
    lib.standpipe_meter_free(meter)
    lib.standpipe_logger_free(logger)
    lib.standpipe_tracer_free(tracer)
    lib.standpipe_free(telemetry)


main(*sys.argv[1:])
