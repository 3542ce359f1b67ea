import contextlib
import sys
from ctypes import CDLL, Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p, sizeof

lib = CDLL(sys.argv[1] if len(sys.argv) > 1 else "libstandpipe.so")
# Without these lines, ctypes would pass and return pointers as 32-bit integers.
for function, result, arguments in [
    ("tracer_new", c_void_p, [c_void_p, c_char_p, c_char_p]),
    ("span_start", c_void_p, [c_void_p, c_char_p, c_void_p]),
    ("span_set_int", None, [c_void_p, c_char_p, c_int64]),
    ("span_status", None, [c_void_p, c_int32, c_char_p]),
    ("shutdown", c_int32, [c_void_p, c_uint32, c_void_p]),
    ("tracer_free", None, [c_void_p]),
    ("free", None, [c_void_p]),
]:
    getattr(lib, "standpipe_" + function).restype = result
    getattr(lib, "standpipe_" + function).argtypes = arguments


class Options(Structure):
    _fields_ = [("size", c_size_t), ("endpoint", c_char_p), ("service", c_char_p), ("flags", c_uint32),
                ("reserved", c_uint32), ("problem", c_void_p), ("user", c_void_p)]


@contextlib.contextmanager
def span(name, parent=None):
    handle = c_void_p(lib.standpipe_span_start(tracer, name.encode(), parent))
    try:
        yield handle
    except Exception as error:
        lib.standpipe_span_status(handle, 2, str(error).encode())
        raise
    finally:
        lib.standpipe_span_end(byref(handle))


endpoint = sys.argv[2] if len(sys.argv) > 2 else "http://localhost:4318"
telemetry = c_void_p()
lib.standpipe_start(byref(Options(sizeof(Options), endpoint.encode(), b"shop")), byref(telemetry), None)
tracer = lib.standpipe_tracer_new(telemetry, b"shop", None)
with span("checkout") as checkout:
    lib.standpipe_span_set_int(checkout, b"order.id", 4711)
    with contextlib.suppress(RuntimeError), span("payment", checkout):
        raise RuntimeError("card declined")
lib.standpipe_shutdown(telemetry, 2000, None)
lib.standpipe_tracer_free(tracer)
lib.standpipe_free(telemetry)
