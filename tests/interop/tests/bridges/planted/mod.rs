//! Tests of the comparison: every planted change is found, with its name and both values.

mod exact;
mod told;

use crate::compare::Difference;
use crate::table::{Meant, hold};

#[test]
#[should_panic = "not in the table: scenario: span: kind"]
fn what_is_not_in_the_table_is_a_fault() {
    hold(&[], &[difference()]);
}

#[test]
#[should_panic = "in the table, but does not occur: scenario: span: name"]
fn what_is_in_the_table_and_does_not_occur_is_a_fault() {
    let cases = &[("*: kind", "*", "*"), ("scenario: span: name", "*", "*")];
    hold(&[Meant { what: "nothing", why: "it is planted", cases }], &[difference()]);
}

fn difference() -> Difference {
    Difference { name: "scenario: span: kind".to_owned(), usual: "one".to_owned(), ours: "two".to_owned() }
}
