//! Rules for values of every origin.

use standpipe::receiver::Receiver;
use standpipe::{Config, Telemetry};

use crate::acceptance::outcome::Outcome;
use crate::acceptance::table::{Row, Table, hold, row};
use crate::support::scene::LONG;
use crate::support::scratch::Scratch;

pub(crate) const TABLES: &[Table] = &[
    Table { name: "durations", read: tracer, rows: DURATIONS },
    Table { name: "truths", read: tracer, rows: TRUTHS },
    Table { name: "headers", read: tracer, rows: HEADERS },
    Table { name: "secrets", read: tracer, rows: SECRETS },
    Table { name: "keys", read: tracer, rows: KEYS },
    Table { name: "mistakes", read: text, rows: MISTAKES },
];

#[test]
fn every_row_holds() {
    hold(TABLES);
}

/// Reads a tracer whose further keys begin in line 4.
pub(crate) fn tracer(keys: &str) -> Outcome {
    text(&format!("[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\n{keys}\n"))
}

pub(crate) fn text(text: &str) -> Outcome {
    Outcome::of(Config::from_toml_str(text))
}

/// A duration is a whole number and a unit: `d h m s ms`.
const DURATIONS: &[Row] = &[
    row("days", "timeout = '2d'", &["timeout = 2d", "timeout from 4:11"]),
    row("hours", "timeout = '3h'", &["timeout = 3h"]),
    row("minutes", "timeout = '90m'", &["timeout = 90m"]),
    row("seconds", "timeout = '5s'", &["timeout = 5s", "check timeout_ms = 5000"]),
    row("milliseconds", "timeout = '250ms'", &["timeout = 250ms"]),
    row("any case of days", "timeout = '2D'", &["timeout = 2d"]),
    row("any case of hours", "timeout = '3H'", &["timeout = 3h"]),
    row("any case of minutes", "timeout = '90M'", &["timeout = 90m"]),
    row("any case of milliseconds", "timeout = '250Ms'", &["timeout = 250ms"]),
    row("a space between", "timeout = '5 S'", &["timeout = 5s"]),
    row("spaces around", "timeout = ' 5s '", &["timeout = 5s"]),
    row("a bare number is milliseconds", "timeout = 1500", &["timeout = 1500ms"]),
    row("a bare number in quotes is, too", "timeout = '1500'", &["timeout = 1500ms"]),
    row("what makes a larger unit is shown so", "timeout = '60000'", &["timeout = 1m"]),
    row(
        "a bare number that is probably meant in seconds",
        "timeout = 5",
        &[
            "timeout = 5ms",
            "warning: 4:11: tracer.otel.timeout: is 5 ms: a number without a unit is milliseconds; \
                write \"5s\" for seconds, or \"5ms\"",
        ],
    ),
    row("so few milliseconds with their unit", "timeout = '5ms'", &["timeout = 5ms"]),
    row("zero where it makes sense", "throttle = 0", &["throttle = 0s"]),
    row("zero with a unit where it makes sense", "throttle = '0h'", &["throttle = 0s"]),
    row(
        "zero where it makes none",
        "timeout = 0",
        &["error: 4:11: tracer.otel.timeout: 0s is too short; write 1ms to 365d"],
    ),
    row(
        "two units",
        "timeout = '1m30s'",
        &["error: 4:11: tracer.otel.timeout: \"1m30s\" has more than one unit; write \"90s\""],
    ),
    row(
        "two units with a space",
        "timeout = '1h 30m'",
        &["error: 4:11: tracer.otel.timeout: \"1h 30m\" has more than one unit; write \"90m\""],
    ),
    row(
        "negative, in quotes",
        "timeout = '-1s'",
        &["error: 4:11: tracer.otel.timeout: \"-1s\" is negative; \
            write a whole number and one unit (d, h, m, s or ms), like \"90s\""],
    ),
    row(
        "negative, as a number",
        "timeout = -1000",
        &["error: 4:11: tracer.otel.timeout: -1000 is negative; write a positive number"],
    ),
    row(
        "a fraction, in quotes",
        "timeout = '1.5s'",
        &["error: 4:11: tracer.otel.timeout: \"1.5s\" is a fraction; \
            write a whole number of a smaller unit, like \"1500ms\""],
    ),
    row(
        "a fraction, as a number",
        "timeout = 1.5",
        &["error: 4:11: tracer.otel.timeout: found a float; write a duration like \"10s\", or \"none\""],
    ),
    row(
        "a unit that is none",
        "timeout = '2 weeks'",
        &["error: 4:11: tracer.otel.timeout: \"2 weeks\" has an unknown unit; \
            write a whole number and one unit (d, h, m, s or ms), like \"90s\""],
    ),
    row(
        "a unit that others have",
        "timeout = '5us'",
        &["error: 4:11: tracer.otel.timeout: \"5us\" has an unknown unit; \
            write a whole number and one unit (d, h, m, s or ms), like \"90s\""],
    ),
    row(
        "a unit alone",
        "timeout = 's'",
        &["error: 4:11: tracer.otel.timeout: \"s\" is not a duration; \
            write a whole number and one unit (d, h, m, s or ms), like \"90s\""],
    ),
    row(
        "nothing",
        "timeout = ''",
        &["error: 4:11: tracer.otel.timeout: \"\" is not a duration; \
            write a whole number and one unit (d, h, m, s or ms), like \"90s\""],
    ),
    row(
        "a truth",
        "timeout = true",
        &["error: 4:11: tracer.otel.timeout: found a boolean; write a duration like \"10s\", or \"none\""],
    ),
];

