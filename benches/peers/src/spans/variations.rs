//! The same spans under other conditions: number of attributes, number of producers, compression, slow collector.

use std::array;
use std::time::Duration;

use super::contender::Contender;
use super::costs::{BYTES, CALLER_INSTRUCTIONS, CPU, INSTRUCTIONS, MEMORY, RATE, count, send};
use super::figures::{Figures, Measure};
use super::run::{Conditions, Runs};
use super::{VARIATIONS_TABLE, emit, fastrace, naive, opentelemetry, standpipe};
use crate::support::table::Table;
use crate::support::{Error, publish};

/// All contenders. The first one is the baseline of the ratios.
const CONTENDERS: [&Contender; 7] = [
    &standpipe::HTTP,
    &standpipe::GRPC,
    &opentelemetry::HTTP,
    &opentelemetry::GRPC,
    &fastrace::LOCAL,
    &emit::CONTENDER,
    &naive::CONTENDER,
];

/// A deviation from the usual conditions.
struct Variation {
    name: &'static str,
    conditions: Conditions,
    /// Names of the rows, and their measures.
    measures: &'static [(&'static str, Measure)],
}

const OF_ATTRIBUTES: &[(&str, Measure)] = &[
    ("instructions, caller", CALLER_INSTRUCTIONS),
    ("instructions, process", INSTRUCTIONS),
    ("CPU ns, process", CPU),
    ("spans/s", RATE),
];
const OF_PRODUCERS: &[(&str, Measure)] = &[("CPU ns, process", CPU), ("spans/s", RATE)];
const OF_GZIP: &[(&str, Measure)] = &[
    ("instructions, process", INSTRUCTIONS),
    ("CPU ns, process", CPU),
    ("spans/s", RATE),
    ("bytes sent", BYTES),
];
const OF_DELAY: &[(&str, Measure)] = &[("CPU ns, process", CPU), ("spans/s", RATE), ("peak memory", MEMORY)];

const USUAL: Conditions = Conditions::USUAL;

#[rustfmt::skip]
const VARIATIONS: [Variation; 10] = [
    Variation { name: "0 attributes",  conditions: Conditions { attributes: 0, ..USUAL },        measures: OF_ATTRIBUTES },
    Variation { name: "1 attribute",   conditions: Conditions { attributes: 1, ..USUAL },        measures: OF_ATTRIBUTES },
    Variation { name: "5 attributes",  conditions: USUAL,                                        measures: OF_ATTRIBUTES },
    Variation { name: "20 attributes", conditions: Conditions { attributes: 20, ..USUAL },       measures: OF_ATTRIBUTES },
    Variation { name: "1 producer",    conditions: USUAL,                                        measures: OF_PRODUCERS },
    Variation { name: "2 producers",   conditions: Conditions { producers: 2, ..USUAL },         measures: OF_PRODUCERS },
    Variation { name: "4 producers",   conditions: Conditions { producers: 4, ..USUAL },         measures: OF_PRODUCERS },
    Variation { name: "8 producers",   conditions: Conditions { producers: 8, ..USUAL },         measures: OF_PRODUCERS },
    Variation { name: "gzip",          conditions: Conditions { is_compressed: true, ..USUAL },  measures: OF_GZIP },
    Variation { name: "20 ms for an answer", conditions: Conditions { delay: Duration::from_millis(20), ..USUAL }, measures: OF_DELAY },
];

/// Spans in a full run and in a smoke run. Divided among 8 producers, both numbers are whole traces.
const SPANS: [u64; 2] = [256_000, 2_048];
const ROUNDS: [u64; 2] = [2, 1];

/// Measures and prints the table. `usual` has the figures of all contenders under the usual conditions.
pub(super) fn measure(
    runs: &Runs<'_>,
    usual: &[Figures],
    smoke: bool,
    counts_instructions: bool,
) -> Result<(), Error> {
    let size = usize::from(smoke);
    let mut all = VARIATIONS.map(|_| CONTENDERS.map(|_| Figures::default()));
    for round in 1..=ROUNDS[size] {
        for (variation, all) in VARIATIONS.iter().zip(&mut all) {
            eprintln!("spans, {}, round {round} of {}", variation.name, ROUNDS[size]);
            for (contender, figures) in CONTENDERS.iter().zip(all).filter(|(one, _)| variation.suits(one)) {
                send(runs, contender, SPANS[size], &variation.conditions, figures)?;
                // The instruction count is the same in every round. Under the usual conditions, it was counted before.
                if round == 1 && counts_instructions && variation.counts() {
                    match variation.conditions == USUAL {
                        true => {
                            figures.copy(&usual[position(contender)], &[CALLER_INSTRUCTIONS, INSTRUCTIONS])
                        }
                        false => count(runs, contender, &variation.conditions, figures)?,
                    }
                }
            }
        }
    }
    let mut table = Table::new(array::from_fn::<_, { CONTENDERS.len() + 2 }, _>(|column| match column {
        0 => "for each span",
        column => CONTENDERS.get(column - 1).map_or("", |contender| contender.short),
    }));
    for (variation, all) in VARIATIONS.iter().zip(&all) {
        for (name, measure) in variation.measures {
            if !measure.is_known(all) {
                continue;
            }
            let texts = measure.texts(all);
            let cells = array::from_fn::<_, { CONTENDERS.len() + 2 }, _>(|column| match column {
                0 => format!("{}: {name}", variation.name),
                column => texts.get(column - 1).cloned().unwrap_or_default(),
            });
            match measure.is_of_more() {
                true => table.row_of_more(cells),
                false => table.row(cells),
            }
        }
    }
    table.print(
        "spans under other conditions, nothing lost, best round; in brackets the ratio to standpipe; –: not supported or not \
         counted",
    );
    publish::table(VARIATIONS_TABLE, &table)
}

/// Returns the index of the contender in `super::CONTENDERS`.
fn position(contender: &Contender) -> usize {
    super::CONTENDERS.iter().position(|one| one.name == contender.name).unwrap_or_default()
}

impl Variation {
    fn suits(&self, contender: &Contender) -> bool {
        let Conditions { attributes, is_compressed, .. } = &self.conditions;
        contender.attributes.contains(attributes) && (contender.can_compress || !is_compressed)
    }

    fn counts(&self) -> bool {
        self.measures.iter().any(|(_, measure)| measure.name == INSTRUCTIONS.name)
    }
}
