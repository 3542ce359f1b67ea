//! The succession of two programs: one with a spool ends, and another one delivers the records that the first has left.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::disk::Disk;
use super::exporter::Exporter;
use super::{Action, Book, SIGNALS, World};
use crate::spool::faults;

impl World {
    pub(super) fn start_exporter(&self) {
        faults::set(None);
        // Drop the previous program first: it holds locks on its files.
        self.exporter.take();
        self.exporter.replace(Some(Rc::new(Exporter::start(self.spec()))));
    }

    /// Lets calls to the disk fail from now on, as often as the script says.
    pub(super) fn break_disk(&self) {
        let (dice, spool) = (RefCell::new(self.dice.borrow().clone()), self.script.settings.spool);
        let is_lenient = spool.is_some_and(|spool| spool.faults > 0);
        self.books.borrow_mut().iter_mut().for_each(|book| book.is_lenient = is_lenient);
        faults::set(spool.map(|spool| Box::new(move || dice.borrow_mut().chance(spool.faults)) as _));
    }

    /// Kills the program between two steps.
    pub(super) fn kill(&self) {
        self.note(|| "the program is killed".to_owned());
        self.exporter().kill();
    }

    /// Starts another program, which must deliver all records that the first has left. Network and disk no longer
    /// fail.
    pub(super) fn deliver_what_was_left(&self) {
        self.note(|| "another program starts".to_owned());
        let before = SIGNALS.map(|signal| self.counts(signal));
        self.before.set(before);
        self.recovered.set(true);
        self.stop_by.set(None);
        self.is_interrupted.set(false);
        self.refused_at.set(None);
        self.flushes.take();
        // Records whose outcome was not noted on disk arrive again.
        self.books.borrow_mut().iter_mut().for_each(Book::forget_order);
        self.start_exporter();
        self.perform(Action::Stop(Duration::from_secs(600)));
        self.pass_while(|| !self.agenda.borrow().is_empty());
        self.check_end();
        for (signal, before) in SIGNALS.into_iter().zip(before) {
            let (counts, answered) = (self.counts(signal), self.books.borrow()[signal as usize].answered());
            let is_found = counts.recovered >= before.spooled + before.in_flight;
            let dropped = before.dropped.total() + counts.dropped.total();
            if !is_found || answered + dropped < before.accepted || counts.spooled > 0 {
                self.fail(format!("{signal}: {before}; then {counts}; {answered} were answered"));
            }
        }
        if let Some(left) = self.disk.as_ref().and_then(Disk::first_file) {
            self.fail(format!("{left} is left"));
        }
        self.check_end();
    }
}
