//! Consistent sampling with another SDK: both SDKs make the same decisions with the same thresholds. If a parent has
//! a threshold of the other SDK, both SDKs follow this threshold.

use serde::{Deserialize, Serialize};
use standpipe::config::ComposableSampler;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Sampler, SpanContext, Telemetry};

use crate::Error;
use crate::cases::Environment;
use crate::propagation::{NAME, answers, context};
use crate::table::{Row, Table};

/// Shares of traces. The thresholds of the last three have more digits in the other SDK, which does not round them.
const RATIOS: [f64; 10] =
    [1.0, 0.75, 0.5, 0.25, 0.0625, 1.0 / 1024.0, 1.0 / 1_048_576.0, 1.0 / 3.0, 0.1, 0.001];

/// Trace states of the parent. The explicit randomness `rv` is large, small, or equal to a threshold. Without `rv`, the
/// randomness is that of the trace id.
const STATES: [&str; 9] = [
    "",
    "a=b",
    "ot=th:c",
    "a=b,ot=th:4;rv:fe6d1a75832a2f",
    "ot=th:8;rv:0e6d1a75832a2f",
    "ot=th:8;rv:80000000000000;x:y",
    "ot=th:80000000000001;rv:80000000000000",
    "ot=th:0;rv:00000000000000,a=b",
    "ot=th:ffffffffffffff;rv:ffffffffffffff",
];

/// A question to the other SDK.
#[derive(Serialize)]
struct Question {
    sampler: Vec<Word>,
    trace: String,
    span: String,
    flags: u8,
    state: String,
}

