//! One HTTP/1 connection of a receiver, or of the web pages of the `standpipe` command: reads and answers requests in
//! turn until either side closes.

use std::io::{self, BufReader, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use super::body::{Framing, read_body};
use super::response::{send, send_continue};
use super::{Head, Plan, ReadError, format_of, read_head, signal_of};
use crate::receiver::answer::{Answer, DeliveryMode};
use crate::receiver::content::{Content, Form, Format};
use crate::receiver::listener::Serve;
use crate::receiver::refusal::{Refusal, RefusedRequest, is_local_origin};
use crate::receiver::request_sink;
use crate::receiver::state::{ActiveRequest, Shared, Stage};
use crate::receiver::store::{Protocol, ReceivedRequest};
use crate::receiver::wire::{CLOSE_TIMEOUT, Wire};

/// Serves a connection until it ends. The caller closes the socket.
pub(in crate::receiver) fn serve(shared: &Shared, socket: &TcpStream, number: u64) {
    let mut connection = Connection::new(shared, socket, number);
    while connection.exchange().is_ok() {}
}

/// Callback that gets a request for a page and its body, or a refused request, and answers it. If the callback has
/// written to the socket itself, it returns `None`, and the connection ends.
pub(in crate::receiver) type OnPageRequest =
    dyn Fn(Result<(&ReceivedRequest, &[u8]), &RefusedRequest>, &TcpStream) -> Option<Answer> + Send + Sync;

/// Returns a function that serves the requests for pages on a connection, by calling `answer`.
pub(in crate::receiver) fn page_server(answer: Arc<OnPageRequest>) -> impl Serve {
    move |shared: &Shared, socket: &TcpStream, number| {
        let mut connection = Connection::new(shared, socket, number);
        while connection.exchange_page(&*answer).is_ok() {}
    }
}

struct Connection<'a> {
    shared: &'a Shared,
    socket: &'a TcpStream,
    number: u64,
    reader: BufReader<Wire<'a>>,
    /// Format and signal of the request that is being answered.
    form: Form,
    /// Origin of the web page that sends the request, if pages of this origin may send.
    origin: Option<String>,
}

/// The connection has ended, or must be closed.
struct ConnectionOver;

/// Result of a step of an exchange. The connection is kept for the next request unless a step fails.
type Exchanged = Result<(), ConnectionOver>;

impl From<io::Error> for ConnectionOver {
    fn from(_: io::Error) -> Self {
        ConnectionOver
    }
}

impl<'a> Connection<'a> {
    fn new(shared: &'a Shared, socket: &'a TcpStream, number: u64) -> Self {
        let reader = BufReader::with_capacity(64 * 1024, Wire::new(socket));
        Self { shared, socket, number, reader, form: Form::PROTOBUF, origin: None }
    }

    /// Reads and answers one request for a page. While `on_request` answers a valid request, no other connection can
    /// replace this one.
    fn exchange_page(&mut self, on_request: &OnPageRequest) -> Exchanged {
        self.wait_for_request()?;
        let head = match read_head(&mut self.reader, self.shared.settings.max_header_bytes) {
            Ok(head) => head,
            Err(ReadError::Gone) => return Err(ConnectionOver),
            Err(ReadError::Refused(refusal)) => return self.refuse_page(&refusal, None, on_request),
        };
        let (limit, mut share) = (self.shared.settings.max_body_bytes, self.shared.budget.share());
        // A page of another site cannot send this content type: the browser sends a preflight first, which is refused.
        let is_file = head.single("content-type").is_ok_and(|kind| kind == Some("application/x-ndjson"));
        let framing = head.check_host().and_then(|()| match Framing::of(&head)? {
            framing if is_file || matches!(framing, Framing::Length(0)) => Ok(framing),
            _ => Err(Refusal::new(413, "a request for a page must not have a body")),
        });
        let read = |framing| read_body(&mut self.reader, framing, limit, &mut share);
        let body = framing.map_err(ReadError::from).and_then(read);
        let keep_alive = head.keeps_alive();
        let request = self.describe(head, body.as_ref().map_or(0, Vec::len));
        let body = match body {
            Ok(body) => body,
            Err(ReadError::Gone) => return Err(ConnectionOver),
            Err(ReadError::Refused(refusal)) => return self.refuse_page(&refusal, Some(request), on_request),
        };
        let mut active = self.shared.begin_request(self.number, Stage::Held);
        let answer = on_request(Ok((&request, &body)), self.socket).ok_or(ConnectionOver)?;
        active.enter(Stage::Answering);
        self.deliver(&answer, keep_alive, active)
    }

