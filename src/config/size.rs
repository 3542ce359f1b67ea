//! Sizes as files spell them: bytes, KiB, MiB or GiB.

use super::error::Fault;

/// Reads `4096`, `64 KiB`, `4MiB` or `1 gib`. A fault's `what` continues "the value …".
///
/// `KB` and `MB` are refused: some readers take them for 1000, some for 1024, and a limit should not be guessed.
pub(super) fn parse(text: &str) -> Result<u64, Fault> {
    const EXAMPLE: &str = "write a whole number and KiB, MiB or GiB, like \"16 MiB\"";
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(Fault::new("is not a size", EXAMPLE));
    }
    let unit = unit.trim_start().to_ascii_lowercase();
    let bytes_per_unit: u64 = match unit.as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "k" | "kb" => return Err(Fault::new("may mean 1000 or 1024", "write KiB for 1024 bytes")),
        "m" | "mb" => return Err(Fault::new("may mean 1000² or 1024²", "write MiB for 1024² bytes")),
        "g" | "gb" => return Err(Fault::new("may mean 1000³ or 1024³", "write GiB for 1024³ bytes")),
        _ if unit.starts_with(['.', ',']) => {
            return Err(Fault::new(
                "is a fraction",
                "write a whole number of a smaller unit, like \"1536 KiB\"",
            ));
        }
        _ => return Err(Fault::new("has an unknown unit", EXAMPLE)),
    };
    let bytes = number.parse::<u64>().ok().and_then(|count| count.checked_mul(bytes_per_unit));
    bytes.ok_or_else(|| Fault::new("is too large", EXAMPLE))
}

/// In the largest unit that needs no fraction.
pub(super) fn show(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes % (1 << 30) == 0 => format!("{} GiB", bytes >> 30),
        _ if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        _ if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_binary_unit_is_a_size() {
        for (text, bytes) in
            [("4096", 4_096), ("64 KiB", 65_536), ("4MiB", 4 << 20), ("1 gib", 1 << 30), ("12 B", 12)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text:?}");
            assert_eq!(parse(&show(bytes)), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn decimal_units_fractions_and_nonsense_are_refused() {
        for (text, what) in [
            ("1 KB", "may mean 1000 or 1024"),
            ("1M", "may mean 1000² or 1024²"),
            ("1GB", "may mean 1000³ or 1024³"),
            ("1.5MiB", "is a fraction"),
            ("1 TiB", "has an unknown unit"),
            ("-1", "is not a size"),
            ("", "is not a size"),
            ("99999999999999999999", "is too large"),
            ("18446744073709551615 GiB", "is too large"),
        ] {
            assert_eq!(parse(text).expect_err(text).what, what, "{text:?}");
        }
    }
}
