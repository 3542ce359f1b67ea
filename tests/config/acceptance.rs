//! Acceptance tests of configurations: each row maps an input to effective values or exact messages.
//!
//! Each module covers one section of the documentation and contains tables of rows. A row has a title, an input, and
//! the complete expected outcome.

mod outcome;
mod table;
mod tree;

mod documents;
mod endpoints;
mod environment;
mod metrics;
mod precedence;
mod routes;
mod rules;
mod tracer;

use table::Table;

const SECTIONS: &[(&str, &[Table])] = &[
    ("rules", rules::TABLES),
    ("endpoints", endpoints::TABLES),
    ("tracer", tracer::TABLES),
    ("metrics", metrics::TABLES),
    ("routes", routes::TABLES),
    ("environment", environment::TABLES),
    ("precedence", precedence::TABLES),
];

#[test]
fn there_are_rows_enough_and_no_two_of_a_table_hold_the_same() {
    let mut total = documents::ALL.len();
    println!("documents: {total}");
    for (name, tables) in SECTIONS {
        let rows: usize = tables.iter().map(|table| table.rows.len()).sum();
        println!("{name}: {rows}");
        total += rows;
        for table in *tables {
            let mut given: Vec<_> = table.rows.iter().map(|row| (row.given, row.expected)).collect();
            given.sort_unstable();
            given.dedup();
            assert_eq!(given.len(), table.rows.len(), "{}: a row stands there twice", table.name);
        }
    }
    println!("together: {total}");
    assert!(total >= 120, "only {total} rows");
}