    fn refuse_page(
        &mut self,
        refusal: &Refusal,
        request: Option<ReceivedRequest>,
        on_request: &OnPageRequest,
    ) -> Exchanged {
        let active = self.shared.begin_request(self.number, Stage::Answering);
        let refused = refusal.describe(Protocol::Http, request);
        let answer = on_request(Err(&refused), self.socket).ok_or(ConnectionOver)?;
        self.refuse(&answer, false, active)
    }

    /// Reads and answers one request.
    fn exchange(&mut self) -> Exchanged {
        self.wait_for_request()?;
        let decided = self.shared.change(|state| state.script.take_preceding());
        match decided.as_ref().map(|answer| &answer.delivery_mode) {
            Some(DeliveryMode::NeverRead) => {
                self.shared.hold_while(|_| true);
                return Err(ConnectionOver);
            }
            // Unread data is left, so closing the socket sends RST.
            Some(DeliveryMode::Reset) => return Err(ConnectionOver),
            Some(DeliveryMode::ResetAfterRequest) => self.reader.get_mut().held_back = Some(false),
            _ => {}
        }
        self.answer_request(decided)
    }

    /// Waits for a request and leaves it in the socket, because some answers reset the connection by closing it with
    /// unread data.
    fn wait_for_request(&mut self) -> Exchanged {
        // Checked before each request: otherwise, a client that sends continuously could keep this thread running
        // after a stop.
        if self.shared.read(|state| state.stopped) {
            return Err(ConnectionOver);
        }
        self.reader.get_mut().set_deadline(self.shared.read_deadline());
        if self.reader.buffer().is_empty() {
            self.reader.get_ref().wait_for_byte()?;
        }
        // The deadline of a request starts with its first byte.
        self.reader.get_mut().set_deadline(self.shared.read_deadline());
        Ok(())
    }

    /// Reads a request and answers it. `decided` is an answer that was chosen before the request was read.
    fn answer_request(&mut self, decided: Option<Answer>) -> Exchanged {
        let head = match read_head(&mut self.reader, self.shared.settings.max_header_bytes) {
            Ok(head) => head,
            Err(ReadError::Gone) => return Err(ConnectionOver),
            Err(ReadError::Refused(refusal)) => return self.deny(None, &refusal, false),
        };
        let format = format_of(&head).unwrap_or(Format::Protobuf);
        self.form = Form { format, signal: signal_of(&head) };
        let limit = self.shared.settings.max_body_bytes;
        let hosts = self.shared.addresses.http_hosts;
        self.origin = self.allowed_origin(&head);
        let asks = head.method == "OPTIONS" && matches!(Framing::of(&head), Ok(Framing::Length(0)));
        if self.origin.is_some() && asks && hosts.check(head.hosts()).is_ok() {
            return self.answer_preflight(&head);
        }
        let read = Plan::of(&head, hosts, limit).map_err(ReadError::from).and_then(|plan| {
            if plan.expects_continue {
                send_continue(&mut self.socket)?;
            }
            // Memory is reserved only now: a client that has not yet got `100 Continue` takes none.
            let mut share = self.shared.budget.share();
            let body = read_body(&mut self.reader, plan.framing, limit, &mut share)?;
            Ok((plan, body, share))
        });
        let (content, body_bytes, keep_alive) = match read {
            Ok((plan, body, share)) => {
                let content = Content::read(plan.signal, plan.format, plan.coding, &body, limit, share);
                (content, body.len(), head.keeps_alive())
            }
            Err(ReadError::Gone) => return Err(ConnectionOver),
            // The rest of the body may still arrive, so the connection cannot be used for a second request.
            Err(ReadError::Refused(refusal)) => (Err(refusal), 0, false),
        };
        let request = self.describe(head, body_bytes);
        match content {
            Ok(content) => {
                let taken = request_sink::take_in(self.shared, request, content, decided);
                let (answer, active) = taken.ok_or(ConnectionOver)?;
                self.deliver(&answer, keep_alive, active)
            }
            Err(refusal) => self.deny(Some(request), &refusal, keep_alive),
        }
    }

