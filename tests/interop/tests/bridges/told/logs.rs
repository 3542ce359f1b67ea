//! Log records, in the order of their creation.

use standpipe::receiver::ReceivedLog;

use super::{Facts, Names, count, of_kind, scope};

pub(super) fn facts(logs: &[ReceivedLog], names: &Names) -> Vec<Facts> {
    let mut logs: Vec<&ReceivedLog> = logs.iter().collect();
    logs.sort_by_key(|received| received.log.observed_time_unix_nano);
    logs.into_iter().map(|received| told(received, names)).collect()
}

fn told(received: &ReceivedLog, names: &Names) -> Facts {
    let log = &*received.log;
    let mut facts = Facts::new();
    scope(&received.scope, &mut facts);
    facts.insert("body".to_owned(), of_kind(log.body.as_ref()));
    facts.insert("severity".to_owned(), format!("{} {:?}", log.severity_number, log.severity_text));
    facts.insert("flags".to_owned(), format!("{:#x}", log.flags));
    if !log.event_name.is_empty() {
        facts.insert("event name".to_owned(), log.event_name.clone());
    }
    let span = match log.span_id.as_slice() {
        [] => "none",
        id => names.arrived(id).unwrap_or("one that did not arrive"),
    };
    facts.insert("span".to_owned(), span.to_owned());
    if !log.trace_id.is_empty() {
        facts.insert("trace".to_owned(), names.trace(&log.trace_id));
    }
    let time = if log.time_unix_nano == 0 { "only that of observation" } else { "its own" };
    facts.insert("time".to_owned(), time.to_owned());
    names.attributes(&log.attributes, "", &mut facts);
    count(log.dropped_attributes_count, "dropped attributes".to_owned(), &mut facts);
    facts
}
