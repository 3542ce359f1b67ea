//! A forked child uses its own connection, so its bytes are not mixed with those of its parent.

use standpipe::config::Proxy;
use standpipe::receiver::Receiver;
use standpipe::{Exporter, FlushOutcome, Telemetry};

use crate::support::process;
use crate::support::scene::{LONG, emit, start};

fn delivers(telemetry: &Telemetry, spans: u64) -> bool {
    emit(&telemetry.tracer("shop"), spans);
    telemetry.flush(LONG) == FlushOutcome::Complete
}

#[test]
fn a_child_opens_a_connection_of_its_own_and_the_parent_keeps_its() {
    let Some(endpoint) = process::task() else {
        let receiver = Receiver::start().unwrap();
        let name = "a_child_opens_a_connection_of_its_own_and_the_parent_keeps_its";
        assert_eq!(process::run(name, &receiver.grpc_endpoint()), ["true true true"]);
        assert_eq!(receiver.span_count(), 1 + 20 + 2);
        let connections: Vec<_> = receiver.requests().iter().map(|request| request.connection).collect();
        assert_eq!((connections.first(), connections.last()), (Some(&1), Some(&1)), "{connections:?}");
        assert_eq!(receiver.connection_count(), 2, "{connections:?}");
        return;
    };
    let telemetry = start(Exporter::grpc(endpoint).proxy(Proxy::Off));
    let before = delivers(&telemetry, 1);
    let child =
        process::in_a_fork(|| delivers(&telemetry, 20) && telemetry.shutdown(LONG).total().delivered == 20);
    let after = delivers(&telemetry, 2);
    process::report(format!("{before} {child} {after}"));
}
