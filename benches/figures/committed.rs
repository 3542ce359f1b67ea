//! The contents of `benches/figures.toml`: reading, writing, comparison with new figures, and their acceptance.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// Error type of the benchmarks. Repeated from `support`, because a test includes this module without `support`.
type Error = Box<dyn std::error::Error>;

/// Percentage by which a figure may exceed the committed one.
pub(crate) const TOLERANCE: f64 = 3.0;

const HEAD: &str = "\
# Cost of each call, counted by `cargo bench --bench figures`. `.ci/run` fails if a count exceeds the value in this file
# by more than 3 % (and two instructions, or 0.05 allocations).
#
# A value in this file only decreases, unless the commit that increases it adds a reason under [because]. Do not edit
# the file. Run `cargo bench --bench figures -- --accept --because \"why\"`. The check reads the versions of this file
# in the history, and fails if a value has increased while its reason is missing or unchanged.
# Instruction counts are valid for one compiler and one kind of machine. With another compiler or machine, only the
# allocations are checked, and `--accept` writes the instruction counts as new ones.
";

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    Instructions,
    Allocations,
}

impl Unit {
    const ALL: [Self; 2] = [Self::Instructions, Self::Allocations];

    /// Returns the absolute tolerance, which is added to the percentage because a small count moves in large steps.
    fn slack(self) -> f64 {
        match self {
            Self::Instructions => 2.0,
            Self::Allocations => 0.05,
        }
    }

    fn highest(self, committed: f64) -> f64 {
        committed * (1.0 + TOLERANCE / 100.0) + self.slack()
    }

    /// Formats a value with the precision of the file.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Instructions => format!("{value:.1}"),
            Self::Allocations => format!("{value:.3}"),
        }
    }

    /// Formats the change from `before` to `now`. The text is empty if both look the same.
    pub(crate) fn change(self, before: f64, now: f64) -> String {
        match self {
            _ if self.show(before) == self.show(now) => String::new(),
            Self::Instructions if before > 0.0 => format!("{:+.1} %", (now / before - 1.0) * 100.0),
            _ => format!("{:+.3}", now - before),
        }
    }

    /// Rounds a value to the precision of the file.
    fn rounded(self, value: f64) -> f64 {
        let steps = match self {
            Self::Instructions => 10.0,
            Self::Allocations => 1000.0,
        };
        (value * steps).round() / steps
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instructions => "instructions",
            Self::Allocations => "allocations",
        })
    }
}

/// Measured number of instructions or allocations per call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) value: f64,
}

/// One version of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Committed {
    /// Compiler and kind of machine for which the instruction counts are valid.
    pub(crate) setting: String,
    instructions: BTreeMap<String, f64>,
    allocations: BTreeMap<String, f64>,
    /// Reasons for figures that were raised, by unit and name.
    #[serde(default)]
    because: BTreeMap<String, String>,
}

