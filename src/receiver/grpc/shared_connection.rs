//! A session and its socket, shared by the one that reads and those that answer.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::session::{End, Event, Gone, Session};
use crate::http2::frame::Code;
use crate::receiver::state::Shared;
use crate::receiver::wire::FAREWELL;

/// Frames that wait for further ones before they are written.
const MAX_QUEUED_BYTES: usize = 64 << 10;

/// The thread that writes holds the lock meanwhile, so that frames stay whole and in order.
pub(super) struct SharedConnection<'a> {
    pub(super) shared: &'a Shared,
    socket: &'a TcpStream,
    state: Mutex<State>,
    /// Something came, or the connection ended.
    moved: Condvar,
}

pub(super) struct State {
    pub(super) session: Session,
    /// Whether anything may still be sent.
    is_over: bool,
    /// Whether our side has stopped reading.
    is_left: bool,
}

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Gone
    }
}

impl<'a> SharedConnection<'a> {
    pub(super) fn new(shared: &'a Shared, socket: &'a TcpStream, session: Session) -> Self {
        let state = State { session, is_over: false, is_left: false };
        Self { shared, socket, state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Takes in what came, or refuses what took too long; after a hang-up, it is of no interest. What came before the end is
    /// there, too.
    pub(super) fn receive_with(
        &self,
        step: impl FnOnce(&mut Session, &mut Vec<Event>) -> Result<(), End>,
    ) -> (Vec<Event>, Result<(), End>) {
        let mut events = Vec::new();
        let mut state = self.state.lock();
        if state.is_over {
            return (events, Ok(()));
        }
        state.session.now = Instant::now();
        let result = step(&mut state.session, &mut events);
        // a client that takes in nothing more is found out by the next read
        let _ = self.flush(&mut state);
        drop(state);
        self.moved.notify_all();
        (events, result)
    }

    /// When to look at the clock again. After a hang-up there is nothing to be late for: a clock that has run out would
    /// keep the reader from seeing the end.
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

    /// Announces that the answer to `last_stream` is the last one.
    pub(super) fn send_go_away(&self, last_stream: u32, code: Code) -> Result<(), Gone> {
        self.send(|session| {
            session.send_go_away(last_stream, code);
            Ok(())
        })
    }

    /// As [`send`](Self::send), but the frames may wait for those that follow.
    pub(super) fn queue<T>(&self, prepare: impl FnOnce(&mut Session) -> Result<T, Gone>) -> Result<T, Gone> {
        prepare(&mut self.lock_for_sending()?.session)
    }

    /// Writes what the session has prepared at a pace of its own. No other thread can send meanwhile.
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

    /// Sends all of `content`, as the client makes room. The last frames may wait for those that follow.
    pub(super) fn send_data(&self, stream: u32, mut content: &[u8]) -> Result<(), Gone> {
        let mut state = self.lock_for_sending()?;
        while !content.is_empty() {
            let sent = state.session.send_data(stream, content)?;
            content = &content[sent..];
            if sent == 0 || state.session.connection.out.len() >= MAX_QUEUED_BYTES {
                self.flush(&mut state)?;
            }
            if sent == 0 && state.is_left {
                return Err(Gone);
            }
            if sent == 0 && self.moved.wait_for(&mut state, self.shared.settings.read_timeout).timed_out() {
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

    /// Part of a frame may be out: nothing can follow it.
    fn give_up(&self, state: &mut State) {
        state.is_over = true;
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Closes in good order: the client can read what was sent, and has some time to close its side.
    pub(super) fn hang_up(&self) {
        self.stop_sending();
        let mut state = self.state.lock();
        self.moved.wait_while_for(&mut state, |state| !state.is_left, FAREWELL);
        // wakes the reader, if it is still there
        self.give_up(&mut state);
    }

    /// Nothing more will be sent.
    pub(super) fn stop_sending(&self) {
        self.state.lock().is_over = true;
        self.moved.notify_all();
        // an error means that the client was faster
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Closes at once, without a GOAWAY.
    pub(super) fn abandon(&self) {
        self.give_up(&mut self.state.lock());
    }

    /// Our side has stopped reading: no window will open again.
    pub(super) fn stop_reading(&self) {
        self.state.lock().is_left = true;
        self.moved.notify_all();
    }

    /// The answer to this call is finished, or never will be.
    pub(super) fn let_go(&self, stream: u32) {
        let session = &mut self.state.lock().session;
        session.now = Instant::now();
        session.let_go(stream);
    }
}
