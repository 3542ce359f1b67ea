//! One of the services, as a process that ends when its standard input does.

use standpipe::receiver::Receiver;

use crate::example::Program;

const GREETING: &str = "listening on ";

/// A running service; killed when it is dropped.
pub(crate) struct Service {
    /// Where it listens.
    pub(crate) url: String,
    program: Program,
}

impl Service {
    pub(crate) fn warehouse(telemetry: &Receiver) -> Self {
        Self::start(telemetry, &["warehouse", "127.0.0.1:0"])
    }

    pub(crate) fn storefront(telemetry: &Receiver, warehouse: &str) -> Self {
        Self::start(telemetry, &["storefront", "127.0.0.1:0", warehouse])
    }

    fn start(telemetry: &Receiver, arguments: &[&str]) -> Self {
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", telemetry.endpoint())];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        let mut program = Program::start("web_service", arguments, &variables);
        let greeting = program.next_line().expect("it says where it listens");
        let url = greeting.strip_prefix(GREETING).expect(&greeting).to_owned();
        Self { url, program }
    }

    /// Returns the address without the URL scheme.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub(crate) fn port(&self) -> i64 {
        self.url.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// Ends the service in an orderly way and returns how much of each signal it has delivered. Panics if the service
    /// lost a record or reported a problem.
    pub(crate) fn end(self) -> Delivered {
        let ended = self.program.end();
        assert!(ended.status.success() && ended.errors.is_empty(), "{ended:?}");
        Delivered::read(&ended.lines)
    }
}

/// Numbers of records that a service has delivered, read from a ledger without losses.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Delivered {
    pub(crate) spans: u64,
    pub(crate) logs: u64,
    pub(crate) points: u64,
}

impl Delivered {
    fn read(ledger: &[String]) -> Self {
        let mut delivered = Self::default();
        for line in ledger {
            let (signal, counts) = line.split_once(": ").expect(line);
            let count: u64 = counts.split(' ').next().unwrap().parse().expect(line);
            assert_eq!(counts, format!("{count} accepted, {count} delivered"), "{ledger:?}");
            *match signal {
                "otlp traces" => &mut delivered.spans,
                "otlp logs" => &mut delivered.logs,
                "otlp metrics" => &mut delivered.points,
                _ => panic!("no line of a ledger: {line}"),
            } = count;
        }
        delivered
    }
}