impl Committed {
    /// Parses the text of the file.
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| format!("benches/figures.toml: {error}").into())
    }

    /// Formats the file, so that [`Committed::read`] can parse it.
    pub(crate) fn write(&self) -> String {
        let mut text = format!("{HEAD}\nsetting = {:?}\n", self.setting);
        for unit in Unit::ALL {
            text += &format!("\n[{unit}]\n");
            for (name, value) in self.values(unit) {
                text += &format!("{name:?} = {}\n", unit.show(*value));
            }
        }
        if !self.because.is_empty() {
            text += "\n[because]\n";
            for (name, reason) in &self.because {
                text += &format!("{name:?} = {reason:?}\n");
            }
        }
        text
    }

    /// Returns the committed value of a figure.
    pub(crate) fn value(&self, figure: &Figure) -> Option<f64> {
        self.values(figure.unit).get(&figure.name).copied()
    }

    /// Returns the contents to commit after `before`.
    ///
    /// Lower figures and new figures are accepted. A figure that rose by at most the tolerance keeps its old value. A
    /// figure that rose by more needs a `reason`. With another compiler, all instruction counts are new.
    ///
    /// # Errors
    /// Returns an error if a figure rose by more than the tolerance and there is no reason.
    pub(crate) fn accept(
        before: Option<&Self>,
        figures: &[Figure],
        setting: &str,
        reason: Option<&str>,
    ) -> Result<Self, Error> {
        let (mut instructions, mut allocations) = (BTreeMap::new(), BTreeMap::new());
        let mut because = BTreeMap::new();
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        for figure in figures {
            let unit = figure.unit;
            // Another compiler generates other instructions, but not other allocations.
            let comparable = before.filter(|before| before.setting == setting || unit == Unit::Allocations);
            let old = comparable.and_then(|before| before.value(figure));
            let old_reason = comparable.and_then(|before| before.because.get(&key(unit, &figure.name)));
            let now = unit.rounded(figure.value);
            let (value, why) = match old {
                Some(old) if now > unit.highest(old) => match reason {
                    Some(reason) => (now, Some(reason)),
                    None => {
                        let fault = Fault::Risen { name: key(unit, &figure.name), unit, before: old, now };
                        return Err(format!("{fault}; to accept this, add --because \"why\"").into());
                    }
                },
                // The file keeps the lower value. Otherwise, each commit could add a small rise that no check reports.
                Some(old) => (old.min(now), old_reason.map(String::as_str)),
                None => (now, None),
            };
            let values = if unit == Unit::Instructions { &mut instructions } else { &mut allocations };
            values.insert(figure.name.clone(), value);
            if let Some(why) = why {
                because.insert(key(unit, &figure.name), why.to_owned());
            }
        }
        Ok(Self { setting: setting.to_owned(), instructions, allocations, because })
    }

    /// Returns the figures that exceed the tolerance or have no committed value.
    pub(crate) fn faults(&self, figures: &[Figure]) -> Vec<Fault> {
        let fault = |figure: &Figure| {
            let (name, unit, now) = (key(figure.unit, &figure.name), figure.unit, figure.value);
            match self.value(figure) {
                Some(before) if now > unit.highest(before) => Some(Fault::Risen { name, unit, before, now }),
                Some(_) => None,
                None => Some(Fault::Unknown { name }),
            }
        };
        figures.iter().filter_map(fault).collect()
    }

    /// Returns the figures of this version that were lower in an earlier version with the same reason.
    ///
    /// `earlier` begins with the newest version.
    pub(crate) fn raised_without_reason(&self, earlier: &[Self]) -> Vec<Fault> {
        let mut faults = Vec::new();
        for unit in Unit::ALL {
            for (name, now) in self.values(unit) {
                let key = key(unit, name);
                // A new reason justifies a higher figure, and another compiler justifies new instruction counts. Only
                // the versions since the last change of reason or compiler are compared.
                let vouched_alike = earlier.iter().take_while(|version| {
                    version.because.get(&key) == self.because.get(&key)
                        && (version.setting == self.setting || unit == Unit::Allocations)
                });
                let lowest = vouched_alike.filter_map(|version| version.values(unit).get(name).copied());
                match lowest.reduce(f64::min) {
                    Some(before) if before < *now => {
                        faults.push(Fault::Raised { name: key, unit, before, now: *now });
                    }
                    _ => {}
                }
            }
        }
        faults
    }

    fn values(&self, unit: Unit) -> &BTreeMap<String, f64> {
        match unit {
            Unit::Instructions => &self.instructions,
            Unit::Allocations => &self.allocations,
        }
    }
}

/// Returns the key of a figure among the reasons.
fn key(unit: Unit, name: &str) -> String {
    format!("{unit}, {name}")
}

/// A figure that fails the check.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// The measured value exceeds the tolerance.
    Risen { name: String, unit: Unit, before: f64, now: f64 },
    /// The committed value was raised without a new reason.
    Raised { name: String, unit: Unit, before: f64, now: f64 },
    /// The figure has no committed value.
    Unknown { name: String },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = |unit: &Unit, before: f64, now: f64| {
            format!("{} before, {} now, {}", unit.show(before), unit.show(now), unit.change(before, now))
        };
        match self {
            Self::Risen { name, unit, before, now } => {
                write!(f, "{name}: {}; {TOLERANCE} % are allowed", moved(unit, *before, *now))
            }
            Self::Raised { name, unit, before, now } => {
                let moved = moved(unit, *before, *now);
                write!(f, "{name}: benches/figures.toml was raised without a new reason: {moved}")
            }
            Self::Unknown { name } => write!(f, "{name}: not in benches/figures.toml"),
        }
    }
}
