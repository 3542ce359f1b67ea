#include <standpipe.h>

int main(void) {
    static const double bounds[] = {10, 50, 100, 500};
    standpipe_options options = {.size = sizeof options, .service = "shop"};
    standpipe *telemetry;
    standpipe_start_from_env(&options, &telemetry, NULL);
    standpipe_meter *meter = standpipe_meter_new(telemetry, "shop", "1.0");

    standpipe_instrument_options counter = {
        .size = sizeof counter, .kind = STANDPIPE_COUNTER, .name = "orders", .unit = "{order}"};
    standpipe_instrument_options histogram = {
        .size = sizeof histogram, .kind = STANDPIPE_HISTOGRAM, .name = "checkout.duration", .unit = "ms",
        .bounds = bounds, .n = 4};
    standpipe_instrument_options gauge = {.size = sizeof gauge, .kind = STANDPIPE_GAUGE, .name = "stock"};
    standpipe_instrument *orders = standpipe_instrument_new(meter, &counter);
    standpipe_instrument *duration = standpipe_instrument_new(meter, &histogram);
    standpipe_instrument *stock = standpipe_instrument_new(meter, &gauge);

    standpipe_attr country = standpipe_attr_str("country", "SE");
    standpipe_instrument *swedish = standpipe_instrument_bind(orders, &country, 1); /* for hot code */
    standpipe_add(orders, 2, &country, 1);
    standpipe_add(swedish, 1, NULL, 0); /* the same series */
    standpipe_record(duration, 31, NULL, 0);
    standpipe_record(duration, 261, NULL, 0);
    standpipe_record(stock, 40, NULL, 0);

    standpipe_shutdown(telemetry, 2000, NULL); /* also sends the metrics of the last interval */
    standpipe_instrument_free(swedish);
    standpipe_instrument_free(stock);
    standpipe_instrument_free(duration);
    standpipe_instrument_free(orders);
    standpipe_meter_free(meter);
    standpipe_free(telemetry);
    return 0;
}
