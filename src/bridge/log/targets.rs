//! The logger of each target: found without a lock, by any thread, also in a forked child.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use crate::logs::Logger;
use crate::process;
use crate::telemetry::provider::Provider;

/// More targets than most programs have modules.
const PLACES: usize = 1024;
/// How many places a target may stand at. One that finds them all taken is asked for at the provider each time.
const CHOICES: usize = 8;

/// The loggers of the targets that were seen. None is ever forgotten, and no more than fit are remembered.
pub(super) struct Targets {
    provider: Provider,
    places: Box<[Place]>,
}

type Place = OnceLock<(Box<str>, Logger)>;

impl Targets {
    pub(super) fn new(provider: Provider) -> Self {
        Self { provider, places: (0..PLACES).map(|_| Place::new()).collect() }
    }

    pub(super) fn provider(&self) -> &Provider {
        &self.provider
    }

    #[inline]
    pub(super) fn logger(&self, target: &str) -> Cow<'_, Logger> {
        let first = hash(target);
        for choice in 0..CHOICES {
            let place = &self.places[first.wrapping_add(choice) % PLACES];
            match place.get() {
                Some((known, logger)) if **known == *target => return Cow::Borrowed(logger),
                Some(_) => {}
                None => return self.remember(target, place),
            }
        }
        Cow::Owned(self.provider.logger(target))
    }

    #[cold]
    fn remember<'t>(&self, target: &str, place: &'t Place) -> Cow<'t, Logger> {
        let logger = self.provider.logger(target);
        // made before, and dropped after: the program's allocator may log, too
        let mut fresh = Some((Box::from(target), logger.clone()));
        // a child born in the middle of it would wait for ever for the one who fills the place
        process::with_fork_lock(|| {
            if place.get().is_none() {
                fresh = fresh.take().and_then(|fresh| place.set(fresh).err());
            }
        });
        let Some((known, kept)) = place.get() else { return Cow::Owned(logger) };
        match **known == *target {
            true => Cow::Borrowed(kept),
            // another thread was faster, with another target
            false => Cow::Owned(logger),
        }
    }
}

fn hash(target: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    target.hash(&mut hasher);
    hasher.finish() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Telemetry};

    #[test]
    fn a_target_keeps_its_logger() {
        let telemetry = Telemetry::start(Config::new()).unwrap();
        let targets = Targets::new(telemetry.as_ref().clone());
        let first = targets.logger("shop::cart");
        let (Cow::Borrowed(first), Cow::Borrowed(second)) = (first, targets.logger("shop::cart")) else {
            panic!("there is room for it");
        };
        assert!(std::ptr::eq(first, second));
        assert_eq!(format!("{first:?}"), "Logger { scope: \"shop::cart\", .. }");
    }

    #[test]
    fn targets_that_find_no_room_have_loggers_of_their_own_nevertheless() {
        let telemetry = Telemetry::start(Config::new()).unwrap();
        let targets = Targets::new(telemetry.as_ref().clone());
        let mut without_room = 0;
        for number in 0..2 * PLACES {
            let target = format!("shop::module_{number}");
            let logger = targets.logger(&target);
            without_room += usize::from(matches!(logger, Cow::Owned(_)));
            assert_eq!(format!("{logger:?}"), format!("Logger {{ scope: {target:?}, .. }}"));
        }
        assert!(without_room >= PLACES, "{without_room}");
    }
}
