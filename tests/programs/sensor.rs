//! The guide's single-threaded program: it sends from its main loop and starts no thread.

use std::net::UdpSocket;
use std::time::Duration;

use standpipe::receiver::{Answer, Receiver};

use crate::example::Program;
use crate::support::scene::{LONG, NOISE};

fn start(receiver: &Receiver) -> (Program, UdpSocket) {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()),
        ("OTEL_BSP_SCHEDULE_DELAY", "10".to_owned()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "50".to_owned()),
    ];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut program = Program::start("sensor", &["127.0.0.1:0"], &variables);
    let greeting = program.next_line().expect("it says where it listens");
    let readings = UdpSocket::bind("127.0.0.1:0").unwrap();
    readings.connect(greeting.strip_prefix("listening on ").expect(&greeting)).unwrap();
    (program, readings)
}

#[test]
fn a_program_of_one_thread_sends_from_its_main_loop() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503)]);
    let (program, readings) = start(&receiver);
    for (count, reading) in ["21.5", "warm", "22"].into_iter().enumerate() {
        readings.send(reading.as_bytes()).unwrap();
        assert!(receiver.wait_for_spans(count as u64 + 1, LONG), "{reading} was not sent");
    }
    assert!(receiver.wait_for_points(1, LONG));
    if let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", program.id())) {
        assert_eq!(threads.count(), 1, "it has started a thread");
    }
    readings.send(b"").unwrap();
    let ended = program.end();
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.took < Duration::from_secs(5) + NOISE, "{ended:?}");
    assert_eq!(receiver.metric("temperature").unwrap().value(()), 22.0);
}
