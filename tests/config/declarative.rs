//! OpenTelemetry's declarative configuration: the settings and the diagnostics of its examples.

use std::fs;
use std::path::PathBuf;

use standpipe::config::{Setting, SettingSource};
use standpipe::receiver::Receiver;
use standpipe::{Config, ConfigError, Telemetry};

use crate::support::cases::stride;
use crate::support::settings::{diagnostics, names};

const FORMAT: &str = "file_format: \"1.0\"\npropagator: {composite_list: tracecontext}\n";

/// Returns every setting and exporter that is not a default, then all diagnostics.
fn described(read: Result<Config, ConfigError>) -> Vec<String> {
    let (config, said) = match read {
        Ok(config) => (config.clone(), diagnostics(&config)),
        Err(error) => {
            (error.clone().into_usable(), error.diagnostics().iter().map(ToString::to_string).collect())
        }
    };
    let shown = |settings: Vec<Setting>| {
        let set = settings.into_iter().filter(|setting| setting.source != SettingSource::Default);
        set.map(|setting| format!("{}={}", setting.key, setting.value)).collect::<Vec<_>>().join(" ")
    };
    let exporters = config.exporters().iter();
    let exporters = exporters.map(|exporter| format!("{}: {}", exporter.name(), shown(exporter.effective())));
    let said = said.into_iter().map(|line| line.replace("<yaml>:", ""));
    [shown(config.effective())].into_iter().chain(exporters).chain(said).collect()
}

