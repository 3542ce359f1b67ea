//! `check` never prints secrets, even if they are in an unexpected place.

use serde_json::Value;

use crate::support::command::{config, finish, standpipe, stderr, stdout};
use crate::support::step_of;

/// Lines that look like a private key.
const KEY: [&str; 2] = [
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4hunter2VjkGaqnVkhYfQq0Zz8oVbH6Sc5KxN3wPlDtAeB1uXo==",
];

fn pem(line_end: &str) -> String {
    let [first, second] = KEY;
    ["-----BEGIN PRIVATE KEY-----", first, second, "-----END PRIVATE KEY-----", ""].join(line_end)
}

/// Returns the output of `check` as text and as JSON, with the given environment.
fn said(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut said = String::new();
    for form in [&["check", "--offline"][..], &["check", "--offline", "--json"]] {
        let mut command = standpipe(&[form, arguments].concat());
        let output = finish(command.env("COLUMNS", "500").envs(environment.iter().copied()));
        said += &(stdout(&output) + &stderr(&output));
        if form.len() == 3 {
            let found: Result<Value, _> = serde_json::from_str(&stdout(&output));
            assert!(found.is_ok(), "{}", stdout(&output));
        }
    }
    said
}

#[track_caller]
fn assert_no_key(what: &str, said: &str) {
    for line in KEY {
        let leaked = (0..line.len() - 8).map(|at| &line[at..at + 8]).find(|piece| said.contains(piece));
        assert_eq!(leaked, None, "{what}: {said}");
    }
}

#[test]
fn pem_text_where_a_path_is_expected_is_shown_nowhere() {
    let (escaped, lines) = (pem("\\n"), pem("\n"));
    let indented = pem("\n      ");
    let bare = KEY.concat();
    let keys = ["ca-file", "client-key-file", "endpoint", "headers", "cafile"];
    let mut cases = Vec::new();
    for key in keys {
        // Leaves out a valid line of `key`, if there is one, because `check` would only report the duplicate key.
        let rest = ["type = 'otel'", "transport = 'http'"];
        let rest: Vec<&str> = rest.into_iter().filter(|line| !line.starts_with(key)).collect();
        let toml = |value: &str| format!("[tracer.a]\n{}\n{key} = {value}\n", rest.join("\n"));
        let yaml_key = key.replace('.', ":\n      ");
        let yaml = |value: &str| {
            let rest = rest.join("\n    ").replace(" =", ":");
            format!("tracer:\n  a:\n    {rest}\n    {yaml_key}: {value}\n")
        };
        cases.extend([
            ("pem.toml", toml(&format!("\"{escaped}\""))),
            ("pem.toml", toml(&format!("\"\"\"{lines}\"\"\""))),
            ("pem.toml", toml(&format!("\"\"\"\n{lines}\"\"\""))),
            ("pem.toml", toml(&format!("'''{lines}'''"))),
            ("pem.toml", toml(&format!("'{}'", lines.replace('\n', " ")))),
            ("pem.toml", toml(&format!("'{bare}'"))),
            ("pem.toml", toml(&lines)),
            ("pem.toml", toml(&format!("\"{lines}\""))),
            ("pem.toml", toml("'%{env:SHOP_KEY}%'")),
            ("pem.toml", toml(&format!("'%{{env:{bare}}}%'"))),
            ("pem.toml", toml(&format!("\"%{{file:{escaped}}}%\""))),
            ("pem.yaml", yaml(&format!("\"{escaped}\""))),
            ("pem.yaml", yaml(&format!("|\n      {indented}"))),
            ("pem.yaml", yaml(&format!(">-\n      {indented}"))),
            ("pem.yaml", yaml(&format!("'{indented}'"))),
            ("pem.yaml", yaml(&indented)),
            ("pem.yaml", yaml(&lines)),
        ]);
    }
    // The number of cases per key is odd, so each case is tried with some key.
    for (name, text) in cases.into_iter().step_by(step_of(4)) {
        let file = config(name, &text);
        assert_no_key(&text, &said(&[&file], &[("SHOP_KEY", &lines)]));
    }
    let file = config(
        "pem_path.toml",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http'\nca-file = '%{env:SHOP_KEY}%'\n",
    );
    let reported = said(&[&file], &[("SHOP_KEY", &lines)]);
    assert!(reported.contains("PEM text where a path is expected"), "{reported}");
    assert!(reported.contains("write it to a file and give its path"), "{reported}");
}

