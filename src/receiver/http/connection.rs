//! One client of the receiver or of the command's page: reads and answers its requests in turn, until either side closes.

use std::io::{self, BufReader, Read};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use super::body::{Framing, read_body};
use super::response::{send, send_continue};
use super::{Head, Plan, ReadError, format_of, read_head, signal_of};
use crate::receiver::answer::{Answer, DeliveryMode};
use crate::receiver::content::{Content, Form, Format};
use crate::receiver::refusal::{Refusal, RefusedRequest};
use crate::receiver::request_sink;
use crate::receiver::state::{ActiveRequest, Shared, Stage};
use crate::receiver::store::{Protocol, ReceivedRequest};
use crate::receiver::wire::{FAREWELL, Wire};

/// Serves a connection to its end. The caller closes the socket.
pub(in crate::receiver) fn serve(shared: &Shared, socket: &TcpStream, number: u64) {
    let mut connection = Connection::new(shared, socket, number);
    while connection.exchange().is_ok() {}
}

/// Answers a request for a page, or returns `None` once it has written to the socket itself: then the connection ends.
pub(in crate::receiver) type OnPageRequest =
    dyn Fn(Result<&ReceivedRequest, &RefusedRequest>, &TcpStream) -> Option<Answer> + Send + Sync;

/// As [`serve`], but for requests without a body, which `answer` answers.
pub(in crate::receiver) fn serve_pages(
    shared: &Shared,
    socket: &TcpStream,
    number: u64,
    answer: &OnPageRequest,
) {
    let mut connection = Connection::new(shared, socket, number);
    while connection.exchange_page(answer).is_ok() {}
}

struct Connection<'a> {
    shared: &'a Shared,
    socket: &'a TcpStream,
    number: u64,
    reader: BufReader<Wire<'a>>,
    /// Form of the request that is being answered.
    form: Form,
}

/// The connection is over, for one reason or another.
struct ConnectionOver;

impl From<io::Error> for ConnectionOver {
    fn from(_: io::Error) -> Self {
        ConnectionOver
    }
}

/// A request that was read, as far as it was worth reading.
struct Arrival {
    request: ReceivedRequest,
    content: Result<Content, Refusal>,
    keep_alive: bool,
}

impl<'a> Connection<'a> {
    fn new(shared: &'a Shared, socket: &'a TcpStream, number: u64) -> Self {
        let reader = BufReader::with_capacity(64 * 1024, Wire::new(socket));
        Self { shared, socket, number, reader, form: Form::PROTOBUF }
    }

    /// One request for a page and its answer. While `on_request` runs, no other connection can take the place of this one.
    fn exchange_page(&mut self, on_request: &OnPageRequest) -> Result<(), ConnectionOver> {
        self.wait_for_request()?;
        let (refusal, request) = match read_head(&mut self.reader, self.shared.settings.max_header_bytes) {
            Ok(head) => match Framing::of(&head) {
                Ok(Framing::Length(0)) => {
                    let mut active = self.shared.begin_request(self.number, Stage::Held);
                    let keep_alive = head.keeps_alive();
                    let answer =
                        on_request(Ok(&self.describe(head, 0)), self.socket).ok_or(ConnectionOver)?;
                    active.enter(Stage::Answering);
                    return self.deliver(&answer, keep_alive, active);
                }
                framing => {
                    let has_body = Refusal::new(413, "no request for a page has a body");
                    (framing.err().unwrap_or(has_body), Some(self.describe(head, 0)))
                }
            },
            Err(ReadError::Gone) => return Err(ConnectionOver),
            Err(ReadError::Refused(refusal)) => (refusal, None),
        };
        let active = self.shared.begin_request(self.number, Stage::Answering);
        let refused = refusal.describe(Protocol::Http, request);
        let answer = on_request(Err(&refused), self.socket).ok_or(ConnectionOver)?;
        self.refuse(&answer, false, active)
    }

    /// One request and its answer.
    fn exchange(&mut self) -> Result<(), ConnectionOver> {
        self.wait_for_request()?;
        let decided = self.shared.change(|state| state.script.take_preceding());
        self.prepare(decided.as_ref())?;
        match self.read_request()? {
            Arrival { request, content: Ok(content), keep_alive } => {
                let (answer, active) =
                    request_sink::take_in(self.shared, request, content, decided).ok_or(ConnectionOver)?;
                self.deliver(&answer, keep_alive, active)
            }
            Arrival { request, content: Err(refusal), keep_alive } => {
                self.turn_down(Some(request), &refusal, keep_alive)
            }
        }
    }

    /// Leaves the request in the socket, where an answer that precedes reading may want it.
    fn wait_for_request(&mut self) -> Result<(), ConnectionOver> {
        // a client that goes on sending would keep it from seeing the end
        if self.shared.read(|state| state.stopped) {
            return Err(ConnectionOver);
        }
        let deadline = self.shared.read_deadline();
        self.reader.get_mut().set_deadline(deadline);
        if self.reader.buffer().is_empty() {
            self.reader.get_ref().wait_for_byte()?;
        }
        // the clock of the request starts with its first byte
        let deadline = self.shared.read_deadline();
        self.reader.get_mut().set_deadline(deadline);
        Ok(())
    }

