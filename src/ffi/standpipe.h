/* Traces, logs and metrics over OTLP for programs in C. Spans and log records go through a bounded queue to one thread
 * per exporter, which also collects metrics and sends everything over HTTP or gRPC. A ledger counts every record.
 *
 *     standpipe_options options = {.size = sizeof options, .endpoint = "http://localhost:4318", .service = "shop"};
 *     standpipe *telemetry;
 *     char *error;
 *     if (standpipe_start(&options, &telemetry, &error) != STANDPIPE_OK)
 *         fprintf(stderr, "no telemetry: %s\n", error);
 *     standpipe_text_free(error);
 *     standpipe_tracer *tracer = standpipe_tracer_new(telemetry, "shop", NULL);
 *
 *     standpipe_span *span = standpipe_span_start(tracer, "checkout", NULL);
 *     standpipe_span_set_int(span, "order.id", 4711);
 *     standpipe_span_end(&span);
 *
 *     standpipe_tracer_free(tracer);
 *     standpipe_shutdown(telemetry, 2000, NULL);
 *     standpipe_free(telemetry);
 *
 * Rules for all functions:
 *
 * - NULL. Every pointer may be NULL. With a NULL handle, a function does nothing, unless NULL means the current span.
 *   If the telemetry cannot be started, all handles made from it are NULL, and the program runs without telemetry. If
 *   another argument that a function requires is NULL, the function returns STANDPIPE_INVALID_ARGUMENT.
 * - Threads. Handles of all types except standpipe_span may be used by several threads at once, as long as no thread
 *   frees the handle meanwhile. A span may move between threads, but only one thread may use it at a time.
 * - Ownership. The caller owns the result of ..._new, ..._bind and ..._start, and must pass it to ..._free or ..._end.
 *   Arguments are read within the call and never stored, except for `problem` and `user` of standpipe_options.
 * - Order. Tracers, loggers, meters, instruments and spans may outlive standpipe_free. After standpipe_free, they are
 *   no-ops.
 * - Texts end with a zero byte, or have an explicit length. They are UTF-8; invalid bytes are sent as U+FFFD.
 * - Full queue. New records are lost and counted as `not_enqueued`, and the caller never waits. With
 *   STANDPIPE_BLOCK_WHEN_FULL, or if a configuration file or a variable demands it, the caller waits for room instead.
 * - Exit. Without standpipe_shutdown or standpipe_free, queued records are lost at the end of the process: the library
 *   registers nothing with atexit.
 * - Fork. A child process may use all handles. It starts its own threads at its first record. Records that are queued
 *   and spans that are open at the fork are sent by the parent.
 * - Signals. The library's threads block all Unix signals except those that a fault or an abort of the thread raises.
 *   No function raises SIGPIPE. No function may be called in a signal handler.
 * - The library neither prints nor ends the process. Functions do not throw. If a bug makes the library panic, the
 *   function returns STANDPIPE_PANICKED; a function without a result code returns NULL, false or 0, or does nothing.
 *   Only a library that was installed with --abort ends the process at a panic.
 * - Structs that begin with `size` get further fields at their end in later versions. Set `size` to sizeof, and unused
 *   fields to zero. An older library ignores unknown fields; a newer library treats missing fields as zero.
 *
 * dlclose does not unload the shared library, because its threads may still run.
 */
#ifndef STANDPIPE_H
#define STANDPIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header: major * 1000000 + minor * 1000 + patch. */
#define STANDPIPE_VERSION 1000

/* Results. */
#define STANDPIPE_OK 0
#define STANDPIPE_INVALID_ARGUMENT 1 /* nothing was done */
#define STANDPIPE_CONFIGURATION 2    /* nothing was started; *error has every mistake, one per line */
#define STANDPIPE_INCOMPLETE 3       /* not all records could be sent within the budget */
#define STANDPIPE_WRONG_THREAD 4     /* another thread entered the scope; the scope is unchanged */
#define STANDPIPE_NO_SPAN 5          /* no span was passed, and the thread has no current span */
#define STANDPIPE_PANICKED 6         /* a bug in the library; please report it */

typedef struct standpipe standpipe;
typedef struct standpipe_tracer standpipe_tracer;
typedef struct standpipe_logger standpipe_logger;
typedef struct standpipe_meter standpipe_meter;
typedef struct standpipe_instrument standpipe_instrument;
typedef struct standpipe_span standpipe_span;