/// Exactly `true` or `false`.
const TRUTHS: &[Row] = &[
    row("true", "lossy = true", &["lossy = true", "check lossy = true"]),
    row("false", "lossy = false", &["lossy = false", "check lossy = false"]),
    row(
        "in quotes",
        "lossy = 'true'",
        &["error: 4:9: tracer.otel.lossy: found a string; write true or false, without quotes"],
    ),
    row(
        "with a capital",
        "lossy = True",
        &["error: 4:9: tracer.otel.lossy: not a value; write true or false, without quotes"],
    ),
    row(
        "yes",
        "lossy = yes",
        &["error: 4:9: tracer.otel.lossy: not a value; write true or false, without quotes"],
    ),
    row(
        "on, in quotes",
        "lossy = 'on'",
        &["error: 4:9: tracer.otel.lossy: found a string; write true or false, without quotes"],
    ),
    row(
        "one",
        "lossy = 1",
        &["error: 4:9: tracer.otel.lossy: found an integer; write true or false, without quotes"],
    ),
];

/// Headers are a list, a string or a table. A broken header disables the exporter.
const HEADERS: &[Row] = &[
    row("a list", "headers = ['A: 1', 'B: 2']", &["headers = A: ***, B: ***", "headers from 4:11"]),
    row("one string", "headers = 'Authorization: hunter2'", &["headers = Authorization: ***"]),
    row("a table", "headers = { A = '1', B = '2' }", &["headers = A: ***, B: ***"]),
    row(
        "a table below",
        "[tracer.otel.headers]\nAuthorization = 'hunter2'",
        &["headers = Authorization: ***"],
    ),
    row("dotted keys", "headers.X-One = '1'\nheaders.X-Two = '2'", &["headers = X-One: ***, X-Two: ***"]),
    row("an empty list", "headers = []", &["headers = none"]),
    row("split at the first colon", "headers = ['A: b:c']", &["headers = A: ***"]),
    row("trimmed", "headers = ['  A  :  1  ']", &["headers = A: ***", "check headers = a"]),
    row(
        "in lower case for programs, as gRPC sends them",
        "headers = ['Authorization: hunter2', 'X-Scope: 1']",
        &["check headers = authorization, x-scope"],
    ),
    row(
        "an invalid name",
        "headers = ['A B: 1']",
        &["error: 4:12: tracer.otel.headers: header 1 has ' ' in its name; names are letters, digits and -"],
    ),
    row(
        "no name",
        "headers = [': hunter2']",
        &["error: 4:12: tracer.otel.headers: header 1 has no name; write it like \"Name: value\""],
    ),
    row(
        "no colon",
        "headers = ['Bearer hunter2']",
        &["error: 4:12: tracer.otel.headers: header without a colon; write it like \"Name: value\""],
    ),
    row(
        "one of several without a colon",
        "headers = ['A: 1', 'hunter2']",
        &["error: 4:20: tracer.otel.headers: header without a colon; write it like \"Name: value\""],
    ),
    row(
        "CR LF",
        "headers = [\"Authorization: hunter2\\r\\nX: y\"]",
        &["error: 4:12: tracer.otel.headers: value of header \"Authorization\" holds a line break; \
            write printable ASCII in one line"],
    ),
    row(
        "CR",
        "headers = [\"A: hunter2\\rX\"]",
        &["error: 4:12: tracer.otel.headers: value of header \"A\" holds a line break; \
            write printable ASCII in one line"],
    ),
    row(
        "LF at the end",
        "headers.A = \"hunter2\\n\"",
        &["error: 4:13: tracer.otel.headers: value of header \"A\" holds a line break; \
            write printable ASCII in one line"],
    ),
    row(
        "a number",
        "headers = 5",
        &["error: 4:11: tracer.otel.headers: found an integer; \
            write a list like [\"Name: value\"], one such string, or a table"],
    ),
    row(
        "a number in a table",
        "headers = { A = 5 }",
        &["error: 4:17: tracer.otel.headers: found an integer; \
            write a list like [\"Name: value\"], one such string, or a table"],
    ),
];

