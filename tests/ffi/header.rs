//! The C header agrees with the library: the same functions, types and numbers, each documented.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::library::{Language, compiler};

const HEADER: &str = include_str!("../../src/ffi/standpipe.h");
const MISUSE: &str = include_str!("programs/misuse.c");

/// A function: its result, and the types of its arguments.
type Signature = (String, Vec<String>);

/// The C type of a parameter or a result, and the Rust type.
#[rustfmt::skip]
const TYPES: &[(&str, &[&str])] = &[
    ("void",                               &["()"]),
    ("bool",                               &["bool", "u8"]),
    ("int32_t",                            &["i32", "Code"]),
    ("int64_t",                            &["i64"]),
    ("uint32_t",                           &["u32"]),
    ("uint64_t",                           &["u64"]),
    ("double",                             &["f64"]),
    ("size_t",                             &["usize"]),
    ("char *",                             &["TextBuffer<'_>", "OwnedText"]),
    ("char [56]",                          &["TextBuffer<'_>"]),
    ("char **",                            &["Out<'_, OwnedText>"]),
    ("const char *",                       &["CText<'_>", "CArray<'_, u8>"]),
    ("uint8_t *",                          &["Out<'_, u8>"]),
    ("uint8_t [8]",                        &["Out<'_, [u8; 8]>"]),
    ("uint8_t [16]",                       &["Out<'_, [u8; 16]>"]),
    ("uint32_t *",                         &["Out<'_, u32>"]),
    ("uint64_t *",                         &["Out<'_, u64>"]),
    ("standpipe *",                        &["Pointer<'_>"]),
    ("standpipe **",                       &["Out<'_, Pointer<'_>>"]),
    ("const standpipe *",                  &["Pointer<'_>"]),
    ("const standpipe_options *",          &["Versioned<'_, Options<'_>>"]),
    ("standpipe_ledger *",                 &["Versioned<'_, Ledger>"]),
    ("standpipe_tracer *",                 &["Option<Box<Tracer>>"]),
    ("const standpipe_tracer *",           &["Option<&Tracer>"]),
    ("standpipe_span *",                   &["Option<&mut OpenSpan>", "Option<Box<OpenSpan>>"]),
    ("standpipe_span **",                  &["Option<&mut Option<Box<OpenSpan>>>"]),
    ("const standpipe_span *",             &["Option<&OpenSpan>"]),
    ("const standpipe_span_options *",     &["Versioned<'_, SpanOptions<'_>>"]),
    ("const standpipe_attr *",             &["AttributeArray<'_>"]),
    ("standpipe_scope *",                  &["Out<'_, Scope>", "Option<&mut Scope>"]),
    ("standpipe_logger *",                 &["Option<Box<Logger>>"]),
    ("const standpipe_logger *",           &["Option<&Logger>"]),
    ("const standpipe_log_options *",      &["Versioned<'_, LogOptions<'_>>"]),
    ("standpipe_meter *",                  &["Option<Box<Meter>>"]),
    ("const standpipe_meter *",            &["Option<&Meter>"]),
    ("const standpipe_instrument_options *", &["Versioned<'_, InstrumentOptions<'_>>"]),
    ("standpipe_instrument *",             &["Option<Box<Instrument>>"]),
    ("const standpipe_instrument *",       &["Option<&Instrument>"]),
];

