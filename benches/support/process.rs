//! Resource usage of this process, as reported by the system.

use std::time::Duration;
use std::{fs, io};

use super::Error;

/// Returns the processor time of this process so far, in user and kernel mode.
pub(crate) fn cpu_time() -> io::Result<Duration> {
    cpu_time_of(libc::RUSAGE_SELF)
}

/// Returns the processor time of all children that have ended, with their descendants.
pub(crate) fn children_cpu_time() -> io::Result<Duration> {
    cpu_time_of(libc::RUSAGE_CHILDREN)
}

#[allow(unsafe_code)]
fn cpu_time_of(whom: libc::c_int) -> io::Result<Duration> {
    // SAFETY: a `rusage` of zeros is valid, and the call writes nothing else.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(whom, &raw mut usage) != 0 {
            return Err(io::Error::last_os_error());
        }
        usage
    };
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Ok(duration(usage.ru_utime) + duration(usage.ru_stime))
}

/// Returns the processor time of this thread so far.
#[allow(unsafe_code)]
pub(crate) fn thread_cpu_time() -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call, which writes nothing else.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Returns the resident memory of this process in bytes.
///
/// # Errors
/// Returns an error on systems other than Linux.
pub(crate) fn resident() -> Result<u64, Error> {
    status_field("self", "VmRSS:")
}

/// Returns the resident memory of another process in bytes.
///
/// # Errors
/// Returns an error on systems other than Linux, and if there is no such process.
pub(crate) fn resident_of(process: u32) -> Result<u64, Error> {
    status_field(&process.to_string(), "VmRSS:")
}

/// Returns the peak of the resident memory of this process in bytes.
///
/// # Errors
/// Returns an error on systems other than Linux.
pub(crate) fn resident_peak() -> Result<u64, Error> {
    status_field("self", "VmHWM:")
}

/// Returns the number of threads of this process.
///
/// # Errors
/// Returns an error on systems other than Linux.
pub(crate) fn threads() -> Result<u64, Error> {
    Ok(fs::read_dir("/proc/self/task")?.count() as u64)
}

fn status_field(process: &str, name: &str) -> Result<u64, Error> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix("kB"));
    Ok(kibibytes.ok_or_else(|| format!("the kernel does not report {name}"))?.trim().parse::<u64>()? * 1024)
}
