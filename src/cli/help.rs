//! The texts of `--help`. They are the table of options, too: `given.rs` parses by them, and `completions.rs` and `man.rs`
//! are made of them.

/// What help can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Overview,
    Demo,
    Receive,
    Show,
    Check,
    Init,
    Exec,
    Span,
    Log,
    Metric,
    Spool,
    Drain,
    Completions,
    Man,
}

/// Every command with its topic, in the order of the overview.
pub(crate) const COMMANDS: [(&str, Topic); 14] = [
    ("demo", Topic::Demo),
    ("receive", Topic::Receive),
    ("show", Topic::Show),
    ("check", Topic::Check),
    ("init", Topic::Init),
    ("exec", Topic::Exec),
    ("span", Topic::Span),
    ("log", Topic::Log),
    ("metric", Topic::Metric),
    ("spool", Topic::Spool),
    ("drain", Topic::Drain),
    ("completions", Topic::Completions),
    ("man", Topic::Man),
    ("help", Topic::Overview),
];

/// An option as the help lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionHelp {
    /// With its dashes.
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    /// What stands for its value, if it has one.
    pub(crate) value: Option<&'static str>,
    pub(crate) description: String,
}

impl OptionHelp {
    /// From the first line of an entry: `  -n, --name NAME   the name of the span`.
    fn read(line: &'static str) -> Option<Self> {
        let entry = line.strip_prefix("  ").filter(|entry| entry.starts_with('-'))?;
        let (names, description) = entry.split_once("  ").unwrap_or((entry, ""));
        let (short, long) = match names.split_once(", ") {
            Some((short, long)) => (short.chars().nth(1), long),
            None => (None, names),
        };
        let (long, value) = match long.split_once(' ') {
            Some((long, value)) => (long, Some(value)),
            None => (long, None),
        };
        Some(Self { long, short, value, description: description.trim().to_owned() })
    }
}

impl Topic {
    /// The topic of a command.
    pub(crate) fn of(command: &str) -> Option<Self> {
        COMMANDS.iter().find(|(name, _)| *name == command).map(|(_, topic)| *topic)
    }

    pub(crate) fn command(self) -> &'static str {
        COMMANDS.iter().find(|(_, topic)| *topic == self).map_or("help", |(name, _)| name)
    }

    /// Whether the command's line is a [`Given`](super::given::Given).
    pub(crate) fn is_given(self) -> bool {
        matches!(self, Self::Exec | Self::Span | Self::Log | Self::Metric | Self::Completions | Self::Man)
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Overview => OVERVIEW,
            Self::Demo => DEMO,
            Self::Receive => include_str!("help/receive.txt"),
            Self::Show => include_str!("help/show.txt"),
            Self::Check => CHECK,
            Self::Init => INIT,
            Self::Exec => include_str!("help/exec.txt"),
            Self::Span => include_str!("help/span.txt"),
            Self::Log => include_str!("help/log.txt"),
            Self::Metric => include_str!("help/metric.txt"),
            Self::Spool => SPOOL,
            Self::Drain => DRAIN,
            Self::Completions => COMPLETIONS,
            Self::Man => MAN,
        }
    }

    /// The entries below `options:`, and below `filters` where there are some.
    pub(crate) fn options(self) -> Vec<OptionHelp> {
        let mut options: Vec<OptionHelp> = Vec::new();
        let mut is_listed = false;
        for line in self.text().lines() {
            match (OptionHelp::read(line), options.last_mut()) {
                (None, _) if !line.starts_with(' ') => {
                    is_listed = line == "options:" || line.starts_with("filters") && line.ends_with(':');
                }
                _ if !is_listed => {}
                (Some(option), _) => options.push(option),
                (None, Some(option)) => option.description += &format!(" {}", line.trim()),
                (None, None) => {}
            }
        }
        options
    }
}

