//! Checks the README, the guide and the READMEs of benches and interop: chapters, features, defaults, limits, figures
//! and links.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use standpipe::Config;
use standpipe::config::{LogLimits, SpanLimits};

use crate::support::base64::base64;

const MANIFEST: &str = include_str!("../../Cargo.toml");
const FRONT_PAGE: &str = include_str!("../../src/lib.rs");
const GUIDE: &str = include_str!("../../src/guide/mod.rs");
const README: &str = include_str!("../../README.md");
const CONFIGURATION: &str = include_str!("../../src/guide/configuration.md");
const LIMITS: &str = include_str!("../../src/guide/limits.md");
const BENCHES: &str = include_str!("../../benches/README.md");

/// Returns the part of `text` between the first `from` and the next `to`.
fn part(text: &'static str, from: &str, to: &str) -> &'static str {
    let (_, rest) = text.split_once(from).expect(from);
    rest.split_once(to).expect(to).0
}

/// Returns all settings that a file can have, with their defaults.
fn defaults(file: &str) -> Vec<(&'static str, String)> {
    let config = Config::from_toml_str(file).expect(file);
    let settings = config.exporters()[0].effective();
    // The kind of table decides which signals are sent, so files have no key `signals`.
    let settings = settings.into_iter().filter(|setting| setting.key != "signals");
    settings.map(|setting| (setting.key, setting.value)).collect()
}

fn settings() -> &'static str {
    part(CONFIGURATION, "# Settings of an exporter", "# Values")
}

#[test]
fn the_readme_is_short() {
    assert!(README.len() <= 15_000, "{} bytes", README.len());
}

#[test]
fn readme_front_page_and_guide_list_every_chapter() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide");
    let files =
        fs::read_dir(folder).expect("the guide is there").map(|entry| entry.expect("it can be read").path());
    let chapters = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut count = 0;
    for chapter in chapters {
        let name = chapter.file_stem().and_then(|name| name.to_str()).expect("the name is UTF-8");
        assert!(README.contains(&format!("](src/guide/{name}.md)")), "README.md does not list {name}");
        assert!(FRONT_PAGE.contains(&format!("](guide::{name})")), "src/lib.rs does not list {name}");
        assert!(GUIDE.contains(&format!("| [`{name}`] |")), "src/guide/mod.rs does not list {name}");
        assert!(
            GUIDE.contains(&format!("include_str!(\"{name}.md\")")),
            "src/guide/mod.rs does not include {name}"
        );
        count += 1;
    }
    assert!(count >= 20, "{count} chapters");
}

#[test]
fn readme_and_front_page_list_every_feature() {
    let features = part(MANIFEST, "[features]\n", "[dependencies]");
    let names = features.lines().filter_map(|line| Some(line.split_once(" = [")?.0));
    for name in names.filter(|name| *name != "default") {
        assert!(part(README, "## Features", "## Performance").contains(&format!("| `{name}` |")), "{name}");
        assert!(FRONT_PAGE.contains(&format!("//! | `{name}` |")), "{name}");
    }
}

#[test]
fn pictures_of_the_page_are_small_and_equal_their_copies_for_rustdoc() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide/page");
    let copies = fs::read_to_string(folder.join("pictures.md")).expect("pictures.md");
    for name in ["traces", "trace", "flame", "logs", "metrics", "services"] {
        let picture = fs::read(folder.join(name).with_extension("png")).expect(name);
        assert!(picture.len() < 60_000, "{name}: {} bytes", picture.len());
        let line = format!("[{name}]: data:image/png;base64,{}\n", base64(&picture, true));
        assert!(copies.contains(&line), "pictures.md should have the line:\n{line}");
    }
}

#[test]
fn the_table_of_settings_has_every_setting_with_its_default() {
    let tracers = "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nenable.log-exporter = true\n";
    for file in [tracers, "[metrics.open-telemetry]\ntransport = 'http'\n"] {
        for (key, default) in defaults(file) {
            let row = settings().lines().find(|line| line.starts_with(&format!("| `{key}` | ")));
            let row = row.unwrap_or_else(|| panic!("the guide has no row for {key}"));
            let stated = row.split(" | ").nth(2).unwrap_or_default();
            assert!(key == "transport" || stated.contains(&format!("`{default}`")), "{default}: {row}");
        }
    }
    let metrics = part(CONFIGURATION, "# Metrics", "# Settings of an exporter");
    let general = Config::new().effective();
    for setting in general.iter().filter(|setting| setting.key == "self-observation") {
        let row = format!("| `{}` | `{}` | ", setting.key, setting.value);
        assert!(metrics.contains(&row), "the guide has no row {row:?}");
    }
}

#[test]
fn the_limits_are_those_of_the_defaults() {
    let limits = SpanLimits::default();
    let span = format!(
        "| span | {} attributes, events and links, {} attributes each",
        limits.attributes, limits.event_attributes
    );
    assert!(LIMITS.contains(&span), "the guide does not say {span:?}");
    assert_eq!([limits.events, limits.links, limits.link_attributes], [limits.attributes; 3]);
    let log = format!("| log record | {} attributes", LogLimits::default().attributes);
    assert!(LIMITS.contains(&log), "the guide does not say {log:?}");
}

#[test]
fn every_place_for_figures_has_been_filled_by_its_benchmark() {
    let places: Vec<&str> = BENCHES.split("<!-- figures: ").skip(1).collect();
    assert!(places.len() >= 10, "there are {} places", places.len());
    for place in places {
        let (name, rest) = place.split_once(" -->").expect(place);
        let (figures, _) = rest.split_once("<!-- end of figures -->").expect(name);
        assert!(figures.contains("|---|") && figures.contains("rustc 1."), "{name} is empty");
    }
}

#[test]
fn the_sizes_of_features_are_those_of_the_programs_that_were_measured() {
    let hello = part(BENCHES, "<!-- figures: hello -->", "<!-- end of figures -->");
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let rows: BTreeMap<&str, Vec<&str>> =
        hello.lines().filter(|line| line.starts_with('|')).map(cells).map(|row| (row[0], row)).collect();
    let kib = |program: &str| -> i64 { rows[program][3].replace(',', "").parse().expect(program) };
    let alone = "standpipe without features";
    let features = part(README, "## Features", "## Performance");
    let mut measured = 0;
    for row in features.lines().filter(|line| line.starts_with("| `")).map(cells) {
        let feature = row[0].trim_matches('`');
        let (program, base) = match feature {
            "yaml" => ("standpipe, yaml, set up by a file".to_owned(), "standpipe, set up by a TOML file"),
            _ => (format!("standpipe, {feature}"), alone),
        };
        if rows.contains_key(program.as_str()) {
            let size: i64 = row[4].replace(['+', ' ', ','], "").parse().expect(feature);
            assert_eq!(size, kib(&program) - kib(base), "{feature}");
            measured += 1;
        }
    }
    assert_eq!(measured, 9);
    assert!(features.contains(&format!("| {} | {} |", rows[alone][1], rows[alone][3])));
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["README.md", "benches/README.md", "tests/interop/README.md"] {
        let text = fs::read_to_string(root.join(file)).expect(file);
        let folder = root.join(file).parent().expect("it is in a folder").to_owned();
        let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.starts_with('#') && !link.contains("://")) {
            assert!(folder.join(link).exists(), "{file}: {link}");
        }
    }
}
