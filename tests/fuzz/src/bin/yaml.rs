//! Any text as YAML: alone, and after a tracer that has a secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe::Config;
use standpipe_fuzz::config::{Frame, KEPT, Lines, MAX_VALUE_LEN, SECRET, check, prepare, quoted, text_of};

fuzz_target!(init: prepare(), |input: &[u8]| {
    let Some(text) = text_of(input) else { return };
    check(text, Frame::Nothing, Lines::Yaml, || Config::from_yaml_str(text));

    let tracer = format!("tracer:\n  {KEPT}:\n    type: otel\n    transport: http\n");
    let mut around = vec![format!("{tracer}    headers: ['Authorization: {SECRET}']\n{text}")];
    if text.len() <= MAX_VALUE_LEN {
        let header = quoted(&format!("Authorization: {SECRET}{text}"));
        let value = quoted(&format!("{text}{SECRET}"));
        around.extend([
            format!("{tracer}    headers: [{header}]\n"),
            format!("{tracer}    headers: {{Authorization: {value}}}\n"),
        ]);
    }
    for text in around {
        check(&text, Frame::Tracer, Lines::Yaml, || Config::from_yaml_str(&text));
    }
});
