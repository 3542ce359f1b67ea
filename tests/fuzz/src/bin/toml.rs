//! Any text as TOML: alone, and around a tracer that has a secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe::Config;
use standpipe_fuzz::config::{Frame, KEPT, Lines, MAX_VALUE_LEN, SECRET, check, prepare, quoted, text_of};

fuzz_target!(init: prepare(), |input: &[u8]| {
    let Some(text) = text_of(input) else { return };
    check(text, Frame::Nothing, Lines::Toml, || Config::from_toml_str(text));

    let tracer = format!("[tracer.{KEPT}]\ntype = 'otel'\ntransport = 'http'\n");
    let mut around = vec![
        format!("{tracer}headers = ['Authorization: {SECRET}']\n{text}"),
        format!("{tracer}{text}\n[tracer.{KEPT}.headers]\nAuthorization = '{SECRET}'\n"),
    ];
    if text.len() <= MAX_VALUE_LEN {
        let header = quoted(&format!("Authorization: {SECRET}{text}"));
        let value = quoted(&format!("{text}{SECRET}"));
        let endpoint = quoted(&format!("http://a?{text}{SECRET}"));
        around.extend([
            format!("{tracer}headers = [{header}]\n"),
            format!("{tracer}headers.Authorization = {value}\n"),
            format!("{tracer}headers.Authorization = 'x'\nendpoint = {endpoint}\n"),
        ]);
    }
    for text in around {
        check(&text, Frame::Tracer, Lines::Toml, || Config::from_toml_str(&text));
    }
});
