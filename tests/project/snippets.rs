//! Every snippet of the README, of the guide and of the README of the benchmarks is compiled, run or parsed by a test.
//!
//! | language | checked by |
//! |---|---|
//! | `rust`, `rust,no_run` | `cargo test --doc`: the README and each chapter are included in the crate |
//! | `rs` | this file: the lines are part of a program of `benches/peers/migration`, which `.ci/run` compiles |
//! | `c`, `cpp`, `python` | this file: the block is a file of `tests/ffi/programs`, which `cargo test --test ffi` runs |
//! | `cmake` | `tests/ffi/run`, which builds the program in C with it |
//! | `sh` | this file: syntax, and the names of programs and features; `tests/cli/exec.rs` runs scripts of the guide |
//! | `toml`, `yaml`, `json` | this file: standpipe, cargo or serde reads the block |
//! | `text` | in the chapter on deployment, this file: standpipe reads the variables. Elsewhere nothing: output, diagrams |

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use standpipe::Config;

const LANGUAGES: [&str; 12] =
    ["rust", "rust,no_run", "rs", "c", "cpp", "python", "cmake", "sh", "toml", "yaml", "json", "text"];
const MANIFEST: &str = include_str!("../../Cargo.toml");
const MIGRATION: &str = include_str!("../../src/guide/migration.md");

