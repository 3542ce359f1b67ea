//! OTLP over gRPC: the server's side of HTTP/2 without TLS, as far as unary calls need it.
//!
//! ```text
//! socket → reader → session → call → handler ── request_sink        calls of the client
//!             │        ▲ incoming, over http2 (pure)
//!             └── shared_connection ◄── delivery ◄ answer               answers
//! ```
//!
//! One thread per connection reads. Each open call is answered on its own thread, so a call that waits does not delay
//! another. The first answering thread of a connection is always available; each further thread needs one of a limited
//! number of permits, which all connections share. An answering thread ends when it finds no waiting call.

mod call;
mod delivery;
mod handler;
mod incoming;
mod session;
mod shared_connection;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use self::handler::Handler;
use self::session::{Call, End, Event, Limits, Outcome, Session};
use self::shared_connection::SharedConnection;
use crate::http2::frame::Code;
use crate::receiver::answer::{Answer, DeliveryMode};
use crate::receiver::content::Form;
use crate::receiver::http;
use crate::receiver::refusal::{Refusal, RefusalKind};
use crate::receiver::request_sink::turn_down;
use crate::receiver::state::{ActiveRequest, Shared};
use crate::receiver::store::Protocol;
use crate::receiver::wire::{CLOSE_TIMEOUT, TLS_HANDSHAKE, Wire};

const READ: usize = 64 * 1024;

/// Serves a connection to its end. The caller closes the socket.
pub(in crate::receiver) fn serve(shared: &Shared, socket: &TcpStream, number: u64) {
    let settings = &shared.settings;
    let limits = Limits {
        header_bytes: settings.max_header_bytes,
        body_bytes: settings.max_body_bytes,
        hosts: shared.addresses.grpc_hosts,
        time: settings.read_timeout,
    };
    let connection =
        SharedConnection::new(shared, socket, Session::new(limits, shared.budget.clone(), Instant::now()));
    let handler = Handler::new(&connection, number);
    thread::scope(|scope| {
        let _reading = Reading(&connection);
        let mut reader = Reader {
            handler: &handler,
            socket,
            wire: Wire::new(socket),
            buffer: vec![0; READ],
            first_byte: None,
            decided: HashMap::new(),
        };
        while let Ok(calls) = reader.read() {
            calls.into_iter().for_each(|call| handler.take_on(call, scope));
        }
    });
}

/// Tells the answering threads that the reading thread has ended, even if it panicked. Otherwise these threads would
/// wait for flow-control credit that cannot arrive any more, and the scope would wait for the threads.
struct Reading<'a>(&'a SharedConnection<'a>);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.stop_reading();
    }
}

struct Reader<'a> {
    handler: &'a Handler<'a>,
    socket: &'a TcpStream,
    wire: Wire<'a>,
    buffer: Vec<u8>,
    /// First byte that the client sent.
    first_byte: Option<u8>,
    /// Answers that were chosen at the beginning of their calls, by stream.
    decided: HashMap<u32, Answer>,
}

/// The connection has ended, or must be closed.
struct ConnectionOver;

impl<'a> Reader<'a> {
    /// Reads available bytes. Returns the calls that must be answered now, because they are complete or refused.
    fn read(&mut self) -> Result<Vec<Call>, ConnectionOver> {
        let connection = self.handler.connection;
        // Checked before each read: otherwise, a client that sends continuously could keep this thread running after a
        // stop.
        if connection.shared.read(|state| state.stopped) {
            return Err(self.stop_reading());
        }
        // While all open calls wait for their answers, the session has no deadline, so the reader waits a full timeout.
        self.wire.set_deadline(connection.deadline().or_else(|| connection.shared.read_deadline()));
        let (events, result) = match self.read_bytes() {
            Ok(length @ 1..) => {
                self.first_byte.get_or_insert(self.buffer[0]);
                connection.receive_with(|session| session.receive(&self.buffer[..length]))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                connection.receive_with(Session::expire)
            }
            Ok(_) | Err(_) => return Err(self.stop_reading()),
        };
        let calls = self.sort(events)?;
        result.map(|()| calls).map_err(|end| self.conclude(end))
    }

