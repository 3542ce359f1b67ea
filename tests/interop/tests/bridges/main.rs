//! Checks that a program that migrates from the usual stack to standpipe's bridges exports the same telemetry. Every
//! difference is in a table, with its reason, and the table contains nothing else.
//!
//! ```text
//! scenarios → stacks (usual, ours) → receiver → told → compare → table
//! ```

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![recursion_limit = "512"]

mod compare;
mod exporters;
mod otlp;
mod planted;
mod scenarios;
mod stacks;
mod table;
mod told;

use std::collections::BTreeSet;

use compare::differences;
use stacks::{Ours, Usual};
use told::Told;

#[test]
fn the_usual_stack_does_not_differ_from_itself() {
    let mut spans = 0;
    for scenario in scenarios::all() {
        let [first, second] = [(); 2].map(|()| scenario.run(Usual::start));
        table::hold(&[], &differences(scenario.name, &Told::of(&first), &Told::of(&second)));
        spans += first.spans.len();
    }
    assert!(spans > 200, "only {spans} spans arrived");
}

#[test]
fn the_usual_exporters_do_not_differ_from_themselves() {
    for program in exporters::all() {
        table::hold(&[], &program.differences(exporters::Usual::start));
    }
    table::hold(&[], &exporters::schemas_differ(exporters::Usual::start));
}

/// The SDK ignores instruments with an invalid name, which would then not be compared.
#[test]
fn every_instrument_is_heard_of() {
    for (program, instruments) in
        [("metrics_of_every_kind", 7), ("metrics_that_are_observed", 7), ("metrics_in_histograms", 6)]
    {
        let arrived = exporters::all().find(|known| known.name == program).unwrap().arrived();
        let names: BTreeSet<&str> = arrived.metrics.iter().map(|received| &*received.metric.name).collect();
        assert_eq!(names.len(), instruments, "{program}: {names:?}");
    }
}

#[test]
fn the_tracing_layer_differs_only_where_the_table_says_so() {
    let differences: Vec<_> = scenarios::all()
        .flat_map(|scenario| {
            let [usual, ours] = [Usual::start, Ours::start].map(|start| Told::of(&scenario.run(start)));
            differences(scenario.name, &usual, &ours)
        })
        .collect();
    table::hold(table::LAYER, &differences);
}

#[test]
fn the_log_records_of_the_tracing_layer_differ_only_where_the_table_says_so() {
    let differences: Vec<_> = scenarios::with_logs()
        .flat_map(|scenario| {
            let [usual, ours] = [Usual::start, Ours::start].map(|start| Told::of_logs(&scenario.run(start)));
            differences(scenario.name, &usual, &ours)
        })
        .collect();
    table::hold(table::LOGS, &differences);
}

#[test]
fn the_exporters_for_the_sdk_differ_only_where_the_table_says_so() {
    let ways: [exporters::Start; 3] =
        [exporters::Ours::as_processors, exporters::Ours::in_batches, exporters::Ours::one_by_one];
    for way in ways {
        let mut differences: Vec<_> = exporters::all().flat_map(|program| program.differences(way)).collect();
        differences.extend(exporters::schemas_differ(way));
        table::hold(table::EXPORTERS, &differences);
    }
}