/// A code block of a document.
struct Block {
    /// Document and number of the first line.
    place: String,
    language: String,
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the names and texts of all documents.
fn documents() -> Vec<(String, String)> {
    let guide = fs::read_dir(root().join("src/guide")).expect("the guide is there");
    let mut paths: Vec<PathBuf> = guide.map(|entry| entry.expect("it can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.extend(["README.md", "benches/README.md"].map(|name| root().join(name)));
    paths.sort();
    let text = |path: PathBuf| {
        let name = path.strip_prefix(root()).expect("it is in the repository").display().to_string();
        (name, fs::read_to_string(path).expect("it is a text"))
    };
    paths.into_iter().map(text).collect()
}

/// Returns the code blocks of all documents.
fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for (name, text) in documents() {
        let mut open: Option<Block> = None;
        for (number, line) in (1..).zip(text.lines()) {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    let (place, language) = (format!("{name}:{number}"), language.to_owned());
                    open = Some(Block { place, language, code: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => block.code += &format!("{line}\n"),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{name}: a block is never closed");
    }
    blocks
}

/// Returns the code blocks of a language.
fn blocks_in(language: &str) -> Vec<Block> {
    blocks().into_iter().filter(|block| block.language == language).collect()
}

#[test]
fn every_block_has_a_language_that_is_checked() {
    let blocks = blocks();
    assert!(blocks.len() > 80, "{}", blocks.len());
    for Block { place, language, code } in blocks {
        assert!(LANGUAGES.contains(&language.as_str()), "{place}: {language:?}");
        // Only the README and the guide are part of the doc tests.
        let is_doc = place.starts_with("src/guide/") || place.starts_with("README.md");
        assert!(is_doc || !language.starts_with("rust"), "{place} is not a doc test");
        let commands = ["cargo ", "standpipe exec ", "standpipe log ", "export ", "curl ", "fn ", "let "];
        // Lines with an ellipsis are overviews of the command, not code.
        let mut lines = code.lines().filter(|line| !line.contains('…'));
        let is_code = lines.any(|line| commands.iter().any(|command| line.starts_with(command)));
        assert!(language != "text" || !is_code, "{place} is code");
    }
}

#[test]
fn the_code_before_a_migration_is_part_of_programs_that_are_compiled() {
    let snippets = blocks_in("rs");
    assert_eq!(snippets.len(), MIGRATION.matches("```rs\n").count());
    for (Block { place, code, .. }, program) in snippets.into_iter().zip(["tracing", "opentelemetry"]) {
        let path = format!("benches/peers/migration/{program}/before/src/main.rs");
        let program = fs::read_to_string(root().join(&path)).expect(&path);
        let mut lines = program.lines().map(str::trim);
        for line in code.lines() {
            let line = line.split("//").next().unwrap_or_default().trim();
            assert!(
                line.is_empty() || lines.any(|compiled| compiled == line),
                "{place}: not in {path}: {line}"
            );
        }
    }
}

#[test]
fn configurations_are_read_without_a_diagnostic_and_manifests_by_cargo() {
    let mut read = [0; 3];
    for Block { place, language, code } in blocks() {
        // The blocks refer to a secret in the environment.
        let file = code.replace("%{env:OTLP_TOKEN}%", "secret");
        let is_manifest = ["[dependencies]", "[profile."].iter().any(|section| code.starts_with(section));
        let config = match language.as_str() {
            "toml" if is_manifest => {
                check_manifest(&place, &code);
                read[0] += 1;
                continue;
            }
            "toml" => Config::from_toml_str(&file),
            "yaml" => Config::from_yaml_str(&file),
            _ => continue,
        };
        let config = config.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(config.diagnostics().is_empty(), "{place}: {:?}", config.diagnostics());
        assert!(!config.exporters().is_empty(), "{place}");
        read[1 + usize::from(language == "yaml")] += 1;
    }
    assert!(read[0] >= 3 && read[1] >= 5 && read[2] >= 2, "{read:?}");
}

/// Checks a part of a manifest: this crate has the named features, and the benchmarks measure the same profile.
fn check_manifest(place: &str, code: &str) {
    let part: toml::Table = code.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
    if let Some(dependencies) = part.get("dependencies") {
        let features = dependencies["standpipe"].get("features").and_then(toml::Value::as_array);
        let names = features.into_iter().flatten().map(|name| name.as_str().expect(place));
        names.for_each(|name| assert!(is_feature(name), "{place}: {name}"));
    } else {
        let measured = include_str!("../../benches/peers/Cargo.toml");
        let measured: toml::Table = measured.parse().expect("cargo reads it");
        assert_eq!(part["profile"]["small"], measured["profile"]["small"], "{place}");
    }
}

fn is_feature(name: &str) -> bool {
    MANIFEST.lines().any(|line| line.starts_with(&format!("{name} = [")))
}

#[test]
fn json_has_the_fields_that_the_command_prints() {
    let [Block { place, code, .. }] = &blocks_in("json")[..] else { panic!("there is one block of JSON") };
    let shown: serde_json::Value = serde_json::from_str(code).expect(place);
    let file = "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nendpoint = 'https://collector.example'\n";
    let summary = &Config::from_toml_str(file).expect("it is right").summaries()[0];
    let summary = serde_json::to_value(summary).expect("it can be serialized");
    let keys =
        |value: &serde_json::Value| value.as_object().expect(place).keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&shown["exporters"][0]), keys(&summary));
}

#[test]
fn environment_variables_are_read_without_a_diagnostic() {
    let mut blocks_read = 0;
    for Block { place, code, .. } in blocks_in("sh") {
        let exports = code.lines().filter_map(|line| line.strip_prefix("export OTEL_")?.split_once('='));
        let variables = exports.map(|(name, value)| (format!("OTEL_{name}"), value.split(' ').next()));
        let variables: Vec<(String, &str)> =
            variables.map(|(name, value)| (name, value.unwrap_or_default())).collect();
        if !variables.is_empty() {
            let config = Config::from_variables(variables).expect(&place);
            assert!(config.diagnostics().is_empty(), "{place}: {:?}", config.diagnostics());
            blocks_read += 1;
        }
    }
    assert_eq!(blocks_read, 2);
}

/// Returns the variables that a unit of systemd, a command of Docker or the manifest of a pod sets. The value of a
/// variable from the downward API is the path of its field.
fn variables_of_deployment(code: &str) -> Vec<(String, String)> {
    let of_unit = code.lines().filter_map(|line| line.strip_prefix("Environment="));
    let of_command = code.split("--env ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    let assigned = of_unit.chain(of_command).map(|text| text.split_once('=').expect(text));
    let mut variables: Vec<(String, String)> =
        assigned.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for item in code.split("- name: ").skip(1) {
        let (name, rest) = item.split_once('\n').expect(item);
        let (key, value) = rest.trim().split_once(": ").expect(rest);
        let field = value.trim_matches(['{', '}', ' ']).rsplit(": ").next().expect(value);
        let value = if key == "valueFrom" { field } else { value };
        // As in Kubernetes, `$(NAME)` can only refer to a variable above.
        let known =
            |value: String, (name, of_name): &(String, String)| value.replace(&format!("$({name})"), of_name);
        let value = variables.iter().fold(value.to_owned(), known);
        variables.push((name.to_owned(), value));
    }
    variables
}

#[test]
fn deployments_set_variables_that_are_read_without_a_diagnostic() {
    let blocks = blocks().into_iter().filter(|block| block.place.starts_with("src/guide/deployment.md:"));
    let mut resources = Vec::new();
    for Block { place, code, .. } in blocks {
        let variables = variables_of_deployment(&code);
        if variables.is_empty() {
            continue;
        }
        assert!(variables.iter().all(|(_, value)| !value.contains("$(")), "{place}: {variables:?}");
        let attributes = variables.iter().find(|(name, _)| name == "OTEL_RESOURCE_ATTRIBUTES");
        resources.extend(attributes.map(|(_, value)| value.clone()));
        let config = Config::from_variables(variables).expect(&place);
        assert!(config.diagnostics().is_empty(), "{place}: {:?}", config.diagnostics());
        assert_eq!(config.exporters().len(), 1, "{place}");
    }
    let [of_systemd, of_pod] = &resources[..] else { panic!("{resources:?}") };
    assert_eq!(of_systemd, "service.version=1.2,deployment.environment.name=test");
    assert_eq!(of_pod, "k8s.pod.name=metadata.name,k8s.pod.uid=metadata.uid,k8s.node.name=spec.nodeName");
}

#[test]
fn commands_have_a_valid_syntax_and_name_what_exists() {
    let blocks = blocks_in("sh");
    assert!(blocks.len() >= 20, "{}", blocks.len());
    for Block { place, code, .. } in blocks {
        match Command::new("sh").args(["-n", "-c", &code]).output() {
            Ok(checked) => assert!(checked.status.success(), "{place}: {checked:?}"),
            Err(error) => eprintln!("SKIPPED: the syntax of {place}: {error}"),
        }
        for line in code.lines() {
            let line = line.split(" #").next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('"')).collect();
            for pair in words.windows(2) {
                let exists = match pair[0] {
                    "--example" | "--bench" => MANIFEST.contains(&format!("name = \"{}\"", pair[1])),
                    "--features" => pair[1].split(',').all(|name| name.is_empty() || is_feature(name)),
                    _ => true,
                };
                assert!(exists, "{place}: {pair:?}");
            }
            for word in words {
                let is_path = ["src/", "tests/", "benches/"].iter().any(|folder| word.starts_with(folder));
                assert!(!is_path || root().join(word).exists(), "{place}: {word}");
            }
        }
    }
}

#[test]
fn the_programs_of_the_guide_are_those_that_the_tests_run() {
    let programs = [
        include_str!("../programs/guide/service.rs"),
        include_str!("../programs/guide/tool.rs"),
        include_str!("../programs/guide/sensor.rs"),
        include_str!("../programs/guide/migrated.rs"),
    ];
    let blocks = blocks_in("rust,no_run");
    let of_chapter = blocks.iter().filter(|block| block.place.starts_with("src/guide/programs.md:"));
    assert_eq!(
        of_chapter.map(|block| block.code.trim_end()).collect::<Vec<_>>(),
        programs.map(str::trim_end)
    );
}

#[test]
fn the_programs_in_other_languages_are_those_that_the_tests_run() {
    let programs: [(&str, &[&str]); 3] = [
        ("c", &[include_str!("../ffi/programs/shop.c"), include_str!("../ffi/programs/metrics.c")]),
        ("cpp", &[include_str!("../ffi/programs/shop.cpp")]),
        ("python", &[include_str!("../ffi/programs/shop.py")]),
    ];
    for (language, programs) in programs {
        let blocks: Vec<String> = blocks_in(language).into_iter().map(|block| block.code).collect();
        assert_eq!(blocks, programs);
        assert!(programs.iter().all(|program| program.lines().count() <= 50));
    }
}
