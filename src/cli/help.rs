//! The texts of `--help`.

/// What help can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Overview,
    Demo,
    Receive,
    Show,
    Check,
    Init,
    Spool,
    Drain,
}

impl Topic {
    /// The topic of a command.
    pub(crate) fn of(command: &str) -> Option<Self> {
        match command {
            "demo" => Some(Self::Demo),
            "receive" => Some(Self::Receive),
            "show" => Some(Self::Show),
            "check" => Some(Self::Check),
            "init" => Some(Self::Init),
            "spool" => Some(Self::Spool),
            "drain" => Some(Self::Drain),
            "help" => Some(Self::Overview),
            _ => None,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Overview => OVERVIEW,
            Self::Demo => DEMO,
            Self::Receive => RECEIVE,
            Self::Show => SHOW,
            Self::Check => CHECK,
            Self::Init => INIT,
            Self::Spool => SPOOL,
            Self::Drain => DRAIN,
        }
    }
}

const OVERVIEW: &str = "\
standpipe: OTLP export for programs without an async runtime

usage: standpipe COMMAND [OPTIONS]

commands:
  demo              send the traces, logs and metrics of a small pretend shop to a receiver of
                    its own and draw them
  receive           listen for OTLP over HTTP and gRPC and show the traces, logs and metrics that
                    arrive
  show FILE|-       show what receive has saved, or any other file of OTLP JSON lines
  check FILE|-|--env
                    show what a configuration comes to, what is wrong with it, and whether the
                    collector answers
  init [FLAVOUR]    write a commented configuration file to begin with
  spool DIR         show what processes have left in the directory of a spool
  drain DIR         send it to a collector, or print it
  help [COMMAND]

options:
  --color WHEN   auto, always or never; auto colours on a terminal unless NO_COLOR is set
  --ascii        draw with ASCII only; this is also what a locale other than UTF-8 gets
  -h, --help     this text, or that of a command
  -V, --version  the version
";

const DEMO: &str = "\
usage: standpipe demo [--grpc] [--svg FILE] [--page] [--color WHEN] [--ascii]

Starts a receiver on a free port of this machine, runs a pretend shop of three services that
export to it through this library, and draws what arrived: the traces, with the logs in their
spans, and a table of the metrics. The small lines in it are the buckets of a histogram, the rise
of a counter from push to push, or what anything else was with each push. Below is the ledger:
what the library accepted, delivered and lost, and what the receiver counted.

options:
  --grpc       export over gRPC instead of HTTP
  --svg FILE   also draw the traces into FILE, as a picture that fits a light and a dark page
  --page       also show it on a page in a browser, at http://127.0.0.1:4319/, until Ctrl-C
  --page-address ADDRESS
               the same elsewhere; port 0 takes a free one

If TRACEPARENT is set, and TRACESTATE, the shop's traces continue that one.

The drawing is as wide as COLUMNS, or else the terminal, or else 100 cells.

exit code: 0 if all that was accepted arrived, 1 if not or if FILE cannot be written
";

const RECEIVE: &str = "\
usage: standpipe receive [--address ADDRESS] [--grpc-address ADDRESS] [--page] [--save FILE]
                         [--tree|--flat|--json] [--full] [FILTERS] [--color WHEN] [--ascii]

Listens for OTLP over HTTP (POST to /v1/traces, /v1/logs and /v1/metrics, protobuf or JSON, gzip
or not) and over gRPC (without TLS, gzip or not) and shows what arrives. Ctrl-C or SIGTERM (on
Windows Ctrl-Break) ends it with a summary.

On a terminal a trace is drawn as a tree, with its log records, once its root is there, no parent
is missing and nothing came for 1 s. What is incomplete is drawn after 6 s of quiet or 30 s in
all, or when open traces take 64 MiB, and says what is missing; spans that come later follow as
late spans, below their ancestors. Log records of no trace are shown at once, metrics as far as
they changed. Elsewhere, as in a pipe or a file, each record is one line, with up to 65,536
characters of each text. What comes faster than the output is read is counted instead of shown,
so that no sender waits.

