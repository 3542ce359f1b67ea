//! Log records of the OpenTelemetry API.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use opentelemetry::Key;
use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry::trace::{SpanId, TraceFlags, TraceId, Tracer, TracerProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLogRecord;

use super::spans::scope;
use super::{Program, Sdk};

pub(super) const ALL: &[Program] = &[
    Program::new("logs_with_bodies", bodies),
    Program::new("logs_with_attributes", attributes),
    Program::new("logs_with_a_key_twice_and_without_a_key", keys),
    Program::new("logs_of_every_severity", severities),
    Program::new("logs_with_severity_texts", texts),
    Program::new("logs_with_event_names", event_names),
    Program::new("logs_with_targets", targets),
    Program::new("logs_at_odd_times", times),
    Program::new("logs_in_spans", in_spans),
    Program::new("logs_of_several_scopes", scopes),
    Program::new("logs_of_an_empty_resource", texts).with_resource(|| Resource::builder_empty().build()),
    Program::new("logs_by_the_thousand", thousands),
];

fn emit(sdk: &Sdk, fill: impl FnOnce(&mut SdkLogRecord)) {
    let logger = sdk.logging.logger("shop");
    let mut record = logger.create_log_record();
    fill(&mut record);
    logger.emit(record);
}

fn values() -> Vec<AnyValue> {
    let list = vec![
        AnyValue::Int(1),
        AnyValue::from("two"),
        AnyValue::ListAny(Box::new(vec![AnyValue::Double(3.0)])),
    ];
    let inner = HashMap::from([(Key::new("deep"), AnyValue::Boolean(true))]);
    let map = HashMap::from([
        (Key::new("inner"), AnyValue::Map(Box::new(inner))),
        (Key::new("list"), AnyValue::ListAny(Box::new(list.clone()))),
        (Key::new("bytes"), AnyValue::Bytes(Box::new(vec![0, 255]))),
    ]);
    vec![
        AnyValue::Int(i64::MIN),
        AnyValue::Int(0),
        AnyValue::Double(0.5),
        AnyValue::Double(f64::NAN),
        AnyValue::from("text"),
        AnyValue::from(""),
        AnyValue::from("Grüße, 世界 🌍\n\0"),
        AnyValue::Boolean(false),
        AnyValue::Bytes(Box::new(vec![0, 1, 255])),
        AnyValue::Bytes(Box::default()),
        AnyValue::ListAny(Box::new(list)),
        AnyValue::ListAny(Box::default()),
        AnyValue::Map(Box::new(map)),
        AnyValue::Map(Box::default()),
    ]
}

fn bodies(sdk: &Sdk) {
    emit(sdk, |_| {});
    for value in values() {
        emit(sdk, |record| record.set_body(value));
    }
}

fn attributes(sdk: &Sdk) {
    emit(sdk, |record| {
        for (number, value) in values().into_iter().enumerate() {
            record.add_attribute(format!("key {number}"), value);
        }
    });
    emit(sdk, |record| {
        for number in 0..300 {
            record.add_attribute(format!("key {number}"), number);
        }
    });
}

fn keys(sdk: &Sdk) {
    emit(sdk, |record| {
        record.set_body("said".into());
        record.add_attribute("", "no key");
        record.add_attributes([("twice", 1), ("other", 3), ("twice", 2)]);
    });
}

fn severities(sdk: &Sdk) {
    use Severity::{
        Debug, Debug2, Debug3, Debug4, Error, Error2, Error3, Error4, Fatal, Fatal2, Fatal3, Fatal4, Info,
        Info2, Info3, Info4, Trace, Trace2, Trace3, Trace4, Warn, Warn2, Warn3, Warn4,
    };
    let all = [
        Trace, Trace2, Trace3, Trace4, Debug, Debug2, Debug3, Debug4, Info, Info2, Info3, Info4, Warn, Warn2,
        Warn3, Warn4, Error, Error2, Error3, Error4, Fatal, Fatal2, Fatal3, Fatal4,
    ];
    for severity in all {
        emit(sdk, |record| {
            record.set_severity_number(severity);
            record.set_severity_text(severity.name());
            record.set_body(severity.name().into());
        });
    }
}

fn texts(sdk: &Sdk) {
    emit(sdk, |record| {
        record.set_body("a text alone".into());
        record.set_severity_text("loud");
    });
    emit(sdk, |record| {
        record.set_body("a number alone".into());
        record.set_severity_number(Severity::Warn);
    });
    emit(sdk, |record| {
        record.set_body("a text of its own".into());
        record.set_severity_number(Severity::Info);
        record.set_severity_text("Grüße 🌍");
    });
}

fn event_names(sdk: &Sdk) {
    for name in ["shop.opened", "", "Grüße 🌍"] {
        emit(sdk, |record| {
            record.set_body("said".into());
            record.set_event_name(name);
        });
    }
}

fn targets(sdk: &Sdk) {
    for target in ["shop::till", "", "shop"] {
        emit(sdk, |record| {
            record.set_body("said".into());
            record.set_target(target);
        });
    }
}

fn times(sdk: &Sdk) {
    let hour = Duration::from_secs(3600);
    let epoch = SystemTime::UNIX_EPOCH;
    for (number, time) in
        [epoch, epoch + hour, SystemTime::now() + hour, epoch - hour].into_iter().enumerate()
    {
        emit(sdk, |record| {
            record.set_body(AnyValue::Int(number as i64));
            record.set_timestamp(time);
            record.set_observed_timestamp(epoch + hour * (number as u32 + 1));
        });
    }
    emit(sdk, |record| record.set_observed_timestamp(epoch));
}

fn in_spans(sdk: &Sdk) {
    sdk.tracing.tracer("shop").in_span("span", |_| {
        emit(sdk, |record| {
            record.set_body("in the span".into());
            record.add_attribute("milk", 2);
        });
    });
    let (trace_id, span_id) = (TraceId::from(1), SpanId::from(2));
    for flags in [None, Some(TraceFlags::SAMPLED), Some(TraceFlags::NOT_SAMPLED)] {
        emit(sdk, |record| {
            record.set_body("by hand".into());
            record.set_trace_context(trace_id, span_id, flags);
        });
    }
}

fn scopes(sdk: &Sdk) {
    let loggers = ["1.0.0", "2.0.0", "1.0.0"].map(|version| sdk.logging.logger_with_scope(scope(version)));
    for (number, logger) in loggers.iter().chain(&loggers).enumerate() {
        let mut record = logger.create_log_record();
        record.set_body(AnyValue::Int(number as i64));
        if number % 2 == 1 {
            record.set_target("shop::till");
        }
        logger.emit(record);
    }
}

fn thousands(sdk: &Sdk) {
    for number in 0..2000 {
        emit(sdk, |record| record.set_body(AnyValue::Int(number)));
    }
}
