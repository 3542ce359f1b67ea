//! Metrics of the OpenTelemetry API.

use opentelemetry::metrics::MeterProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::Temporality;

use super::spans::kinds_of_values;
use super::{Program, Sdk};

pub(super) const ALL: &[Program] = &[
    Program::new("metrics_of_every_kind", kinds),
    Program::new("metrics_of_every_kind_since_the_last_push", kinds).with_temporality(Temporality::Delta),
    Program::new("metrics_of_every_kind_in_little_memory", kinds).with_temporality(Temporality::LowMemory),
    Program::new("metrics_that_are_observed", observed),
    Program::new("metrics_that_are_observed_since_the_last_push", observed)
        .with_temporality(Temporality::Delta),
    Program::new("metrics_in_histograms", histograms),
    Program::new("metrics_in_histograms_since_the_last_push", histograms)
        .with_temporality(Temporality::Delta),
    Program::new("metrics_with_attributes", attributes),
    Program::new("metrics_without_a_key", keyless),
    Program::new("metrics_with_odd_values", odd_values),
    Program::new("metrics_with_more_sets_than_the_sdk_keeps", many_sets),
    Program::new("metrics_of_several_scopes", scopes),
    Program::new("metrics_that_are_never_measured", unmeasured),
    Program::new("metrics_of_one_push", one_push),
    Program::new("metrics_of_an_empty_resource", one_push)
        .with_resource(|| Resource::builder_empty().build()),
];

fn push(sdk: &Sdk) {
    sdk.metering.force_flush().unwrap();
}

fn kinds(sdk: &Sdk) {
    let meter = sdk.metering.meter("shop");
    let counter =
        meter.u64_counter("counter").with_unit("{eggs}").with_description("Eggs that were sold").build();
    let fractions = meter.f64_counter("counter_of_fractions").build();
    let up_down = meter.i64_up_down_counter("up_and_down").with_unit("By").build();
    let fractions_up_down = meter.f64_up_down_counter("up_and_down_of_fractions").build();
    let gauge = meter.i64_gauge("gauge").with_description("Grüße 🌍").build();
    let unsigned = meter.u64_gauge("gauge_without_a_sign").build();
    let fraction = meter.f64_gauge("gauge_of_fractions").build();
    for round in 1..=3 {
        let attributes = [KeyValue::new("round", round), KeyValue::new("shop", "main")];
        counter.add(2, &[]);
        counter.add(round as u64, &attributes);
        fractions.add(0.5, &attributes);
        up_down.add(-3, &[]);
        fractions_up_down.add(-0.25, &[]);
        gauge.record(-round, &[]);
        unsigned.record(round as u64, &[]);
        fraction.record(round as f64 / 4.0, &attributes);
        push(sdk);
    }
}

fn observed(sdk: &Sdk) {
    let meter = sdk.metering.meter("shop");
    let _kept = (
        meter.u64_observable_counter("counter").with_callback(|observer| observer.observe(7, &[])).build(),
        meter
            .f64_observable_counter("fractions")
            .with_callback(|observer| observer.observe(0.5, &[]))
            .build(),
        meter
            .i64_observable_up_down_counter("up_and_down")
            .with_callback(|observer| observer.observe(-7, &[]))
            .build(),
        meter
            .f64_observable_up_down_counter("both")
            .with_callback(|observer| observer.observe(-0.5, &[]))
            .build(),
        meter
            .u64_observable_gauge("unsigned")
            .with_unit("s")
            .with_callback(|observer| observer.observe(7, &[]))
            .build(),
        meter.i64_observable_gauge("signed").with_callback(|observer| observer.observe(-7, &[])).build(),
        meter
            .f64_observable_gauge("gauge")
            .with_callback(|observer| {
                observer.observe(0.5, &[KeyValue::new("side", "left")]);
                observer.observe(1.5, &[KeyValue::new("side", "right")]);
            })
            .build(),
    );
    push(sdk);
    push(sdk);
}

fn histograms(sdk: &Sdk) {
    let meter = sdk.metering.meter("shop");
    let plain = meter.f64_histogram("plain").with_unit("ms").with_description("How long it took").build();
    let whole = meter.u64_histogram("whole_numbers").build();
    let narrow = meter.f64_histogram("narrow").with_boundaries(vec![0.0, 1.0, 2.5]).build();
    let single = meter.f64_histogram("one_bucket").with_boundaries(Vec::new()).build();
    let exponential = meter.f64_histogram("exponential").build();
    let wide = meter.u64_histogram("exponential_of_whole_numbers").build();
    for round in 1..=2 {
        for value in [0.0, 0.5, 1.0, 7.5, 300.0, 1e6] {
            plain.record(value * f64::from(round), &[]);
            narrow.record(value, &[KeyValue::new("round", i64::from(round))]);
            single.record(value, &[]);
            exponential.record(value * f64::from(round), &[]);
            whole.record(value as u64, &[]);
            wide.record(value as u64, &[]);
        }
        exponential.record(-4.0, &[]);
        push(sdk);
    }
}

fn attributes(sdk: &Sdk) {
    let counter = sdk.metering.meter("shop").u64_counter("counter").build();
    for attribute in kinds_of_values() {
        counter.add(1, &[attribute]);
    }
    counter.add(1, &kinds_of_values());
}

fn keyless(sdk: &Sdk) {
    let counter = sdk.metering.meter("shop").u64_counter("counter").build();
    counter.add(1, &[KeyValue::new("", "no key")]);
}

fn odd_values(sdk: &Sdk) {
    let meter = sdk.metering.meter("shop");
    for (number, value) in
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX].into_iter().enumerate()
    {
        let attributes = [KeyValue::new("number", number as i64)];
        meter.f64_gauge("gauge").build().record(value, &attributes);
        meter.f64_up_down_counter("up_and_down").build().add(value, &attributes);
        meter.f64_histogram("plain").build().record(value, &attributes);
        meter.f64_histogram("exponential").build().record(value, &attributes);
    }
    meter.u64_counter("counter").build().add(u64::MAX, &[]);
    meter.u64_gauge("unsigned").build().record(u64::MAX, &[]);
    meter.i64_gauge("signed").build().record(i64::MIN, &[]);
}

fn many_sets(sdk: &Sdk) {
    let counter = sdk.metering.meter("shop").u64_counter("counter").build();
    for number in 0..2500 {
        counter.add(1, &[KeyValue::new("number", number)]);
    }
}

fn scopes(sdk: &Sdk) {
    for version in ["1.0.0", "2.0.0"] {
        let scope = InstrumentationScope::builder(format!("shop {version}"))
            .with_version(version)
            .with_schema_url("https://opentelemetry.io/schemas/1.30.0")
            .with_attributes(kinds_of_values())
            .build();
        sdk.metering.meter_with_scope(scope).u64_counter("counter").build().add(1, &[]);
    }
    sdk.metering.meter("").u64_counter("counter").build().add(1, &[]);
}

fn unmeasured(sdk: &Sdk) {
    let _kept = sdk.metering.meter("shop").u64_counter("counter").build();
    push(sdk);
}

fn one_push(sdk: &Sdk) {
    let meter = sdk.metering.meter("shop");
    meter.u64_counter("counter").build().add(1, &[]);
    meter.f64_histogram("plain").build().record(0.5, &[]);
}