/* Returns the version of the library, in the format of STANDPIPE_VERSION. */
uint32_t standpipe_version(void);

/* Frees a text that the library has allocated. The text must be unchanged. */
void standpipe_text_free(char *text);

/* ---- Attributes ---- */

/* Special length of a text that ends with a zero byte. */
#define STANDPIPE_NUL_TERMINATED SIZE_MAX

typedef struct {
    const char *ptr;
    size_t len; /* bytes, or STANDPIPE_NUL_TERMINATED */
} standpipe_text;

/* Kinds of a value. A value of an unknown kind, such as a zeroed one, is ignored. */
#define STANDPIPE_STR 1     /* as.text */
#define STANDPIPE_INT 2     /* as.i */
#define STANDPIPE_DOUBLE 3  /* as.d */
#define STANDPIPE_BOOL 4    /* as.i: 0 is false */
#define STANDPIPE_BYTES 5   /* as.list, of uint8_t */
#define STANDPIPE_STRS 6    /* as.list, of standpipe_text */
#define STANDPIPE_INTS 7    /* as.list, of int64_t */
#define STANDPIPE_DOUBLES 8 /* as.list, of double */
#define STANDPIPE_BOOLS 9   /* as.list, of bool */
#define STANDPIPE_ARRAY 10  /* as.list, of standpipe_value */
#define STANDPIPE_MAP 11    /* as.list, of standpipe_attr */

typedef struct {
    uint32_t kind;
    uint32_t reserved;
    union {
        standpipe_text text;
        struct {
            const void *ptr;
            size_t len; /* number of elements */
        } list;
        int64_t i;
        double d;
    } as;
} standpipe_value;

/* An attribute. The functions below make one. */
typedef struct {
    standpipe_text key;
    standpipe_value value;
} standpipe_attr;

static inline standpipe_attr standpipe_attr_of(const char *key, uint32_t kind) {
    standpipe_attr attr;
    attr.key.ptr = key;
    attr.key.len = STANDPIPE_NUL_TERMINATED;
    attr.value.kind = kind;
    attr.value.reserved = 0;
    attr.value.as.text.ptr = NULL;
    attr.value.as.text.len = 0;
    return attr;
}

static inline standpipe_attr standpipe_attr_strn(const char *key, const char *value, size_t len) {
    standpipe_attr attr = standpipe_attr_of(key, value ? STANDPIPE_STR : 0);
    attr.value.as.text.ptr = value;
    attr.value.as.text.len = len;
    return attr;
}

static inline standpipe_attr standpipe_attr_str(const char *key, const char *value) {
    return standpipe_attr_strn(key, value, STANDPIPE_NUL_TERMINATED);
}

static inline standpipe_attr standpipe_attr_int(const char *key, int64_t value) {
    standpipe_attr attr = standpipe_attr_of(key, STANDPIPE_INT);
    attr.value.as.i = value;
    return attr;
}

static inline standpipe_attr standpipe_attr_double(const char *key, double value) {
    standpipe_attr attr = standpipe_attr_of(key, STANDPIPE_DOUBLE);
    attr.value.as.d = value;
    return attr;
}

static inline standpipe_attr standpipe_attr_bool(const char *key, bool value) {
    standpipe_attr attr = standpipe_attr_of(key, STANDPIPE_BOOL);
    attr.value.as.i = value;
    return attr;
}

/* Makes an attribute with a list of `len` elements. `kind` is one of STANDPIPE_BYTES to STANDPIPE_MAP. */
static inline standpipe_attr standpipe_attr_list(const char *key, uint32_t kind, const void *ptr, size_t len) {
    standpipe_attr attr = standpipe_attr_of(key, kind);
    attr.value.as.list.ptr = ptr;
    attr.value.as.list.len = len;
    return attr;
}

/* ---- Start and end ---- */

