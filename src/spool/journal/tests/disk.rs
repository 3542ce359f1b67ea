//! A storage in memory with faults: calls fail, writes are torn, and unsynced data is lost.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeSet;
use std::rc::Rc;

use super::*;

/// A disk in memory. Clones share its contents, which outlive a journal.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    /// Segments as the process sees them.
    files: BTreeMap<u64, Vec<u8>>,
    /// Segments as they were at their last sync. A removal is never synced.
    durable: BTreeMap<u64, Vec<u8>>,
    /// Segments that were renamed.
    aside: BTreeMap<u64, Vec<u8>>,
    /// Bytes that cannot be read, by segment and offset, and the system's error.
    bad: BTreeMap<(u64, u64), i32>,
    fault: Option<Fault>,
    faults: u64,
    syncs: u64,
}

/// A fault of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    /// Number of calls that succeed before the fault.
    pub(super) after: u8,
    /// Effect of the failed call: an append writes this many 256ths of its bytes. Any other call has its full effect if
    /// the number is 128 or more, and otherwise none.
    pub(super) effect: u8,
}

impl Disk {
    pub(super) fn arm(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    pub(super) fn disarm(&self) {
        self.state().fault = None;
    }

    pub(super) fn faults(&self) -> u64 {
        self.state().faults
    }

    /// Returns the number of successful calls of `sync`.
    pub(super) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    pub(super) fn lens(&self) -> Vec<(u64, u64)> {
        self.state().files.iter().map(|(id, bytes)| (*id, bytes.len() as u64)).collect()
    }

    /// Returns the segments that were set aside.
    pub(super) fn aside(&self) -> Vec<u64> {
        self.state().aside.keys().copied().collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.lens().iter().map(|(_, len)| len).sum()
    }

    /// Changes the bytes of a segment, without the journal. Creates the segment if it does not exist.
    pub(super) fn edit(&self, id: u64, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.state().files.entry(id).or_default());
    }

    /// Makes each read of this byte fail from now on.
    pub(super) fn spoil(&self, id: u64, offset: u64, error: i32) {
        self.state().bad.insert((id, offset), error);
    }

    /// Simulates a power loss: drops all or a part of the unsynced data. `choose` returns numbers below its argument.
    pub(super) fn lose_power(&self, mut choose: impl FnMut(usize) -> usize) {
        let state = &mut *self.state();
        let ids: BTreeSet<u64> = state.files.keys().chain(state.durable.keys()).copied().collect();
        for id in ids {
            let seen = state.files.remove(&id);
            let synced = state.durable.remove(&id);
            let survives = seen.is_some() && synced.is_some() || choose(2) == 1;
            if !survives {
                continue;
            }
            let mut bytes = synced.unwrap_or_default();
            let synced_len = bytes.len();
            let seen = seen.unwrap_or_else(|| bytes.clone());
            for (byte, seen) in bytes.iter_mut().zip(&seen).filter(|(byte, seen)| byte != seen) {
                *byte = if choose(2) == 1 { *seen } else { *byte };
            }
            // The length of a file may reach the disk before its last bytes, which are then zeros.
            let len = synced_len + choose(seen.len() - synced_len + 1);
            let written = synced_len + choose(len - synced_len + 1);
            bytes.extend(&seen[synced_len..written]);
            bytes.resize(len, 0);
            state.files.insert(id, bytes.clone());
            state.durable.insert(id, bytes);
        }
    }

    fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// Performs a call, or a part of it if the call is to fail.
    fn call<T>(&self, act: impl FnOnce(&mut State, Option<u8>) -> io::Result<T>) -> io::Result<T> {
        let state = &mut *self.state();
        match state.fault.take() {
            Some(Fault { after: 0, effect }) => {
                state.faults += 1;
                let _ = act(state, Some(effect));
                Err(io::Error::other("a fault"))
            }
            Some(Fault { after, effect }) => {
                state.fault = Some(Fault { after: after - 1, effect });
                act(state, None)
            }
            None => act(state, None),
        }
    }

    /// Like `call`, for a call that has all of its effect or none.
    fn whole<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.call(
            |state, effect| if effect.is_none_or(|effect| effect > 127) { act(state) } else { missing() },
        )
    }
}

impl Storage for Disk {
    fn list(&mut self) -> io::Result<Vec<(u64, io::Result<Range<u64>>)>> {
        let list = |files: &BTreeMap<u64, Vec<u8>>| {
            files.iter().rev().map(|(id, bytes)| (*id, Ok(0..bytes.len() as u64))).collect()
        };
        self.whole(|state| Ok(list(&state.files)))
    }

    fn create(&mut self, id: u64) -> io::Result<()> {
        self.whole(|state| {
            if state.files.contains_key(&id) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            // From now on, a power loss cannot bring back a removed file that had this name.
            state.durable.remove(&id);
            state.bad.retain(|(segment, _), _| *segment != id);
            state.files.insert(id, Vec::new());
            Ok(())
        })
    }

    fn append(&mut self, id: u64, pieces: &[&[u8]]) -> io::Result<()> {
        self.call(|state, effect| {
            let bytes = pieces.concat();
            let written = effect.map_or(bytes.len(), |effect| bytes.len() * usize::from(effect) / 256);
            state.files.get_mut(&id).map_or_else(missing, |file| {
                file.extend(&bytes[..written]);
                Ok(())
            })
        })
    }

    fn write_byte(&mut self, id: u64, offset: u64, byte: u8) -> io::Result<()> {
        self.whole(|state| {
            let byte_at = state.files.get_mut(&id).and_then(|file| file.get_mut(offset as usize));
            byte_at.map_or_else(missing, |old| {
                *old = byte;
                Ok(())
            })
        })
    }

    fn read(&mut self, id: u64, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.whole(|state| {
            let file = state.files.get(&id).map_or_else(missing, Ok)?;
            let bytes = file.get(offset as usize..).and_then(|bytes| bytes.get(..buffer.len()));
            buffer.copy_from_slice(bytes.ok_or(UnexpectedEof)?);
            let bad = state.bad.range((id, offset)..(id, offset + buffer.len() as u64)).next();
            bad.map_or(Ok(()), |(_, error)| Err(io::Error::from_raw_os_error(*error)))
        })
    }

    fn sync(&mut self, id: u64) -> io::Result<()> {
        self.whole(|state| {
            let file = state.files.get(&id).map_or_else(missing, Ok)?;
            state.durable.insert(id, file.clone());
            state.syncs += 1;
            Ok(())
        })
    }

    fn retire(&mut self, id: u64, is_damaged: bool) -> io::Result<()> {
        self.whole(|state| {
            let file = state.files.remove(&id).map_or_else(missing, Ok)?;
            state.aside.extend(is_damaged.then_some((id, file)));
            Ok(())
        })
    }
}

fn missing<T>() -> io::Result<T> {
    Err(NotFound.into())
}
