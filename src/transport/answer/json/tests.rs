use proptest::prelude::*;

use super::*;

fn partly(rejected: u64, error_message: &str) -> Result<PartialSuccess, Fault> {
    Ok(PartialSuccess { rejected, error_message: error_message.to_owned() })
}

#[test]
fn an_export_answer_is_an_object_that_is_empty_or_has_a_partial_success() {
    for (text, expected) in [
        ("{}", partly(0, "")),
        (" {\t\r\n} ", partly(0, "")),
        (r#"{"partialSuccess":{}}"#, partly(0, "")),
        (r#"{"partialSuccess":null}"#, partly(0, "")),
        (r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"old"}}"#, partly(7, "old")),
        (r#"{"partialSuccess":{"rejectedLogRecords":7}}"#, partly(7, "")),
        (r#"{ "partial_success" : { "rejected_data_points" : 7 } }"#, partly(7, "")),
        (r#"{"partialSuccess":{"rejectedSpans":null,"errorMessage":null}}"#, partly(0, "")),
        (r#"{"partialSuccess":{"rejectedSpans":-7}}"#, partly(0, "")),
        (r#"{"partialSuccess":{"rejectedSpans":7.0}}"#, partly(7, "")),
        (r#"{"partialSuccess":{"rejectedSpans":"1e30"}}"#, partly(u64::MAX, "")),
        (r#"{"later":[1,-2.5e3,{"a":[true,false,null]},"b"],"partialSuccess":{}}"#, partly(0, "")),
        (r#"{"partialSuccess":{"later":{},"errorMessage":"x"}}"#, partly(0, "x")),
    ] {
        assert_eq!(read(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn what_is_no_export_answer_is_foreign() {
    for text in [
        "<html>",
        "[]",
        "null",
        "7",
        "\"partialSuccess\"",
        "{} {}",
        "{}x",
        "{,}",
        "{partialSuccess:{}}",
        r#"{"partialSuccess"}"#,
        r#"{"partialSuccess":[]}"#,
        r#"{"partialSuccess":7}"#,
        r#"{"partialSuccess":{},}"#,
        r#"{"partialSuccess":{"rejectedSpans":"many"}}"#,
        r#"{"partialSuccess":{"rejectedSpans":"NaN"}}"#,
        r#"{"partialSuccess":{"rejectedSpans":{}}}"#,
        r#"{"partialSuccess":{"errorMessage":7}}"#,
        r#"{"partialSuccess":{"errorMessage":"\x"}}"#,
        "{\"partialSuccess\":{\"errorMessage\":\"a\nb\"}}",
        r#"{"error":"who are you?"}"#,
        r#"{"partialSuccess":{},"more":nothing}"#,
        r#"{"partialSuccess":{},"more":1-2}"#,
    ] {
        assert_eq!(read(text.as_bytes()), Err(Fault::Foreign), "{text}");
    }
}

#[test]
fn an_answer_that_is_cut_anywhere_is_one_that_was_cut_short() {
    let text =
        r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"\u00e4 \ud83d\ude00"},"later":[true]}"#;
    assert_eq!(read(text.as_bytes()), partly(7, "ä 😀"));
    for end in 0..text.len() {
        assert_eq!(read(&text.as_bytes()[..end]), Err(Fault::CutShort), "cut at {end}");
    }
    // what has named itself is known, wherever it is cut
    assert_eq!(read(br#"{"error":"#), Err(Fault::Foreign));
}

#[test]
fn texts_are_read_as_they_were_meant() {
    for (written, expected) in [
        (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r"\ud83d", "\u{fffd}"),
        (r"\ude00", "\u{fffd}"),
        (r"\ud83d\u0041", "\u{fffd}"),
        ("ä", "ä"),
    ] {
        let text = format!(r#"{{"partialSuccess":{{"errorMessage":"{written}"}}}}"#);
        assert_eq!(read(text.as_bytes()), partly(0, expected), "{written}");
    }
    let broken = b"{\"partialSuccess\":{\"errorMessage\":\"\xff\"}}";
    assert_eq!(read(broken), partly(0, "\u{fffd}"));
}

#[test]
fn nesting_ends_where_no_answer_goes() {
    let nested = |depth: usize| {
        format!("{{\"partialSuccess\":{{}},\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth))
    };
    assert_eq!(read(nested(31).as_bytes()), partly(0, ""));
    assert_eq!(read(nested(32).as_bytes()), Err(Fault::Foreign));
    assert_eq!(read(&[b'['; 64 << 10]), Err(Fault::Foreign));
    assert_eq!(
        read(format!("{{\"partialSuccess\":{}", "{\"a\":".repeat(10_000)).as_bytes()),
        Err(Fault::Foreign)
    );
}

proptest! {
    #[test]
    fn reading_anything_never_panics(body: Vec<u8>, text in "[{}\\[\\]:,\"\\\\u0-9a-f eE+.-]{0,40}") {
        let _ = read(&body);
        let _ = read(text.as_bytes());
        let _ = read(format!("{{\"partialSuccess\":{text}").as_bytes());
    }
}
