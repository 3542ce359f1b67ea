/* Calls every function with NULL, with struct sizes of other versions, and with impossible lengths: misuse ENDPOINT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standpipe.h"

#define EXPECT(what) ((what) ? (void)0 : fail(#what, __LINE__))

static void fail(const char *what, int line) {
    fprintf(stderr, "misuse.c:%d: %s\n", line, what);
    exit(1);
}

static void pass_nothing(void) {
    standpipe_span *none = NULL;
    EXPECT(standpipe_version() > 0);
    standpipe_text_free(NULL);
    EXPECT(standpipe_start(NULL, NULL, NULL) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_start_from_env(NULL, NULL, NULL) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_start_from_file(NULL, NULL, NULL, NULL) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_start_from_toml(NULL, 0, NULL, NULL, NULL) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_flush(NULL, 0, NULL) == STANDPIPE_OK);
    EXPECT(standpipe_pump(NULL, 0, NULL) == STANDPIPE_OK);
    EXPECT(standpipe_get_ledger(NULL, NULL) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_ledger_json(NULL, NULL) == STANDPIPE_OK);
    EXPECT(standpipe_shutdown(NULL, 0, NULL) == STANDPIPE_OK);
    standpipe_free(NULL);
    EXPECT(standpipe_tracer_new(NULL, NULL, NULL) == NULL);
    standpipe_tracer_free(NULL);
    EXPECT(standpipe_span_start(NULL, NULL, NULL) == NULL);
    EXPECT(standpipe_span_start_with(NULL, NULL) == NULL);
    EXPECT(!standpipe_span_is_recording(NULL));
    standpipe_span_set_str(NULL, NULL, NULL);
    standpipe_span_set_strn(NULL, NULL, NULL, 1);
    standpipe_span_set_int(NULL, NULL, 0);
    standpipe_span_set_double(NULL, NULL, 0);
    standpipe_span_set_bool(NULL, NULL, false);
    standpipe_span_set(NULL, NULL, 1);
    standpipe_span_event(NULL, NULL, NULL, 1);
    EXPECT(standpipe_span_link(NULL, NULL, NULL, NULL, 1) == STANDPIPE_INVALID_ARGUMENT);
    standpipe_span_status(NULL, STANDPIPE_STATUS_ERROR, NULL);
    standpipe_span_rename(NULL, NULL);
    standpipe_span_end(NULL);
    standpipe_span_end(&none);
    standpipe_span_end_at(NULL, 1);
    standpipe_span_end_at(&none, 1);
    EXPECT(standpipe_span_enter(NULL, NULL) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_context_enter(NULL, NULL, NULL, NULL) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_scope_leave(NULL) == STANDPIPE_OK);
    EXPECT(standpipe_span_ids(NULL, NULL, NULL, NULL) == STANDPIPE_NO_SPAN);
    EXPECT(standpipe_span_traceparent(NULL, NULL) == STANDPIPE_NO_SPAN);
    EXPECT(standpipe_span_tracestate(NULL, NULL, 9) == 0);
    EXPECT(standpipe_baggage(NULL, 9) == 0);
    EXPECT(standpipe_logger_new(NULL, NULL, NULL) == NULL);
    standpipe_logger_free(NULL);
    EXPECT(!standpipe_log_enabled(NULL, STANDPIPE_FATAL));
    standpipe_log(NULL, STANDPIPE_INFO, NULL, NULL, NULL, 1);
    standpipe_log_with(NULL, NULL);
    EXPECT(standpipe_meter_new(NULL, NULL, NULL) == NULL);
    standpipe_meter_free(NULL);
    EXPECT(standpipe_instrument_new(NULL, NULL) == NULL);
    EXPECT(standpipe_instrument_bind(NULL, NULL, 1) == NULL);
    standpipe_instrument_free(NULL);
    EXPECT(standpipe_add(NULL, 1, NULL, 1) == STANDPIPE_OK);
    EXPECT(standpipe_add_double(NULL, 1, NULL, 1) == STANDPIPE_OK);
    EXPECT(standpipe_record(NULL, 1, NULL, 1) == STANDPIPE_OK);
}

static void pass_handles_and_nothing(const standpipe *telemetry) {
    standpipe_tracer *tracer = standpipe_tracer_new(telemetry, NULL, NULL);
    standpipe_logger *logger = standpipe_logger_new(telemetry, NULL, NULL);
    standpipe_meter *meter = standpipe_meter_new(telemetry, NULL, NULL);
    standpipe_instrument_options counter_options = {sizeof counter_options, STANDPIPE_COUNTER, 0, NULL, NULL, NULL, NULL, 9};
    standpipe_instrument *counter = standpipe_instrument_new(meter, &counter_options);
    standpipe_span *span = standpipe_span_start_with(tracer, NULL), *child = standpipe_span_start(tracer, NULL, span);
    EXPECT(span != NULL && child != NULL && counter != NULL);
    EXPECT(standpipe_instrument_new(meter, NULL) == NULL);
    counter_options.kind = 99;
    EXPECT(standpipe_instrument_new(meter, &counter_options) == NULL);
    standpipe_span_set_str(span, NULL, NULL);
    standpipe_span_set_str(span, "none", NULL);
    standpipe_span_set_strn(span, NULL, NULL, 5);
    standpipe_span_set(span, NULL, 5);
    standpipe_span_event(span, NULL, NULL, 5);
    standpipe_span_status(span, 77, "no status");
    standpipe_span_rename(span, NULL);
    EXPECT(standpipe_span_ids(span, NULL, NULL, NULL) == STANDPIPE_OK);
    EXPECT(standpipe_span_traceparent(span, NULL) == STANDPIPE_OK);
    EXPECT(standpipe_span_enter(span, NULL) == STANDPIPE_INVALID_ARGUMENT);
    standpipe_log(logger, -5, NULL, NULL, NULL, 5);
    standpipe_log(logger, 500, NULL, span, NULL, 5);
    standpipe_log_with(logger, NULL);
    EXPECT(standpipe_add(counter, 1, NULL, 5) == STANDPIPE_OK);
    standpipe_span_end(&child);
    standpipe_span_end(&span);
    standpipe_instrument_free(counter);
    standpipe_meter_free(meter);
    standpipe_logger_free(logger);
    standpipe_tracer_free(tracer);
}

/* Values with impossible lengths are left out, and a value that contains itself is not followed endlessly. */
static void pass_impossible_lengths(const standpipe *telemetry) {
    static const uint32_t lists[] = {STANDPIPE_BYTES, STANDPIPE_STRS,  STANDPIPE_INTS, STANDPIPE_DOUBLES,
                                     STANDPIPE_BOOLS, STANDPIPE_ARRAY, STANDPIPE_MAP,  4000000000u};
    standpipe_tracer *tracer = standpipe_tracer_new(telemetry, "hostile", NULL);
    standpipe_span *span = standpipe_span_start(tracer, "impossible", NULL);
    standpipe_attr attr, circle;
    standpipe_value pair[2];
    size_t index;
    for (index = 0; index < sizeof lists / sizeof *lists; index++) {
        attr = standpipe_attr_list("list", lists[index], "x", SIZE_MAX);
        standpipe_span_set(span, &attr, 1);
        attr = standpipe_attr_list("list", lists[index], "x", SIZE_MAX / 2 + 1);
        standpipe_span_set(span, &attr, 1);
        attr = standpipe_attr_list("list", lists[index], NULL, 5);
        standpipe_span_set(span, &attr, 1);
    }
    attr = standpipe_attr_strn("str", "x", SIZE_MAX - 1);
    standpipe_span_set(span, &attr, 1);
    standpipe_span_set(span, &attr, SIZE_MAX);
    standpipe_span_set(span, &attr, SIZE_MAX / sizeof attr + 2);
    standpipe_span_set_strn(span, "strn", "x", SIZE_MAX - 1);
    circle = standpipe_attr_list("circle", STANDPIPE_MAP, &circle, 1);
    standpipe_span_set(span, &circle, 1);
    for (index = 0; index < 2; index++)
        pair[index] = standpipe_attr_list("", STANDPIPE_ARRAY, pair, 2).value;
    attr = standpipe_attr_list("pairs of pairs", STANDPIPE_ARRAY, pair, 2);
    standpipe_span_set(span, &attr, 1);
    standpipe_span_set_strn(span, "no text", NULL, 5);
    standpipe_span_set_int(span, "after", 1);
    standpipe_span_end(&span);
    standpipe_tracer_free(tracer);
}

