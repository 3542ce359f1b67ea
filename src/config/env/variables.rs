//! The variables as they are found.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::config::error::Fault;

/// Environment variables: those of the process, or others for a test.
#[derive(Clone, Default)]
pub(in crate::config) struct Variables(BTreeMap<String, OsString>);

impl Variables {
    /// Those of this process that are about telemetry, as they are now.
    pub(in crate::config) fn of_process() -> Self {
        let is_ours = |name: &str| name.starts_with("OTEL_") || name.starts_with("TRACETEST_");
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        std::env::vars_os().filter_map(named).filter(|(name, _)| is_ours(name)).collect()
    }

    /// The value of a variable; an empty one is as good as none. `Err` if it is not UTF-8.
    pub(in crate::config) fn get(&self, name: &str) -> Option<Result<&str, NotUtf8>> {
        let value = self.0.get(name).filter(|value| !value.is_empty())?;
        Some(value.to_str().ok_or(NotUtf8))
    }

    /// The names of all that are not empty, in the order of the alphabet.
    pub(in crate::config) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.as_str())
    }
}

/// Why a variable cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) struct NotUtf8;

impl From<NotUtf8> for Fault {
    fn from(_: NotUtf8) -> Self {
        Fault::new("is not UTF-8", "set it to text")
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut variables = BTreeMap::new();
        // one by one: to build a tree at once takes a sort, which is as much code again
        for (name, value) in pairs {
            variables.insert(name.into(), value.into());
        }
        Self(variables)
    }
}
