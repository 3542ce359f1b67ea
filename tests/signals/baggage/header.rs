//! The header `baggage`: reading, writing, and its limits.

use proptest::collection::vec;
use proptest::prelude::*;
use standpipe::Baggage;

const MAX_MEMBERS: usize = 64;
const MAX_BYTES: usize = 8192;

fn pairs(baggage: &Baggage) -> Vec<(&str, &str)> {
    baggage.iter().collect()
}

#[test]
fn a_header_is_read_as_the_standard_has_it() {
    for (header, expected) in [
        ("", &[][..]),
        (" , ,", &[]),
        ("a=1", &[("a", "1")]),
        ("a=1,b=2", &[("a", "1"), ("b", "2")]),
        (" a =\t1 ; p = x ,, b=2\t", &[("a", "1"), ("b", "2")]),
        ("a=", &[("a", "")]),
        ("a=b=c", &[("a", "b=c")]),
        ("A=1,a=2", &[("A", "1"), ("a", "2")]),
        ("a=1,b=2,a=3", &[("b", "2"), ("a", "3")]),
        ("a=%C3%85sa%2C%20%e2%82%ac", &[("a", "\u{c5}sa, \u{20ac}")]),
        ("a=%ff%41", &[("a", "\u{fffd}A")]),
        ("a=100%,b=%4,c=%zz", &[("a", "100%"), ("b", "%4"), ("c", "%zz")]),
        ("%41=key", &[("%41", "key")]),
    ] {
        assert_eq!(pairs(&Baggage::from_header(header)), expected, "{header}");
    }
}

#[test]
fn a_member_that_cannot_be_read_costs_no_other() {
    for bad in [
        "b",
        "=2",
        " = 2",
        "b c=2",
        "b=2 3",
        "b=\"2\"",
        "b=\\2",
        "b\u{e9}=2",
        "b=\u{e9}",
        "b=\r\n",
        "(b)=2",
        ";b=2",
    ] {
        let baggage = Baggage::from_header(&format!("a=1,{bad},c=3"));
        assert_eq!(pairs(&baggage), [("a", "1"), ("c", "3")], "{bad}");
    }
}

#[test]
fn properties_are_kept_as_they_are_and_bad_ones_left_out() {
    let baggage = Baggage::from_header("a=1; ttl = 3 ;public;;b c;d=%2C;=x;e=\"1\", b=2;p");
    assert_eq!(baggage.metadata("a"), "ttl=3;public;d=%2C");
    assert_eq!((baggage.metadata("b"), baggage.metadata("c")), ("p", ""));
    assert_eq!(baggage.header(), "a=1;ttl=3;public;d=%2C,b=2;p");
    let written = Baggage::new().with_metadata("a", "1;2", "ttl = 3;\"").with("b", "2");
    assert_eq!(written.header(), "a=1%3B2;ttl=3,b=2");
    assert_eq!((written.metadata("a"), written.with("a", "1").metadata("a")), ("ttl=3", ""));
}

#[test]
fn a_change_leaves_the_former_baggage_as_it_was() {
    let first = Baggage::new().with("a", "1").with("b", "2");
    let second = first.with("a", "3").without("c");
    assert_eq!(pairs(&first), [("a", "1"), ("b", "2")]);
    assert_eq!(pairs(&second), [("b", "2"), ("a", "3")]);
    assert_eq!((first.get("a"), second.get("a"), second.get("A")), (Some("1"), Some("3"), None));
    assert_eq!(second.without("a").without("b"), Baggage::new());
    for key in ["", " ", "a b", "a,b", "a=b", "\u{e9}", "a\r\n"] {
        assert_eq!(first.with(key, "x"), first, "{key:?}");
    }
}

#[test]
fn what_every_participant_must_propagate_is_kept_and_more_is_left_out_member_by_member() {
    let most: Vec<String> = (0..MAX_MEMBERS).map(|index| format!("k{index}=v")).collect();
    let header = most.join(",");
    let full = Baggage::from_header(&format!("{header},one=more"));
    assert_eq!(full.header(), header);
    assert_eq!(full.with("one", "more"), full);
    assert_eq!(full.with("k0", "w").header(), format!("{},k0=w", most[1..].join(",")));

    let long = format!("a={}", "x".repeat(MAX_BYTES - 6));
    let full = Baggage::from_header(&format!("{long},b=22,c=3,d=4"));
    assert_eq!(full.header(), long, "nothing is read beyond the limit");
    let full = Baggage::from_header(&format!("{long},c=3"));
    assert_eq!(full.header().len(), MAX_BYTES);
    // The new value does not fit, and the earlier value would be wrong, so the entry is removed.
    assert_eq!(full.with("c", "33").get("c"), None);
    assert_eq!(Baggage::new().with("a", &"x".repeat(MAX_BYTES)), Baggage::new());
    // Each space takes three bytes when encoded.
    assert_eq!(Baggage::new().with("a", &" ".repeat(MAX_BYTES / 2)), Baggage::new());
}

#[test]
fn stops_at_the_limits_of_the_header_and_counts_malformed_members() {
    let keys =
        |header: &str| Baggage::from_header(header).iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
    // Malformed and empty members count towards the limit.
    let malformed = "b,".repeat(MAX_MEMBERS - 1);
    assert_eq!(keys(&format!("{malformed}last=1,more=2")), ["last"]);
    assert_eq!(keys(&format!("{}a=1", ",".repeat(MAX_MEMBERS))), [""; 0]);
    // Members with repeated keys count, too.
    assert_eq!(keys(&format!("{}b=2", "a=1,".repeat(MAX_MEMBERS))), ["a"]);
    // A member that crosses the limit is left out as a whole, though its value would fit without the white space.
    let space = " ".repeat(MAX_BYTES - 7);
    assert_eq!(keys(&format!("a=1,{space}b=2")), ["a", "b"]);
    assert_eq!(keys(&format!("a=1,{space} b=2")), ["a"]);
    assert_eq!(keys(&format!("a=1,{space} b=2,c=3")), ["a"]);
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    let current = || Baggage::current().header();
    let first = Baggage::new().with("a", "1").enter();
    let second = Baggage::current().with("b", "2").enter();
    assert_eq!(current(), "a=1,b=2");
    drop(first);
    let third = Baggage::new().enter();
    assert_eq!(current(), "");
    drop(second);
    drop(third);
    assert_eq!(current(), "");
}

proptest! {
    #[test]
    fn any_value_survives_the_round_trip(
        members in vec(("[!#$%&'*+.^_`|~0-9A-Za-z-]{1,8}", any::<String>(), "(p(=[!-+]{0,3})?)?"), 0..20)
    ) {
        let baggage = members.iter().fold(Baggage::new(), |baggage, (key, value, metadata)| {
            baggage.with_metadata(key, value, metadata)
        });
        let header = baggage.header();
        prop_assert!(header.bytes().all(|byte| matches!(byte, 0x21..=0x7e)), "{header}");
        let read = Baggage::from_header(&header);
        prop_assert_eq!(&read, &baggage);
        if let Some((key, value, _)) = members.last() {
            prop_assert_eq!(read.get(key), Some(value.as_str()));
        }
    }

    #[test]
    fn anything_can_be_read_and_what_is_kept_is_propagated_alike(header in ".{0,200}|[a-c=,;% \\t\"\\\\0-9]{0,200}") {
        let baggage = Baggage::from_header(&header);
        prop_assert!(baggage.iter().count() <= MAX_MEMBERS && baggage.header().len() <= MAX_BYTES);
        prop_assert_eq!(Baggage::from_header(&baggage.header()), baggage);
    }
}
