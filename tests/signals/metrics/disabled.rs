//! Disabled metrics need no thread and no socket.

use standpipe::{Config, Telemetry};

use crate::support::{process, skip};

#[test]
fn metrics_are_off_without_a_transport_and_start_no_thread_and_no_socket() {
    if process::task().is_none() {
        process::run(
            "metrics_are_off_without_a_transport_and_start_no_thread_and_no_socket",
            "in a process of its own",
        );
        return;
    }
    let Some(before) = process::threads_and_sockets() else {
        return skip("this system does not show how many threads there are");
    };
    for off in ["", "transport = 'disable'", "endpoint = 'http://127.0.0.1:1'\ninterval = 'nonsense'"] {
        let config = Config::from_toml_str(&format!("[metrics.open-telemetry]\n{off}")).unwrap();
        let telemetry = Telemetry::start(config).unwrap();
        telemetry.meter("shop").counter("orders").add(1, &[("country", "SE")]);
        assert_eq!(process::threads_and_sockets(), Some(before), "{off:?}");
    }
    let on = "[metrics.open-telemetry]\ntransport = 'http'\nendpoint = 'http://127.0.0.1:1'";
    let telemetry = Telemetry::start(Config::from_toml_str(on).unwrap()).unwrap();
    let (threads, sockets) = process::threads_and_sockets().unwrap();
    assert_eq!(
        (threads, sockets),
        (before.0 + 1, before.1),
        "one thread, and no socket before there is a push"
    );
    drop(telemetry);
}
