/* Traces, logs and metrics over OTLP for programs in C. They go through a bounded queue to one background thread per
 * exporter, which sends them as protobuf over HTTP or gRPC. A ledger counts every record.
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
 * What holds for all functions:
 *
 * - NULL. Every pointer may be NULL. A NULL handle is one that does nothing: if the telemetry cannot be started, all that
 *   is made of it is NULL, and the program runs on as it is.
 * - Threads. Handles of all types but standpipe_span may be used by all threads at once, as long as none of them frees
 *   the handle meanwhile. A span may move from thread to thread, but only one may use it at a time.
 * - Ownership. What a function ..._new or ..._start returns is the caller's until it passes it to ..._free or ..._end. What
 *   the caller passes is read within the call and never kept, except for `problem` and `user` of standpipe_options.
 * - Order. Tracers, loggers, meters, instruments and spans may outlive standpipe_free: then they do nothing.
 * - Texts end with a zero byte, or have a length beside them. They are UTF-8; what is not is sent as U+FFFD.
 * - A full queue. What finds no room is dropped and counted, and the caller never waits, unless STANDPIPE_BLOCK_WHEN_FULL,
 *   a file or a variable says otherwise.
 * - Exit. Without standpipe_shutdown or standpipe_free, what is queued when the process ends is lost: nothing runs by atexit.
 * - Fork. A child may go on with all handles. It starts a thread of its own at its first record; what its parent had queued
 *   is the parent's to send, and so are spans that were open.
 * - Signals. The library's threads block all signals, and no function raises SIGPIPE. No function may be called in the
 *   handler of a signal.
 * - The library neither prints nor ends the process. Functions do not throw; a bug in the library is STANDPIPE_PANICKED,
 *   or nothing done where there is no result.
 * - Structs that begin with `size` grow at their end from version to version. Set `size` to sizeof, and all that is not
 *   needed to zero. A library that is older ignores what it does not know, one that is newer takes what is missing for
 *   zero.
 *
 * The shared library is not unloaded by dlclose: its thread runs on.
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
#define STANDPIPE_INCOMPLETE 3       /* the time was not enough to send everything */
#define STANDPIPE_WRONG_THREAD 4     /* the scope was entered by another thread, and stays as it is */
#define STANDPIPE_NO_SPAN 5          /* neither a span was given, nor is the thread in one */
#define STANDPIPE_PANICKED 6         /* a bug in the library; please report it */

typedef struct standpipe standpipe;
typedef struct standpipe_tracer standpipe_tracer;
typedef struct standpipe_logger standpipe_logger;
typedef struct standpipe_meter standpipe_meter;
typedef struct standpipe_instrument standpipe_instrument;
typedef struct standpipe_span standpipe_span;

/* The version of the library, as STANDPIPE_VERSION. */
uint32_t standpipe_version(void);

/* Frees a text that the library has allocated, which must be as it was. */
void standpipe_text_free(char *text);

/* ---- Attributes ---- */

/* A length of a text that says: it ends before its first zero byte. */
#define STANDPIPE_NUL_TERMINATED SIZE_MAX

typedef struct {
    const char *ptr;
    size_t len; /* bytes, or STANDPIPE_NUL_TERMINATED */
} standpipe_text;

/* Kinds of a value. A value of no kind, such as a zeroed one, is left out. */
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
            size_t len; /* how many */
        } list;
        int64_t i;
        double d;
    } as;
} standpipe_value;

/* The functions below make one. */
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

/* A list of `len` things; `kind` is STANDPIPE_BYTES or one of those behind it. */
static inline standpipe_attr standpipe_attr_list(const char *key, uint32_t kind, const void *ptr, size_t len) {
    standpipe_attr attr = standpipe_attr_of(key, kind);
    attr.value.as.list.ptr = ptr;
    attr.value.as.list.len = len;
    return attr;
}

/* ---- Start and end ---- */

/* Called with trouble, once per kind and minute: by a thread of the library, never by two at once; with the last two
 * kinds by standpipe_start, on its caller's thread, and with STANDPIPE_MANUAL by the thread that sends. Never called once
 * standpipe_free has returned. It should return soon, and must neither throw nor jump out. What it records for the same
 * telemetry is dropped and counted. `message` is valid until it returns, and has no secrets; `times` says how often it
 * happened since it was reported last. */
typedef void (*standpipe_problem_fn)(void *user, int32_t kind, const char *message, uint64_t times);

