//! One attempt, from the side of the simulated network and its server.

use std::time::Instant;

use super::{PROXY_PAUSE, World};
use crate::pipeline::clock::{self, simulated};
use crate::pipeline::simulation::background_send;
use crate::pipeline::simulation::server::{Reply, numbers};
use crate::transport::{Payload, Verdict};

/// A request that was not answered yet.
pub(super) struct Request {
    begun: Instant,
    numbers: Vec<usize>,
    bytes: usize,
    reply: Reply,
    /// Number of queued records of the request's signal at the end of the last slice of time.
    queued: usize,
}

impl World {
    /// Makes one attempt. On the simulated second thread, `send` returns after each slice of time and is called again.
    pub(super) fn send(&self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        let (signal, at) = (payload.signal, payload.signal as usize);
        let queued = || self.handle().queue(signal).map_or(0, |queue| queue.level().0);
        let under_way = self.under_way.take();
        let is_relieved = under_way.as_ref().is_some_and(|request| queued() < request.queued);
        self.relieved.set(self.relieved.get() + u64::from(is_relieved));
        let received = under_way.or_else(|| self.receive(payload, deadline));
        let Some(request) = received else { return Verdict::Refused { reason: String::new() } };
        let Request { begun, reply, bytes, .. } = request;
        let is_broken = || self.is_cut.get() || self.is_interrupted.get();
        let end = deadline.min(begun + reply.after);
        let slice_ends = background_send::slice_ends().unwrap_or(end);
        self.attempt.set(Some(signal));
        simulated::World::pass(self, Some(end.min(slice_ends)), &is_broken);
        if clock::now() < end && !is_broken() {
            self.under_way.replace(Some(Request { queued: queued(), ..request }));
            background_send::go_on();
            // `run_in_background` ignores this value, and calls this function again.
            return Verdict::Accepted;
        }
        self.attempt.set(None);
        if let Some(by) = self.stop_by.get() {
            let begun = begun.max(by - self.budget.get());
            self.books.borrow_mut()[at].time_in_stop += clock::now() - begun;
        }
        let (numbers, is_late) = (request.numbers, is_broken() || begun + reply.after > deadline);
        self.note(|| format!("{signal} {numbers:?}, late: {is_late}, {reply:?}"));
        let verdict = self.books.borrow_mut()[at].reply(reply, is_late, &numbers, bytes);
        if matches!(verdict, Verdict::ProxyRefused { .. }) {
            self.refused_at.set(Some(clock::now()));
        }
        if self.disk.is_some() && matches!(verdict, Verdict::TooLarge { .. }) {
            self.books.borrow_mut()[at].let_overtake(&numbers);
        }
        verdict
    }

    /// Receives and checks a request, and decides on its reply. Returns `None` if the request cannot be read.
    fn receive(&self, payload: &Payload<'_>, deadline: Instant) -> Option<Request> {
        let (begun, settings, at) = (clock::now(), &self.script.settings, payload.signal as usize);
        let body = payload.body.concat();
        self.check_deadline(begun, deadline);
        if self.refused_at.get().is_some_and(|refused| begun < refused + PROXY_PAUSE) {
            self.fail("the proxy gets another request within a minute after it refused one".to_owned());
        }
        self.hurry_if_pressing();
        let Some(numbers) = numbers(&body) else {
            self.fail(format!("a request that cannot be read: {body:x?}"));
            return None;
        };
        if body.len() > settings.batch.bytes || numbers.len() > settings.batch.records {
            self.fail(format!("a request of {} bytes and {} records", body.len(), numbers.len()));
        }
        let arrived = self.books.borrow_mut()[at].arrive(&numbers, begun, settings.pace.throttle);
        arrived.unwrap_or_else(|what| self.fail(format!("{}: {what}", payload.signal)));
        let since = begun - self.start;
        let phase = self.script.weather.iter().find(|phase| since < phase.until && !self.recovered.get());
        let reply = Reply::new(&mut self.dice.borrow_mut(), phase, payload.signal, settings);
        Some(Request { begun, numbers, bytes: body.len(), reply, queued: 0 })
    }
}
