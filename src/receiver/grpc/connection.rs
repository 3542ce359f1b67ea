//! One client over gRPC: one thread reads its calls, others answer them.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use super::crew::Crew;
use super::desk::Desk;
use super::line::Line;
use super::session::{Call, End, Event, Limits, Matter, Session};
use crate::receiver::answer::{Answer, Manner};
use crate::receiver::reception;
use crate::receiver::refusal::{Refusal, RefusalKind};
use crate::receiver::state::Shared;
use crate::receiver::store::Protocol;
use crate::receiver::wire::{FAREWELL, TLS_HANDSHAKE, Wire};
use crate::transport::grpc::http2::frame::Code;

const READ: usize = 64 * 1024;

/// Serves a connection to its end. The caller closes the socket.
pub(in crate::receiver) fn serve(shared: &Shared, socket: &TcpStream, number: u64) {
    let settings = &shared.settings;
    let limits = Limits {
        header_bytes: settings.max_header_bytes,
        body_bytes: settings.max_body_bytes,
        hosts: shared.doors.grpc_hosts,
        time: settings.read_timeout,
    };
    let line = Line::new(shared, socket, Session::new(limits, shared.budget.clone(), Instant::now()));
    let desk = Desk { line: &line, number };
    let crew = Crew::new(shared.threads.clone());
    thread::scope(|scope| {
        let _reading = Reading { line: &line, crew: &crew };
        let mut reader = Reader::new(&desk, socket);
        while let Ok(calls) = reader.read() {
            for call in calls {
                crew.add(call, scope, || format!("standpipe-in-{number}"), |call| desk.answer(call));
            }
        }
    });
}

/// Tells those who answer when nobody reads any more, be it for a callback that panicked: they would wait for calls for
/// ever, and the scope for them.
struct Reading<'a> {
    line: &'a Line<'a>,
    crew: &'a Crew<Call>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.line.leave();
        self.crew.close();
    }
}

struct Reader<'a> {
    desk: &'a Desk<'a>,
    socket: &'a TcpStream,
    wire: Wire<'a>,
    buffer: Vec<u8>,
    /// What the client began with.
    first_byte: Option<u8>,
    /// Whether the connection can be reset: the last byte is still in the socket.
    holds_back: bool,
    /// Answers that were taken when their calls began.
    decided: HashMap<u32, Answer>,
}

/// The connection is over, for one reason or another.
struct Over;

impl<'a> Reader<'a> {
    fn new(desk: &'a Desk<'a>, socket: &'a TcpStream) -> Self {
        Self {
            desk,
            socket,
            wire: Wire::new(socket),
            buffer: vec![0; READ],
            first_byte: None,
            holds_back: false,
            decided: HashMap::new(),
        }
    }

    /// Reads what there is, and gives the calls that are there now.
    fn read(&mut self) -> Result<Vec<Call>, Over> {
        let line = self.desk.line;
        // an answer that is under way may be finished any time: then the clock of the next call starts
        self.wire.set_deadline(line.deadline().or_else(|| line.shared.read_deadline()));
        let (events, result) = match self.read_bytes() {
            Ok(length @ 1..) => {
                self.first_byte.get_or_insert(self.buffer[0]);
                line.receive(&self.buffer[..length])
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                line.expire()
            }
            Ok(_) | Err(_) => return Err(self.leave()),
        };
        let calls = self.sort(events)?;
        result.map(|()| calls).map_err(|end| self.conclude(end))
    }

    fn read_bytes(&mut self) -> io::Result<usize> {
        self.wire.wait_for_byte()?;
        if !self.holds_back && self.desk.line.shared.read(|state| state.script.has_preceding()) {
            self.wire.hold_back_last_byte();
            self.holds_back = true;
        }
        self.wire.read(&mut self.buffer)
    }

    /// Applies the answers that are taken when a call begins.
    fn sort(&mut self, events: Vec<Event>) -> Result<Vec<Call>, Over> {
        let shared = self.desk.line.shared;
        let mut calls = Vec::new();
        for event in events {
            match event {
                Event::Begun(stream) if self.holds_back => {
                    let Some(answer) = shared.change(|state| state.script.take_preceding()) else { continue };
                    match answer.manner {
                        Manner::NeverRead => shared.rest_for_good(),
                        // there is unread data, so closing sends RST
                        Manner::Reset => {}
                        _ => {
                            self.decided.insert(stream, answer);
                            continue;
                        }
                    }
                    return Err(Over);
                }
                Event::Begun(_) => {}
                Event::Call(Call { stream, matter }) => match self.decided.remove(&stream) {
                    Some(answer) if matches!(matter, Matter::Whole { .. }) => {
                        self.desk.judge(matter, Some(answer));
                        return Err(Over);
                    }
                    _ => calls.push(Call { stream, matter }),
                },
            }
        }
        Ok(calls)
    }

    /// The client has left, or the receiver was stopped.
    fn leave(&self) -> Over {
        let line = self.desk.line;
        if line.shared.read(|state| state.stopped) {
            self.say_farewell(Code::NO_ERROR);
            line.fall_silent();
        }
        Over
    }

    fn conclude(&mut self, end: End) -> Over {
        match end {
            End::NotHttp2 => self.point_the_way(),
            End::Fault(fault) => {
                self.report(&Refusal::new(400, fault.what));
                self.say_farewell(fault.code);
            }
            End::Idle => self.say_farewell(Code::NO_ERROR),
        }
        // closing with unread data would tear the farewell out of the client's hands
        self.desk.line.fall_silent();
        self.wire.set_deadline(Instant::now().checked_add(FAREWELL));
        while matches!(self.wire.read(&mut self.buffer), Ok(1..)) {}
        Over
    }

    fn say_farewell(&self, code: Code) {
        // an error means that the client was faster
        let _ = self.desk.line.say(|session| {
            session.send_go_away(session.newest, code);
            Ok(())
        });
    }

    fn report(&self, refusal: &Refusal) {
        let answer = Answer::status(refusal.status);
        reception::turn_down(self.desk.line.shared, Protocol::Grpc, None, refusal, &answer);
    }

    /// Tells someone who speaks HTTP/1 where that is understood.
    fn point_the_way(&mut self) {
        let (kind, what) = match self.first_byte {
            Some(TLS_HANDSHAKE) => (RefusalKind::Tls, "a tls handshake, where plain http/2 is spoken"),
            Some(b'A'..=b'Z') => (RefusalKind::HttpAtGrpcPort, "http/1, where gRPC is spoken"),
            _ => (RefusalKind::Malformed, "neither http nor gRPC"),
        };
        self.report(&Refusal::new(505, what).of_kind(kind));
        let place = self.desk.line.shared.doors.http;
        let text = format!("this is the gRPC port; OTLP over HTTP is at http://{place}\n");
        let answer = format!(
            "HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{text}",
            text.len()
        );
        // whoever speaks something else again does not listen either
        let _ = self.socket.write_all(answer.as_bytes());
    }
}
