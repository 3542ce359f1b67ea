//! Which kinds of configuration file can `init` write?

use std::ffi::OsStr;
use std::path::Path;

/// The program whose configuration layout the file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Flavour {
    #[default]
    Stalwart,
    Tracetest,
    Qualitytrace,
    Environment,
}

impl Flavour {
    /// In the order in which help lists them.
    pub(crate) const ALL: [Self; 4] =
        [Self::Stalwart, Self::Tracetest, Self::Qualitytrace, Self::Environment];

    pub(super) fn named(word: &str) -> Option<Self> {
        match word {
            "stalwart" | "toml" => Some(Self::Stalwart),
            "tracetest" | "yaml" => Some(Self::Tracetest),
            "qualitytrace" => Some(Self::Qualitytrace),
            "env" => Some(Self::Environment),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stalwart => "stalwart",
            Self::Tracetest => "tracetest",
            Self::Qualitytrace => "qualitytrace",
            Self::Environment => "env",
        }
    }

    /// What its file is called unless another name is given.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Stalwart => "telemetry.toml",
            Self::Tracetest => "tracetest.yaml",
            Self::Qualitytrace => "qualitytrace.yaml",
            Self::Environment => "telemetry.env",
        }
    }

    /// The commented file to start with.
    pub(super) fn starter(self) -> &'static str {
        match self {
            Self::Stalwart => include_str!("telemetry.toml"),
            Self::Tracetest => include_str!("tracetest.yaml"),
            Self::Qualitytrace => include_str!("qualitytrace.yaml"),
            Self::Environment => include_str!("telemetry.env"),
        }
    }

    /// The one that a file of this name most likely is.
    pub(super) fn by_ending(file: &Path) -> Option<Self> {
        match Ending::of(file) {
            Ending::Toml => Some(Self::Stalwart),
            Ending::Yaml => Some(Self::Tracetest),
            Ending::Env => Some(Self::Environment),
            Ending::Other => None,
        }
    }

    /// Why a file of this name would not be read as what it is: the ending decides.
    ///
    /// # Errors
    /// What it would have to end in.
    pub(super) fn suits(self, file: &Path) -> Result<(), &'static str> {
        match (self, Ending::of(file)) {
            (Self::Stalwart, Ending::Yaml) => Err(".toml"),
            (Self::Tracetest | Self::Qualitytrace, ending) if ending != Ending::Yaml => Err(".yaml"),
            (Self::Environment, Ending::Toml | Ending::Yaml) => Err(".env"),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Toml,
    Yaml,
    Env,
    Other,
}

impl Ending {
    fn of(file: &Path) -> Self {
        let is = |ending: &OsStr, names: &[&str]| names.iter().any(|name| ending.eq_ignore_ascii_case(name));
        match file.extension() {
            Some(ending) if is(ending, &["toml"]) => Self::Toml,
            Some(ending) if is(ending, &["yaml", "yml"]) => Self::Yaml,
            Some(ending) if is(ending, &["env"]) => Self::Env,
            // a file of only that name has no ending, as far as Rust is concerned
            None if file.file_name() == Some(OsStr::new(".env")) => Self::Env,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flavour_is_known_by_its_name_and_by_its_file() {
        for flavour in Flavour::ALL {
            assert_eq!(Flavour::named(flavour.name()), Some(flavour));
            assert_eq!(flavour.suits(Path::new(flavour.file())), Ok(()));
            assert!(Flavour::by_ending(Path::new(flavour.file())).is_some());
        }
    }

    #[test]
    fn a_name_that_would_be_read_as_something_else_does_not_suit() {
        for (flavour, file, suits) in [
            (Flavour::Stalwart, "a.yml", Err(".toml")),
            (Flavour::Stalwart, "a.conf", Ok(())),
            (Flavour::Tracetest, "a.toml", Err(".yaml")),
            (Flavour::Tracetest, "a", Err(".yaml")),
            (Flavour::Qualitytrace, "a.YAML", Ok(())),
            (Flavour::Environment, ".env", Ok(())),
            (Flavour::Environment, "/etc/default/shop", Ok(())),
            (Flavour::Environment, "a.toml", Err(".env")),
        ] {
            assert_eq!(flavour.suits(Path::new(file)), suits, "{flavour:?} in {file}");
        }
    }
}
