#include <standpipe.hpp>

#include <cstdio>
#include <stdexcept>

static void refund(const stp::tracer &tracer) {
    stp::span span = tracer.start("refund");
    try {
        throw std::runtime_error("no such order");
    } catch (const std::exception &error) {
        span.error(error.what());
        throw;
    } // the span ends here
}

int main(int count, char **arguments) {
    stp::options options;
    options.endpoint = count > 1 ? arguments[1] : ""; // if empty, the environment is read
    options.service = "shop";
    std::string error;
    const stp::telemetry telemetry(options, &error);
    if (!telemetry)
        std::fprintf(stderr, "no telemetry: %s\n", error.c_str()); // the program continues without it
    const stp::tracer tracer(telemetry, "shop", "1.0");
    const stp::logger logger(telemetry, "shop", "1.0");
    const stp::meter meter(telemetry, "shop", "1.0");
    {
        stp::span checkout = tracer.start("checkout");
        checkout.set("order.id", 4711).set("card", "visa").set("express", true);
        const auto current = checkout.enter(); // the parent of what follows in this block
        stp::span payment = tracer.start("payment");
        payment.event("retry", {{"amount", 12.5}}).error("card declined");
        logger.log(STANDPIPE_WARN, "card declined", payment);
        try {
            refund(tracer);
        } catch (const std::exception &) {
        }
    }
    meter.make(STANDPIPE_COUNTER, "orders", "{order}").add(3, {{"country", "SE"}});
    meter.make(STANDPIPE_HISTOGRAM, "checkout.duration", "ms", "of a whole checkout", {10, 100}).record(42);
    telemetry.flush(10000);
    const standpipe_ledger ledger = telemetry.shutdown(2000);
    std::printf("%d of 4 spans and logs delivered\n", ledger.delivered >= 4 ? 4 : static_cast<int>(ledger.delivered));
}
