/* Sends records of all signals, in C99 and C++17: story ENDPOINT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standpipe.h"

#define EXPECT(what) ((what) ? (void)0 : fail(#what, __LINE__))

static void fail(const char *what, int line) {
    fprintf(stderr, "story.c:%d: %s\n", line, what);
    exit(1);
}

static standpipe *start(const char *endpoint) {
    standpipe_options options;
    standpipe *telemetry;
    char *error;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.endpoint = endpoint;
    options.service = "shop";
    EXPECT(standpipe_start(&options, &telemetry, &error) == STANDPIPE_OK);
    EXPECT(error == NULL);
    return telemetry;
}

/* Emits the span checkout with the child payment, and a log record in the child. */
static void check_out(const standpipe_tracer *tracer, const standpipe_logger *logger) {
    standpipe_attr attempt[1], amount[1];
    standpipe_scope scope;
    standpipe_span_options options;
    standpipe_span *checkout, *payment;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.name = "checkout";
    options.kind = STANDPIPE_SERVER;
    checkout = standpipe_span_start_with(tracer, &options);
    EXPECT(standpipe_span_is_recording(checkout));
    standpipe_span_set_int(checkout, "order.id", 4711);
    standpipe_span_set_str(checkout, "card", "visa");
    standpipe_span_set_double(checkout, "total", 12.5);
    standpipe_span_set_bool(checkout, "express", true);
    standpipe_span_set_strn(checkout, "cut", "abcdef", 3);

    EXPECT(standpipe_span_enter(checkout, &scope) == STANDPIPE_OK);
    payment = standpipe_span_start(tracer, "pay", NULL);
    EXPECT(standpipe_scope_leave(&scope) == STANDPIPE_OK);
    EXPECT(standpipe_scope_leave(&scope) == STANDPIPE_OK);
    standpipe_span_rename(payment, "payment");
    attempt[0] = standpipe_attr_int("attempt", 2);
    standpipe_span_event(payment, "retry", attempt, 1);
    amount[0] = standpipe_attr_double("amount", 12.5);
    standpipe_log(logger, STANDPIPE_WARN, "declined", payment, amount, 1);
    standpipe_span_status(payment, STANDPIPE_STATUS_ERROR, "card declined");
    standpipe_span_end(&payment);
    EXPECT(payment == NULL);
    standpipe_span_end(&checkout);
}

