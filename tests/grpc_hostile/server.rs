//! A server that follows a script, frame by frame, and records the client's frames.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::stage::LONG;
use crate::wire::{
    ACK, DATA, END_STREAM, FIRST, GO_AWAY, HEADERS, PING, PREFACE, RESET, SETTINGS, WINDOW, WINDOW_UPDATE,
    settings, well,
};

/// Number of recorded frames after which acknowledgements are no longer recorded: a flood causes many of them.
const MAX_ACKS: usize = 1000;

/// The script of a connection. An error means that the client has disconnected.
pub(crate) type Script = dyn Fn(&mut Peer) -> io::Result<()> + Send + Sync;

pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    rest: (Mutex<bool>, Condvar),
    notes: Mutex<Vec<Notes>>,
}

type Notes = Arc<Mutex<Vec<Frame>>>;

/// A frame of the client.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) length: usize,
    /// Empty in the recorded copy of a DATA frame.
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn is_ack(&self) -> bool {
        matches!(self.kind, SETTINGS | PING) && self.flags & ACK != 0
    }

    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// The increment of a window update, or the code of a reset.
    pub(crate) fn number(&self) -> u32 {
        self.payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }
}

/// The client's frames of all connections, in order.
pub(crate) struct Heard(pub(crate) Vec<Vec<Frame>>);

impl Heard {
    fn all(&self) -> impl Iterator<Item = &Frame> {
        self.0.iter().flatten()
    }

    /// Returns the codes of the client's GOAWAY frames.
    pub(crate) fn farewells(&self) -> Vec<u32> {
        let code = |frame: &Frame| frame.payload.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        self.all().filter(|frame| frame.kind == GO_AWAY).map(code).collect()
    }

    /// Returns the streams that the client reset, with the codes.
    pub(crate) fn resets(&self) -> Vec<(u32, u32)> {
        self.all().filter(|frame| frame.kind == RESET).map(|frame| (frame.stream, frame.number())).collect()
    }

    pub(crate) fn requests(&self) -> usize {
        self.all().filter(|frame| frame.kind == HEADERS).count()
    }

    /// Returns the sum of the client's window updates for a stream, or for the connection.
    pub(crate) fn given_back(&self, stream: u32) -> u32 {
        let updates = self.all().filter(|frame| frame.kind == WINDOW_UPDATE && frame.stream == stream);
        updates.map(Frame::number).sum()
    }
}

/// A complete request.
pub(crate) struct Request {
    pub(crate) stream: u32,
    pub(crate) body: Vec<u8>,
}

impl Server {
    pub(crate) fn start(script: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::<Shared>::default();
        let acceptor = {
            let shared = Arc::clone(&shared);
            let script: Arc<Script> = Arc::new(script);
            thread::spawn(move || accept(&listener, &shared, &script))
        };
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends all scripts, and returns the recorded frames.
    pub(crate) fn end(mut self) -> Heard {
        self.stop();
        let notes = self.shared.notes.lock().unwrap();
        Heard(notes.iter().map(|notes| notes.lock().unwrap().clone()).collect())
    }

    fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.is_over.store(true, Ordering::SeqCst);
        *self.shared.rest.0.lock().unwrap() = true;
        self.shared.rest.1.notify_all();
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        let panicked = acceptor.join().is_err();
        assert!(!panicked || thread::panicking(), "a script panicked");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, script: &Arc<Script>) {
    let mut scripts = Vec::new();
    for (number, socket) in listener.incoming().enumerate() {
        if shared.is_over.load(Ordering::SeqCst) {
            break;
        }
        let socket = socket.expect("loopback accepts");
        let mut peer = Peer::new(number, socket, Arc::clone(shared));
        shared.notes.lock().unwrap().push(Arc::clone(&peer.notes));
        let script = Arc::clone(script);
        scripts.push(thread::spawn(move || {
            // An error means that the client has disconnected, as it does in some cases.
            let _ = script(&mut peer);
        }));
    }
    for script in scripts {
        script.join().expect("a script goes through");
    }
}

/// The server's end of a connection.
pub(crate) struct Peer {
    /// Number of the connection, from 0.
    pub(crate) number: usize,
    /// Bytes that the server may still send on all streams together, according to the client's window updates.
    pub(crate) window: i64,
    /// Whether received frames are recorded.
    pub(crate) takes_notes: bool,
    socket: BufReader<TcpStream>,
    has_heard_preface: bool,
    notes: Notes,
    shared: Arc<Shared>,
}

impl Peer {
    fn new(number: usize, socket: TcpStream, shared: Arc<Shared>) -> Self {
        socket.set_nodelay(true).expect("a socket");
        socket.set_read_timeout(Some(LONG)).expect("a socket");
        socket.set_write_timeout(Some(LONG)).expect("a socket");
        let window = i64::from(WINDOW);
        let socket = BufReader::new(socket);
        let notes = Notes::default();
        Self { number, window, takes_notes: true, socket, has_heard_preface: false, notes, shared }
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.get_mut().write_all(bytes)
    }