/// `%{env:NAME}%` and `%{file:path}%`.
const SECRETS: &[Row] = &[
    // cargo sets this variable for every test.
    row("from the environment", "headers = ['A: %{env:CARGO_PKG_NAME}%']", &["headers = A: ***"]),
    row(
        "from a file, whose last line break is none of it",
        "headers = ['Authorization: Bearer %{file:tests/config/acceptance/documents/token}%']",
        &["headers = Authorization: ***"],
    ),
    row(
        "inside a value that is shown otherwise",
        "endpoint = 'http://%{env:CARGO_PKG_NAME}%.test/x'",
        &["endpoint = http://%{env:CARGO_PKG_NAME}%.test/x"],
    ),
    row(
        "two of them",
        "headers = { A = '%{env:CARGO_PKG_NAME}%:%{file:tests/config/acceptance/documents/token}%' }",
        &["headers = A: ***"],
    ),
    row(
        "a variable that is not set",
        "headers = ['A: %{env:STANDPIPE_NO_SUCH}%']",
        &["error: 4:12: tracer.otel.headers: environment variable \"STANDPIPE_NO_SUCH\" is not set; \
            set it to the value"],
    ),
    row(
        "a file that is not there",
        "headers = ['A: %{file:no/such}%']",
        &["error: 4:12: tracer.otel.headers: cannot read file \"no/such\": no such file; \
            write the path of a readable file"],
    ),
    row(
        "one that is not closed",
        "headers = ['A: %{env:HOME']",
        &["error: 4:12: tracer.otel.headers: unclosed %{; close it with }%, like %{env:NAME}%"],
    ),
    row(
        "of a kind that there is not",
        "headers = ['A: %{vault:hunter2}%']",
        &["error: 4:12: tracer.otel.headers: unknown kind of %{…}%; write %{env:NAME}% or %{file:path}%"],
    ),
    row(
        "a broken value does not show it",
        "timeout = '%{file:tests/config/acceptance/documents/token}%'",
        &[
            "error: 4:11: tracer.otel.timeout: \"%{file:tests/config/acceptance/documents/token}%\" is not a duration; \
            write a whole number and one unit (d, h, m, s or ms), like \"90s\"",
        ],
    ),
];