/// The header without comments, line breaks and inline functions.
fn declarations() -> String {
    let mut text = String::new();
    for part in HEADER.split("*/") {
        text += part.split("/*").next().unwrap_or_default();
    }
    let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let mut kept = String::new();
    for part in lines.split("static inline ") {
        kept += match part.split_once("\n}\n") {
            Some((_, rest)) if !kept.is_empty() => rest,
            _ => part,
        };
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The functions that the header declares.
fn declared() -> BTreeMap<String, Signature> {
    let mut functions = BTreeMap::new();
    for statement in declarations().split(';') {
        let Some((head, arguments)) =
            statement.trim().strip_suffix(')').and_then(|text| text.split_once('('))
        else {
            continue;
        };
        let Some((result, name)) = c_parameter(head) else { continue };
        let arguments = match arguments {
            "void" => Vec::new(),
            some => some.split(',').map(|argument| c_parameter(argument).expect(statement).0).collect(),
        };
        if name.starts_with("standpipe_") {
            functions.insert(name, (result, arguments));
        }
    }
    functions
}

/// The type and the name in `const char *key` or `uint8_t id[8]`.
fn c_parameter(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let (text, array) = match text.split_once('[') {
        Some((text, array)) => (text, format!(" [{array}")),
        None => (text, String::new()),
    };
    let start = text.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_')? + 1;
    let (kind, name) = text.split_at(start);
    (!name.is_empty()).then(|| (format!("{}{array}", kind.trim()), name.to_owned()))
}

/// The functions that the library exports, as declared in its source.
fn exported() -> BTreeMap<String, Signature> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ffi");
    let mut functions = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        for function in text.split("    fn standpipe_").skip(1) {
            let (name, rest) = function.split_once('(').unwrap();
            let (arguments, rest) = rest.split_once(')').unwrap();
            let result = rest.split_once(" {").unwrap().0.trim().strip_prefix("-> ").unwrap_or("()");
            let arguments = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
            functions.insert(format!("standpipe_{name}"), (result.to_owned(), rust_types(&arguments)));
        }
    }
    functions
}

/// The types in `a: CArray<'_, u8>, b: u32`.
fn rust_types(arguments: &str) -> Vec<String> {
    let mut types = Vec::new();
    for part in arguments.split(", ").filter(|part| !part.is_empty()) {
        match (part.split_once(": "), types.last_mut()) {
            (Some((_, kind)), _) => types.push(kind.trim_end_matches(',').to_owned()),
            (None, Some(last)) => *last += &format!(", {}", part.trim_end_matches(',')),
            (None, None) => panic!("{arguments}"),
        }
    }
    types
}

fn agree(c: &str, rust: &str) -> bool {
    TYPES.iter().any(|(known, types)| *known == c && types.contains(&rust))
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let (declared, exported) = (declared(), exported());
    let names = |functions: &BTreeMap<String, Signature>| functions.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&declared), names(&exported));
    assert_eq!(declared.len(), 49);
    for (name, (result, arguments)) in &declared {
        let (rust_result, rust_arguments) = &exported[name];
        assert!(agree(result, rust_result), "{name}: {result} is {rust_result}");
        assert_eq!(arguments.len(), rust_arguments.len(), "{name}");
        for (c, rust) in arguments.iter().zip(rust_arguments) {
            assert!(agree(c, rust), "{name}: {c} is {rust}");
        }
    }
}

#[test]
fn every_function_is_called_with_null() {
    for name in declared().keys() {
        assert!(MISUSE.contains(&format!("{name}(")), "misuse.c does not call {name}");
    }
}

#[test]
fn the_headers_are_strict_c99_and_cxx17_by_themselves() {
    for (language, header) in
        [(Language::C99, "standpipe.h"), (Language::Cxx17, "standpipe.h"), (Language::Cxx17, "standpipe.hpp")]
    {
        let Some(mut compiler) = compiler(language) else { continue };
        let output =
            compiler.args(["-Wno-pragma-once-outside-header", "-Wno-unused-function", "-fsyntax-only"]);
        let output = output.arg(format!("{}/src/ffi/{header}", env!("CARGO_MANIFEST_DIR"))).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_header_has_the_version_of_the_crate() {
    let [major, minor, patch] = ["MAJOR", "MINOR", "PATCH"].map(|part| match part {
        "MAJOR" => env!("CARGO_PKG_VERSION_MAJOR"),
        "MINOR" => env!("CARGO_PKG_VERSION_MINOR"),
        _ => env!("CARGO_PKG_VERSION_PATCH"),
    });
    let [major, minor, patch] = [major, minor, patch].map(|part| part.parse::<u32>().unwrap());
    let version = major * 1_000_000 + minor * 1_000 + patch;
    assert!(HEADER.contains(&format!("#define STANDPIPE_VERSION {version}\n")), "{version}");
}
