//! The scenarios: small programs, each run once with each stack.

mod context;
mod conventions;
mod events;
mod fields;
mod filters;
mod instrumented;
mod limits;
mod logged;
mod settings;
mod spans;
mod threads;

use std::sync::{Mutex, MutexGuard};
use std::thread;

use standpipe::receiver::Receiver;
use tracing::{Dispatch, Span, dispatcher};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use crate::stacks::{Remote, Settings, Stack, Start};
use crate::told::Seen;

/// Returns all scenarios.
pub(crate) fn all() -> impl Iterator<Item = &'static Scenario> {
    [
        spans::ALL,
        context::ALL,
        fields::ALL,
        conventions::ALL,
        events::ALL,
        instrumented::ALL,
        threads::ALL,
        filters::ALL,
        limits::ALL,
        logged::ALL,
        settings::ALL,
    ]
    .into_iter()
    .flatten()
}

/// Returns the scenarios whose events are exported as log records.
pub(crate) fn with_logs() -> impl Iterator<Item = Scenario> {
    [spans::ALL, context::ALL, events::ALL, instrumented::ALL, threads::ALL, filters::ALL, logged::ALL]
        .into_iter()
        .flatten()
        .map(|scenario| scenario.with(Settings::LOGS))
}

pub(crate) type BoxedFilter = Box<dyn Filter<Registry> + Send + Sync>;

/// A small program.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    settings: Settings,
    filter: Option<fn() -> BoxedFilter>,
    play: fn(&Stage<'_>),
}

impl Scenario {
    const fn new(name: &'static str, play: fn(&Stage<'_>)) -> Self {
        Self { name, settings: Settings::USUAL, filter: None, play }
    }

    const fn with(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    const fn filtered(self, filter: fn() -> BoxedFilter) -> Self {
        Self { filter: Some(filter), ..self }
    }

    /// Runs the program with a stack, on a new named thread. Returns the received records.
    pub(crate) fn run(&self, start: Start) -> Seen {
        let receiver = Receiver::start().unwrap();
        let notes = thread::scope(|scope| {
            let player = thread::Builder::new().name("player".to_owned());
            player
                .spawn_scoped(scope, || self.play(&*start(&receiver, self.settings)))
                .unwrap()
                .join()
                .unwrap()
        });
        Seen { notes, ..Seen::at(&receiver) }
    }

    fn play(&self, stack: &dyn Stack) -> Vec<(String, String)> {
        let layer = stack.layer();
        let stage = Stage { stack, notes: Mutex::default() };
        let dispatch = match self.filter {
            Some(filter) => Dispatch::new(tracing_subscriber::registry().with(layer.with_filter(filter()))),
            None => Dispatch::new(tracing_subscriber::registry().with(layer)),
        };
        dispatcher::with_default(&dispatch, || (self.play)(&stage));
        // Spans that were never closed are dropped with the registry.
        drop(dispatch);
        stack.finish();
        stage.notes.into_inner().unwrap()
    }
}

/// Makes scenarios of functions, with the same names.
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        &[$($crate::scenarios::Scenario::new(stringify!($name), $name)),+]
    };
}
use scenarios;

/// The tools of a program, besides `tracing` itself.
pub(crate) struct Stage<'a> {
    stack: &'a dyn Stack,
    notes: Mutex<Vec<(String, String)>>,
}

impl Stage<'_> {
    /// Notes a fact that must be equal with both stacks.
    fn note(&self, what: &str, value: impl ToString) {
        self.notes().push((what.to_owned(), value.to_string()));
    }

    fn notes(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.notes.lock().unwrap()
    }

    fn set_parent(&self, span: &Span, remote: Remote) -> bool {
        self.stack.set_parent(span, remote)
    }

    fn add_link(&self, span: &Span, remote: Remote) {
        self.stack.add_link(span, remote);
    }

    fn inject(&self, span: &Span) -> (String, String) {
        self.stack.inject(span)
    }

    fn native_span(&self, name: &'static str, work: impl Fn()) {
        self.stack.native_span(name, &work);
    }

    /// Runs `work` on another thread with the same subscriber, and waits for it.
    fn on_thread(&self, name: Option<&str>, work: impl FnOnce() + Send) {
        let dispatch = dispatcher::get_default(Dispatch::clone);
        let builder = thread::Builder::new();
        let builder = match name {
            Some(name) => builder.name(name.to_owned()),
            None => builder,
        };
        thread::scope(|scope| {
            let work = || dispatcher::with_default(&dispatch, work);
            builder.spawn_scoped(scope, work).unwrap().join().unwrap();
        });
    }
}
