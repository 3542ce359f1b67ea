//! Where in the code, and on which thread.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::thread;

use tracing::Metadata;

use super::fields::Fields;
use crate::record::Value;

/// What is known of where a span or an event comes from.
pub(super) struct CodeLocation<'a> {
    pub(super) target: &'a str,
    file: Option<&'a str>,
    line: Option<i64>,
    module: Option<&'a str>,
    /// Whether it was a record of the `log` crate, which says where it comes from in fields.
    pub(super) is_of_log: bool,
}

impl<'a> CodeLocation<'a> {
    pub(super) fn of(metadata: &'a Metadata<'_>) -> Self {
        Self {
            target: metadata.target(),
            file: metadata.file(),
            line: metadata.line().map(i64::from),
            module: metadata.module_path(),
            is_of_log: false,
        }
    }

    /// The same for an event, whose fields know it better if it was made of a record of the `log` crate.
    pub(super) fn of_event(metadata: &'a Metadata<'_>, fields: &'a Fields) -> Self {
        let target = if metadata.target() == "log" { fields.text_of("log.target") } else { None };
        match target {
            Some(target) => Self {
                target,
                file: fields.text_of("log.file"),
                line: fields.int_of("log.line"),
                module: fields.text_of("log.module_path"),
                is_of_log: true,
            },
            None => Self::of(metadata),
        }
    }

    /// Sets the attributes for a source location.
    #[inline]
    pub(super) fn set_on(&self, mut set: impl FnMut(&'static str, Value<'a>)) {
        if let Some(file) = self.file {
            set("code.file.path", Value::Str(file));
        }
        if let Some(module) = self.module {
            set("code.module.name", Value::Str(module));
        }
        if let Some(line) = self.line {
            set("code.line.number", Value::Int(line));
        }
    }
}

thread_local! {
    static THREAD: OnceCell<(Option<i64>, Option<String>)> = const { OnceCell::new() };
}

/// Sets the attributes for this thread.
pub(super) fn set_thread(mut set: impl FnMut(&'static str, Value<'_>)) {
    let _ = THREAD.try_with(|thread| {
        let (id, name) = thread.get_or_init(|| {
            let thread = thread::current();
            (number(&format!("{:?}", thread.id())), thread.name().map(str::to_owned))
        });
        if let Some(id) = id {
            set("thread.id", Value::Int(*id));
        }
        if let Some(name) = name {
            set("thread.name", Value::Str(name));
        }
    });
}

/// The number in `ThreadId(7)`: the standard library has no other way to it yet.
fn number(id: &str) -> Option<i64> {
    id.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

/// `<field>.chain`, the causes of the error in a field.
pub(super) fn chain_key(field: &str) -> Cow<'_, str> {
    match field {
        "error" => Cow::Borrowed("error.chain"),
        field => Cow::Owned(format!("{field}.chain")),
    }
}
