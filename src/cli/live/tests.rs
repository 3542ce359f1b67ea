use standpipe::receiver::Records;

use super::super::style::plain_style;
use super::*;

/// Returns a trace with a root span and a child. `start` is in seconds, and `status` is the status code of the child.
fn trace(number: u8, start: u64, status: u8) -> Records {
    let (start, end) = (start * 1_000_000_000, (start + 1) * 1_000_000_000);
    let text = format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[
        {{"key":"service.name","value":{{"stringValue":"shop{number}"}}}}]}},"scopeSpans":[{{"spans":[
        {{"traceId":"{number:032x}","spanId":"01","name":"checkout {number}",
        "startTimeUnixNano":"{start}","endTimeUnixNano":"{end}"}},
        {{"traceId":"{number:032x}","spanId":"02","parentSpanId":"01","name":"charge card",
        "startTimeUnixNano":"{start}","endTimeUnixNano":"{end}","status":{{"code":{status},"message":"declined"}}}}
        ]}}]}}]}}"#
    );
    Records::from_json(text.as_bytes()).expect("it is OTLP")
}

fn log(trace: u8, body: &str) -> Records {
    let text = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"traceId":"{trace:032x}","spanId":"01",
        "severityNumber":17,"body":{{"stringValue":"{body}"}}}}]}}]}}]}}"#
    );
    Records::from_json(text.as_bytes()).expect("it is OTLP")
}

fn screen(columns: usize) -> Screen {
    let page = Page::without_server(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut screen = Screen::new(page, &view::Options::default(), plain_style(columns));
    screen.resize(Some([columns, 13]));
    screen.refresh();
    screen
}

/// Returns a screen with the traces 1 to `count`. Every third trace has an error.
fn filled(columns: usize, count: u8) -> Screen {
    let mut screen = screen(columns);
    for number in 1..=count {
        add(&mut screen, &trace(number, number.into(), if number % 3 == 0 { 2 } else { 0 }));
    }
    screen
}

fn add(screen: &mut Screen, records: &Records) {
    screen.page.lock().add_records(records, usize::MAX);
    if screen.is_outdated() {
        screen.refresh();
    }
}

fn press(screen: &mut Screen, keys: &str) -> Action {
    let mut action = Action::Stay;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            letter => KeyCode::Char(letter),
        };
        action = screen.press(KeyEvent::new(code, KeyModifiers::NONE));
    }
    action
}

/// Returns the lines of the screen.
fn lines(screen: &Screen) -> Vec<String> {
    screen.frame().split("\r\n").map(|line| line.trim_start_matches("\x1b[K").trim_end().to_owned()).collect()
}

/// Returns the selected line.
fn selected(screen: &Screen) -> String {
    lines(screen).into_iter().find(|line| line.starts_with('▸')).unwrap_or_default()
}

#[test]
fn lists_the_latest_trace_first_at_every_width() {
    for columns in [80, 120, 200] {
        let mut screen = filled(columns, 5);
        screen.resize(Some([columns, 22]));
        press(&mut screen, "?");
        let fits = |lines: &[String]| lines.iter().all(|line| crate::cli::text::width(line) <= columns);
        assert!(fits(&lines(&screen)), "{:#?}", lines(&screen));
        press(&mut screen, "\x1b");
        screen.resize(Some([columns, 13]));
        let lines = lines(&screen);
        assert!(lines.len() == 13 && fits(&lines), "{lines:#?}");
        let names: Vec<&str> =
            lines.iter().filter_map(|line| line.split("checkout ").nth(1)?.get(..1)).collect();
        assert_eq!(names, ["5", "4", "3", "2", "1"], "{lines:#?}");
        assert!(lines[4].contains("✗1") && lines[4].contains("1.00 s"), "{lines:#?}");
        assert!(lines[0].contains("[traces]") && lines[12].contains("5 traces · "), "{lines:#?}");
    }
}

#[test]
fn a_selected_row_stays_in_its_place_while_new_rows_appear_above_it() {
    let mut screen = filled(80, 5);
    assert!(selected(&screen).contains("checkout 5"));
    add(&mut screen, &trace(6, 6, 0));
    assert!(selected(&screen).contains("checkout 6"), "the first row follows");
    press(&mut screen, "↓");
    let before = lines(&screen).iter().position(|line| line.starts_with('▸'));
    for number in 7..40 {
        add(&mut screen, &trace(number, number.into(), 0));
    }
    assert!(selected(&screen).contains("checkout 5"), "{:#?}", lines(&screen));
    assert_eq!(lines(&screen).iter().position(|line| line.starts_with('▸')), before);
}