/* Callback for problems. A recurring problem is reported at most once per minute and signal. The callback runs on a
 * thread of the library, with two exceptions: a start function calls it on the calling thread for
 * STANDPIPE_PROBLEM_CONFIGURATION and STANDPIPE_PROBLEM_NO_SERVICE_NAME, and with STANDPIPE_MANUAL it runs on the
 * thread that sends. It never runs on two threads at once, and is never called after standpipe_free has returned. It
 * should return soon, and must neither throw nor longjmp. Records that it emits to the same telemetry are lost and
 * counted as `not_enqueued`. `message` contains no secrets and is valid until the callback returns; `times` is the
 * number of occurrences since the last report. */
typedef void (*standpipe_problem_fn)(void *user, int32_t kind, const char *message, uint64_t times);

#define STANDPIPE_PROBLEM_UNAVAILABLE 1        /* the collector cannot be reached; records are kept and sent again */
#define STANDPIPE_PROBLEM_REFUSED 2            /* the collector refused a batch permanently; its records are lost */
#define STANDPIPE_PROBLEM_NOT_TAKEN 3          /* the collector does not accept a signal, such as logs */
#define STANDPIPE_PROBLEM_PARTIAL_SUCCESS 4    /* the collector accepted a batch but rejected some records */
#define STANDPIPE_PROBLEM_GAVE_UP 5            /* a batch could not be delivered in time; its records are lost */
#define STANDPIPE_PROBLEM_CALLERS_WAITING 6    /* callers wait for room in the queue */
#define STANDPIPE_PROBLEM_QUEUE_FULL 7         /* the queue was full; records are lost */
#define STANDPIPE_PROBLEM_TOO_LARGE 8          /* a record was larger than a request may be; it is lost */
#define STANDPIPE_PROBLEM_WORKER_PANICKED 9    /* a bug in the library; the current batch is lost */
#define STANDPIPE_PROBLEM_CALLBACK_PANICKED 10 /* a callback of a metric panicked; not used in C */
#define STANDPIPE_PROBLEM_INSTRUMENT 11        /* an instrument has an invalid name, bounds or measurement */
#define STANDPIPE_PROBLEM_CARDINALITY 12       /* too many sets of attributes; further sets share a series */
#define STANDPIPE_PROBLEM_CONFIGURATION 13     /* a warning about the configuration */
#define STANDPIPE_PROBLEM_NO_SERVICE_NAME 14   /* no service name is set; it is derived from the program's file */
#define STANDPIPE_PROBLEM_SPOOL 15             /* the spool is full, unreadable or damaged; records stay in memory */

/* Flags. */
#define STANDPIPE_BLOCK_WHEN_FULL 1 /* if the queue is full, callers wait for room, up to block-timeout */
#define STANDPIPE_GRPC 2            /* `endpoint`, which must be set, uses gRPC instead of HTTP */
#define STANDPIPE_ENVIRONMENT 4     /* OpenTelemetry's variables fill settings that neither file nor struct sets */
#define STANDPIPE_MANUAL 8          /* no threads: standpipe_pump, standpipe_flush and standpipe_shutdown send */

typedef struct {
    size_t size;
    const char *endpoint; /* base URL, such as "http://localhost:4318", to which /v1/traces, /v1/logs and /v1/metrics
                             are appended. With STANDPIPE_GRPC: host and port, with TLS unless the endpoint begins with
                             http:// or is a loopback address */
    const char *service;  /* service.name */
    uint32_t flags;
    uint32_t reserved;
    standpipe_problem_fn problem;
    void *user; /* passed to `problem` */
} standpipe_options;

/* Counts of records by outcome, for all signals and exporters. At every moment,
 * accepted + recovered = delivered + rejected + dropped + superseded + spooled + in_flight. */
typedef struct {
    size_t size;
    uint64_t accepted;     /* enqueued */
    uint64_t delivered;    /* confirmed by the collector */
    uint64_t rejected;     /* rejected individually by the collector */
    uint64_t dropped;      /* lost after they were accepted */
    uint64_t superseded;   /* data points of metrics that newer ones replaced; not a loss */
    uint64_t in_flight;    /* queued, or being sent */
    uint64_t not_enqueued; /* never accepted, for example because the queue was full or the telemetry shut down */
    uint64_t filtered;     /* log records below the level of the exporter; not a loss */
    uint64_t attempts;     /* requests, including retries */
    uint64_t open_spans;   /* spans that have not ended */
    uint64_t recovered;    /* taken over from the spool of an earlier process */
    uint64_t spooled;      /* stored in the spool, to be sent by this process or a later one */
} standpipe_ledger;

