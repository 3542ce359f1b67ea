use standpipe::receiver::proto::ArrayValue;

use super::super::style::plain_style;
use super::*;

impl<'a> SpanView<'a> {
    /// A view of a span with a service and no other values.
    pub(crate) fn bare(span: &'a Span, service: &'a str) -> Self {
        Self { span, service, scope: "", scope_version: "", resource: &[], is_past: false, is_wanted: true }
    }
}

fn any(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

#[test]
fn sizes_have_three_digits_and_a_unit() {
    let sizes = [0, 850, 1000, 2048, 3_250_000, 300_000_000, 5 << 30].map(size);
    assert_eq!(sizes, ["0 bytes", "850 bytes", "1.0 KiB", "2.0 KiB", "3.1 MiB", "286 MiB", "5.0 GiB"]);
}

#[test]
fn durations_keep_three_digits_across_the_units() {
    let style = plain_style(80);
    let cases = [
        (0, "0 ns"),
        (850, "850 ns"),
        (1_234, "1.23 µs"),
        (31_249_000, "31.2 ms"),
        (412_400_000, "412 ms"),
        (999_600_000, "1.00 s"),
        (9_996_000_000, "10.0 s"),
        (65_000_000_000, "1 min 05 s"),
        (7_320_000_000_000, "2 h 02 min"),
    ];
    for (nanos, text) in cases {
        assert_eq!(duration(nanos, &style), text);
    }
    assert!(duration(u64::MAX, &style).ends_with("min"));
}

#[test]
fn times_of_day_are_utc() {
    assert_eq!(time_of_day(1_700_000_000_123_456_789), "22:13:20.123Z");
}

#[test]
fn values_of_every_type_read_as_one_word() {
    assert_eq!(value(Some(&any(Value::StringValue("card".into())))), "card");
    assert_eq!(value(Some(&any(Value::StringValue("no funds".into())))), "\"no funds\"");
    assert_eq!(value(Some(&any(Value::BytesValue(vec![0; 3])))), "<3 bytes>");
    assert_eq!(value(None), "null");
    let list = ArrayValue { values: vec![any(Value::IntValue(1)), any(Value::BoolValue(true))] };
    assert_eq!(value(Some(&any(Value::ArrayValue(list)))), "[1,true]");
}

#[test]
fn the_attributes_that_tell_most_are_shown_and_the_others_counted() {
    let set = |key: &&str| KeyValue { key: (*key).to_owned(), value: Some(any(Value::IntValue(1))) };
    let keys = ["thread.id", "a", "b", "c", "d", "code.line.number", "http.response.status_code", "os.type"];
    let attributes: Vec<KeyValue> = keys.iter().map(set).collect();
    assert_eq!(telling(&attributes, false), ["a=1", "b=1", "c=1", "http.response.status_code=1", "+4"]);
    assert_eq!(telling(&attributes[..2], false), ["a=1", "+1"]);
    assert_eq!(telling(&attributes[..1], false), ["+1"]);
    assert_eq!(telling(&[], false), [""; 0]);
    assert_eq!(telling(&attributes, true).len(), 8);
    let long = KeyValue { value: Some(any(Value::StringValue("x".repeat(500)))), ..set(&"sql") };
    assert_eq!(telling(std::slice::from_ref(&long), false), [format!("sql={}...", "x".repeat(64))]);
    assert_eq!(telling(&[long], true), [format!("sql={}", "x".repeat(500))]);
}

#[test]
fn the_command_line_is_shown_though_it_is_of_a_process() {
    let words = ["sh", "-c", "make all"].map(|word| any(Value::StringValue(word.to_owned())));
    let list = any(Value::ArrayValue(ArrayValue { values: words.into() }));
    let set = |key: &str| KeyValue { key: key.to_owned(), value: Some(list.clone()) };
    let attributes = ["process.pid", "process.command_args"].map(set);
    assert_eq!(telling(&attributes, false), ["process.command_args=sh -c \"make all\"", "+1"]);
}

#[test]
fn a_huge_or_deep_value_is_cut() {
    assert_eq!(
        value(Some(&any(Value::StringValue("é".repeat(10_000))))).chars().count(),
        MAX_VALUE_CHARS + 3
    );
    let mut nested = any(Value::BoolValue(true));
    for _ in 0..50 {
        nested = any(Value::ArrayValue(ArrayValue { values: vec![nested] }));
    }
    assert_eq!(value(Some(&nested)), "[[[...]]]");
}

fn severity(number: i32, text: &str) -> String {
    let log = LogRecord { severity_number: number, severity_text: text.to_owned(), ..LogRecord::default() };
    LogView { log: &log, service: "" }.severity()
}

#[test]
fn a_severity_is_its_name_unless_the_sender_has_another_word_for_it() {
    let cases = [
        (9, "", "INFO"),
        (10, "", "INFO2"),
        (9, "info", "INFO"),
        (10, "Info", "INFO2"),
        (13, "warning", "WARN"),
        (10, "notice", "notice(10)"),
        (17, "INFO", "INFO(17)"),
        (0, "", "unset"),
        (0, "strange", "strange"),
        (99, "", "(99)"),
        (-1, "odd", "odd(-1)"),
    ];
    for (number, text, expected) in cases {
        assert_eq!(severity(number, text), expected, "{number} {text:?}");
    }
}

#[test]
fn a_severity_without_a_number_is_known_by_its_text() {
    let view = |text: &str| LogRecord { severity_text: text.to_owned(), ..LogRecord::default() };
    let number = |text: &str| LogView { log: &view(text), service: "" }.severity_number();
    let texts = ["ERROR", "error", "Warning", "INFO2", "fatal", "strange", ""];
    assert_eq!(texts.map(number), [17, 17, 13, 10, 21, 0, 0]);
}

#[test]
fn a_body_is_written_whatever_it_is() {
    let body = |value: Option<Value>| {
        let log = LogRecord { body: Some(AnyValue { value }), ..LogRecord::default() };
        LogView { log: &log, service: "" }.body()
    };
    let list = vec![AnyValue { value: Some(Value::IntValue(1)) }; 2];
    assert_eq!(body(Some(Value::StringValue("two words".to_owned()))), "two words");
    assert_eq!(body(Some(Value::BoolValue(true))), "true");
    assert_eq!(body(Some(Value::ArrayValue(ArrayValue { values: list }))), "[1,1]");
    assert_eq!(body(None), "");
    let long = "x".repeat(100_000);
    assert_eq!(body(Some(Value::StringValue(long.clone()))), long);
}

#[test]
fn a_record_without_a_time_has_the_time_it_was_seen_at() {
    let seen = LogRecord { observed_time_unix_nano: 7, ..LogRecord::default() };
    let dated = LogRecord { time_unix_nano: 5, ..seen.clone() };
    let time = |log: &LogRecord| LogView { log, service: "" }.unix_nanos();
    assert_eq!((time(&seen), time(&dated)), (7, 5));
}