/// Writes a file for a test, and returns its path.
fn written(name: &str, text: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("declarative");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Reads a file as `OTEL_CONFIG_FILE`, with further variables.
fn read_with(name: &str, text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let path = written(name, text);
    Config::from_variables([("OTEL_CONFIG_FILE", &*path)].iter().chain(variables).copied())
}

#[test]
fn each_example_has_the_settings_of_the_schema_and_names_what_is_not_honored() {
    for (name, text, expected) in CASES {
        assert_eq!(described(Config::from_yaml_str(text)), *expected, "{name}");
    }
}

#[test]
fn a_file_that_the_variable_names_is_the_only_source() {
    let text = format!(
        "{FORMAT}resource: {{attributes: [{{name: service.name, value: '${{OTEL_SERVICE_NAME}}'}}]}}\n\
         tracer_provider: {{processors: [{{batch: {{exporter: {{otlp_http: }}}}}}]}}\n"
    );
    let variables = [
        ("OTEL_SERVICE_NAME", "shop"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_SOMETHING", "else"),
        ("HOME", "/root"),
    ];
    let config = read_with("only.yaml", &text, &variables).unwrap();
    let summary = &config.summaries()[0];
    assert_eq!((&*summary.service_name, summary.sampling, summary.headers.len()), ("shop", 100.0, 0));
    let ignored = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SOMETHING", "OTEL_TRACES_SAMPLER"];
    let what = "ignored: the file does not refer to it; write a reference to it, or unset it";
    let expected = ignored.map(|name| format!("warning: {name}: {what}"));
    assert_eq!(diagnostics(&config), expected);
    assert_eq!(
        Config::from_variables_if_set([("OTEL_CONFIG_FILE", "/none.yaml")]).unwrap_err().to_string(),
        "/none.yaml:1:1: cannot read: no such file; name a readable file of TOML or YAML, at most 1 MiB"
    );
    let other = read_with("other.yaml", "tracer: {}\n", &[]).unwrap_err().to_string();
    let missing = "1:1: file_format: missing, so this is not OpenTelemetry's declarative configuration; write \
                   file_format: \"1.0\"";
    assert!(other.ends_with(missing), "{other}");
}

#[test]
fn the_detector_of_the_service_reads_its_variable_although_the_file_does_not_refer_to_it() {
    let text = format!(
        "{FORMAT}resource: {{detection/development: {{detectors: [{{service: }}]}}}}\n\
         tracer_provider: {{processors: [{{batch: {{exporter: {{otlp_http: }}}}}}]}}\n"
    );
    let config = read_with("service.yaml", &text, &[("OTEL_SERVICE_NAME", "shop")]).unwrap();
    assert_eq!((&*config.summaries()[0].service_name, diagnostics(&config)), ("shop", vec![]));
}

#[test]
fn values_of_foreign_variables_are_sent_and_never_shown() {
    const SECRET: &str = "hunter2";
    let receiver = Receiver::start().unwrap();
    let text = format!(
        "{FORMAT}tracer_provider:\n  processors:\n    - batch:\n        exporter:\n          otlp_http:\n            \
         endpoint: ${{OTEL_EXPORTER_OTLP_ENDPOINT}}/v1/traces\n            headers: [{{name: x-token, value: \
         'Bearer ${{TOKEN}}'}}]\n"
    );
    let endpoint = receiver.endpoint();
    let variables = [("TOKEN", SECRET), ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    let telemetry = Telemetry::start(read_with("sent.yaml", &text, &variables).unwrap()).unwrap();
    telemetry.tracer("shop").span("checkout").end();
    telemetry.shutdown(std::time::Duration::from_secs(5));
    assert_eq!(receiver.requests()[0].header("x-token"), Some("Bearer hunter2"));
    for keys in [
        "compression: '${TOKEN}'",
        "endpoint: 'http://${TOKEN}/x'",
        "endpoint: '${TOKEN}'",
        "tls: {ca_file: '${TOKEN}'}",
        "${TOKEN}: 1",
        "timeout: '${TOKEN}'",
        "encoding: ${TOKEN}",
        "headers_list: ${TOKEN}",
    ] {
        let text = format!(
            "{FORMAT}resource: {{attributes: [{{name: service.name, value: '${{TOKEN}}'}}]}}\ntracer_provider:\n  \
             processors: [{{batch: {{exporter: {{otlp_http: {{{keys}}}}}}}}}]\n  sampler: {{trace_id_ratio_based: \
             {{ratio: '${{TOKEN}}'}}}}\n"
        );
        let said = described(read_with("shown.yaml", &text, &variables)).join("\n");
        assert!(!said.contains(SECRET), "{keys}: {said}");
    }
}

#[test]
fn a_header_with_the_text_of_a_file_is_a_secret_that_exporters_share_if_they_name_the_same_file() {
    for token in ["first", "second"] {
        written(token, "hunter2");
    }
    let read = |of_spans: &str, of_logs: &str| {
        let processors = |path: &str, value: &str| {
            let headers = format!("headers: [{{name: x-tenant, value: '{value}'}}]");
            let endpoint = format!("endpoint: 'http://collector.example/v1/{path}'");
            format!("{{processors: [{{batch: {{exporter: {{otlp_http: {{{endpoint}, {headers}}}}}}}}}]}}\n")
        };
        let (spans, logs) = (processors("traces", of_spans), processors("logs", of_logs));
        let text = format!("{FORMAT}tracer_provider: {spans}logger_provider: {logs}");
        let config = Config::from_file(written("headers.yaml", &text)).unwrap();
        let warns = diagnostics(&config).iter().any(|it| it.contains("credentials are sent in clear text"));
        (config.exporters().len(), warns)
    };
    assert_eq!(read("%{file:first}%", "%{file:first}%"), (1, true));
    assert_eq!(read("%{file:first}%", "%{file:second}%"), (2, true));
    assert_eq!(read("%{file:first}%", "hunter2"), (2, true));
    assert_eq!(read("hunter2", "hunter2"), (1, false));
}

/// Damages each line of an example in several ways. The part that is still valid can always be started.
#[test]
fn damaged_examples_are_read_without_a_panic_and_the_rest_can_be_started() {
    let examples = CASES.iter().filter(|(_, text, _)| text.len() > 300).map(|(_, text, _)| *text);
    let (mut number, mut count, mut failed) = (0, 0, 0);
    for example in examples {
        let lines: Vec<&str> = example.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let cut = line.char_indices().nth(line.chars().count() / 2).map_or(0, |(at, _)| at);
            for damaged in [
                String::new(),
                format!("{line}\n{line}"),
                line[..cut].to_owned(),
                line.replace(": ", ": ["),
                line.replace(':', ""),
                line.replace(": ", ": -1 # "),
                line.replace(": ", ": ${A B} # "),
                format!("  {line}"),
                line.trim_start().to_owned(),
            ] {
                number += 1;
                if number % stride() != 0 {
                    continue;
                }
                let mut text = lines.clone();
                text[index] = &damaged;
                let read = Config::from_yaml_str(&text.join("\n"));
                count += 1;
                failed += usize::from(read.is_err());
                let usable = read.unwrap_or_else(ConfigError::into_usable);
                let again = usable.clone().with_environment();
                assert!(again.is_ok(), "{damaged:?}: {}", again.unwrap_err());
                assert!(names(&usable).len() <= 5, "{damaged:?}");
            }
        }
    }
    assert!(failed > count / 5 && failed < count, "{failed} of {count} failed");
}

/// Name, text, and expected settings and diagnostics.
const CASES: &[(&str, &str, &[&str])] = &[
    (
        "getting started",
        r#"file_format: "1.0"
resource:
  attributes:
    - name: service.name
      value: ${OTEL_SERVICE_NAME:-unknown_service}
  detection/development:
    detectors:
      - host:
      - process:
      - service:
propagator:
  composite:
    - tracecontext:
    - baggage:
tracer_provider:
  processors:
    - batch:
        exporter:
          otlp_http:
            endpoint: ${OTEL_EXPORTER_OTLP_ENDPOINT:-http://localhost:4318}/v1/traces
meter_provider:
  readers:
    - periodic:
        exporter:
          otlp_http:
            endpoint: ${OTEL_EXPORTER_OTLP_ENDPOINT:-http://localhost:4318}/v1/metrics
logger_provider:
  processors:
    - batch:
        exporter:
          otlp_http:
            endpoint: ${OTEL_EXPORTER_OTLP_ENDPOINT:-http://localhost:4318}/v1/logs
"#,
        &[
            "service-name=unknown_service detect=host,process,service propagators=tracecontext,baggage",
            "otlp: transport=http endpoint=http://localhost:4318 signals=traces, logs, metrics",
        ],
    ),
    (
        "every default written out",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
disabled: false
log_level:
attribute_limits: {attribute_value_length_limit: , attribute_count_limit: 128, attribute_value_depth_limit: 64}
resource:
  attributes: [{name: service.name, value: shop}]
  attributes_list:
  schema_url:
tracer_provider:
  processors:
    - batch:
        schedule_delay: 5000
        export_timeout: 30000
        max_queue_size: 2048
        max_export_batch_size: 512
        exporter:
          otlp_http:
            endpoint: http://localhost:4318/v1/traces
            tls: {ca_file: , key_file: , cert_file: }
            headers: [{name: api-key, value: "1234"}]
            headers_list:
            compression: gzip
            timeout: 10000
            max_response_size: 4194304
            encoding: protobuf
    - simple: {exporter: {console: }}
  limits: {attribute_value_length_limit: 4096, attribute_count_limit: 64, event_count_limit: 128, link_count_limit: 128, event_attribute_count_limit: 128, link_attribute_count_limit: 128}
  sampler: {parent_based: {root: {always_on: }, remote_parent_sampled: {always_on: }, remote_parent_not_sampled: {always_off: }, local_parent_sampled: {always_on: }, local_parent_not_sampled: {always_off: }}}
  id_generator: {random: }
meter_provider:
  readers:
    - periodic:
        interval: 60000
        timeout: 30000
        exporter:
          otlp_http:
            endpoint: http://localhost:4318/v1/metrics
            headers: [{name: api-key, value: "1234"}]
            compression: gzip
            temporality_preference: delta
            default_histogram_aggregation: base2_exponential_bucket_histogram
        cardinality_limits: {default: 2000, counter: 3000}
  exemplar_filter: trace_based
logger_provider:
  processors:
    - batch:
        schedule_delay: 1000
        exporter:
          otlp_http:
            endpoint: http://localhost:4318/v1/logs
            headers: [{name: api-key, value: "1234"}]
            compression: gzip
  limits: {attribute_value_length_limit: , attribute_count_limit: 128}
"#,
        &[
            "service-name=shop sampler=parentbased_always_on disabled=false propagators=tracecontext exemplars=trace_based span-limits.attributes=64 span-limits.events=128 span-limits.links=128 span-limits.event-attributes=128 span-limits.link-attributes=128 span-limits.value-length=4096 log-limits.attributes=128",
            "otlp: transport=http endpoint=http://localhost:4318 headers=api-key: *** signals=traces, metrics interval=1m temporality=delta histograms=exponential cardinality-limit=2000 linger=5s queue-records=2048 batch-records=512 timeout=10s give-up-after=30s compression=gzip response-bytes=4 MiB",
            "console: transport=console signals=traces linger=0s",
            "otlp.logs: transport=http endpoint=http://localhost:4318 headers=api-key: *** signals=logs linger=1s compression=gzip",
            "note: 27:15: tracer_provider.processors[1].simple: records are sent at once, but by another thread",
        ],
    ),
    (
        "migration from variables",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
disabled: ${OTEL_SDK_DISABLED:-false}
resource:
  attributes:
    - {name: service.name, value: "${OTEL_SERVICE_NAME:-unknown_service}"}
  attributes_list: ${OTEL_RESOURCE_ATTRIBUTES}
attribute_limits:
  attribute_value_length_limit: ${OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT}
  attribute_count_limit: ${OTEL_ATTRIBUTE_COUNT_LIMIT:-128}
tracer_provider:
  processors:
    - batch:
        schedule_delay: ${OTEL_BSP_SCHEDULE_DELAY:-5000}
        max_queue_size: ${OTEL_BSP_MAX_QUEUE_SIZE:-2048}
        exporter:
          otlp_http:
            endpoint: ${OTEL_EXPORTER_OTLP_TRACES_ENDPOINT:-http://localhost:4318/v1/traces}
            tls:
              ca_file: ${OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE:-}
            compression: ${OTEL_EXPORTER_OTLP_TRACES_COMPRESSION:-gzip}
            timeout: ${OTEL_EXPORTER_OTLP_TRACES_TIMEOUT:-10000}
            headers_list: ${OTEL_EXPORTER_OTLP_TRACES_HEADERS}
  sampler:
    parent_based:
      root:
        trace_id_ratio_based:
          ratio: ${OTEL_TRACES_SAMPLER_ARG:-1.0}
"#,
        &[
            "service-name=unknown_service sampler=parentbased_traceidratio{1} disabled=false propagators=tracecontext span-limits.attributes=128 log-limits.attributes=128",
            "otlp: transport=http endpoint=http://localhost:4318 signals=traces linger=5s queue-records=2048 timeout=10s compression=gzip",
        ],
    ),
    (
        "cardinality limits",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
meter_provider:
  readers:
    - periodic:
        exporter: {console: }
        cardinality_limits: {default: 100, histogram: 5, observable_gauge: 0, timer: 3}
"#,
        &[
            "propagators=tracecontext",
            "7:76: meter_provider.readers[0].periodic.cardinality_limits.observable_gauge: 0 is out of range; write 1 to 100000000",
            "warning: 7:79: meter_provider.readers[0].periodic.cardinality_limits.timer: unknown key; remove it",
        ],
    ),
    (
        "console of each signal",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{simple: {exporter: {console: }}}]}
meter_provider: {readers: [{periodic: {exporter: {console: {temporality_preference: low_memory}}}}]}
logger_provider: {processors: [{batch: {exporter: {console: {color: true}}}}]}
"#,
        &[
            "propagators=tracecontext",
            "console: transport=console signals=traces, metrics temporality=lowmemory linger=0s",
            "console.logs: transport=console signals=logs",
            "note: 3:41: tracer_provider.processors[0].simple: records are sent at once, but by another thread",
            "warning: 5:62: logger_provider.processors[0].batch.exporter.console.color: unknown key; remove it",
        ],
    ),
    (
        "instrumentation",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors:
    - batch: {exporter: {console: }}

instrumentation/development: {general: {http: {}}, rust: {example: {}}}
distribution: {example: {property: 1}}
my_key: 1
tracer_providr: 1
"#,
        &[
            "propagators=tracecontext",
            "console: transport=console signals=traces",
            "note: 7:1: instrumentation/development: ignored: it is for other programs",
            "note: 8:16: distribution.example: ignored: it is for other programs",
            "note: 9:1: my_key: ignored: it is for other programs",
            "warning: 10:1: tracer_providr: unknown key; did you mean \"tracer_provider\"?",
        ],
    ),
    (
        "configurators",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  tracer_configurator/development: {default_config: {enabled: true}}
meter_provider:
  readers: [{periodic: {exporter: {console: }}}]
  meter_configurator/development: {default_config: {enabled: true}}
logger_provider:
  processors: [{batch: {exporter: {console: }}}]
  logger_configurator/development:
    default_config: {enabled: true, minimum_severity: warn2, trace_based: true}
    loggers:
      - {name: sqlx, config: {minimum_severity: error}}
      - {name: noisy, config: {enabled: false}}
"#,
        &[
            "propagators=tracecontext",
            "console: transport=console signals=traces, logs, metrics level=warn2",
            "5:36: tracer_provider.tracer_configurator/development: is not applied; remove it",
            "8:35: meter_provider.meter_configurator/development: is not applied; remove it",
            "12:75: logger_provider.logger_configurator/development.default_config.trace_based: is not applied; remove it",
            "15:41: logger_provider.logger_configurator/development.loggers[1].config.enabled: is not applied; remove it",
        ],
    ),
    (
        "otlp file",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{batch: {exporter: {otlp_file/development: {output_stream: "file:///var/log/traces.jsonl"}}}}]}
meter_provider: {readers: [{periodic: {exporter: {otlp_file/development: {output_stream: stdout, default_histogram_aggregation: explicit_bucket_histogram}}}}]}
logger_provider: {processors: [{batch: {exporter: {otlp_file/development: {output_stream: stderr}}}}, {batch: {exporter: {otlp_file/development: }}}]}
"#,
        &[
            "propagators=tracecontext",
            "file: transport=file file=/var/log/traces.jsonl signals=traces",
            "console: transport=console signals=logs, metrics histograms=explicit",
            "5:91: logger_provider.processors[0].batch.exporter.otlp_file/development.output_stream: is not a stream; write stdout or file:///path",
        ],
    ),
    (
        "prometheus",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
meter_provider:
  readers:
    - pull: {exporter: {prometheus/development: {host: localhost, port: 9464}}}
    - periodic: {interval: 0, exporter: {console: }, producers: [{opencensus: }]}
"#,
        &[
            "propagators=tracecontext",
            "5:13: meter_provider.readers[0].pull: is not supported; write periodic with otlp_http",
            "6:28: meter_provider.readers[1].periodic.interval: 0 is out of range; write 1 to 31536000000",
            "6:65: meter_provider.readers[1].periodic.producers: is not applied; remove it",
        ],
    ),
    (
        "id generator",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  id_generator: {time_ordered: {}}
"#,
        &[
            "propagators=tracecontext",
            "console: transport=console signals=traces",
            "warning: 5:17: tracer_provider.id_generator: has no effect: ids are random unless the program sets a generator; remove it",
        ],
    ),
    (
        "limits",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
attribute_limits: {attribute_count_limit: 10, attribute_value_length_limit: 20, attribute_value_depth_limit: 3}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  limits: {attribute_count_limit: 5, event_count_limit: 0, link_count_limit: -1}
logger_provider:
  processors: [{batch: {exporter: {console: }}}]
  limits: {attribute_value_length_limit: 7}
"#,
        &[
            "propagators=tracecontext span-limits.attributes=5 span-limits.events=0 span-limits.value-length=20 log-limits.attributes=10 log-limits.value-length=7",
            "console: transport=console signals=traces, logs",
            "warning: 3:110: attribute_limits.attribute_value_depth_limit: has no effect: values have up to 30 levels; remove it",
            "6:78: tracer_provider.limits.link_count_limit: -1 is negative; write a positive number",
        ],
    ),
    (
        "grpc",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors:
    - batch:
        exporter:
          otlp_grpc:
            endpoint: http://localhost:4317
            headers: [{name: api-key, value: hunter2}, {name: skipped, value: }]
            headers_list: "api-key=other,tenant=seven"
            compression: gzip
            timeout: 0
            max_request_size: 0
            max_response_size: 1048576
            tls: {insecure: false}
    - batch: {exporter: {otlp_grpc: {endpoint: "collector:4317", tls: {insecure: true}}}}
    - batch: {exporter: {otlp_grpc: {endpoint: "collector:4317"}}}
"#,
        &[
            "propagators=tracecontext",
            "otlp.traces: transport=grpc endpoint=http://localhost:4317 headers=tenant: ***, api-key: *** signals=traces batch-bytes=64 MiB timeout=none compression=gzip response-bytes=1 MiB",
            "otlp.traces.2: transport=grpc endpoint=collector:4317 signals=traces",
            "otlp.traces.3: transport=grpc endpoint=collector:4317 signals=traces",
            "warning: 9:77: tracer_provider.processors[0].batch.exporter.otlp_grpc.headers[1].value: is null, so this header is not sent; write text, or remove it",
            "warning: 17:48: tracer_provider.processors[2].batch.exporter.otlp_grpc.endpoint: has no scheme, so TLS is used; begin it with https://, or write http://",
        ],
    ),
    (
        "http",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors:
    - batch: {exporter: {otlp_http: {endpoint: "http://localhost:4318", encoding: json}}}
    - batch: {exporter: {otlp_http: {endpoint: "https://collector/otlp/v1/traces", tls: {ca_file: ca.pem, cert_file: /no/cert.pem}}}}
    - batch: {exporter: {otlp_http: {encoding: xml, compression: GZIP, timeout: 1s}}}
meter_provider:
  readers: [{periodic: {exporter: {otlp_http: {temporality_preference: DELTA}}}}]
"#,
        &[
            "propagators=tracecontext",
            "otlp: transport=http/json endpoint=http://localhost:4318 signals=traces",
            "warning: 5:48: tracer_provider.processors[0].batch.exporter.otlp_http.endpoint: has no path, so traces are posted to /; append /v1/traces",
            "warning: 6:99: tracer_provider.processors[1].batch.exporter.otlp_http.tls.ca_file: is relative to the directory of this file; write an absolute path",
            "6:99: tracer_provider.processors[1].batch.exporter.otlp_http.tls.ca_file: cannot read file \"ca.pem\": no such file; write the path of a readable file",
            "6:118: tracer_provider.processors[1].batch.exporter.otlp_http.tls.cert_file: cannot read file \"/no/cert.pem\": no such file; write the path of a readable file",
            "7:48: tracer_provider.processors[2].batch.exporter.otlp_http.encoding: \"xml\" is not known; write protobuf or json",
            "7:66: tracer_provider.processors[2].batch.exporter.otlp_http.compression: \"GZIP\" is not known; did you mean \"gzip\"?",
            "7:81: tracer_provider.processors[2].batch.exporter.otlp_http.timeout: found a string; write a whole number, without quotes",
            "9:72: meter_provider.readers[0].periodic.exporter.otlp_http.temporality_preference: \"DELTA\" is not known; did you mean \"delta\"?",
        ],
    ),
    (
        "propagators",
        r#"file_format: "1.0"
tracer_provider: {processors: [{batch: {exporter: {console: }}}]}
propagator:
  composite: [{tracecontext: }, {baggage: }, {b3: }]
  composite_list: "tracecontext,b3multi,xray"
"#,
        &[
            "propagators=tracecontext,baggage,b3,b3multi",
            "console: transport=console signals=traces",
            "warning: 5:19: propagator.composite_list: \"xray\" is not supported: only AWS reads it; write tracecontext",
        ],
    ),
    (
        "resource",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{batch: {exporter: {console: }}}]}
resource:
  attributes:
    - {name: service.name, value: shop}
    - {name: text, value: seven, type: string}
    - {name: flag, value: true, type: bool}
    - {name: whole, value: 7, type: int}
    - {name: half, value: 0.5, type: double}
    - {name: texts, value: [a, b], type: string_array}
    - {name: flags, value: [true, false], type: bool_array}
    - {name: wholes, value: [1, 2], type: int_array}
    - {name: halves, value: [1, 0.5], type: double_array}
    - {name: digits, value: 7}
    - {name: wrong, value: seven, type: int}
    - {name: odd, value: [a], type: text}
    - {name: text, value: again}
    - {name: none, value: }
    - {value: 1}
  attributes_list: "service.namespace=demo,text=loses"
  schema_url: https://opentelemetry.io/schemas/1.16.0
  detection/development:
    attributes: {included: ["process.*"]}
    detectors: [{container: }, {host: }, {process: }, {service: }, {cloud: }]
"#,
        &[
            "service-name=shop resource=text=seven resource=flag=true resource=whole=7 resource=half=0.5 resource=texts=… resource=flags=… resource=wholes=… resource=halves=… resource=digits=7 resource=service.namespace=demo detect=container,host,process,service propagators=tracecontext",
            "console: transport=console signals=traces",
            "warning: 15:29: resource.attributes[9].value: found an integer, but the type is string; quote it, or write its type",
            "16:28: resource.attributes[10].value: found a string; write a value of its type, or change the type",
            "17:37: resource.attributes[11].type: \"text\" is not known; write string, bool, int, double, string_array, bool_array, int_array or double_array",
            "18:27: resource.attributes[12].value: duplicate key; it is already set in line 7; remove one of the two",
            "20:7: resource.attributes[14].name: missing; write it: the schema requires it",
            "warning: 24:17: resource.detection/development.attributes: has no effect: all attributes of the detectors are added; remove it",
            "25:74: resource.detection/development.detectors[4].cloud: is not known here; write host, os, process, container or service",
        ],
    ),
    (
        "sampler: always record",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  sampler: {always_record: {root: {parent_based: {root: {always_off: }}}}}
"#,
        &[
            "sampler=always_record{parentbased_always_off} propagators=tracecontext",
            "console: transport=console signals=traces",
        ],
    ),
    (
        "sampler: parent based",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  sampler: {parent_based: {root: {trace_id_ratio_based: {ratio: 0.25}}, remote_parent_sampled: {trace_id_ratio_based: {ratio: 0.5}}}}
"#,
        &[
            "sampler=parentbased_traceidratio{0.25} propagators=tracecontext",
            "console: transport=console signals=traces",
            "5:96: tracer_provider.sampler.parent_based.remote_parent_sampled: standpipe records a span if its parent is recorded; write always_on, or leave it out",
        ],
    ),
    (
        "sampler: probability",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  sampler: {probability/development: {ratio: 0.5}}
"#,
        &[
            "sampler=composite{Probability(0.5)} propagators=tracecontext",
            "console: transport=console signals=traces",
        ],
    ),
    (
        "sampler: rules",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  sampler: {composite/development: {rule_based: {rules: [{attribute_values: {key: http.route, values: [/health]}, sampler: {always_off: }}, {attribute_patterns: {key: http.path, included: [/internal/*], excluded: [/internal/x]}, sampler: {always_on: }}, {parent: [none, remote], span_kinds: [client], sampler: {probability: {ratio: 0.05}}}, {sampler: {parent_threshold: {root: {always_on: }}}}]}}}
"#,
        &[
            "sampler=composite{RuleBased([SamplingRule { names: [], kinds: [], parents: [], attributes: [AttributeCondition { key: \"http.route\", values: [\"/health\"], included: [], excluded: [] }], sampler: AlwaysOff }, SamplingRule { names: [], kinds: [], parents: [], attributes: [AttributeCondition { key: \"http.path\", values: [], included: [\"/internal/*\"], excluded: [\"/internal/x\"] }], sampler: AlwaysOn }, SamplingRule { names: [], kinds: [Client], parents: [None, Remote], attributes: [], sampler: Probability(0.05) }, SamplingRule { names: [], kinds: [], parents: [], attributes: [], sampler: ParentThreshold(AlwaysOn) }])} propagators=tracecontext",
            "console: transport=console signals=traces",
        ],
    ),
    (
        "sampler: plug-in",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  sampler: {redis_ping: {}}
"#,
        &[
            "propagators=tracecontext",
            "console: transport=console signals=traces",
            "5:25: tracer_provider.sampler.redis_ping: is not known here; write always_on, always_off, parent_based, trace_id_ratio_based, always_record, probability/development, composite/development or jaeger_remote/development",
        ],
    ),
    (
        "sampler: remote",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  sampler: {jaeger_remote/development: {endpoint: 'http://x', initial_sampler: {always_on: }}}
"#,
        &[
            "propagators=tracecontext",
            "console: transport=console signals=traces",
            "5:40: tracer_provider.sampler.jaeger_remote/development: no sampler asks a server; write parent_based with trace_id_ratio_based",
        ],
    ),
    (
        "sampler: bad ratio",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors: [{batch: {exporter: {console: }}}]
  sampler: {trace_id_ratio_based: {ratio: 2}}
"#,
        &[
            "propagators=tracecontext",
            "console: transport=console signals=traces",
            "5:43: tracer_provider.sampler.trace_id_ratio_based.ratio: is not a ratio of traces; write 0 to 1, like 0.25",
        ],
    ),
    (
        "views",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
meter_provider:
  readers: [{periodic: {exporter: {console: }}}]
  views:
    - selector: {instrument_name: my-instrument, instrument_type: histogram, unit: ms, meter_name: m, meter_version: 1.0.0, meter_schema_url: https://x}
      stream: {name: new, description: d, aggregation: {explicit_bucket_histogram: {boundaries: [0.0, 5.0], record_min_max: true}}, aggregation_cardinality_limit: 2000, attribute_keys: {included: [a], excluded: [b]}}
    - {selector: {instrument_name: "*"}, stream: {aggregation: {lowest_value: }}}
"#,
        &[
            "propagators=tracecontext view=my-instrument",
            "console: transport=console signals=metrics",
            "8:64: meter_provider.views.stream.aggregation: is not an aggregation; write default, drop, sum, last_value, explicit_bucket_histogram or base2_exponential_bucket_histogram",
        ],
    ),
    (
        "settings of standpipe",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors:
    - batch: {exporter: {otlp_http: }}
    - batch: {exporter: {otlp_http: }}
logger_provider: {processors: [{batch: {schedule_delay: 5000, exporter: {otlp_http: }}}]}
distribution:
  standpipe:
    self-observation: true
    traces: [{lossy: false, block-timeout: 1s}, {queue-bytes: 1 MiB}]
    logs: {level: warn, trottle: 1s, linger: 5s}
    metrics: {interval: 1s}
"#,
        &[
            "propagators=tracecontext self-observation=true",
            "otlp.traces: transport=http signals=traces lossy=false block-timeout=1s",
            "otlp.traces.2: transport=http signals=traces queue-bytes=1 MiB",
            "otlp.logs: transport=http signals=logs level=warn linger=5s",
            "warning: 10:23: self-observation: has no effect: no exporter sends metrics; add an exporter of metrics",
            "warning: 12:25: distribution.standpipe.logs.trottle: unknown key; did you mean \"throttle\"?",
            "warning: 13:14: distribution.standpipe.metrics: has no effect: no exporter sends them; remove it",
        ],
    ),
    (
        "too few settings of standpipe",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{batch: {exporter: {console: }}}, {batch: {exporter: {otlp_http: }}}]}
distribution: {standpipe: {traces: [{lossy: false}]}}
"#,
        &[
            "propagators=tracecontext",
            "console: transport=console signals=traces lossy=false",
            "otlp: transport=http signals=traces",
            "4:36: distribution.standpipe.traces: does not have one item for each of the processors; write a list with as many items, or one table",
        ],
    ),
    (
        "queues",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{batch: {max_queue_size: 100, max_export_batch_size: 200, exporter: {otlp_http: }}}]}
logger_provider: {processors: [{batch: {max_queue_size: 0, exporter: {otlp_http: }}}]}
meter_provider: {readers: [{periodic: {exporter: {otlp_http: }}}]}
"#,
        &[
            "propagators=tracecontext",
            "otlp: transport=http signals=traces, metrics queue-records=100 batch-records=200",
            "warning: 3:85: tracer_provider.processors[0].batch.max_export_batch_size: 200 is more than the queue holds: a request has at most 100 records; write 100 or less, or make the queue larger",
            "4:57: logger_provider.processors[0].batch.max_queue_size: 0 is out of range; write 1 to 16777215",
        ],
    ),
    (
        "half of a pair",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{batch: {exporter: {otlp_grpc: {tls: {cert_file: Cargo.toml}}}}}]}
distribution: {standpipe: {traces: {lossy: false, block-timeout: 0s}}}
"#,
        &[
            "propagators=tracecontext",
            "warning: 3:81: tracer_provider.processors[0].batch.exporter.otlp_grpc.tls.cert_file: is relative to the directory of this file; write an absolute path",
            "3:81: tracer_provider.processors[0].batch.exporter.otlp_grpc.tls.key_file: missing, but needed by cert_file; write both or neither",
            "4:66: distribution.standpipe.traces.block-timeout: 0s means never to wait; write lossy = true for that",
        ],
    ),
    (
        "string for int",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors:
    - batch: {schedule_delay: "5000", exporter: {console: }}
"#,
        &[
            "propagators=tracecontext",
            "5:31: tracer_provider.processors[0].batch.schedule_delay: found a string; write a whole number, without quotes",
        ],
    ),
    (
        "missing required",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{batch: {}}]}
meter_provider: {}
logger_provider: {processors: []}
"#,
        &[
            "propagators=tracecontext",
            "3:40: tracer_provider.processors[0].batch.exporter: missing; write it: the schema requires it",
            "4:17: meter_provider.readers: missing; write it: the schema requires it",
            "5:31: logger_provider.processors: is empty; write an item or remove it",
        ],
    ),
    (
        "multiple components",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{batch: {exporter: {console: , otlp_http: }}}, {}, 7]}
"#,
        &[
            "propagators=tracecontext",
            "3:51: tracer_provider.processors[0].batch.exporter: has several keys; write one key: otlp_http, otlp_grpc, otlp_file/development, console",
            "3:79: tracer_provider.processors[1]: found a table; write one key: batch, simple",
            "3:83: tracer_provider.processors[2]: found an integer; write one key: batch, simple",
        ],
    ),
    (
        "drafts of the schema",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider: {processors: [{batch: {exporter: {otlp: {protocol: grpc}}}}, {batch: {exporter: {otlp_http: {certificate_file: /x}}}}]}
"#,
        &[
            "propagators=tracecontext",
            "otlp: transport=http signals=traces",
            "3:58: tracer_provider.processors[0].batch.exporter.otlp: is not known here; write otlp_http or otlp_grpc",
            "warning: 3:111: tracer_provider.processors[1].batch.exporter.otlp_http.certificate_file: unknown key; remove it",
        ],
    ),
    (
        "null tables",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
resource:
attribute_limits:
tracer_provider:
"#,
        &[
            "propagators=tracecontext",
            "3:9: resource: found nothing; write its keys below it",
            "4:17: attribute_limits: found nothing; write its keys below it",
            "5:16: tracer_provider: found nothing; write its keys below it",
        ],
    ),
    (
        "disabled",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
disabled: true
"#,
        &["disabled=true propagators=tracecontext"],
    ),
    (
        "nothing",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}

"#,
        &[
            "propagators=tracecontext",
            "warning: 1:1: describes no exporter: there is no tracer_provider, meter_provider or logger_provider; write one of them, as standpipe init otel does",
        ],
    ),
    (
        "bad yaml",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors
  x: 1
"#,
        &[
            "",
            "5:4: an unexpected colon; quote text that contains a colon, indent keys alike, and close brackets and quotes above",
        ],
    ),
    (
        "number as format",
        r#"file_format: 1.0
propagator: {composite_list: b3}

tracer_provider:
  processors:
    - batch: {exporter: {console: }}
"#,
        &[
            "propagators=b3",
            "console: transport=console signals=traces",
            "warning: 1:14: file_format: is a number, which other SDKs refuse; write it in quotes",
        ],
    ),
    (
        "later minor",
        r#"file_format: '1.7'
propagator: {composite_list: b3}

tracer_provider:
  processors:
    - batch: {exporter: {console: }}
"#,
        &[
            "propagators=b3",
            "console: transport=console signals=traces",
            "warning: 1:14: file_format: is newer than standpipe, which knows 1.0 to 1.2; remove keys that are reported as unknown",
        ],
    ),
    (
        "release candidate",
        r#"file_format: 1.0-rc.3
propagator: {composite_list: b3}

tracer_provider:
  processors:
    - batch: {exporter: {console: }}
"#,
        &["propagators=b3", "console: transport=console signals=traces"],
    ),
    (
        "other major",
        r#"file_format: '2.0'

tracer_provider:
  processors:
    - batch: {exporter: {console: }}
"#,
        &["", "1:14: file_format: is not a version that standpipe reads; write file_format: \"1.0\""],
    ),
    (
        "draft",
        r#"file_format: '0.3'

tracer_provider:
  processors:
    - batch: {exporter: {console: }}
"#,
        &["", "1:14: file_format: is not a version that standpipe reads; write file_format: \"1.0\""],
    ),
    (
        "malformed reference",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors:
    - batch: {exporter: {console: }}
resource: {attributes: [{name: a, value: '${a b}'}]}
"#,
        &[
            "",
            "6:42: a reference is neither ${NAME} nor ${NAME:-default}; write one of these, or $$ for a dollar sign",
        ],
    ),
    (
        "hexadecimal",
        r#"file_format: "1.0"
propagator: {composite_list: tracecontext}
tracer_provider:
  processors:
    - batch: {max_queue_size: 0xff, exporter: {console: }}
"#,
        &["propagators=tracecontext", "console: transport=console signals=traces queue-records=255"],
    ),
];
