//! Checks that the committed message types are exactly those that the schemas in `proto/` generate.
//!
//! After a change of a schema, run `STANDPIPE_REGENERATE=1 cargo test --test generated` in `tests/interop`. The test
//! is not in the crate itself: there, a quarter of the crate's dependencies would serve only this test.

use std::path::Path;
use std::{env, fs};

const SCHEMAS: [&str; 2] = ["proto/export_answer.proto", "proto/rpc_status.proto"];
const COMMITTED: &str = "src/transport/response/tests/generated.rs";

#[test]
fn committed_message_types_are_what_the_schemas_generate() {
    let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let committed = root.join(COMMITTED);
    let generated = generate(root);

    if env::var_os("STANDPIPE_REGENERATE").is_some_and(|value| value == "1") {
        fs::write(&committed, &generated).expect("the source tree is writable");
    }

    let found = fs::read_to_string(&committed).unwrap_or_default();
    if let Some(line) = first_difference(&found, &generated) {
        panic!(
            "{COMMITTED}:{line}: differs from what proto/ generates\n  committed: {:?}\n  generated: {:?}\n\
             to rewrite it, in tests/interop: STANDPIPE_REGENERATE=1 cargo test --test generated",
            found.lines().nth(line - 1),
            generated.lines().nth(line - 1),
        );
    }
}

#[test]
fn a_single_changed_byte_is_a_difference() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
    assert_eq!(first_difference("a\nb\n", "a\nb"), Some(2));
    assert_eq!(first_difference("", "a\n"), Some(1));
    assert_eq!(first_difference("a\n", "a\r\n"), Some(1));
}

/// Compiles the schemas in this process (no protoc) and returns the generated file.
fn generate(root: &Path) -> String {
    let descriptors = protox::compile(SCHEMAS.map(|schema| root.join(schema)), [root.join("proto")])
        .expect("the schemas compile");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    fs::create_dir_all(&folder).expect("the target folder is writable");
    prost_build::Config::new()
        .out_dir(&folder)
        .compile_fds(descriptors)
        .expect("the descriptors make Rust code");
    fs::read_to_string(folder.join("standpipe.answer.rs")).expect("one file per package")
}

/// Returns the number of the first line that differs; a different line ending also counts as a difference.
fn first_difference(left: &str, right: &str) -> Option<usize> {
    if left == right {
        return None;
    }
    let same = left.split_inclusive('\n').zip(right.split_inclusive('\n')).take_while(|(l, r)| l == r);
    Some(same.count() + 1)
}