    fn read_bytes(&mut self) -> io::Result<usize> {
        self.wire.wait_for_byte()?;
        // Checked before each read: the next answer may have to reset the connection, which needs unread data.
        let holds_back = self.wire.held_back.is_some();
        if !holds_back && self.handler.connection.shared.read(|state| state.script.has_preceding()) {
            self.wire.held_back = Some(false);
        }
        self.wire.read(&mut self.buffer)
    }

    /// Returns the calls among the events, and applies answers that are chosen when a call begins.
    fn sort(&mut self, events: Vec<Event>) -> Result<Vec<Call>, ConnectionOver> {
        let shared = self.handler.connection.shared;
        let mut calls = Vec::new();
        for event in events {
            match event {
                Event::Begun(stream) if self.wire.held_back.is_some() => {
                    let Some(answer) = shared.change(|state| state.script.take_preceding()) else { continue };
                    match answer.delivery_mode {
                        DeliveryMode::NeverRead => _ = shared.hold_while(|_| true),
                        // Unread data is left, so closing the socket sends RST.
                        DeliveryMode::Reset => {}
                        _ => {
                            self.decided.insert(stream, answer);
                            continue;
                        }
                    }
                    return Err(ConnectionOver);
                }
                Event::Begun(_) => {}
                Event::Call(Call { stream, outcome }) => match self.decided.remove(&stream) {
                    Some(answer) if matches!(outcome, Outcome::Whole { .. }) => {
                        // The call is counted, but not answered. One byte is held back, so closing the socket sends
                        // RST.
                        self.handler.judge(outcome, Some(answer));
                        return Err(ConnectionOver);
                    }
                    _ => calls.push(Call { stream, outcome }),
                },
            }
        }
        Ok(calls)
    }

    /// Ends reading after the client has left or the receiver was stopped. GOAWAY tells the client of the stop.
    fn stop_reading(&self) -> ConnectionOver {
        let connection = self.handler.connection;
        if connection.shared.read(|state| state.stopped) {
            // Answers in progress are still sent after the GOAWAY.
            self.send_go_away(Code::NO_ERROR);
        }
        ConnectionOver
    }

    fn conclude(&mut self, end: End) -> ConnectionOver {
        match end {
            End::NotHttp2 => self.answer_other_protocol(),
            End::Fault(fault) => {
                let _active = self.report(&Refusal::new(400, fault.what));
                self.send_go_away(fault.code);
            }
            End::Idle => self.send_go_away(Code::NO_ERROR),
        }
        // Closing with unread data would reset the connection, and the client might lose the GOAWAY.
        self.handler.connection.stop_sending();
        self.wire.set_deadline(Instant::now().checked_add(CLOSE_TIMEOUT));
        while matches!(self.wire.read(&mut self.buffer), Ok(1..)) {}
        ConnectionOver
    }

    fn send_go_away(&self, code: Code) {
        // An error means that the client has already closed the connection.
        let _ = self.handler.connection.send(|session| session.send_go_away(session.newest, code));
    }

    fn report(&self, refusal: &Refusal) -> ActiveRequest<'a> {
        let Handler { connection, number, .. } = self.handler;
        let answer = Answer::status(refusal.status);
        turn_down(connection.shared, Protocol::Grpc, *number, None, refusal, &answer)
    }

    /// Answers a client of another protocol: HTTP/1 clients learn the address of the HTTP listener.
    fn answer_other_protocol(&mut self) {
        let (kind, what) = match self.first_byte {
            Some(TLS_HANDSHAKE) => (RefusalKind::Tls, "TLS handshake at a gRPC port without TLS"),
            Some(b'A'..=b'Z') => (RefusalKind::HttpAtGrpcPort, "HTTP/1 request at the gRPC port"),
            _ => (RefusalKind::Malformed, "neither HTTP nor gRPC"),
        };
        let _active = self.report(&Refusal::new(505, what).of_kind(kind));
        let place = self.handler.connection.shared.addresses.http;
        let text = format!("this is the gRPC port; OTLP over HTTP is at http://{place}\n");
        let answer = Answer::status(505).header("content-type", "text/plain").body(text);
        // An error is ignored: the refusal is already reported, and the connection ends in any case.
        let _ = http::send(&mut self.socket, &answer, Form::PROTOBUF, false, |_| true);
    }
}