/// Each command with what the overview says of it.
pub(crate) fn summaries() -> Vec<(&'static str, String)> {
    let mut summaries: Vec<(&str, String)> = Vec::new();
    let lines = OVERVIEW.lines().skip_while(|line| *line != "commands:").skip(1);
    for line in lines.take_while(|line| !line.is_empty()) {
        let entry = line.strip_prefix("  ").unwrap_or_default();
        match summaries.last_mut() {
            Some((_, summary)) if entry.starts_with(' ') => {
                *summary = format!("{summary} {}", entry.trim()).trim().to_owned();
            }
            _ => {
                let (head, summary) = entry.split_once("  ").unwrap_or((entry, ""));
                let name = head.split(' ').next().unwrap_or_default();
                summaries.push((name, summary.trim().to_owned()));
            }
        }
    }
    summaries
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
  exec COMMAND      run a command inside a span
  span NAME         send a span, or keep one in a file until it ends
  log BODY          send a log record, or the lines of standard input
  metric KIND NAME VALUE
                    send a measurement
  spool DIR         show what processes have left in the directory of a spool
  drain DIR         send it to a collector, or print it
  completions SHELL
                    print a script that completes command lines in bash, zsh or fish
  man               print the manual page
  help [COMMAND]    show this text, or that of a command

options:
  --color WHEN   auto, always or never; auto colours on a terminal unless NO_COLOR is set
  --ascii        draw with ASCII only; this is also what a locale other than UTF-8 gets
  -h, --help     this text, or that of a command
  -V, --version  the version

examples:
  standpipe receive
  standpipe exec -- make test
  standpipe check --env

exit code: 0 if all went well, 1 if not, 2 if the command line is invalid; exec ends as its command
";

const DEMO: &str = "\
usage: standpipe demo [--grpc] [--page] [--color WHEN] [--ascii]

Starts a receiver on a free port of this machine, runs a pretend shop of three services that
export to it through this library, and draws what arrived: the traces, with the logs in their
spans, and a table of the metrics. The small lines in it are the buckets of a histogram, the rise
of a counter from push to push, or what anything else was with each push. Below is the ledger:
what the library accepted, delivered and lost, and what the receiver counted.

options:
  --grpc       export over gRPC instead of HTTP
  --page       also show it on a page in a browser, at http://127.0.0.1:4319/, until Ctrl-C
  --page-address ADDRESS
               the same elsewhere; port 0 takes a free one

If TRACEPARENT is set, and TRACESTATE, the shop's traces continue that one.

The drawing is as wide as COLUMNS, or else the terminal, or else 100 cells.

examples:
  standpipe demo
  standpipe demo --grpc

exit code: 0 if all that was accepted arrived, 1 if not or if FILE cannot be written
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

examples:
  standpipe check telemetry.toml
  standpipe check --env --offline
  standpipe check --json telemetry.toml | jq .errors

exit code: 0 if there is no error (there may be warnings, and a file may describe no exporter at
           all), 1 if there is one or an endpoint does not answer as it should, 2 if the file cannot
           be read at all
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

examples:
  standpipe init
  standpipe init env /etc/shop/telemetry.env
  standpipe init tracetest --stdout

exit code: 0, or 1 if the file exists or cannot be written
";

const SPOOL: &str = "\
usage: standpipe spool DIR [--color WHEN] [--ascii]

Shows what exporters keep in the directory of a spool (the setting spool = \"DIR\"): for each of them
its name and service, whether its process runs or has ended, the records of each signal that are to
be delivered, in how many requests, of what size and for how long they have waited, the spans that
are open or were interrupted, and what cannot be read. Nothing is changed.

examples:
  standpipe spool /var/spool/shop

exit code: 0, or 1 if the directory cannot be read or is not this user's alone
";

const DRAIN: &str = "\
usage: standpipe drain DIR --endpoint URL [--grpc] [--header NAME=VALUE]... [--timeout TIME]
       standpipe drain DIR --to-stdout [--timeout TIME]

Sends what processes that have ended left in the directory of a spool, oldest first, whatever their
services and exporters were. What a collector has answered for is removed; what it cannot take
now is tried again until it can. Exporters that run are left alone. On a terminal a bar shows the
progress. Ctrl-C or SIGTERM ends it: what is left stays, and the command can be repeated. A request
that was under way when it was killed is sent again.

options:
  --endpoint URL        where to send: http://localhost:4318, to which /v1/traces and its like are
                        appended, or with --grpc http://localhost:4317. Without a scheme gRPC uses
                        TLS, except on this machine
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

const COMPLETIONS: &str = "\
usage: standpipe completions bash|zsh|fish

Prints a script that completes command lines of standpipe: commands, options and their values, and
behind exec those of the command that it runs.

examples:
  source <(standpipe completions bash)
  standpipe completions bash > ~/.local/share/bash-completion/completions/standpipe
  standpipe completions zsh > ~/.zfunc/_standpipe
  standpipe completions fish > ~/.config/fish/completions/standpipe.fish

exit code: 0, or 2 if the shell is not known
";

const MAN: &str = "\
usage: standpipe man

Prints the manual page, in the form of man: all that the help of each command says.

examples:
  standpipe man | man -l -
  standpipe man > /usr/local/share/man/man1/standpipe.1

exit code: 0
";

#[cfg(test)]
mod tests {
    use super::super::init::Flavour;
    use super::*;

    #[test]
    fn every_help_text_fits_a_terminal() {
        for (_, topic) in COMMANDS {
            assert!(topic.text().ends_with('\n'));
            for line in topic.text().lines() {
                assert!(line.is_ascii() && line.len() <= 100, "{line}");
            }
        }
    }

    #[test]
    fn every_help_text_has_examples_and_states_its_exit_codes() {
        for (name, topic) in COMMANDS {
            assert!(topic.text().contains("\nexamples:\n  "), "{name}");
            assert!(topic.text().contains("\nexit code: 0") || topic == Topic::Exec, "{name}");
        }
    }

    #[test]
    fn every_command_is_in_the_overview() {
        let summaries = summaries();
        let names: Vec<&str> = summaries.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, COMMANDS.map(|(name, _)| name));
        assert!(summaries.iter().all(|(_, summary)| !summary.is_empty()), "{summaries:?}");
    }

    #[test]
    fn options_are_read_from_the_text() {
        let options = Topic::Exec.options();
        let name = OptionHelp {
            long: "--name",
            short: Some('n'),
            value: Some("NAME"),
            description: "the name of the span; the file name of COMMAND if it is not given".to_owned(),
        };
        assert_eq!(options[0], name);
        let parent = options.iter().find(|option| option.long == "--parent").expect("it is listed");
        assert!(parent.description.ends_with("of the environment; a file that is not there is ignored"));
        assert!(options.iter().any(|option| option.long == "--grpc" && option.value.is_none()));
    }

    #[test]
    fn every_flavour_is_explained_with_its_file() {
        for flavour in Flavour::ALL {
            assert!(INIT.contains(&format!("\n  {} ", flavour.name())), "{flavour:?}");
            assert!(INIT.contains(flavour.file()), "{flavour:?}");
        }
    }
}
