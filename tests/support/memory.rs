//! Memory of this process as the kernel reports it, accurate to a megabyte.

use std::fs;

/// Returns the memory in use, or `None` if the kernel does not report it (on systems other than Linux).
pub(crate) fn resident() -> Option<u64> {
    status_field("VmRSS")
}

/// Returns the peak memory of this process, or `None` if the kernel does not report it.
pub(crate) fn resident_peak() -> Option<u64> {
    status_field("VmHWM")
}

/// Resets [`resident_peak`] to the current memory. Returns false if the kernel cannot do that.
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
