//! An agent, two gateways, and a sink behind each gateway.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use standpipe::receiver::Receiver;

use super::collector::Collector;
use crate::Error;
use crate::process::{free_port, text};
use crate::seen::{self, Record};
use crate::servers::Transport;

const MAX_WAIT: Duration = Duration::from_secs(60);

pub(super) struct Tiers {
    pub(super) agent: Collector,
    pub(super) gateways: [Collector; 2],
    pub(super) sinks: [Receiver; 2],
}

impl Tiers {
    /// Starts all servers. `over` overrides the gateways' configuration; the agent's queue can hold `queue` requests.
    pub(super) fn start(
        tools: &Path,
        scratch: &Path,
        transport: Transport,
        over: &[&str],
        queue: usize,
    ) -> Result<Self, Error> {
        let folder = scratch.join("growing");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let sinks = [Receiver::start()?, Receiver::start()?];
        let configurations = [&["gateway.yaml"], over].concat();
        let gateway = |number: usize| {
            let log = folder.join(format!("gateway-{}.log", number + 1));
            Collector::start(tools, &log, &configurations, |port| {
                Ok(vec![
                    ("GATEWAY", format!("127.0.0.1:{port}")),
                    ("BACKEND", sinks[number].endpoint()),
                    ("SECOND_BACKEND", sinks[1 - number].endpoint()),
                    ("DECISION_WAIT", "1s".to_owned()),
                ])
            })
        };
        let gateways = [gateway(0)?, gateway(1)?];
        let agent = Collector::start(tools, &folder.join("agent.log"), &["agent.yaml"], |port| {
            // The agent listens for both transports; only one is used.
            let (port, other) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", free_port()?));
            let (http, grpc) = match transport {
                Transport::Http => (port, other),
                Transport::Grpc => (other, port),
            };
            Ok(vec![
                ("AGENT_HTTP", http),
                ("AGENT_GRPC", grpc),
                ("AGENT_STORAGE", text(&folder.join("queue"))),
                ("AGENT_QUEUE", queue.to_string()),
                ("GATEWAY_1", format!("127.0.0.1:{}", gateways[0].port())),
                ("GATEWAY_2", format!("127.0.0.1:{}", gateways[1].port())),
            ])
        })?;
        Ok(Self { agent, gateways, sinks })
    }

    /// The records of each sink.
    pub(super) fn records(&self) -> Result<[Vec<Record>; 2], Error> {
        Ok([seen::in_sink(&self.sinks[0])?, seen::in_sink(&self.sinks[1])?])
    }

    /// Waits until the sinks have this many different spans, or until the timeout. The caller checks the records.
    pub(super) fn wait_for_spans(&self, count: usize) {
        let deadline = Instant::now() + MAX_WAIT;
        while Instant::now() < deadline {
            let ids = self.sinks.iter().flat_map(Receiver::spans).map(|span| span.span.span_id.clone());
            if ids.collect::<HashSet<_>>().len() >= count {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the number of spans in both sinks. Spans that arrived twice are counted twice.
    pub(super) fn span_count(&self) -> u64 {
        self.sinks.iter().map(Receiver::span_count).sum()
    }
}
