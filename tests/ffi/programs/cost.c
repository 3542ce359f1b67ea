/* Emits spans with three attributes, whose instructions are counted: cost child|entered|root SPANS ENDPOINT */
#include <stdlib.h>
#include <string.h>

#include "standpipe.h"

__attribute__((noinline)) void measured(const standpipe_tracer *tracer, long spans, standpipe_span *parent);

void measured(const standpipe_tracer *tracer, long spans, standpipe_span *parent) {
    for (; spans > 0; spans--) {
        standpipe_span *span = standpipe_span_start(tracer, "GET /orders/{id}", parent);
        standpipe_span_set_str(span, "http.route", "/orders/{id}");
        standpipe_span_set_int(span, "http.response.status_code", 200);
        standpipe_span_set_bool(span, "cache.hit", true);
        standpipe_span_end(&span);
    }
}

int main(int count, char **arguments) {
    standpipe_options options = {.size = sizeof options, .service = "cost"};
    standpipe *telemetry;
    standpipe_tracer *tracer;
    standpipe_span *parent;
    standpipe_scope scope;
    if (count != 4)
        return 2;
    options.endpoint = arguments[3];
    if (standpipe_start(&options, &telemetry, NULL) != STANDPIPE_OK)
        return 1;
    tracer = standpipe_tracer_new(telemetry, "cost", NULL);
    parent = standpipe_span_start(tracer, "parent", NULL);
    if (strcmp(arguments[1], "entered") == 0)
        standpipe_span_enter(parent, &scope);
    measured(tracer, atol(arguments[2]), strcmp(arguments[1], "child") == 0 ? parent : NULL);
    standpipe_span_end(&parent);
    standpipe_tracer_free(tracer);
    standpipe_free(telemetry);
    return 0;
}