#[test]
fn pem_text_in_a_variable_is_shown_nowhere() {
    let (lines, bare, mut number) = (pem("\n"), KEY.concat(), 0);
    for variable in [
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "OTEL_TRACES_EXPORTER",
        "OTEL_TRACES_SAMPLER",
        "OTEL_PROPAGATORS",
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_SDK_DISABLED",
        "NO_PROXY",
        "HTTPS_PROXY",
        "HTTP_PROXY",
    ] {
        for value in [lines.clone(), pem("\\n"), pem(" "), bare.clone(), format!("key={lines}")] {
            number += 1;
            if number % step_of(4) != 0 {
                continue;
            }
            let other = match variable {
                "OTEL_EXPORTER_OTLP_CLIENT_KEY" => ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "a.pem"),
                _ => ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "a.pem"),
            };
            assert_no_key(variable, &said(&["--env"], &[other, (variable, &value)]));
        }
    }
    let reported = said(&["--env"], &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &lines)]);
    assert!(reported.contains("PEM text where a path is expected"), "{reported}");
}

#[test]
fn a_file_that_is_a_private_key_is_shown_nowhere() {
    for name in ["key.pem", "key.toml", "key.yaml"] {
        let file = config(name, &pem("\n"));
        assert_no_key(name, &said(&[&file], &[]));
    }
}

#[test]
fn a_bare_token_in_the_headers_variable_is_shown_nowhere() {
    for token in [
        "c2VjcmV0LXRva2VuLWh1bnRlcg==",
        "c2VjcmV0LXRva2VuLWh1bnRlcjI=",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.dBjftJeZ4CVP=",
        "glc_eyJvIjoiMTIzNDU2IiwibiI6Imh1bnRlciJ9=",
        "0123456789abcdef0123456789abcdef=",
        "550e8400-e29b-41d4-a716-446655440000=x",
        "content-length,c2VjcmV0LXRva2VuLWh1bnRlcjI=",
        "c2VjcmV0LXRva2VuLWh1bnRlcjI=%zz",
        "c2VjcmV0LXRva2VuLWh1bnRlcjI=a%0Ab",
    ] {
        let longest = token.split(['=', ',', '.', '_']).max_by_key(|part| part.len()).expect("a part");
        let reported = said(&["--env"], &[("OTEL_EXPORTER_OTLP_HEADERS", token)]).to_ascii_lowercase();
        assert!(!reported.contains(&longest[..8].to_ascii_lowercase()), "{token}: {reported}");
    }
    let reported = said(&["--env"], &[("OTEL_EXPORTER_OTLP_HEADERS", "c2VjcmV0LXRva2VuLWh1bnRlcg==")]);
    assert!(reported.contains("header 1 is a value without a name; write it like name=value"), "{reported}");
    let reported =
        said(&["--env"], &[("OTEL_EXPORTER_OTLP_HEADERS", "X-Honeycomb-Team=hunter2,api_key=hunter2")]);
    assert!(reported.contains("X-Honeycomb-Team: ***, api_key: ***"), "{reported}");
}

#[test]
fn a_token_that_a_file_has_in_the_place_of_a_headers_name_is_shown_nowhere() {
    let token = "c2VjcmV0LXRva2VuLWh1bnRlcjI";
    let tracer = "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n";
    for headers in [
        format!("headers = ['{token}: ']"),
        format!("headers = ['{token}: x']"),
        format!("headers = {{ {token} = '' }}"),
        format!("headers.{token} = ''"),
        format!("headers.{token} = 1"),
        format!("headers = \"{token}: a\\nb\""),
        format!("[tracer.a.headers]\n{token} = 'a\u{e4}'"),
        format!("[tracer.a.headers]\n{token} = 1"),
    ] {
        let file = config("token_name.toml", &format!("{tracer}{headers}\n"));
        let reported = said(&[&file], &[]).to_ascii_lowercase();
        assert!(!reported.contains(&token[..8].to_ascii_lowercase()), "{headers}: {reported}");
    }
}