static void pass_other_sizes(const standpipe *telemetry, const char *endpoint) {
    struct {
        standpipe_options options;
        uint64_t later[4];
    } newer;
    struct {
        standpipe_ledger ledger;
        uint64_t later[4];
    } grown;
    standpipe_ledger ledger;
    standpipe_span_options span_options;
    standpipe_tracer *tracer = standpipe_tracer_new(telemetry, "sizes", NULL);
    standpipe_span *span;
    standpipe *other;
    char *error;

    memset(&newer, 0xff, sizeof newer);
    memset(&newer.options, 0, sizeof newer.options);
    newer.options.size = sizeof newer;
    newer.options.endpoint = endpoint;
    EXPECT(standpipe_start(&newer.options, &other, NULL) == STANDPIPE_OK && other != NULL);
    standpipe_free(other);
    /* an older header, whose struct had only the size */
    newer.options.size = sizeof newer.options.size;
    EXPECT(standpipe_start(&newer.options, &other, &error) == STANDPIPE_INVALID_ARGUMENT && other == NULL);
    EXPECT(strstr(error, "endpoint") != NULL);
    standpipe_text_free(error);
    newer.options.size = sizeof newer.options;
    newer.options.flags = 0x80000000u;
    EXPECT(standpipe_start(&newer.options, &other, &error) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(strstr(error, "flags") != NULL);
    standpipe_text_free(error);

    /* a size that ends in the middle of a pointer: the pointer is ignored */
    memset(&span_options, 0xff, sizeof span_options);
    span_options.size = sizeof span_options.size + sizeof(void *) / 2;
    span = standpipe_span_start_with(tracer, &span_options);
    EXPECT(span != NULL);
    standpipe_span_end(&span);

    memset(&grown, 0xee, sizeof grown);
    grown.ledger.size = sizeof grown;
    EXPECT(standpipe_get_ledger(telemetry, &grown.ledger) == STANDPIPE_OK);
    EXPECT(grown.ledger.size == sizeof grown && grown.ledger.accepted < 1000);
    EXPECT(grown.later[0] == UINT64_C(0xeeeeeeeeeeeeeeee));
    memset(&ledger, 0xee, sizeof ledger);
    ledger.size = offsetof(standpipe_ledger, delivered);
    EXPECT(standpipe_get_ledger(telemetry, &ledger) == STANDPIPE_OK);
    EXPECT(ledger.accepted < 1000 && ledger.delivered == UINT64_C(0xeeeeeeeeeeeeeeee));
    ledger.size = 0;
    EXPECT(standpipe_get_ledger(telemetry, &ledger) == STANDPIPE_INVALID_ARGUMENT);
    standpipe_tracer_free(tracer);
}

/* A counter only increases: negative additions are refused. */
static void lower_counters(const standpipe *telemetry) {
    standpipe_meter *meter = standpipe_meter_new(telemetry, "hostile", NULL);
    /* The size of an older header, in which the struct ended before `unit`. */
    standpipe_instrument_options options = {offsetof(standpipe_instrument_options, unit), STANDPIPE_COUNTER, 0, "whole",
                                            "cut", "cut", NULL, 9};
    standpipe_instrument *whole = standpipe_instrument_new(meter, &options), *parts;
    options.kind = STANDPIPE_COUNTER_DOUBLE;
    options.name = "parts";
    parts = standpipe_instrument_new(meter, &options);
    standpipe_instrument *bound = standpipe_instrument_bind(parts, NULL, 0);
    EXPECT(standpipe_add(whole, -1, NULL, 0) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_add_double(parts, -0.5, NULL, 0) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_add_double(bound, -0.5, NULL, 0) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(standpipe_add_double(parts, -0.0, NULL, 0) == STANDPIPE_OK);
    EXPECT(standpipe_add_double(bound, 0.25, NULL, 0) == STANDPIPE_OK);
    standpipe_instrument_free(bound);
    standpipe_instrument_free(parts);
    standpipe_instrument_free(whole);
    standpipe_meter_free(meter);
}

/* The message names variables and keys, but no Rust paths. */
static void expect_no_name(void *calls, int32_t kind, const char *message, uint64_t times) {
    EXPECT(kind == STANDPIPE_PROBLEM_NO_SERVICE_NAME && times == 1);
    EXPECT(strstr(message, "OTEL_SERVICE_NAME") != NULL && strstr(message, "service-name") != NULL);
    EXPECT(strstr(message, "::") == NULL);
    ++*(int *)calls;
}

static void forget_name(const char *endpoint) {
    standpipe_options options;
    standpipe *telemetry;
    int calls = 0;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.endpoint = endpoint;
    options.problem = expect_no_name;
    options.user = &calls;
    EXPECT(standpipe_start(&options, &telemetry, NULL) == STANDPIPE_OK && calls == 1);
    standpipe_free(telemetry);
}

/* All mistakes are reported at once, and the previous contents of the out-parameters are not used. */
static void make_mistakes(void) {
    static const char toml[] = "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\ntimeout = '0s'\nlinger = 'x'\n";
    standpipe *telemetry = (standpipe *)toml;
    char *error = (char *)toml;
    standpipe_options options;
    EXPECT(standpipe_start_from_toml(toml, STANDPIPE_NUL_TERMINATED, NULL, &telemetry, &error) == STANDPIPE_CONFIGURATION);
    EXPECT(telemetry == NULL && strstr(error, "timeout") != NULL && strstr(error, "linger") != NULL);
    standpipe_text_free(error);
    EXPECT(standpipe_start_from_file("/no/such/file.toml", NULL, &telemetry, &error) == STANDPIPE_CONFIGURATION);
    EXPECT(telemetry == NULL && strstr(error, "/no/such/file.toml") != NULL);
    standpipe_text_free(error);
    EXPECT(standpipe_start_from_toml(NULL, 0, NULL, &telemetry, &error) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(telemetry == NULL && strstr(error, "text is NULL") != NULL);
    standpipe_text_free(error);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.flags = STANDPIPE_GRPC;
    EXPECT(standpipe_start_from_env(&options, &telemetry, &error) == STANDPIPE_INVALID_ARGUMENT);
    EXPECT(telemetry == NULL && strstr(error, "STANDPIPE_GRPC") != NULL);
    standpipe_text_free(error);
    EXPECT(standpipe_start_from_toml("", 0, &options, &telemetry, &error) == STANDPIPE_INVALID_ARGUMENT);
    standpipe_text_free(error);
}

int main(int count, char **arguments) {
    standpipe_options options;
    standpipe *telemetry;
    EXPECT(count == 2);
    pass_nothing();
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.endpoint = arguments[1];
    options.service = "misuse";
    EXPECT(standpipe_start(&options, &telemetry, NULL) == STANDPIPE_OK);
    pass_handles_and_nothing(telemetry);
    pass_impossible_lengths(telemetry);
    pass_other_sizes(telemetry, arguments[1]);
    lower_counters(telemetry);
    forget_name(arguments[1]);
    make_mistakes();
    EXPECT(standpipe_shutdown(telemetry, 10000, NULL) == STANDPIPE_OK);
    EXPECT(standpipe_shutdown(telemetry, 10000, NULL) == STANDPIPE_OK);
    pass_handles_and_nothing(telemetry);
    standpipe_free(telemetry);
    return 0;
}