/* These functions start the telemetry, with one thread for each exporter unless STANDPIPE_MANUAL is set. Connections
 * are made when records are sent.
 *
 * They return STANDPIPE_OK or an error code. *out is a handle or NULL. *error is NULL, or a text with all errors, which
 * the caller frees with standpipe_text_free. If `error` itself is NULL, no text is returned.
 *
 * The functions differ in the source of the configuration. If the path or the text is NULL, they return
 * STANDPIPE_INVALID_ARGUMENT. A program that calls only standpipe_start and is linked with --gc-sections does not
 * contain the parsers for files and variables. */

/* Starts one exporter for options->endpoint, which must be set. The flag STANDPIPE_ENVIRONMENT is not accepted. */
int32_t standpipe_start(const standpipe_options *options, standpipe **out, char **error);
/* Starts the exporters that OpenTelemetry's environment variables describe. If options->endpoint is set, starts one
 * exporter for it instead, and the variables fill its other settings. */
int32_t standpipe_start_from_env(const standpipe_options *options, standpipe **out, char **error);
/* Starts the exporters of a TOML file, or of a YAML file if the library was built with the feature yaml. Starts one
 * more exporter for options->endpoint, if it is set. */
int32_t standpipe_start_from_file(const char *path, const standpipe_options *options, standpipe **out, char **error);
/* Like standpipe_start_from_file, with the TOML text itself. `len` may be STANDPIPE_NUL_TERMINATED. */
int32_t standpipe_start_from_toml(const char *text, size_t len, const standpipe_options *options, standpipe **out,
                                  char **error);

/* Sends all accepted records, and collects and sends the metrics. Returns STANDPIPE_INCOMPLETE if the budget was not
 * enough; *left is the number of remaining records. If `problem` calls this function, the function sends nothing. */
int32_t standpipe_flush(const standpipe *telemetry, uint32_t budget_ms, uint64_t *left);

/* With STANDPIPE_MANUAL: sends and retries, on this thread, the batches that are due. *next_ms is the time until the
 * program should call this function again, or UINT32_MAX if nothing is queued and no metrics are to be collected. The
 * program should also call it after emitting records. No request begins after the budget is used up, but a running
 * request may exceed the budget by up to the exporter's timeout. With a budget of 0, the function only returns the
 * time. Without STANDPIPE_MANUAL, it does nothing. */
int32_t standpipe_pump(const standpipe *telemetry, uint32_t budget_ms, uint32_t *next_ms);

/* Writes the current ledger. `ledger->size` must be set: the function writes only fields that exist in both the
 * caller's and the library's version of the struct. */
int32_t standpipe_get_ledger(const standpipe *telemetry, standpipe_ledger *ledger);
/* Returns the ledger of each exporter and signal as JSON, with the lost records by reason. The caller frees *text. */
int32_t standpipe_ledger_json(const standpipe *telemetry, char **text);

/* Sends all queued records, ends the threads and writes the final ledger. Returns within the budget plus 50 ms,
 * whatever the network does. Returns STANDPIPE_INCOMPLETE if some records could not be sent; the ledger counts them as
 * dropped. A second call has no further effect. If `problem` calls this function, the function only begins the shutdown
 * and returns at once. */
int32_t standpipe_shutdown(const standpipe *telemetry, uint32_t budget_ms, standpipe_ledger *ledger);

/* Frees the handle. If the telemetry was not shut down, shuts it down with a budget of two seconds. Waits for a running
 * `problem`, so the caller must not hold a lock that `problem` takes. If `problem` itself calls this function, the
 * function does not wait. */
void standpipe_free(standpipe *telemetry);

/* ---- Traces ---- */

/* Makes a tracer for a part of the program, with the part's name and version. Keep the tracer: making one takes longer
 * than starting a span. */
standpipe_tracer *standpipe_tracer_new(const standpipe *telemetry, const char *scope, const char *version);
void standpipe_tracer_free(standpipe_tracer *tracer);

/* Kinds of a span; 0 is internal as well. */
#define STANDPIPE_INTERNAL 1
#define STANDPIPE_SERVER 2
#define STANDPIPE_CLIENT 3
#define STANDPIPE_PRODUCER 4
#define STANDPIPE_CONSUMER 5