    pub(crate) fn greet(&mut self, entries: &[(u16, u32)]) -> io::Result<()> {
        self.say(&settings(entries))
    }

    /// Returns whether a frame of this kind was received.
    pub(crate) fn has_heard(&self, kind: u8) -> bool {
        self.notes.lock().unwrap().iter().any(|frame| frame.kind == kind)
    }

    /// Returns the next frame, with its payload even for DATA.
    pub(crate) fn hear(&mut self) -> io::Result<Frame> {
        if !self.has_heard_preface {
            let mut preface = [0; PREFACE.len()];
            self.socket.read_exact(&mut preface)?;
            assert_eq!(preface, PREFACE);
            self.has_heard_preface = true;
        }
        let mut head = [0; 9];
        self.socket.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let mut payload = vec![0; length];
        self.socket.read_exact(&mut payload)?;
        let frame = Frame { kind, flags, stream: u32::from_be_bytes(stream), length, payload };
        if kind == WINDOW_UPDATE && frame.stream == 0 {
            self.window += i64::from(frame.number());
        }
        self.note(&frame);
        Ok(frame)
    }

    fn note(&self, frame: &Frame) {
        let mut notes = self.notes.lock().unwrap();
        if self.takes_notes && !(frame.is_ack() && notes.len() > MAX_ACKS) {
            let payload = if frame.kind == DATA { Vec::new() } else { frame.payload.clone() };
            notes.push(Frame { payload, ..*frame });
        }
    }

    /// Waits for the frame that begins a request, and returns its stream.
    pub(crate) fn hear_head(&mut self) -> io::Result<u32> {
        loop {
            let frame = self.hear()?;
            if frame.kind == HEADERS {
                return Ok(frame.stream);
            }
        }
    }

    /// Waits for a whole request.
    pub(crate) fn request(&mut self) -> io::Result<Request> {
        let stream = self.hear_head()?;
        let mut body = Vec::new();
        loop {
            let frame = self.hear()?;
            if frame.kind == DATA {
                body.extend(&frame.payload);
            }
            if frame.ends_stream() {
                return Ok(Request { stream, body });
            }
        }
    }

    /// Waits for a frame of this kind.
    pub(crate) fn hear_of(&mut self, kind: u8) -> io::Result<Frame> {
        loop {
            let frame = self.hear()?;
            if frame.kind == kind {
                return Ok(frame);
            }
        }
    }

    /// Accepts all requests until the client disconnects.
    pub(crate) fn behave(&mut self) -> io::Result<()> {
        loop {
            let request = self.request()?;
            self.say(&well(request.stream))?;
        }
    }

    /// Reads until the client disconnects.
    pub(crate) fn until_gone(&mut self) -> io::Result<()> {
        loop {
            self.hear()?;
        }
    }

    /// Sends the same bytes this many times while it reads, so that neither side can block the other. Then continues to
    /// read.
    pub(crate) fn flood(&mut self, words: Vec<u8>, times: usize) -> io::Result<()> {
        let mut mouth = self.socket.get_ref().try_clone()?;
        let speaker = thread::spawn(move || (0..times).try_for_each(|_| mouth.write_all(&words)));
        let heard = self.until_gone();
        let _ = self.socket.get_ref().shutdown(Shutdown::Both);
        let _ = speaker.join().expect("a speaker goes through");
        heard
    }

    /// Neither reads nor writes until the case is over.
    pub(crate) fn rest(&self) {
        let (is_over, changed) = &self.shared.rest;
        let _over = changed.wait_while(is_over.lock().unwrap(), |is_over| !*is_over).unwrap();
    }

    /// Like [`rest`](Self::rest), but for at most this time.
    pub(crate) fn pause(&self, pause: Duration) {
        let (is_over, changed) = &self.shared.rest;
        let _over = changed.wait_timeout_while(is_over.lock().unwrap(), pause, |is_over| !*is_over).unwrap();
    }

    /// Ends the sending side of the connection.
    pub(crate) fn hush(&self) -> io::Result<()> {
        self.socket.get_ref().shutdown(Shutdown::Write)
    }
}

/// Sends settings, reads the first request of each connection, sends these bytes, and reads until the client
/// disconnects.
pub(crate) fn saying(words: Vec<u8>) -> impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static {
    move |peer| {
        peer.greet(&[])?;
        let request = peer.request()?;
        assert_eq!(request.stream, FIRST);
        peer.say(&words)?;
        peer.until_gone()
    }
}