#define STANDPIPE_PROBLEM_UNAVAILABLE 1        /* the collector cannot be reached; records are kept and tried again */
#define STANDPIPE_PROBLEM_REFUSED 2            /* the collector refused a batch for good; its records are lost */
#define STANDPIPE_PROBLEM_NOT_TAKEN 3          /* the collector has no place for a signal, such as logs */
#define STANDPIPE_PROBLEM_PARTIAL_SUCCESS 4    /* the collector took a batch but for some records */
#define STANDPIPE_PROBLEM_GAVE_UP 5            /* a batch could not be delivered in its time; its records are lost */
#define STANDPIPE_PROBLEM_CALLERS_WAITING 6    /* callers wait for room in the queue */
#define STANDPIPE_PROBLEM_QUEUE_FULL 7         /* the queue was full; records are lost */
#define STANDPIPE_PROBLEM_TOO_LARGE 8          /* a record was larger than a request may be; it is lost */
#define STANDPIPE_PROBLEM_WORKER_PANICKED 9    /* a bug in the library; the batch in hand is lost */
#define STANDPIPE_PROBLEM_CALLBACK_PANICKED 10 /* of metrics; not used in C */
#define STANDPIPE_PROBLEM_INSTRUMENT 11        /* an instrument is used as it should not be */
#define STANDPIPE_PROBLEM_CARDINALITY 12       /* an instrument has too many sets of attributes; the rest is put together */
#define STANDPIPE_PROBLEM_CONFIGURATION 13     /* something in the configuration is probably not what was meant */
#define STANDPIPE_PROBLEM_NO_SERVICE_NAME 14   /* records are sent under a name that is made up */
#define STANDPIPE_PROBLEM_SPOOL 15             /* the spool could not do its part; what it cannot take stays in memory */

/* Flags. */
#define STANDPIPE_BLOCK_WHEN_FULL 1 /* a caller waits for room in a full queue, as long as the exporter says */
#define STANDPIPE_GRPC 2            /* `endpoint`, which must be set, speaks gRPC; else HTTP */
#define STANDPIPE_ENVIRONMENT 4     /* OpenTelemetry's variables set what neither the file nor this struct sets */
#define STANDPIPE_MANUAL 8          /* no thread at all: standpipe_pump, standpipe_flush and standpipe_shutdown send */

typedef struct {
    size_t size;
    const char *endpoint; /* base URL, such as "http://localhost:4318": /v1/traces, /v1/logs and /v1/metrics are appended. With
                             STANDPIPE_GRPC host and port: without http:// it is TLS, except on loopback */
    const char *service;  /* service.name */
    uint32_t flags;
    uint32_t reserved;
    standpipe_problem_fn problem;
    void *user; /* passed to `problem` */
} standpipe_options;

/* What became of all records, all signals and exporters together:
 * accepted + recovered = delivered + rejected + dropped + superseded + spooled + in_flight, at every moment. */
typedef struct {
    size_t size;
    uint64_t accepted;     /* taken into a queue */
    uint64_t delivered;    /* confirmed by the collector */
    uint64_t rejected;     /* refused one by one by the collector */
    uint64_t dropped;      /* lost after they were accepted */
    uint64_t superseded;   /* points of metrics that newer ones replaced, which is no loss */
    uint64_t in_flight;    /* queued, or being sent */
    uint64_t not_enqueued; /* never accepted: the queue was full, the record too large, or the telemetry shut down */
    uint64_t filtered;     /* log records below the level of the exporter, which is no loss */
    uint64_t attempts;     /* requests, retries included */
    uint64_t open_spans;   /* spans that have not ended, and are in no queue */
    uint64_t recovered;    /* taken over from an earlier process, which had left them in the spool */
    uint64_t spooled;      /* kept in the spool, to be sent by this process or the next one */
} standpipe_ledger;

/* Starts the telemetry, with one thread for each exporter. It connects when there is something to send.
 *
 * The result is STANDPIPE_OK, or a code. *out is a handle or NULL. *error is NULL, or a text of all mistakes at once that
 * the caller frees by standpipe_text_free; where `error` itself is NULL, there is none.
 *
 * Each function takes a configuration of its own; a path or a text that is NULL is STANDPIPE_INVALID_ARGUMENT. A program
 * that calls none of the last three and is linked with --gc-sections does not contain what reads files and variables. */

/* One exporter, at options->endpoint, which must be set. */
int32_t standpipe_start(const standpipe_options *options, standpipe **out, char **error);
/* What OTEL_EXPORTER_OTLP_ENDPOINT and its like say; options->endpoint, if set, wins. */
int32_t standpipe_start_from_env(const standpipe_options *options, standpipe **out, char **error);
/* The exporters of a file, TOML or, where the library can, YAML; and one at options->endpoint, if set. */
int32_t standpipe_start_from_file(const char *path, const standpipe_options *options, standpipe **out, char **error);
/* The same of a text. `len` may be STANDPIPE_NUL_TERMINATED. */
int32_t standpipe_start_from_toml(const char *text, size_t len, const standpipe_options *options, standpipe **out,
                                  char **error);