typedef struct {
    size_t size;
    const char *name;
    int32_t kind;
    uint32_t is_root;        /* if not 0, begins a new trace; `parent` and the headers are ignored */
    standpipe_span *parent;  /* takes precedence over traceparent */
    const char *traceparent; /* header of the incoming request; ignored if invalid */
    const char *tracestate;
    uint64_t start_unix_ns; /* 0: now */
    const standpipe_attr *attrs;
    size_t n;
} standpipe_span_options;

/* Starts a span: a child of `parent`, else of the thread's current span, else the root of a new trace. The span does
 * not become the thread's current span; see standpipe_span_enter. */
standpipe_span *standpipe_span_start(const standpipe_tracer *tracer, const char *name, standpipe_span *parent);
standpipe_span *standpipe_span_start_with(const standpipe_tracer *tracer, const standpipe_span_options *options);

/* Returns whether the span is recorded. Check it before computing expensive attributes. */
bool standpipe_span_is_recording(const standpipe_span *span);

/* Sets an attribute. An earlier value of the same key is replaced. A NULL text sets nothing. */
void standpipe_span_set_str(standpipe_span *span, const char *key, const char *value);
void standpipe_span_set_strn(standpipe_span *span, const char *key, const char *value, size_t len);
void standpipe_span_set_int(standpipe_span *span, const char *key, int64_t value);
void standpipe_span_set_double(standpipe_span *span, const char *key, double value);
void standpipe_span_set_bool(standpipe_span *span, const char *key, bool value);
void standpipe_span_set(standpipe_span *span, const standpipe_attr *attrs, size_t n);

/* Adds an event with the current time. */
void standpipe_span_event(standpipe_span *span, const char *name, const standpipe_attr *attrs, size_t n);
/* Adds a link to another span. Returns STANDPIPE_INVALID_ARGUMENT if the traceparent is invalid. */
int32_t standpipe_span_link(standpipe_span *span, const char *traceparent, const char *tracestate,
                            const standpipe_attr *attrs, size_t n);

/* Sets the status. Ok is final; an error can be replaced by a later status. */
#define STANDPIPE_STATUS_OK 1
#define STANDPIPE_STATUS_ERROR 2
void standpipe_span_status(standpipe_span *span, int32_t status, const char *message);
void standpipe_span_rename(standpipe_span *span, const char *name);

/* Ends the span, enqueues it and sets *span to NULL. Every span must be ended, even if it is still entered. */
void standpipe_span_end(standpipe_span **span);
/* Ends the span at a given time; 0 means now. */
void standpipe_span_end_at(standpipe_span **span, uint64_t unix_ns);

/* ---- Contexts ---- */

/* An entered span or context, in the caller's memory. */
typedef struct {
    uint64_t opaque[4];
} standpipe_scope;

/* Makes the span the thread's current span until the scope is left: spans that start without a parent become its
 * children, and log records of the thread contain its ids. The previous content of the scope is overwritten. */
int32_t standpipe_span_enter(standpipe_span *span, standpipe_scope *scope);
/* Makes the context of these headers current. It replaces the thread's current span and baggage until the scope is
 * left. */
int32_t standpipe_context_enter(const char *traceparent, const char *tracestate, const char *baggage,
                                standpipe_scope *scope);
/* Leaves a scope and sets it to zeros. Scopes may be left in any order, but only on the thread that entered them. A
 * scope of zeros is ignored. */
int32_t standpipe_scope_leave(standpipe_scope *scope);

/* These functions return the ids and flags, or a header, of the span, or of the thread's current span if `span` is
 * NULL. Without a span, ids are zeros and texts are empty. */
int32_t standpipe_span_ids(standpipe_span *span, uint8_t trace_id[16], uint8_t span_id[8], uint8_t *flags);
int32_t standpipe_span_traceparent(standpipe_span *span, char out[56]);
/* Returns the length of the header, which has at most 512 bytes. Writes the header if it fits into `room` bytes with
 * its zero byte, else an empty text. */
size_t standpipe_span_tracestate(standpipe_span *span, char *out, size_t room);
/* Like standpipe_span_tracestate, for the header of the thread's baggage, which has at most 8192 bytes. */
size_t standpipe_baggage(char *out, size_t room);