    fn prepare(&mut self, decided: Option<&Answer>) -> Result<(), ConnectionOver> {
        match decided.map(|answer| &answer.delivery_mode) {
            Some(DeliveryMode::NeverRead) => {
                self.shared.rest_for_good();
                Err(ConnectionOver)
            }
            // there is unread data, so closing sends RST
            Some(DeliveryMode::Reset) => Err(ConnectionOver),
            Some(DeliveryMode::ResetAfterRequest) => {
                self.reader.get_mut().hold_back_last_byte();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn read_request(&mut self) -> Result<Arrival, ConnectionOver> {
        let head = match read_head(&mut self.reader, self.shared.settings.max_header_bytes) {
            Ok(head) => head,
            Err(ReadError::Gone) => return Err(ConnectionOver),
            Err(ReadError::Refused(refusal)) => {
                self.turn_down(None, &refusal, false)?;
                return Err(ConnectionOver);
            }
        };
        let format = format_of(&head).unwrap_or(Format::Protobuf);
        self.form = Form { format, signal: signal_of(&head) };
        let limit = self.shared.settings.max_body_bytes;
        let hosts = self.shared.addresses.http_hosts;
        let read = Plan::of(&head, hosts, limit).map_err(ReadError::from).and_then(|plan| {
            if plan.expects_continue {
                send_continue(&mut self.socket)?;
            }
            let mut share = self.shared.budget.share();
            let body = read_body(&mut self.reader, plan.framing, limit, &mut share)?;
            Ok((plan, body, share))
        });
        let keep_alive = head.keeps_alive();
        match read {
            Ok((plan, body, share)) => {
                let content = Content::read(plan.signal, plan.format, plan.coding, &body, limit, share);
                Ok(Arrival { request: self.describe(head, body.len()), content, keep_alive })
            }
            Err(ReadError::Gone) => Err(ConnectionOver),
            // the rest of the body is still on its way: no second request can follow it
            Err(ReadError::Refused(refusal)) => {
                Ok(Arrival { request: self.describe(head, 0), content: Err(refusal), keep_alive: false })
            }
        }
    }

    fn describe(&self, head: Head, body_bytes: usize) -> ReceivedRequest {
        let signal = signal_of(&head);
        let Head { method, target, headers, .. } = head;
        let request = ReceivedRequest::new(self.number, Protocol::Http, method, target, headers);
        ReceivedRequest { signal, body_bytes, ..request }
    }

    fn deliver(
        &mut self,
        answer: &Answer,
        keep_alive: bool,
        active: ActiveRequest<'_>,
    ) -> Result<(), ConnectionOver> {
        match answer.delivery_mode {
            DeliveryMode::Hang | DeliveryMode::NeverRead => {
                drop(active);
                self.reader.get_mut().set_deadline(None);
                self.discard_input();
                Err(ConnectionOver)
            }
            DeliveryMode::Close
            | DeliveryMode::Reset
            | DeliveryMode::ResetAfterRequest
            | DeliveryMode::ResetStream(_)
            | DeliveryMode::GoAway(_) => Err(ConnectionOver),
            DeliveryMode::Garbage(_) | DeliveryMode::CutShort => {
                self.send(answer, true)?;
                Err(ConnectionOver)
            }
            DeliveryMode::Whole | DeliveryMode::SlowHead(_) | DeliveryMode::SlowBody(_) => {
                self.send(answer, keep_alive)?;
                if keep_alive && !answer.closes { Ok(()) } else { Err(ConnectionOver) }
            }
        }
    }

    fn send(&mut self, answer: &Answer, keep_alive: bool) -> io::Result<()> {
        send(&mut self.socket, answer, self.form, keep_alive, |interval| self.shared.rest(interval))
    }

    /// Shows and counts a request that is refused, and answers it.
    fn turn_down(
        &mut self,
        request: Option<ReceivedRequest>,
        refusal: &Refusal,
        keep_alive: bool,
    ) -> Result<(), ConnectionOver> {
        let answer = match (refusal.status, refusal.answer()) {
            (405, answer) => answer.header("allow", "POST"),
            (505, answer) => {
                let place = self.shared.addresses.grpc;
                answer.message(format!("{}; OTLP over gRPC is at http://{place}", refusal.message))
            }
            (_, answer) => answer,
        };
        let (shared, number) = (self.shared, self.number);
        let active = request_sink::turn_down(shared, Protocol::Http, number, request, refusal, &answer);
        self.refuse(&answer, keep_alive, active)
    }

    fn refuse(
        &mut self,
        answer: &Answer,
        keep_alive: bool,
        active: ActiveRequest<'_>,
    ) -> Result<(), ConnectionOver> {
        self.send(answer, keep_alive)?;
        drop(active);
        if keep_alive {
            return Ok(());
        }
        self.take_leave();
        Err(ConnectionOver)
    }

    /// Lets the client read its answer: closing with unread data would reset the connection and tear the
    /// answer out of the client's hands.
    fn take_leave(&mut self) {
        if self.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        self.reader.get_mut().set_deadline(Instant::now().checked_add(FAREWELL));
        self.discard_input();
    }

    /// Reads until the client leaves, the deadline passes or the receiver stops.
    fn discard_input(&mut self) {
        let mut sink = [0; 8 * 1024];
        while matches!(self.reader.read(&mut sink), Ok(1..)) {}
    }
}
