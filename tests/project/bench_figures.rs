//! The check of the benchmarks' figures: which changes it accepts, and what it writes.

use committed::{Committed, Fault, Figure, Unit};

#[path = "../../benches/figures/committed.rs"]
#[allow(dead_code, reason = "the guard itself uses all of it")]
mod committed;

const SETTING: &str = "rustc 1.85.0 on x86_64 linux";

#[test]
fn three_per_cent_and_two_instructions_pass_and_more_does_not() {
    let committed = accepted(None, 1000.0, None);
    assert_eq!(committed.faults(&[instructions(1032.0)]), []);
    let faults = committed.faults(&[instructions(1033.0)]);
    let said: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["instructions, span: 1000.0 before, 1033.0 now, +3.3 %; 3 % are allowed"]);
}

#[test]
fn an_allocation_in_every_tenth_call_is_seen_where_there_was_none() {
    let figure = |value| Figure { name: "span".to_owned(), unit: Unit::Allocations, value };
    let committed = Committed::accept(None, &[figure(0.0)], SETTING, None).unwrap();
    assert_eq!(committed.faults(&[figure(0.05)]), []);
    assert_eq!(committed.faults(&[figure(0.1)]).len(), 1);
}

#[test]
fn a_figure_that_was_never_written_down_is_a_fault() {
    let committed = accepted(None, 1000.0, None);
    let unknown = Figure { name: "log".to_owned(), unit: Unit::Instructions, value: 1.0 };
    let faults = committed.faults(&[instructions(1000.0), unknown]);
    assert_eq!(faults, [Fault::Unknown { name: "instructions, log".to_owned() }]);
}

#[test]
fn what_is_written_is_read_back_with_its_reasons() {
    let first = accepted(None, 1000.0, None);
    let second = accepted(Some(&first), 1200.0, Some("spans carry \"flags\" now"));
    for version in [first, second] {
        assert_eq!(Committed::read(&version.write()).unwrap(), version);
    }
}

#[test]
fn a_rise_is_accepted_only_with_a_reason() {
    let first = accepted(None, 1000.0, None);
    for reason in [None, Some(""), Some("  ")] {
        let refused = Committed::accept(Some(&first), &[instructions(1200.0)], SETTING, reason);
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("1000.0 before, 1200.0 now, +20.0 %") && said.contains("--because"), "{said}");
    }
    assert_eq!(value(&accepted(Some(&first), 1200.0, Some("why"))), 1200.0);
}

#[test]
fn small_rises_are_not_written_down_so_that_they_add_up() {
    let mut committed = accepted(None, 1000.0, None);
    for risen in [1010.0, 1020.0, 1030.0] {
        committed = accepted(Some(&committed), risen, None);
    }
    assert_eq!(value(&committed), 1000.0);
    assert_eq!(committed.faults(&[instructions(1040.0)]).len(), 1);
}

#[test]
fn what_fell_is_the_new_measure() {
    let first = accepted(None, 1000.0, None);
    assert_eq!(value(&accepted(Some(&first), 900.0, None)), 900.0);
}

#[test]
fn the_history_shows_a_figure_that_was_raised_by_hand() {
    let first = accepted(None, 1000.0, None);
    let by_hand = Committed::read(&first.write().replace("1000.0", "1100.0")).unwrap();
    let faults = by_hand.raised_without_reason(std::slice::from_ref(&first));
    assert_eq!(faults.len(), 1);
    let said = faults[0].to_string();
    assert!(said.contains("raised without a new reason: 1000.0 before, 1100.0 now"), "{said}");
    // The fault is found even if other commits have changed the file since then.
    assert_eq!(by_hand.raised_without_reason(&[by_hand.clone(), first]).len(), 1);
}

#[test]
fn a_reason_vouches_for_its_own_rise_and_for_no_later_one() {
    let first = accepted(None, 1000.0, None);
    let second = accepted(Some(&first), 1200.0, Some("flags"));
    assert_eq!(second.raised_without_reason(&[second.clone(), first.clone()]), []);
    let by_hand = Committed::read(&second.write().replace("1200.0", "1300.0")).unwrap();
    assert_eq!(by_hand.raised_without_reason(&[second.clone(), first.clone()]).len(), 1);
    let third = accepted(Some(&second), 1300.0, Some("and links"));
    assert_eq!(third.raised_without_reason(&[second, first]), []);
}

#[test]
fn another_compiler_begins_anew_without_a_reason() {
    let first = accepted(None, 1000.0, None);
    let second = Committed::accept(Some(&first), &[instructions(1200.0)], "rustc 2.0.0", None).unwrap();
    assert_eq!(value(&second), 1200.0);
    assert_eq!(second.raised_without_reason(&[first]), []);
}

fn accepted(before: Option<&Committed>, value: f64, reason: Option<&str>) -> Committed {
    Committed::accept(before, &[instructions(value)], SETTING, reason).expect("it may be written down")
}

fn instructions(value: f64) -> Figure {
    Figure { name: "span".to_owned(), unit: Unit::Instructions, value }
}

fn value(committed: &Committed) -> f64 {
    committed.value(&instructions(0.0)).expect("it is written down")
}