/* ---- Logs ---- */

/* Makes a logger for a part of the program. Keep the logger. */
standpipe_logger *standpipe_logger_new(const standpipe *telemetry, const char *scope, const char *version);
void standpipe_logger_free(standpipe_logger *logger);

/* Severities. OpenTelemetry's numbers are 1 to 24, four for each name; the constants are the first of each four. 0
 * means STANDPIPE_INFO, a negative number means 1, and a number above 24 means 24. */
#define STANDPIPE_TRACE 1
#define STANDPIPE_DEBUG 5
#define STANDPIPE_INFO 9
#define STANDPIPE_WARN 13
#define STANDPIPE_ERROR 17
#define STANDPIPE_FATAL 21

typedef struct {
    size_t size;
    int32_t severity; /* 0: STANDPIPE_INFO */
    uint32_t reserved;
    standpipe_value body;
    const char *event_name;
    const char *severity_text; /* NULL: the name of the severity */
    uint64_t unix_ns;          /* 0: now */
    standpipe_span *span;      /* NULL: the thread's current span */
    const standpipe_attr *attrs;
    size_t n;
} standpipe_log_options;

/* Returns whether a record of this severity would be exported. Check it before formatting an expensive text. A
 * configuration can set a lowest severity; records below it are only counted. */
bool standpipe_log_enabled(const standpipe_logger *logger, int32_t severity);
/* Emits a record with a text. It belongs to `span`, or to the thread's current span if `span` is NULL. */
void standpipe_log(const standpipe_logger *logger, int32_t severity, const char *body, standpipe_span *span,
                   const standpipe_attr *attrs, size_t n);
void standpipe_log_with(const standpipe_logger *logger, const standpipe_log_options *options);

/* ---- Metrics ---- */

/* Makes a meter for a part of the program. */
standpipe_meter *standpipe_meter_new(const standpipe *telemetry, const char *scope, const char *version);
void standpipe_meter_free(standpipe_meter *meter);

/* Kinds of instruments, each with the function that records a measurement. */
#define STANDPIPE_COUNTER 1                /* standpipe_add; no negative values */
#define STANDPIPE_UP_DOWN_COUNTER 2        /* standpipe_add */
#define STANDPIPE_GAUGE 3                  /* standpipe_record; exports the last value */
#define STANDPIPE_HISTOGRAM 4              /* standpipe_record */
#define STANDPIPE_COUNTER_DOUBLE 5         /* standpipe_add_double; no negative values */
#define STANDPIPE_UP_DOWN_COUNTER_DOUBLE 6 /* standpipe_add_double */

typedef struct {
    size_t size;
    int32_t kind;
    uint32_t reserved;
    const char *name;
    const char *unit; /* UCUM, such as "ms" or "By" */
    const char *description;
    const double *bounds; /* bucket bounds of a histogram; without bounds, it has default ones */
    size_t n;             /* number of bounds */
} standpipe_instrument_options;

/* Makes an instrument, or another handle of the same instrument if it exists. Returns NULL for an unknown kind. */
standpipe_instrument *standpipe_instrument_new(const standpipe_meter *meter,
                                               const standpipe_instrument_options *options);
/* Returns a handle with fixed attributes, for hot code: a measurement does not look up its series. Measurements with
 * this handle accept no further attributes. Returns NULL if `instrument` already has fixed attributes. */
standpipe_instrument *standpipe_instrument_bind(const standpipe_instrument *instrument, const standpipe_attr *attrs,
                                                size_t n);
void standpipe_instrument_free(standpipe_instrument *instrument);

/* Record a measurement. These functions return STANDPIPE_INVALID_ARGUMENT and record nothing if the instrument is of
 * another kind, if a negative value is added to a counter that accepts none, or if attributes are passed with a bound
 * instrument. NaN and infinities are reported to `problem` and not recorded. */
int32_t standpipe_add(const standpipe_instrument *instrument, int64_t value, const standpipe_attr *attrs, size_t n);
int32_t standpipe_add_double(const standpipe_instrument *instrument, double value, const standpipe_attr *attrs, size_t n);
int32_t standpipe_record(const standpipe_instrument *instrument, double value, const standpipe_attr *attrs, size_t n);

#ifdef __cplusplus
}
#endif

#endif