Refused requests are reported on standard error, once for each kind, with what to do about it. On a
loopback address a request for a host other than this machine is refused too, so that no web page
can send here. All requests together may take 256 MiB of memory: one that would decode to more is
refused with 413, and one for which there is no memory now with 503, which is retryable.

options:
  --address ADDRESS        where to listen for HTTP; 127.0.0.1:4318 if not given, port 0 takes a
                           free one
  --grpc-address ADDRESS   where to listen for gRPC; if not given, port 4317 beside HTTP, or a
                           free one if HTTP takes one
  --page                   also show it on a page in a browser, at http://127.0.0.1:4319/: traces,
                           logs, metrics, services and refused requests of the last while, within
                           256 MiB. Only this machine is answered
  --page-address ADDRESS   the same elsewhere; port 0 takes a free one
  --save FILE              also add all that arrives, whatever the filters, to the end of FILE as
                           OTLP JSON lines, for standpipe show
  --tree                   draw trees, also where the output is no terminal
  --flat                   an entry for each record as it arrives, also on a terminal
  --json                   OTLP JSON, a line for each request; all else goes to standard error
  --full                   all spans of a tree with all attributes, ids and stack traces, where
                           else four attributes are shown (none of process, host, os, thread,
                           code, telemetry or network.protocol) and like or deep spans are counted

filters (a tree is shown as a whole if one of its spans is meant):
  --service NAME   only this service; may be given more than once
  --name TEXT      only spans, metrics and log records with TEXT in their name, event name or
                   body; may be given more than once
  --errors         only traces with an error, and log records from ERROR on
  --min TIME       only traces of at least this time, as 100ms or 1.5s; with --flat or --json,
                   spans
  --trace ID       only the trace whose id begins so
  --level LEVEL    only log records from this severity on: trace, debug, info, warn, error,
                   fatal, or a number from 1 to 24
  --hide TEXT      no spans with TEXT in their name, and in a tree none below them; may be given
                   more than once

examples:
  standpipe receive
  standpipe receive --errors --hide /health
  standpipe receive --service payments --min 100ms --level warn
  standpipe receive --save today.jsonl
  standpipe receive --tree --color always | less -R
  standpipe receive --json | jq -r '.resourceSpans[]?.scopeSpans[].spans[].name'

exit code: 0; 1 if an address cannot be listened on or something could not be saved; 2 if an
           option is wrong
";

const SHOW: &str = "\
usage: standpipe show FILE|- [--tree|--flat|--json] [--full] [FILTERS] [--color WHEN] [--ascii]

Shows a file of OTLP JSON lines, or with - what comes on standard input: each line is one export
request of traces, logs or metrics. That is what standpipe receive --save and --json, standpipe
drain --to-stdout, the console exporter and the file exporter of the OpenTelemetry Collector write.

All is shown as standpipe receive would show it: trees on a terminal, elsewhere a line for each
record. The traces of a file are drawn when it is read, within 256 MiB of memory; those of standard
input as they become complete. A line that cannot be read is reported with its number, and the rest
is shown.

options:
  --tree   draw trees, also where the output is no terminal
  --flat   an entry for each record, also on a terminal
  --json   OTLP JSON lines of what passes the filters
  --full   all that is known of the spans of a tree

filters, as standpipe receive --help explains them:
  --service NAME   --name TEXT   --errors   --min TIME   --trace ID   --level LEVEL   --hide TEXT

examples:
  standpipe show today.jsonl
  standpipe show today.jsonl --trace 36c3ef3e --full
  standpipe show today.jsonl --json --service payments > payments.jsonl
  tail -f collector.jsonl | standpipe show - --errors
  standpipe drain /var/spool/shop --to-stdout | standpipe show - --tree

exit code: 0; 1 if a line could not be read; 2 if FILE could not be opened or an option is wrong
";

const CHECK: &str = "\
usage: standpipe check FILE|- [--offline] [--json] [--color WHEN] [--ascii]
       standpipe check --env [--offline] [--json] [--color WHEN] [--ascii]

Reads a configuration file, or OpenTelemetry's environment variables, and shows for each exporter
where its signals go, the value of every setting and where it came from; then every problem with
its line and what to do about it. Then it probes each endpoint with a request that holds no
telemetry and shows the result of each stage. The values of headers are never shown.