#[test]
fn shows_no_text_of_several_words_that_stands_where_one_word_is_expected() {
    let toml = |line: &str| format!("[tracer.a]\ntype = 'otel'\ntransport = 'http'\n{line}\n");
    let yaml = |line: &str| format!("tracer:\n  a:\n    type: otel\n    transport: http\n    {line}\n");
    for (name, text) in [
        ("words.toml", toml("compression = 'gzip hunter2'")),
        ("words.toml", toml("level = 'password=hunter2'")),
        ("words.toml", toml("timeout = '0s hunter2'")),
        ("words.toml", toml("timeout = 'me:hunter2@host'")),
        ("words.toml", toml("\"Bearer hunter2\" = 1")),
        ("words.toml", toml("\"password=hunter2\" = 1")),
        ("words.toml", toml("\"headers\".\"password: hunter2\" = 1")),
        ("words.toml", toml("[tracer.a.headers.hunter2]")),
        ("words.toml", toml("[tracer.a.headers.x.hunter2]\ny = 1")),
        ("words.toml", toml("[tracer.a.headers]\nx.hunter2 =")),
        ("words.toml", toml("[tracer.b hunter2]")),
        ("words.toml", toml("[telemetry]\nsampling = 'all hunter2'")),
        ("words.toml", toml("[telemetry.resource]\ndb = 'password=hunter2'")),
        ("words.toml", toml("[telemetry.resource]\n'db.password' = 'hunter2'")),
        ("words.toml", toml("[telemetry.resource]\ndb = 'postgres://me:hunter2@db'")),
        ("words.toml", toml("ca-file = '%{file:password=hunter2}%'")),
        ("words.yaml", yaml("level: info password=hunter2")),
        ("words.yaml", yaml("timeout: 0s hunter2")),
        ("words.yaml", yaml("level: *hunter2")),
        ("words.yaml", yaml("level: !hunter2 info")),
        ("words.yaml", yaml("'Bearer hunter2': 1")),
        ("words.yaml", yaml("headers: { x: { hunter2: 1 } }")),
    ] {
        let file = config(name, &text);
        let reported = said(&[&file], &[]);
        assert!(reported.contains("***") && !reported.contains("hunter2"), "{text}: {reported}");
    }
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip hunter2"),
        ("OTEL_TRACES_SAMPLER", "always_on password=hunter2"),
        ("OTEL_RESOURCE_ATTRIBUTES", "db.password=hunter2"),
        ("OTEL_RESOURCE_ATTRIBUTES", "db=password%3Dhunter2"),
    ] {
        let reported = said(&["--env"], &[(variable, value)]);
        assert!(reported.contains("***") && !reported.contains("hunter2"), "{variable}: {reported}");
    }
}

#[test]
fn shows_harmless_words_that_cannot_be_used() {
    let tracer = "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n";
    for (line, shown) in [
        ("compression = 'lz4'", "\"lz4\" is not known"),
        ("timeout = '5 sec'", "\"5 sec\""),
        ("proxy = 'http://proxy.example:3128'", "\"http://proxy.example:3128\" is not known"),
        ("ca-file = '/etc/ssl/certs/MyCompanyCA2024.pem'", "\"/etc/ssl/certs/MyCompanyCA2024.pem\""),
        ("compression = 'gzip best'", "*** (9 characters) is not known"),
        ("headers.X-Tenant =", "tracer.a.headers.X-Tenant"),
        ("[telemetry.resource]\nteam = 'token-service of Hamburg'", "team=token-service of Hamburg"),
    ] {
        let file = config("harmless.toml", &format!("{tracer}{line}\n"));
        let reported = said(&[&file], &[]);
        assert!(reported.contains(shown), "{line}: {reported}");
    }
}

#[test]
fn what_reorders_text_does_not_reach_the_terminal_in_any_form() {
    let file = config(
        "bidi.toml",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http\u{202e}'\n\"le\u{2066}vel\" = 1\nuser-agent = 'a\u{200b}'\n\
         [tracer.b]\ntype = 'otel'\ntransport = 'http'\n",
    );
    let reported = said(
        &[&file],
        &[("OTEL_SERVICE_NAME", "shop\u{202e}\u{9b}"), ("OTEL_RESOURCE_ATTRIBUTES", "a=b\u{202e}")],
    );
    let strange = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{200b}'..='\u{206f}');
    assert!(!reported.contains(strange), "{reported:?}");
}