#[test]
fn nothing_changes_while_the_screen_is_paused() {
    let mut screen = filled(80, 2);
    press(&mut screen, "p");
    add(&mut screen, &trace(9, 9, 0));
    assert!(lines(&screen)[0].ends_with(" paused") && !screen.frame().contains("checkout 9"));
    press(&mut screen, "p");
    add(&mut screen, &trace(8, 8, 0));
    assert!(screen.frame().contains("checkout 9"));
}

#[test]
fn enter_opens_the_waterfall_and_escape_returns_to_the_same_row() {
    let mut screen = filled(120, 5);
    add(&mut screen, &log(3, "no funds"));
    press(&mut screen, "↓↓\n");
    let shown = screen.frame();
    for part in ["╰─ charge card", "✗ declined", "ERROR  no funds"] {
        assert!(shown.contains(part), "{shown}");
    }
    press(&mut screen, "e");
    assert!(selected(&screen).contains("ERROR  no funds"), "{}", selected(&screen));
    press(&mut screen, "e");
    assert!(selected(&screen).contains("✗ declined"), "{}", selected(&screen));
    press(&mut screen, "/shop\n");
    assert!(selected(&screen).contains("checkout 3"), "{}", selected(&screen));
    press(&mut screen, "l");
    assert_eq!(screen.items.len(), 1);
    press(&mut screen, "\x1b\x1b");
    assert!(selected(&screen).contains("checkout 3") && screen.place == Place::Traces);
}

#[test]
fn searches_with_the_language_of_the_page() {
    let mut screen = filled(120, 9);
    press(&mut screen, "/err -service:shop3\n");
    let frame = screen.frame();
    assert!(frame.contains("checkout 6") && frame.contains("checkout 9") && !frame.contains("checkout 3"));
    press(&mut screen, "/ dur>5\n");
    assert!(screen.frame().contains("dur>100ms"), "an invalid search is explained: {}", screen.frame());
    assert_eq!(screen.items.len(), 2, "and the rows remain");
    press(&mut screen, "/");
    screen.press(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    press(&mut screen, "err\n");
    assert_eq!(screen.search, "err", "Ctrl-U removes the former search");
    press(&mut screen, "\x1b");
    assert_eq!(screen.items.len(), 9);
    press(&mut screen, "e");
    assert!(selected(&screen).contains("checkout 6"));
}

#[test]
fn services_logs_and_metrics_have_lists() {
    let mut screen = filled(120, 4);
    add(&mut screen, &log(3, "no funds"));
    press(&mut screen, "s↓↓");
    assert!(selected(&screen).contains("shop3"), "{:#?}", lines(&screen));
    press(&mut screen, "\n");
    assert!(screen.items.len() == 1 && screen.frame().contains("checkout 3"));
    press(&mut screen, "l");
    assert_eq!(screen.items.len(), 0, "the search applies to log records, too");
    press(&mut screen, "\x1b\n");
    assert!(screen.frame().contains("ERROR") && screen.frame().contains("Enter opens the trace"));
    press(&mut screen, "\n");
    assert_eq!(screen.place, Place::Trace(3_u128.to_be_bytes()));
    press(&mut screen, "m");
    assert!(screen.frame().contains("[metrics]"));
    press(&mut screen, "?");
    assert!(screen.frame().contains("select a line"));
    assert_eq!(press(&mut screen, "q"), Action::Quit);
}

#[test]
fn copies_a_trace_as_text_in_base64() {
    let mut screen = filled(80, 1);
    let Action::Copy(text) = press(&mut screen, "y") else { panic!("nothing is copied") };
    assert!(text.starts_with("trace 00000000000000000000000000000001 ") && text.contains("╰─ charge card"));
    assert!(lines(&screen)[12].contains("copied "));
    for (text, coded) in [("", ""), ("M", "TQ=="), ("Ma", "TWE="), ("Man", "TWFu"), ("Man?", "TWFuPw==")] {
        assert_eq!(draw::copy_sequence(text), format!("\x1b]52;c;{coded}\x07"));
    }
}

#[test]
fn a_trace_without_a_name_says_so() {
    let mut screen = screen(80);
    let text = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01","spanId":"01"}]}]}]}"#;
    add(&mut screen, &Records::from_json(text.as_bytes()).expect("it is OTLP"));
    assert!(selected(&screen).contains("(no name)"), "{}", selected(&screen));
}

#[test]
fn hostile_names_cannot_move_the_cursor() {
    let mut screen = screen(80);
    let text = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01","spanId":"01","name":"\u001b[2J\r\n"}]}]}]}"#;
    add(&mut screen, &Records::from_json(text.as_bytes()).expect("it is OTLP"));
    for keys in ["", "\n", "l", "s"] {
        press(&mut screen, keys);
        assert!(!screen.frame().contains("\x1b[2J"), "{keys:?}");
        assert_eq!(lines(&screen).len(), 13);
    }
}
