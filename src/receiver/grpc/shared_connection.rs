//! A session and its socket, shared by the reading thread and the answering threads.

use std::io::{self, Write};
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::session::{End, Event, Gone, Session};
use crate::http2::frame::Code;
use crate::receiver::state::Shared;
use crate::receiver::wire::CLOSE_TIMEOUT;

/// Size of queued frames at which they are written.
const MAX_QUEUED_BYTES: usize = 64 << 10;

/// A session and its socket behind a mutex. A thread holds the lock while it writes, so frames stay whole and in order.
pub(super) struct SharedConnection<'a> {
    pub(super) shared: &'a Shared,
    socket: &'a TcpStream,
    state: Mutex<State>,
    /// Notified after received frames and at the end of the connection.
    changed: Condvar,
}

pub(super) struct State {
    pub(super) session: Session,
    /// True if nothing more can be sent.
    is_over: bool,
    /// True if the reading thread has ended.
    has_stopped_reading: bool,
}

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Gone
    }
}

impl<'a> SharedConnection<'a> {
    pub(super) fn new(shared: &'a Shared, socket: &'a TcpStream, session: Session) -> Self {
        let state = State { session, is_over: false, has_stopped_reading: false };
        Self { shared, socket, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Runs a step of the session: received bytes, or the expiry of calls. Does nothing after the end of the
    /// connection. If the step fails, the events before the error are returned together with it.
    pub(super) fn receive_with(
        &self,
        step: impl FnOnce(&mut Session) -> Result<(), End>,
    ) -> (Vec<Event>, Result<(), End>) {
        let mut state = self.state.lock();
        if state.is_over {
            return (Vec::new(), Ok(()));
        }
        state.session.now = Instant::now();
        let result = step(&mut state.session);
        let events = mem::take(&mut state.session.events);
        // An error is ignored here: after a failed write, `flush` shuts the socket down, so the reading thread soon
        // sees the end of its input.
        let _ = self.flush(&mut state);
        drop(state);
        self.changed.notify_all();
        (events, result)
    }

    /// Returns the deadline of the session, if it has one, and `None` after the end of the connection: `Wire` stops
    /// reading soon after a deadline, so the reader would never see the end of its input.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let state = self.state.lock();
        if state.is_over { None } else { state.session.deadline() }
    }

    /// Sends the frames that `prepare` queues, in one write.
    pub(super) fn send<T>(&self, prepare: impl FnOnce(&mut Session) -> Result<T, Gone>) -> Result<T, Gone> {
        let mut state = self.lock_for_sending()?;
        let prepared = prepare(&mut state.session);
        self.flush(&mut state)?;
        prepared
    }

    /// Sends GOAWAY: no stream after `last_stream` is processed.
    pub(super) fn send_go_away(&self, last_stream: u32, code: Code) -> Result<(), Gone> {
        self.send(|session| session.send_go_away(last_stream, code))
    }

    /// Like [`send`](Self::send), but the frames are written only together with later frames.
    pub(super) fn queue<T>(&self, prepare: impl FnOnce(&mut Session) -> Result<T, Gone>) -> Result<T, Gone> {
        prepare(&mut self.lock_for_sending()?.session)
    }

    /// Lets `write` send prepared bytes at its own pace. No other thread can send meanwhile.
    pub(super) fn write_raw(
        &self,
        prepare: impl FnOnce(&mut Session) -> Result<Vec<u8>, Gone>,
        write: impl FnOnce(&[u8], &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Gone> {
        let mut state = self.lock_for_sending()?;
        self.flush(&mut state)?;
        let prepared = prepare(&mut state.session)?;
        match write(&prepared, &mut &*self.socket) {
            Ok(()) => self.flush(&mut state),
            Err(error) => {
                self.give_up(&mut state);
                Err(error.into())
            }
        }
    }

    /// Sends all of `content`, and waits for flow-control credit where necessary. The last frames may stay queued
    /// until later frames are written.
    pub(super) fn send_data(&self, stream: u32, mut content: &[u8]) -> Result<(), Gone> {
        let mut state = self.lock_for_sending()?;
        while !content.is_empty() {
            let sent = state.session.send_data(stream, content)?;
            content = &content[sent..];
            if sent == 0 || state.session.connection.out.len() >= MAX_QUEUED_BYTES {
                self.flush(&mut state)?;
            }
            // Without the reading thread, no WINDOW_UPDATE can arrive.
            if sent == 0 && state.has_stopped_reading {
                return Err(Gone);
            }
            if sent == 0 && self.changed.wait_for(&mut state, self.shared.settings.read_timeout).timed_out() {
                state.session.send_reset(stream, Code::CANCEL)?;
                self.flush(&mut state)?;
                return Err(Gone);
            }
            if state.is_over {
                return Err(Gone);
            }
        }
        Ok(())
    }

    fn lock_for_sending(&self) -> Result<MutexGuard<'_, State>, Gone> {
        let mut state = self.state.lock();
        state.session.now = Instant::now();
        if state.is_over { Err(Gone) } else { Ok(state) }
    }

    fn flush(&self, state: &mut State) -> Result<(), Gone> {
        let out = state.session.take_out();
        let mut socket = self.socket;
        let result = socket.write_all(&out);
        if result.is_err() {
            self.give_up(state);
        }
        Ok(result?)
    }

    /// Ends the connection after a failed write: a part of a frame may have been sent, so no other frame can follow.
    fn give_up(&self, state: &mut State) {
        state.is_over = true;
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Closes gracefully: sends FIN, then gives the client up to [`CLOSE_TIMEOUT`] to read the answers and close its
    /// side.
    pub(super) fn hang_up(&self) {
        self.stop_sending();
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !state.has_stopped_reading, CLOSE_TIMEOUT);
        // Wakes the reading thread, if it still runs.
        self.give_up(&mut state);
    }

    /// Closes the sending side.
    pub(super) fn stop_sending(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
        // An error means that the client has already closed the connection.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Closes at once, without a GOAWAY.
    pub(super) fn abandon(&self) {
        self.give_up(&mut self.state.lock());
    }

    /// Notes the end of the reading thread: no further credit will arrive.
    pub(super) fn stop_reading(&self) {
        self.state.lock().has_stopped_reading = true;
        self.changed.notify_all();
    }

    /// Notes that no handler works on the answer of this stream any more.
    pub(super) fn release(&self, stream: u32) {
        let session = &mut self.state.lock().session;
        session.now = Instant::now();
        session.release(stream);
    }
}