/* Continues the trace of a caller, and writes its context as headers again. */
static void serve(const standpipe_tracer *tracer) {
    static const char caller[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    char traceparent[56], tracestate[64], baggage[64];
    uint8_t trace_id[16], span_id[8], flags;
    standpipe_span_options options;
    standpipe_scope scope;
    standpipe_span *request, *child;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.name = "request";
    options.kind = STANDPIPE_CONSUMER;
    options.traceparent = caller;
    options.tracestate = "rojo=1";
    options.start_unix_ns = UINT64_C(1700000000000000000);
    request = standpipe_span_start_with(tracer, &options);
    EXPECT(standpipe_span_traceparent(request, traceparent) == STANDPIPE_OK);
    EXPECT(strlen(traceparent) == 55 && strncmp(traceparent, caller, 36) == 0 && strcmp(traceparent, caller) != 0);
    EXPECT(standpipe_span_tracestate(request, tracestate, sizeof tracestate) == 6 && strcmp(tracestate, "rojo=1") == 0);
    EXPECT(standpipe_span_tracestate(request, tracestate, 6) == 6 && tracestate[0] == 0);
    EXPECT(standpipe_span_ids(request, trace_id, span_id, &flags) == STANDPIPE_OK);
    EXPECT(trace_id[0] == 0x4b && trace_id[15] == 0x36 && flags == 1);
    EXPECT(standpipe_span_link(request, caller, NULL, NULL, 0) == STANDPIPE_OK);
    EXPECT(standpipe_span_link(request, "nonsense", NULL, NULL, 0) == STANDPIPE_INVALID_ARGUMENT);
    standpipe_span_end_at(&request, UINT64_C(1700000000500000000));

    EXPECT(standpipe_span_traceparent(NULL, traceparent) == STANDPIPE_NO_SPAN && traceparent[0] == 0);
    EXPECT(standpipe_context_enter(caller, NULL, "user.id=7", &scope) == STANDPIPE_OK);
    EXPECT(standpipe_span_traceparent(NULL, traceparent) == STANDPIPE_OK && strcmp(traceparent, caller) == 0);
    EXPECT(standpipe_baggage(baggage, sizeof baggage) == 9 && strcmp(baggage, "user.id=7") == 0);
    child = standpipe_span_start(tracer, "called", NULL);
    EXPECT(standpipe_scope_leave(&scope) == STANDPIPE_OK);
    EXPECT(standpipe_baggage(baggage, sizeof baggage) == 0);
    standpipe_span_end(&child);
}

/* Sets a value of every kind. */
static void set_all_kinds(const standpipe_tracer *tracer) {
    static const uint8_t bytes[] = {0, 255};
    static const int64_t ints[] = {1, -2};
    static const double doubles[] = {0.5};
    static const bool bools[] = {true, false};
    standpipe_text texts[2];
    standpipe_attr map[1], attrs[11];
    standpipe_value array[2];
    standpipe_span *span = standpipe_span_start(tracer, "kinds", NULL);
    texts[0].ptr = "a";
    texts[0].len = STANDPIPE_NUL_TERMINATED;
    texts[1].ptr = "b\xff!";
    texts[1].len = 2;
    map[0] = standpipe_attr_list("inner", STANDPIPE_INTS, ints, 2);
    array[0] = standpipe_attr_str("", "x").value;
    array[1] = standpipe_attr_list("", STANDPIPE_MAP, map, 1).value;
    attrs[0] = standpipe_attr_str("str", "gr\xc3\xbc\xc3\x9f");
    attrs[1] = standpipe_attr_str("mended", "a\xff");
    attrs[2] = standpipe_attr_int("int", INT64_MIN);
    attrs[3] = standpipe_attr_bool("bool", true);
    attrs[4] = standpipe_attr_list("bytes", STANDPIPE_BYTES, bytes, 2);
    attrs[5] = standpipe_attr_list("strs", STANDPIPE_STRS, texts, 2);
    attrs[6] = standpipe_attr_list("ints", STANDPIPE_INTS, ints, 2);
    attrs[7] = standpipe_attr_list("doubles", STANDPIPE_DOUBLES, doubles, 1);
    attrs[8] = standpipe_attr_list("bools", STANDPIPE_BOOLS, bools, 2);
    attrs[9] = standpipe_attr_list("array", STANDPIPE_ARRAY, array, 2);
    attrs[10] = standpipe_attr_list("map", STANDPIPE_MAP, map, 1);
    standpipe_span_set(span, attrs, 11);
    standpipe_span_status(span, STANDPIPE_STATUS_OK, NULL);
    standpipe_span_end(&span);
}

static void log_with(const standpipe_logger *logger) {
    standpipe_log_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.severity = 23;
    options.body = standpipe_attr_int("", 7).value;
    options.event_name = "stock.empty";
    options.severity_text = "PANIC";
    options.unix_ns = UINT64_C(1700000000000000000);
    EXPECT(standpipe_log_enabled(logger, 23));
    standpipe_log_with(logger, &options);
}

/* `bounds` is NULL, or has two elements. */
static standpipe_instrument *instrument(const standpipe_meter *meter, int32_t kind, const char *name, const char *unit,
                                        const double *bounds) {
    standpipe_instrument_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.kind = kind;
    options.name = name;
    options.unit = unit;
    options.description = "all";
    options.bounds = bounds;
    options.n = bounds ? 2 : 0;
    return standpipe_instrument_new(meter, &options);
}

static void measure(const standpipe *telemetry) {
    static const double bounds[] = {1, 10};
    standpipe_attr country[1];
    standpipe_meter *meter = standpipe_meter_new(telemetry, "shop", "1.2");
    standpipe_instrument *orders = instrument(meter, STANDPIPE_COUNTER, "orders", "{order}", NULL);
    standpipe_instrument *stock = instrument(meter, STANDPIPE_UP_DOWN_COUNTER, "stock", NULL, NULL);
    standpipe_instrument *heat = instrument(meter, STANDPIPE_GAUGE, "heat", "Cel", NULL);
    standpipe_instrument *total = instrument(meter, STANDPIPE_HISTOGRAM, "total", NULL, bounds);
    standpipe_instrument *litres = instrument(meter, STANDPIPE_COUNTER_DOUBLE, "litres", "L", NULL);
    standpipe_instrument *bound;
    country[0] = standpipe_attr_str("country", "SE");
    bound = standpipe_instrument_bind(orders, country, 1);
    EXPECT(standpipe_add(orders, 2, country, 1) == STANDPIPE_OK);
    EXPECT(standpipe_add(bound, 1, NULL, 0) == STANDPIPE_OK);
    EXPECT(standpipe_add(bound, 1, country, 1) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_add(orders, -1, NULL, 0) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_record(orders, 1, NULL, 0) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_add(stock, -3, NULL, 0) == STANDPIPE_OK);
    EXPECT(standpipe_record(heat, 21.5, NULL, 0) == STANDPIPE_OK);
    EXPECT(standpipe_record(total, 0.5, NULL, 0) == STANDPIPE_OK);
    EXPECT(standpipe_record(total, 49.5, NULL, 0) == STANDPIPE_OK);
    EXPECT(standpipe_add_double(litres, 0.75, NULL, 0) == STANDPIPE_OK);
    standpipe_instrument_free(bound);
    standpipe_instrument_free(orders);
    standpipe_instrument_free(stock);
    standpipe_instrument_free(heat);
    standpipe_instrument_free(total);
    standpipe_instrument_free(litres);
    standpipe_meter_free(meter);
}

static void end(standpipe *telemetry) {
    standpipe_ledger ledger;
    uint64_t left;
    char *json;
    EXPECT(standpipe_flush(telemetry, 10000, &left) == STANDPIPE_OK && left == 0);
    memset(&ledger, 0, sizeof ledger);
    ledger.size = sizeof ledger;
    EXPECT(standpipe_shutdown(telemetry, 10000, &ledger) == STANDPIPE_OK);
    EXPECT(ledger.accepted > 0 && ledger.delivered == ledger.accepted && ledger.not_enqueued == 0);
    EXPECT(ledger.open_spans == 0);
    EXPECT(standpipe_ledger_json(telemetry, &json) == STANDPIPE_OK);
    puts(json);
    standpipe_text_free(json);
    standpipe_free(telemetry);
}

int main(int count, char **arguments) {
    standpipe *telemetry;
    standpipe_tracer *tracer;
    standpipe_logger *logger;
    EXPECT(count == 2);
    EXPECT(standpipe_version() == STANDPIPE_VERSION);
    telemetry = start(arguments[1]);
    tracer = standpipe_tracer_new(telemetry, "till", "1.2");
    logger = standpipe_logger_new(telemetry, "till", NULL);
    check_out(tracer, logger);
    serve(tracer);
    set_all_kinds(tracer);
    log_with(logger);
    measure(telemetry);
    end(telemetry);
    standpipe_logger_free(logger);
    standpipe_tracer_free(tracer);
    return 0;
}
