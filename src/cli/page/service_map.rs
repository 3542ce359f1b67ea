//! Which service calls which? Spans whose parent is of another service.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::super::describe::SpanView;
use super::details;
use super::store::{KeptSpan, Trace, is_error};

/// Which service calls which.
#[derive(Default, Serialize)]
pub(super) struct ServiceMap {
    nodes: Vec<ServiceNode>,
    edges: Vec<ServiceEdge>,
}

#[derive(Serialize)]
struct ServiceNode {
    name: String,
    spans: u64,
    errors: u64,
}

#[derive(Serialize)]
struct ServiceEdge {
    /// Indices of nodes.
    from: usize,
    to: usize,
    calls: u64,
    errors: u64,
    nanos: u64,
}

pub(super) fn of(traces: &[Arc<Trace>]) -> ServiceMap {
    let mut map = ServiceMap::default();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut edges: HashMap<(usize, usize), ServiceEdge> = HashMap::new();
    for trace in traces {
        let mut of_span: HashMap<&[u8], usize> = HashMap::new();
        for KeptSpan { received, .. } in &trace.spans {
            let name = received.service_name();
            let number = *numbers.entry(name).or_insert_with(|| {
                map.nodes.push(ServiceNode { name: details::shorten(name), spans: 0, errors: 0 });
                map.nodes.len() - 1
            });
            map.nodes[number].spans += 1;
            map.nodes[number].errors += u64::from(is_error(received));
            of_span.insert(&received.span.span_id, number);
        }
        for KeptSpan { received, .. } in &trace.spans {
            let to = numbers[received.service_name()];
            let from = of_span.get(&received.span.parent_span_id[..]).copied().filter(|from| *from != to);
            if let Some(from) = from {
                let edge = edges.entry((from, to)).or_insert(ServiceEdge {
                    from,
                    to,
                    calls: 0,
                    errors: 0,
                    nanos: 0,
                });
                edge.calls += 1;
                edge.errors += u64::from(is_error(received));
                edge.nanos = edge.nanos.saturating_add(SpanView::from(received).nanos());
            }
        }
    }
    map.edges = edges.into_values().collect();
    map.edges.sort_by_key(|edge| (edge.from, edge.to));
    map
}