/// Unknown and duplicate keys.
const KEYS: &[Row] = &[
    row(
        "unknown, near a known one",
        "endpont = 'x'",
        &["exporters = otel", "warning: 4:1: tracer.otel.endpont: unknown key; did you mean \"endpoint\"?"],
    ),
    row(
        "unknown, near none",
        "colour = 'red'",
        &["exporters = otel", "warning: 4:1: tracer.otel.colour: unknown key; remove it"],
    ),
    row(
        "with an underscore",
        "enable.log_exporter = true",
        &[
            "warning: 4:8: tracer.otel.enable.log_exporter: unknown key; did you mean \"enable.log-exporter\"?",
        ],
    ),
    row(
        "duplicate",
        "timeout = 1000\ntimeout = 2",
        &[
            "error: 5:1: tracer.otel.timeout: duplicate key; it is already set in line 4; remove one of the two",
        ],
    ),
    row(
        "duplicate, far apart",
        "lossy = true\n\n# again\nthrottle = 1000\nlossy = true",
        &["error: 8:1: tracer.otel.lossy: duplicate key; it is already set in line 4; remove one of the two"],
    ),
];

/// All errors are reported at once, and an error affects only its own exporter.
const MISTAKES: &[Row] = &[
    row(
        "three in one exporter",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http'\ntimeout = 0\nlossy = 1\nendpoint = 'ftp://a'",
        &[
            "error: 4:11: tracer.a.timeout: 0s is too short; write 1ms to 365d",
            "error: 5:9: tracer.a.lossy: found an integer; write true or false, without quotes",
            "error: 6:12: tracer.a.endpoint: \"ftp://***\" has an unknown scheme; write http:// or https://",
        ],
    ),
    row(
        "a broken value disables no other exporter",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http'\ntimeout = 0\n[tracer.b]\ntype = 'otel'\ntransport = 'http'",
        &["exporters = b", "error: 4:11: tracer.a.timeout: 0s is too short; write 1ms to 365d"],
    ),
    row(
        "a broken line disables no other exporter",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n[tracer.b]\ntype = 'otel'\ntransport = 'http'\ntimeout",
        &["exporters = a", "error: 7:1: tracer.b.timeout: key without a value; write key = value"],
    ),
    row(
        "broken metrics disable no tracer",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n[metrics.open-telemetry]\ntransport = 'http'\ninterval = 0",
        &[
            "exporters = a",
            "error: 6:12: metrics.open-telemetry.interval: 0s is too short; write 1ms to 365d",
        ],
    ),
    row(
        "a broken route disables no tracer",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n[server.telemetry]\nexporter = 'x'",
        &[
            "exporters = a",
            "error: 5:12: server.telemetry.exporter: there is no exporter \"x\"; \
                describe it below telemetry.exporters",
        ],
    ),
];

#[test]
fn a_message_names_the_file_the_line_and_the_column() {
    let scratch = Scratch::new();
    let text = "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\n  timeout = '0s'\n";
    let path = scratch.write("telemetry.toml", text);
    let error = Config::from_file(&path).expect_err("zero");
    let place = format!("{}:4:13", path.display());
    assert_eq!(
        error.to_string(),
        format!("{place}: tracer.otel.timeout: 0s is too short; write 1ms to 365d")
    );
}

#[test]
fn what_is_usable_can_be_started_without_what_is_broken() {
    let text = "[tracer.a]\ntype = 'otel'\ntransport = 'http'\ntimeout = 0\n\
                [tracer.b]\ntype = 'otel'\ntransport = 'http'\nendpoint = 'http://127.0.0.1:9'\nproxy = 'off'";
    let usable = Config::from_toml_str(text).expect_err("zero").into_usable();
    let ledger = Telemetry::start(usable).unwrap().shutdown(LONG);
    assert_eq!(ledger.exporters.len(), 1);
}

#[test]
fn headers_are_sent_as_they_were_given() {
    let receiver = Receiver::start().unwrap();
    let text = format!(
        "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nproxy = 'off'\nendpoint = '{}'\n\
         headers = ['Authorization:  Basic a:b ']\n",
        receiver.endpoint()
    );
    let telemetry = Telemetry::start(Config::from_toml_str(&text).unwrap()).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!(receiver.requests()[0].header("Authorization"), Some("Basic a:b"));
}