/* Sends all that was accepted, and the metrics. STANDPIPE_INCOMPLETE if the time was not enough; *left is what is there
 * still. In `problem` it sends nothing. */
int32_t standpipe_flush(const standpipe *telemetry, uint32_t budget_ms, uint64_t *left);

/* With STANDPIPE_MANUAL: does what is due on this thread, such as to send and to retry. *next_ms is when more will be due,
 * UINT32_MAX if nothing is there: the program calls it then, or after it has made records. It begins nothing once the
 * budget is used up, but a request that has begun goes on, for as long as the exporter's timeout. With a budget of 0 it only
 * gives the time. With threads there is nothing to do. */
int32_t standpipe_pump(const standpipe *telemetry, uint32_t budget_ms, uint32_t *next_ms);

/* The ledger as it is now. The library leaves `size` as it is, and writes what both versions know. */
int32_t standpipe_get_ledger(const standpipe *telemetry, standpipe_ledger *ledger);
/* The same for each exporter and signal with all reasons, as JSON; the caller frees *text. */
int32_t standpipe_ledger_json(const standpipe *telemetry, char **text);

/* Sends what there is and ends the threads: within the budget and 50 ms, whatever the network does. The ledger is the last
 * one. STANDPIPE_INCOMPLETE if something was left; it is in the ledger as dropped. A second call does no harm. In
 * `problem` it only begins. */
int32_t standpipe_shutdown(const standpipe *telemetry, uint32_t budget_ms, standpipe_ledger *ledger);

/* Frees the handle, and shuts down within two seconds what was not shut down. It waits for a `problem` that is running, so
 * its caller must not hold a lock that `problem` takes; within `problem` it does not wait. */
void standpipe_free(standpipe *telemetry);

/* ---- Traces ---- */

/* Makes the spans of a part of the program: its name and version. Keep it: a span costs less. */
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
    uint32_t is_root;        /* not 0: the first span of a new trace, whatever else is set */
    standpipe_span *parent;  /* wins over traceparent */
    const char *traceparent; /* headers of the caller; one that cannot be used is ignored */
    const char *tracestate;
    uint64_t start_unix_ns; /* 0: now */
    const standpipe_attr *attrs;
    size_t n;
} standpipe_span_options;

/* Starts a span: a child of `parent`, or of the span that the thread is in, or the first one of a new trace. It is in no
 * thread until standpipe_span_enter. */
standpipe_span *standpipe_span_start(const standpipe_tracer *tracer, const char *name, standpipe_span *parent);
standpipe_span *standpipe_span_start_with(const standpipe_tracer *tracer, const standpipe_span_options *options);

/* Whether what is set goes anywhere: worth asking before a costly attribute is made. */
bool standpipe_span_is_recording(const standpipe_span *span);

/* Sets an attribute, and replaces the value that the key had. A NULL text sets nothing. */
void standpipe_span_set_str(standpipe_span *span, const char *key, const char *value);
void standpipe_span_set_strn(standpipe_span *span, const char *key, const char *value, size_t len);
void standpipe_span_set_int(standpipe_span *span, const char *key, int64_t value);
void standpipe_span_set_double(standpipe_span *span, const char *key, double value);
void standpipe_span_set_bool(standpipe_span *span, const char *key, bool value);
void standpipe_span_set(standpipe_span *span, const standpipe_attr *attrs, size_t n);

/* Notes that something happened, now. */
void standpipe_span_event(standpipe_span *span, const char *name, const standpipe_attr *attrs, size_t n);
/* Points at another span. STANDPIPE_INVALID_ARGUMENT if the traceparent names none. */
int32_t standpipe_span_link(standpipe_span *span, const char *traceparent, const char *tracestate,
                            const standpipe_attr *attrs, size_t n);

/* How it went. Ok is final; an error can be replaced by a later one. */
#define STANDPIPE_STATUS_OK 1
#define STANDPIPE_STATUS_ERROR 2
void standpipe_span_status(standpipe_span *span, int32_t status, const char *message);
void standpipe_span_rename(standpipe_span *span, const char *name);

/* Ends the span and sends it; then *span is NULL. Every span must end, also if the thread is in it. */
void standpipe_span_end(standpipe_span **span);
/* The same at a time of its own; 0 is now. */
void standpipe_span_end_at(standpipe_span **span, uint64_t unix_ns);

/* ---- Contexts ---- */

/* What a thread has entered, in the caller's memory. */
typedef struct {
    uint64_t opaque[4];
} standpipe_scope;

/* Makes it the thread's current span, until the scope is left: parent of spans that start without one, and named in the
 * log records of the thread. The scope is written, whatever was in it. */