/// A name or a ratio in the description of a sampler.
#[derive(Serialize, Clone)]
#[serde(untagged)]
enum Word {
    Name(&'static str),
    Ratio(f64),
}

#[derive(Debug, Deserialize, PartialEq)]
struct Decision {
    sampled: bool,
    state: String,
}

pub(crate) fn run(environment: &Environment<'_>, table: &mut Table) {
    let outcome = compare(environment).into();
    table.push(Row { server: NAME, transport: "", what: "consistent sampling".to_owned(), outcome });
}

fn compare(environment: &Environment<'_>) -> Result<String, Error> {
    let count = if environment.quick { 10 } else { 100 };
    let samplers = samplers();
    let mut questions = Vec::new();
    let mut ours = Vec::new();
    for (words, sampler) in &samplers {
        let program = Program::start(sampler.clone())?;
        for state in STATES {
            for number in 1..=count {
                let parent = context(number)?.with_tracestate(state);
                questions.push(question(words, &parent));
                ours.push(program.decide(&parent));
            }
        }
    }
    let theirs = ask(environment, &questions)?;
    for ((question, ours), theirs) in questions.iter().zip(&ours).zip(&theirs) {
        if !agree(ours, theirs) {
            let asked = serde_json::to_string(question)?;
            return Err(format!("{asked}: {ours:?}, but the other SDK {theirs:?}").into());
        }
    }
    let followed = follow(environment, &questions, &theirs)?;
    Ok(format!("{} decisions agree, {followed} thresholds followed both ways", ours.len()))
}

/// Checks that both SDKs sample below each parent that the other SDK has sampled. Returns the number of parents.
fn follow(
    environment: &Environment<'_>,
    questions: &[Question],
    theirs: &[Decision],
) -> Result<usize, Error> {
    let (words, sampler) = following(vec![Word::Name("always_off")], ComposableSampler::AlwaysOff);
    let program = Program::start(sampler)?;
    let sampled = questions.iter().zip(theirs).filter(|(_, decision)| decision.sampled);
    let mut parents = Vec::new();
    for (question, decision) in sampled {
        let parent = SpanContext::new(question.trace.parse()?, question.span.parse()?, 1);
        let parent = parent.with_tracestate(&decision.state);
        if parent.tracestate() != decision.state {
            return Err(format!("{:?} is read as {:?}", decision.state, parent.tracestate()).into());
        }
        parents.push(parent);
    }
    let asked: Vec<Question> = parents.iter().map(|parent| question(&words, parent)).collect();
    for (parent, theirs) in parents.iter().zip(ask(environment, &asked)?) {
        let ours = program.decide(parent);
        let expected = Decision { sampled: true, state: parent.tracestate().to_owned() };
        if ours != expected || theirs != expected {
            return Err(format!("{parent:?} is followed by {ours:?} here and by {theirs:?} there").into());
        }
    }
    Ok(parents.len())
}

/// All samplers, each with its description for the other SDK.
fn samplers() -> Vec<(Vec<Word>, Sampler)> {
    let mut all = vec![
        (vec![Word::Name("always_on")], ComposableSampler::AlwaysOn),
        (vec![Word::Name("always_off")], ComposableSampler::AlwaysOff),
    ];
    let of_ratio =
        |ratio| (vec![Word::Name("probability"), Word::Ratio(ratio)], ComposableSampler::Probability(ratio));
    all.extend(RATIOS.map(of_ratio));
    let alone = all.clone().into_iter().map(|(words, sampler)| (words, Sampler::composite(sampler)));
    let below = all.into_iter().map(|(words, sampler)| following(words, sampler));
    alone.chain(below).collect()
}

/// Returns the sampler that follows the threshold of the parent.
fn following(words: Vec<Word>, root: ComposableSampler) -> (Vec<Word>, Sampler) {
    let words = [vec![Word::Name("parent_threshold")], words].concat();
    (words, Sampler::composite(ComposableSampler::ParentThreshold(Box::new(root))))
}

fn question(words: &[Word], parent: &SpanContext) -> Question {
    Question {
        sampler: words.to_vec(),
        trace: parent.trace_id().to_string(),
        span: parent.span_id().to_string(),
        flags: parent.flags(),
        state: parent.tracestate().to_owned(),
    }
}

fn ask(environment: &Environment<'_>, questions: &[Question]) -> Result<Vec<Decision>, Error> {
    let lines = questions.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?.join("\n");
    let answers = answers(environment, "sampling.py", &lines)?;
    match answers.len() == questions.len() {
        true => Ok(answers),
        false => Err(format!("{} answers to {} questions", answers.len(), questions.len()).into()),
    }
}

/// Returns whether both decisions are equal, with thresholds that agree in the digits that we send. If a span is
/// dropped, the other SDK may leave a threshold in the state. Then the states are not compared.
fn agree(ours: &Decision, theirs: &Decision) -> bool {
    // The order of entries is not compared: one SDK may keep the position of an entry that another SDK moves.
    let parts = |state: &str| {
        let (mut threshold, mut others) = (None, Vec::new());
        for entry in state.split(',') {
            for field in entry.strip_prefix("ot=").unwrap_or(entry).split(';') {
                match field.strip_prefix("th:") {
                    Some(digits) => threshold = Some(digits.to_owned()),
                    None => others.push(field.to_owned()),
                }
            }
        }
        others.sort_unstable();
        (threshold, others)
    };
    let ((our_th, our_others), (their_th, their_others)) = (parts(&ours.state), parts(&theirs.state));
    let is_stale = !theirs.sampled && our_th.is_none() && their_th.is_some();
    let is_near = match (&our_th, &their_th) {
        (Some(ours), Some(theirs)) => rounded(theirs, ours.len()) == rounded(ours, ours.len()),
        (None, None) => true,
        _ => is_stale,
    };
    ours.sampled == theirs.sampled && is_near && (is_stale || our_others == their_others)
}

/// Returns a threshold rounded to this number of digits.
fn rounded(threshold: &str, digits: usize) -> Option<u64> {
    let number = u64::from_str_radix(&format!("{threshold:0<14}"), 16).ok()?;
    let unit = 1 << (4 * (14 - digits));
    Some((number + unit / 2) / unit * unit)
}

/// A program with a sampler, whose spans are sent to a receiver.
struct Program {
    telemetry: Telemetry,
    _receiver: Receiver,
}

impl Program {
    fn start(sampler: Sampler) -> Result<Self, Error> {
        let receiver = Receiver::start()?;
        let config = Config::new().service_name("shop").sampler(sampler);
        let telemetry = Telemetry::start(config.exporter(Exporter::http(receiver.endpoint())))?;
        Ok(Self { telemetry, _receiver: receiver })
    }

    fn decide(&self, parent: &SpanContext) -> Decision {
        let span = self.telemetry.tracer("shop").span_builder("span").parent(parent).start();
        let context = span.context();
        Decision { sampled: context.is_sampled(), state: context.tracestate().to_owned() }
    }
}
