//! How much memory this process holds, as the kernel sees it: right to within a megabyte.

use std::fs;

/// Bytes of memory held now, or `None` where the kernel does not say (anywhere but Linux).
pub(crate) fn resident() -> Option<u64> {
    status_field("VmRSS")
}

/// The most bytes ever held by this process at once, or `None` where the kernel does not say.
pub(crate) fn resident_peak() -> Option<u64> {
    status_field("VmHWM")
}

/// Lets [`resident_peak`] start anew from what is held now; false where the kernel does not do that.
pub(crate) fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

fn status_field(name: &str) -> Option<u64> {
    read_field(&fs::read_to_string("/proc/self/status").ok()?, name)
}

/// The value of a line like `VmRSS: 1234 kB`, in bytes.
fn read_field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes * 1024)
}
