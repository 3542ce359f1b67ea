//! Units by the Unified Code for Units of Measure, as OpenTelemetry wants them.

use metrics::Unit;

pub(super) fn ucum(unit: Unit) -> &'static str {
    match unit {
        // in braces and not "1", which is for fractions: some collectors make a ratio of it
        Unit::Count => "{count}",
        Unit::CountPerSecond => "{count}/s",
        Unit::Percent => "%",
        Unit::Seconds => "s",
        Unit::Milliseconds => "ms",
        Unit::Microseconds => "us",
        Unit::Nanoseconds => "ns",
        Unit::Tebibytes => "TiBy",
        Unit::Gibibytes => "GiBy",
        Unit::Mebibytes => "MiBy",
        Unit::Kibibytes => "KiBy",
        Unit::Bytes => "By",
        Unit::TerabitsPerSecond => "Tbit/s",
        Unit::GigabitsPerSecond => "Gbit/s",
        Unit::MegabitsPerSecond => "Mbit/s",
        Unit::KilobitsPerSecond => "kbit/s",
        Unit::BitsPerSecond => "bit/s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_its_code() {
        let codes = [
            ("count", "{count}"),
            ("percent", "%"),
            ("seconds", "s"),
            ("milliseconds", "ms"),
            ("microseconds", "us"),
            ("nanoseconds", "ns"),
            ("tebibytes", "TiBy"),
            ("gibibytes", "GiBy"),
            ("mebibytes", "MiBy"),
            ("kibibytes", "KiBy"),
            ("bytes", "By"),
            ("terabits_per_second", "Tbit/s"),
            ("gigabits_per_second", "Gbit/s"),
            ("megabits_per_second", "Mbit/s"),
            ("kilobits_per_second", "kbit/s"),
            ("bits_per_second", "bit/s"),
            ("count_per_second", "{count}/s"),
        ];
        for (name, code) in codes {
            let unit = Unit::from_string(name).unwrap_or_else(|| panic!("no unit {name}"));
            assert_eq!(ucum(unit), code, "{name}");
        }
    }
}
