#include <standpipe.h>
#include <stdio.h>

static void report(void *user, int32_t kind, const char *message, uint64_t times) {
    (void)user, (void)kind, (void)times;
    fprintf(stderr, "telemetry: %s\n", message);
}

int main(void) {
    standpipe_options options = {.size = sizeof options, .service = "shop", .problem = report};
    standpipe *telemetry;
    char *error;
    /* The default endpoint is http://localhost:4318. OTEL_EXPORTER_OTLP_ENDPOINT changes it. */
    if (standpipe_start_from_env(&options, &telemetry, &error) != STANDPIPE_OK)
        fprintf(stderr, "no telemetry: %s\n", error); /* the program continues without it */
    standpipe_text_free(error);
    standpipe_tracer *tracer = standpipe_tracer_new(telemetry, "shop", "1.0");
    standpipe_logger *logger = standpipe_logger_new(telemetry, "shop", "1.0");

    standpipe_span *checkout = standpipe_span_start(tracer, "checkout", NULL);
    standpipe_span_set_int(checkout, "order.id", 4711);
    standpipe_span *payment = standpipe_span_start(tracer, "payment", checkout);
    standpipe_attr amount = standpipe_attr_double("amount", 12.5);
    standpipe_span_event(payment, "retry", NULL, 0);
    standpipe_log(logger, STANDPIPE_WARN, "card declined", payment, &amount, 1);
    standpipe_span_status(payment, STANDPIPE_STATUS_ERROR, "card declined");
    standpipe_span_end(&payment);
    standpipe_span_end(&checkout);

    standpipe_ledger ledger = {.size = sizeof ledger};
    standpipe_shutdown(telemetry, 2000, &ledger); /* returns within 2.05 s */
    printf("%llu of %llu records delivered\n", (unsigned long long)ledger.delivered,
           (unsigned long long)ledger.accepted);
    standpipe_logger_free(logger);
    standpipe_tracer_free(tracer);
    standpipe_free(telemetry);
    return 0;
}
