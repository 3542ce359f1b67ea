//! The committed figures: what is compared with them, and what is written down.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// The error of the benchmarks.
type Error = Box<dyn std::error::Error>;

/// How many per cent a figure may be above the committed one.
pub(crate) const TOLERANCE: f64 = 3.0;

const HEAD: &str = "\
# What each call costs, counted by `cargo bench --bench figures`. `.ci/run` fails when a count is more than 3 % (and two
# instructions, or 0.05 allocations) above what is written here.
#
# A figure here only ever falls, unless the commit that raises it says why: the reason stands under [because] and is part
# of that commit. Written by `cargo bench --bench figures -- --accept --because \"why\"`, not by hand: the check reads
# the versions of this file in the history, and a higher figure with an old reason, or with none, fails.
# Instructions hold for one compiler and one kind of machine: elsewhere only allocations are checked, and what another
# compiler makes of the code is accepted as new.
";

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    Instructions,
    Allocations,
}

impl Unit {
    const ALL: [Self; 2] = [Self::Instructions, Self::Allocations];

    /// What is allowed beside the per cent, as a small count moves in large steps.
    fn slack(self) -> f64 {
        match self {
            Self::Instructions => 2.0,
            Self::Allocations => 0.05,
        }
    }

    fn highest(self, committed: f64) -> f64 {
        committed * (1.0 + TOLERANCE / 100.0) + self.slack()
    }

    /// As exact as it is written down.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Instructions => format!("{value:.1}"),
            Self::Allocations => format!("{value:.3}"),
        }
    }

    /// How far it has moved.
    pub(crate) fn change(self, before: f64, now: f64) -> String {
        match self {
            // what is shown as the same has not moved
            _ if self.show(before) == self.show(now) => String::new(),
            Self::Instructions if before > 0.0 => format!("{:+.1} %", (now / before - 1.0) * 100.0),
            _ => format!("{:+.3}", now - before),
        }
    }

    /// Of one call, as it is written down.
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

/// One count.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) value: f64,
}

/// A version of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Committed {
    /// The compiler and the kind of machine that the instructions are for.
    pub(crate) setting: String,
    instructions: BTreeMap<String, f64>,
    allocations: BTreeMap<String, f64>,
    /// Why a figure is as high as it is, if it was lower once.
    #[serde(default)]
    because: BTreeMap<String, String>,
}

impl Committed {
    /// # Errors
    /// When the text is not such a file.
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| format!("benches/figures.toml: {error}").into())
    }

    /// What [`Committed::read`] reads.
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

    /// The committed value of this figure.
    pub(crate) fn value(&self, figure: &Figure) -> Option<f64> {
        self.values(figure.unit).get(&figure.name).copied()
    }

    /// What to write down after `before`: figures that fell, those that are new, and with a reason those that rose by
    /// more than the tolerance. With another compiler all instructions are new.
    ///
    /// # Errors
    /// When one rose by more than that and there is no reason.
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
            // another compiler makes other instructions, but no other allocations
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
                // many small rises must not add up unseen
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

    /// The figures that are too high now.
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

    /// The figures of this version that were lower in an earlier one, although the reason is still the same. `earlier`
    /// begins with the newest.
    pub(crate) fn raised_without_reason(&self, earlier: &[Self]) -> Vec<Fault> {
        let mut faults = Vec::new();
        for unit in Unit::ALL {
            for (name, now) in self.values(unit) {
                let key = key(unit, name);
                // a reason vouches for the figure that it was given for, another compiler for all instructions
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

/// The name of a figure among those of both units.
fn key(unit: Unit, name: &str) -> String {
    format!("{unit}, {name}")
}

/// What is wrong with a figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// It is measured higher than it may be.
    Risen { name: String, unit: Unit, before: f64, now: f64 },
    /// It was written down higher than before.
    Raised { name: String, unit: Unit, before: f64, now: f64 },
    /// It was never written down.
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
