//! The key-values of a record, as attributes of their kinds.

use std::fmt::Display;

use log::kv::{Error, Key, Source, Value, VisitSource, VisitValue};

use super::Scratch;
use crate::logs::Log;
use crate::record;

/// Sets an attribute for each key-value. Where the program's own source fails, those before count.
pub(super) fn set(log: &mut Log<'_>, key_values: &dyn Source, scratch: &mut Scratch) {
    let _ = key_values.visit(&mut Setter { log, scratch });
}

/// A record that gets attributes.
struct Setter<'a, 'l> {
    log: &'a mut Log<'l>,
    scratch: &'a mut Scratch,
}

impl<'kvs> VisitSource<'kvs> for Setter<'_, '_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        value.visit(ValueSetter { key: key.as_str(), log: self.log, scratch: self.scratch })
    }
}

/// A record that gets one attribute, once its kind is known.
struct ValueSetter<'a, 'l> {
    key: &'a str,
    log: &'a mut Log<'l>,
    scratch: &'a mut Scratch,
}

impl ValueSetter<'_, '_> {
    #[inline]
    fn set<'v>(&mut self, value: impl Into<record::Value<'v>>) -> Result<(), Error> {
        self.log.add(self.key, value);
        Ok(())
    }

    fn set_text(&mut self, value: &dyn Display) -> Result<(), Error> {
        self.log.add(self.key, self.scratch.format(value));
        Ok(())
    }

    /// OTLP has no larger integers; as text no digit is lost.
    fn set_integer(&mut self, value: impl TryInto<i64> + Display + Copy) -> Result<(), Error> {
        match value.try_into() {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.set_text(&value),
        }
    }
}

impl VisitValue<'_> for ValueSetter<'_, '_> {
    /// What was captured by `Display` or `Debug`, errors, lists and maps.
    fn visit_any(&mut self, value: Value<'_>) -> Result<(), Error> {
        self.set_text(&value)
    }

    /// Nothing is what an attribute that is not there says.
    fn visit_null(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), Error> {
        self.set(value)
    }

    fn visit_i64(&mut self, value: i64) -> Result<(), Error> {
        self.set(value)
    }

    fn visit_u64(&mut self, value: u64) -> Result<(), Error> {
        self.set_integer(value)
    }

    fn visit_i128(&mut self, value: i128) -> Result<(), Error> {
        self.set_integer(value)
    }

    fn visit_u128(&mut self, value: u128) -> Result<(), Error> {
        self.set_integer(value)
    }

    fn visit_f64(&mut self, value: f64) -> Result<(), Error> {
        self.set(value)
    }

    fn visit_str(&mut self, value: &str) -> Result<(), Error> {
        self.set(value)
    }

    fn visit_char(&mut self, value: char) -> Result<(), Error> {
        let mut bytes = [0; 4];
        self.set(&*value.encode_utf8(&mut bytes))
    }
}
