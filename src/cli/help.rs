//! What `--help` says.

/// What help can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Overview,
    Demo,
    Receive,
    Check,
}

impl Topic {
    /// The topic of a command.
    pub(crate) fn of(command: &str) -> Option<Self> {
        match command {
            "demo" => Some(Self::Demo),
            "receive" => Some(Self::Receive),
            "check" => Some(Self::Check),
            "help" => Some(Self::Overview),
            _ => None,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Overview => OVERVIEW,
            Self::Demo => DEMO,
            Self::Receive => RECEIVE,
            Self::Check => CHECK,
        }
    }
}

const OVERVIEW: &str = "\
standpipe: OTLP export for programs without an async runtime

usage: standpipe COMMAND [OPTIONS]

commands:
  demo         send the traces, logs and metrics of a small pretend shop to a receiver of its own
               and draw them
  receive      listen for OTLP over HTTP and print the traces, logs and metrics that arrive
  check FILE   show what a configuration file comes to, and what is wrong with it
  help [COMMAND]

options:
  --color WHEN   auto, always or never; auto colours on a terminal unless NO_COLOR is set
  --ascii        draw with ASCII only; this is also what a locale other than UTF-8 gets
  -h, --help     this text, or that of a command
  -V, --version  the version
";

const DEMO: &str = "\
usage: standpipe demo [--color WHEN] [--ascii]

Starts a receiver on a free port of this machine, runs a pretend shop of three services that
export to it through this library, and draws what arrived: the traces, with the logs in their
spans, and a table of the metrics. The small lines in it are the buckets of a histogram, the rise
of a counter from push to push, or what anything else was with each push. Below is the ledger:
what the library accepted, delivered and lost, and what the receiver counted.

The drawing is as wide as COLUMNS says, or the terminal, or 100 cells.

exit code: 0 if all that was accepted arrived, 1 if not
";

const RECEIVE: &str = "\
usage: standpipe receive [--address ADDRESS] [--color WHEN] [--ascii]

Listens for OTLP over HTTP (POST to /v1/traces, /v1/logs and /v1/metrics, protobuf, gzip or not)
and prints each batch as it arrives: an entry for each span, log record or data point. On a
terminal lines are cut to its width; elsewhere an entry is one line, however long. Ctrl-C ends it.

options:
  --address ADDRESS   where to listen; 127.0.0.1:4318 if not given, port 0 takes a free one

exit code: 0, or 1 if the address cannot be listened on
";

const CHECK: &str = "\
usage: standpipe check FILE [--color WHEN] [--ascii]

Reads a configuration file and shows, for each exporter, the value of every setting and where it
came from; then every problem with its line and what to do about it. Nothing is sent, and the
values of headers are not shown.

exit code: 0 if it can be used (there may be warnings), 1 if there are errors,
           2 if the file cannot be read at all
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_help_text_fits_a_terminal() {
        for topic in [Topic::Overview, Topic::Demo, Topic::Receive, Topic::Check] {
            assert!(topic.text().ends_with('\n'));
            for line in topic.text().lines() {
                assert!(line.is_ascii() && line.len() <= 100, "{line}");
            }
        }
    }
}