int32_t standpipe_span_enter(standpipe_span *span, standpipe_scope *scope);
/* Makes a caller's context current: what these headers say, instead of all that the thread is in. */
int32_t standpipe_context_enter(const char *traceparent, const char *tracestate, const char *baggage,
                                standpipe_scope *scope);
/* Leaves a scope, in any order, on the thread that entered it, and zeroes it; one of zeros is left already. */
int32_t standpipe_scope_leave(standpipe_scope *scope);

/* What names the span to others, or the thread's current span if it is NULL: ids and flags, or headers. Ids are zeros, and
 * texts empty, if there is none. */
int32_t standpipe_span_ids(standpipe_span *span, uint8_t trace_id[16], uint8_t span_id[8], uint8_t *flags);
int32_t standpipe_span_traceparent(standpipe_span *span, char out[56]);
/* The length of the header. It is written if it fits into the room with its zero byte; else an empty text is. It has at
 * most 512 bytes. */
size_t standpipe_span_tracestate(standpipe_span *span, char *out, size_t room);
/* The same for the baggage that the thread has entered, of at most 8192 bytes. */
size_t standpipe_baggage(char *out, size_t room);

/* ---- Logs ---- */

/* Makes the log records of a part of the program. Keep it. */
standpipe_logger *standpipe_logger_new(const standpipe *telemetry, const char *scope, const char *version);
void standpipe_logger_free(standpipe_logger *logger);

/* OpenTelemetry's numbers are 1 to 24; these are the first of each name. Others count as the nearest. */
#define STANDPIPE_TRACE 1
#define STANDPIPE_DEBUG 5
#define STANDPIPE_INFO 9
#define STANDPIPE_WARN 13
#define STANDPIPE_ERROR 17
#define STANDPIPE_FATAL 21

typedef struct {
    size_t size;
    int32_t severity; /* 0: that of STANDPIPE_INFO */
    uint32_t reserved;
    standpipe_value body;
    const char *event_name;
    const char *severity_text; /* the name of the severity, unless set */
    uint64_t unix_ns;          /* 0: now */
    standpipe_span *span;      /* NULL: the thread's current one */
    const standpipe_attr *attrs;
    size_t n;
} standpipe_log_options;

/* Whether a record of this severity would go anywhere: worth asking before its text is put together. A configuration can set
   a least severity; records below it are only counted. */
bool standpipe_log_enabled(const standpipe_logger *logger, int32_t severity);
/* Records a text. It belongs to the span, or to the thread's current one if that is NULL. */
void standpipe_log(const standpipe_logger *logger, int32_t severity, const char *body, standpipe_span *span,
                   const standpipe_attr *attrs, size_t n);
void standpipe_log_with(const standpipe_logger *logger, const standpipe_log_options *options);

/* ---- Metrics ---- */

/* Makes the instruments of a part of the program. */
standpipe_meter *standpipe_meter_new(const standpipe *telemetry, const char *scope, const char *version);
void standpipe_meter_free(standpipe_meter *meter);

/* Kinds of an instrument, and the function for it. */
#define STANDPIPE_COUNTER 1                /* standpipe_add; only rises */
#define STANDPIPE_UP_DOWN_COUNTER 2        /* standpipe_add */
#define STANDPIPE_GAUGE 3                  /* standpipe_record; the last value counts */
#define STANDPIPE_HISTOGRAM 4              /* standpipe_record */
#define STANDPIPE_COUNTER_DOUBLE 5         /* standpipe_add_double; only rises */
#define STANDPIPE_UP_DOWN_COUNTER_DOUBLE 6 /* standpipe_add_double */

/* Makes an instrument, or another handle of one that is there. NULL for an unknown kind. The bounds are those of the
 * buckets of a histogram; without any it has default ones. */
standpipe_instrument *standpipe_instrument_new(const standpipe_meter *meter, int32_t kind, const char *name,
                                               const char *unit, const char *description, const double *bounds,
                                               size_t n);
/* The same instrument with these attributes, for hot code: they need not be looked up any more. It takes no others. */
standpipe_instrument *standpipe_instrument_bind(const standpipe_instrument *instrument, const standpipe_attr *attrs,
                                                size_t n);
void standpipe_instrument_free(standpipe_instrument *instrument);

/* Measures. STANDPIPE_INVALID_ARGUMENT, and nothing is measured, for an instrument of another kind, a negative value of
 * a counter that only rises, or attributes where they are bound. NaN and infinities are reported to `problem` and not taken. */
int32_t standpipe_add(const standpipe_instrument *instrument, int64_t value, const standpipe_attr *attrs, size_t n);
int32_t standpipe_add_double(const standpipe_instrument *instrument, double value, const standpipe_attr *attrs, size_t n);
int32_t standpipe_record(const standpipe_instrument *instrument, double value, const standpipe_attr *attrs, size_t n);

#ifdef __cplusplus
}
#endif

#endif