A file whose name ends in .yaml or .yml is read as YAML, every other one as TOML. With - it is
read from standard input, as TOML or YAML, and paths in it start at the working directory.

options:
  --env       check the environment instead of a file
  --offline   do not probe the endpoints
  --json      print one JSON object instead: exporters, warnings and errors

exit code: 0 if every exporter can be used (there may be warnings), 1 if there are errors or an
           endpoint does not answer as it should, 2 if the file cannot be read at all
";

const INIT: &str = "\
usage: standpipe init [FLAVOUR] [FILE]
       standpipe init [FLAVOUR] --stdout

Writes a commented configuration file to begin with and shows how to use it. It is not interactive
and never overwrites a file. If only FILE is given, its extension selects the flavour.

flavours:
  stalwart       TOML with [tracer.<id>] and [metrics.open-telemetry]; telemetry.toml if no FILE
                 is given. This is the default; toml is an alias
  tracetest      YAML with telemetry.exporters and server.telemetry; tracetest.yaml. yaml is
                 an alias
  qualitytrace   the same with Qualitytrace's names; qualitytrace.yaml
  env            OpenTelemetry's environment variables, for a shell, docker or systemd;
                 telemetry.env

options:
  --stdout   print it instead; so does - as FILE

exit code: 0, or 1 if the file exists or cannot be written
";

const SPOOL: &str = "\
usage: standpipe spool DIR [--color WHEN] [--ascii]

Shows what exporters keep in the directory of a spool (the setting spool = \"DIR\"): for each of them
its name, whether its process runs or has ended, the records of each signal that are to be
delivered, in how many requests, of what size and for how long they have waited, the spans that
are open or were interrupted, and what cannot be read. Nothing is changed.

example:
  standpipe spool /var/spool/shop

exit code: 0, or 1 if the directory cannot be read or is not this user's alone
";

const DRAIN: &str = "\
usage: standpipe drain DIR --endpoint URL [--grpc] [--header NAME=VALUE]... [--timeout TIME]
       standpipe drain DIR --to-stdout [--timeout TIME]

Sends what processes that have ended left in the directory of a spool, oldest first, whatever the
names of their exporters were. What a collector has answered for is removed; what it cannot take
now is tried again until it can. Exporters that run are left alone. On a terminal a bar shows the
progress. Ctrl-C or SIGTERM ends it: what is left stays, and the command can be repeated. A request
that was under way when it was killed is sent again.

options:
  --endpoint URL        where to send: http://localhost:4318, or with --grpc http://localhost:4317
  --grpc                send over gRPC instead of HTTP
  --header NAME=VALUE   a header of each request, as for a token; may be given more than once
  --to-stdout           print it as OTLP JSON instead, one request in one line. What was written
                        is removed, too; standpipe spool looks without removing
  --timeout TIME        end after this time, as 30s or 5m, though something is left

examples:
  standpipe drain /var/spool/shop --endpoint http://localhost:4318
  standpipe drain /dev/shm/shop --endpoint https://collector.example --header \"api-key=$KEY\"
  standpipe drain /var/spool/shop --to-stdout | gzip > left.jsonl.gz

exit code: 0 if all was delivered, 1 if something is left or was lost
";

#[cfg(test)]
mod tests {
    use super::super::init::Flavour;
    use super::*;

    #[test]
    fn every_help_text_fits_a_terminal() {
        for topic in [
            Topic::Overview,
            Topic::Demo,
            Topic::Receive,
            Topic::Show,
            Topic::Check,
            Topic::Init,
            Topic::Spool,
            Topic::Drain,
        ] {
            assert!(topic.text().ends_with('\n'));
            for line in topic.text().lines() {
                assert!(line.is_ascii() && line.len() <= 100, "{line}");
            }
        }
    }

    #[test]
    fn every_flavour_is_explained_with_its_file() {
        for flavour in Flavour::ALL {
            assert!(INIT.contains(&format!("\n  {} ", flavour.name())), "{flavour:?}");
            assert!(INIT.contains(flavour.file()), "{flavour:?}");
        }
    }
}
