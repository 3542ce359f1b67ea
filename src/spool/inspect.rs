//! What is in a directory: read and never changed, so that it may be looked at while processes use it. Each file is locked
//! for a moment, to see whether its process lives: one that would take it over just then does so at its next look.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::contents::Instance;
use super::crc32c::checksum;
use super::directory::{Directory, instance_of, is_in_use};
use super::entry::{HEADER_LEN, Place};
use super::recorder::{Leftover, Unreadable};
use super::scan::scan;
use super::storage::{DAMAGED, Files, Storage};
use crate::record::Signal;

/// What each process has in the directory of a spool, the one that began first at the beginning. Of one that runs, what it moves
/// to the disk meanwhile may be missing.
///
/// # Errors
/// When the directory cannot be read, or is not this user's alone.
pub fn inspect(directory: impl AsRef<Path>) -> io::Result<Vec<Instance>> {
    let directory = Directory::open_existing(directory.as_ref())?;
    let mut instances = Vec::new();
    for id in ids(&directory)? {
        instances.extend(instance(&directory, id)?);
    }
    instances.sort_by_key(|instance| instance.started);
    Ok(instances)
}

/// All that files are named by.
fn ids(directory: &Directory) -> io::Result<BTreeSet<String>> {
    let names = directory.names()?;
    let ids = names.iter().filter_map(|name| instance_of(name.strip_suffix(DAMAGED).unwrap_or(name)));
    Ok(ids.map(str::to_owned).collect())
}

/// `None` if it is gone meanwhile.
fn instance(directory: &Directory, id: String) -> io::Result<Option<Instance>> {
    let mut instance = Instance { id, ..Instance::default() };
    let path = directory.recorder_path(&instance.id);
    instance.is_running = is_in_use(&path).unwrap_or(false);
    let entries = read_segments(directory, &mut instance)?;
    read_recorder(&path, &entries, &mut instance)?;
    find_damaged(directory, &mut instance)?;
    let is_gone = instance.bytes == 0 && !path.exists() && instance.problems.is_empty();
    Ok((!is_gone).then_some(instance))
}

/// Counts what is there and in none of these entries.
fn read_recorder(path: &Path, entries: &[Place], instance: &mut Instance) -> io::Result<()> {
    let read = match fs::symlink_metadata(path) {
        Ok(metadata) => {
            instance.bytes += metadata.len();
            Leftover::read(path, super::boot_id())
        }
        // only what was set aside is there, or in use
        Err(_) if entries.is_empty() || instance.is_running => return Ok(()),
        Err(_) => Err(Unreadable::Missing),
    };
    let mut left = match read {
        Ok(left) => left,
        Err(unreadable) => {
            instance.problems.push(format!("{}.recorder: {unreadable}", instance.id));
            return Ok(());
        }
    };
    let in_segments = instance.records();
    left.leave_to_entries(|place| Ok(entries.contains(&place)))?;
    instance.set_owner(left.header.owner.clone());
    instance.started = time(left.header.created);
    for signal in Signal::ALL {
        while let Some(request) = left.next(signal) {
            instance.add(signal, request.records, request.body.len() as u64, None);
            instance.open_spans += if request.place.slot.is_none() { request.records } else { 0 };
        }
    }
    // what a process changes or removes meanwhile only seems to be damaged
    if instance.is_running || !matches!(is_in_use(path), Ok(false)) {
        return Ok(());
    }
    let spooled: u64 = left.spooled.iter().sum();
    for (number, what) in [
        (spooled.saturating_sub(in_segments), "records of segments are missing or damaged"),
        (left.damaged, "damaged places"),
        (left.unproven, "chunks that may not have reached the disk before the system ended"),
    ] {
        if number > 0 {
            instance.problems.push(format!("{}.recorder: {number} {what}", instance.id));
        }
    }
    Ok(())
}

/// Returns where whole entries are.
fn read_segments(directory: &Directory, instance: &mut Instance) -> io::Result<Vec<Place>> {
    let mut entries = Vec::new();
    let mut files = Files::new(directory.path(), &instance.id);
    let mut segments = files.segments()?;
    segments.sort_by_key(|(number, _)| *number);
    for (number, len) in segments {
        let name = format!("{}-{number}.segment", instance.id);
        instance.is_running |= is_in_use(&files.path(number)).unwrap_or(false);
        let read = len.and_then(|len| read_segment(&mut files, number, len, instance, &mut entries));
        match read {
            Ok((damaged, cut)) => {
                if damaged > 0 {
                    instance.problems.push(format!("{name}: {damaged} damaged bytes"));
                }
                // in one that is in use, an append may be under way
                if cut > 0 && !instance.is_running {
                    instance.problems.push(format!("{name}: {cut} bytes at the end are cut off"));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => instance.problems.push(format!("{name}: {error}")),
        }
    }
    Ok(entries)
}

/// Files that were set aside.
fn find_damaged(directory: &Directory, instance: &mut Instance) -> io::Result<()> {
    for entry in fs::read_dir(directory.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&instance.id) && name.ends_with(DAMAGED) {
            instance.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            instance
                .problems
                .push(format!("{name}: kept because it is damaged; what was intact was delivered"));
        }
    }
    Ok(())
}

/// Returns the bytes that are damaged, and those of an entry that is cut off.
fn read_segment(
    files: &mut Files,
    number: u64,
    len: u64,
    instance: &mut Instance,
    entries: &mut Vec<Place>,
) -> io::Result<(u64, u64)> {
    instance.bytes += len;
    let (owner, start) = files.owner_of(number, len)?;
    owner.into_iter().for_each(|owner| instance.set_owner(owner));
    let found = scan(files, number, start..len)?;
    let mut damaged = found.damaged_bytes;
    for &(offset, header) in &found.pending {
        let mut body = vec![0; header.body_len as usize];
        files.read(number, offset + HEADER_LEN as u64, &mut body)?;
        if checksum([&body[..]]) == header.body_crc {
            let (records, bytes) = (u64::from(header.records), u64::from(header.body_len));
            instance.add(header.signal, records, bytes, time(header.time_ms));
            entries.push(Place { segment: number, offset });
        } else {
            damaged += header.entry_len();
        }
    }
    Ok((damaged, found.cut_bytes))
}

fn time(unix_ms: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms))
}