    fn allowed_origin(&self, head: &Head) -> Option<String> {
        let origins = self.shared.settings.allowed_origins.as_ref()?;
        let origin = head.single("origin").ok().flatten()?;
        (is_local_origin(origin) || origins.iter().any(|allowed| allowed == origin))
            .then(|| origin.to_owned())
    }

    /// Answers a browser that asks whether a web page of an allowed origin may send a request with certain headers.
    fn answer_preflight(&mut self, head: &Head) -> Exchanged {
        let headers = head.values("access-control-request-headers").collect::<Vec<_>>().join(", ");
        let answer = Answer::status(204)
            .header("access-control-allow-methods", "POST")
            .header("access-control-allow-headers", headers)
            .header("access-control-allow-private-network", "true")
            .header("access-control-max-age", "600");
        let active = self.shared.begin_request(self.number, Stage::Answering);
        self.deliver(&answer, head.keeps_alive(), active)
    }

    fn describe(&self, head: Head, body_bytes: usize) -> ReceivedRequest {
        let signal = signal_of(&head);
        let Head { method, target, headers, .. } = head;
        let request = ReceivedRequest::new(self.number, Protocol::Http, method, target, headers);
        ReceivedRequest { signal, body_bytes, ..request }
    }

    fn deliver(&mut self, answer: &Answer, keep_alive: bool, active: ActiveRequest<'_>) -> Exchanged {
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
                // The head does not announce the close that `closes` asks for, so the client keeps a stale connection.
                if keep_alive && !answer.closes { Ok(()) } else { Err(ConnectionOver) }
            }
        }
    }

    fn send(&mut self, answer: &Answer, keep_alive: bool) -> io::Result<()> {
        let for_page = self.origin.take().map(|origin| {
            // `vary` keeps caches from giving this answer to pages of another origin.
            answer.clone().header("access-control-allow-origin", origin).header("vary", "origin")
        });
        send(&mut self.socket, for_page.as_ref().unwrap_or(answer), self.form, keep_alive, |interval| {
            self.shared.rest(interval)
        })
    }

    /// Reports, counts and answers a refused request.
    fn deny(&mut self, request: Option<ReceivedRequest>, refusal: &Refusal, keep_alive: bool) -> Exchanged {
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

    fn refuse(&mut self, answer: &Answer, keep_alive: bool, active: ActiveRequest<'_>) -> Exchanged {
        self.send(answer, keep_alive)?;
        drop(active);
        if keep_alive {
            return Ok(());
        }
        // Closing with unread data would reset the connection, and the client might lose its answer.
        if self.socket.shutdown(Shutdown::Write).is_ok() {
            self.reader.get_mut().set_deadline(Instant::now().checked_add(CLOSE_TIMEOUT));
            self.discard_input();
        }
        Err(ConnectionOver)
    }

    /// Discards input until the client closes, the deadline passes or the receiver stops.
    fn discard_input(&mut self) {
        let mut sink = [0; 8 * 1024];
        while matches!(self.reader.read(&mut sink), Ok(1..)) {}
    }
}
