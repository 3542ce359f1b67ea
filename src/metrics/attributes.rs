//! What a measurement may be given as its attributes.

use crate::record::Value;

/// The attributes of a measurement: a borrowed array of pairs, or `()` for none.
///
/// A slice of `(&str, Value)` does as well, for attributes that are put together at run time. All values of an array have
/// one type; for a mix of types spell out [`Value`]s. The order of the pairs does not
/// matter, and of a key that is given twice the last value counts.
///
/// ```
/// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
/// use standpipe::Value;
///
/// let orders = telemetry.meter("shop").counter("orders");
/// orders.add(1, ());
/// orders.add(1, &[("shop.country", "SE"), ("shop.kind", "web")]);
/// orders.add(1, &[("shop.country", Value::from("SE")), ("express", true.into())]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of attributes",
    label = "write `&[(\"key\", value)]`, or `()` for none",
    note = "values of one array have one type; for a mix write `&[(\"a\", Value::from(1)), (\"b\", \"x\".into())]`"
)]
pub trait Attributes: sealed::Pairs {}

impl Attributes for () {}
impl<'a> Attributes for &[(&'a str, Value<'a>)] {}
impl<'a, V: Copy + Into<Value<'a>>, const COUNT: usize> Attributes for &[(&'a str, V); COUNT] {}

pub(super) mod sealed {
    use super::Value;

    /// One attribute, borrowed.
    pub(crate) type Pair<'a> = (&'a str, Value<'a>);

    pub trait Pairs {
        /// Hands the pairs to `take`, without an allocation.
        fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R;
    }
}

use sealed::{Pair, Pairs};

impl Pairs for () {
    #[inline]
    fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
        take(&[])
    }
}

impl<'a> Pairs for &[Pair<'a>] {
    #[inline]
    fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
        take(self)
    }
}

impl<'a, V: Copy + Into<Value<'a>>, const COUNT: usize> Pairs for &[(&'a str, V); COUNT] {
    #[inline]
    fn with<R>(self, take: impl FnOnce(&[Pair<'_>]) -> R) -> R {
        take(&self.map(|(key, value)| (key, value.into())))
    }
}
