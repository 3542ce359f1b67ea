//! Arguments → what to do. Pure: the process's arguments come in as a parameter.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use standpipe::Transport;

use super::check::{self, Form, Probing, Subject};
use super::demo;
use super::drain::{self, Target};
use super::given::Given;
use super::help::{COMMANDS, Topic};
use super::init;
use super::receive;
use super::sender;
use super::show;
use super::style::ColorChoice;
use super::text;
use super::view::{self, Filter, Form as ViewForm};

/// Where OTLP is expected.
const HTTP_PORT: u16 = 4318;
const GRPC_PORT: u16 = 4317;
const PAGE_PORT: u16 = 4319;

const OPTIONS: [&str; 28] = [
    "--color",
    "--ascii",
    "--help",
    "--version",
    "--address",
    "--grpc-address",
    "--page",
    "--page-address",
    "--env",
    "--grpc",
    "--offline",
    "--json",
    "--stdout",
    "--endpoint",
    "--header",
    "--timeout",
    "--to-stdout",
    "--tree",
    "--flat",
    "--full",
    "--save",
    "--service",
    "--name",
    "--hide",
    "--level",
    "--errors",
    "--min",
    "--trace",
];

/// Everything that the command line selects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) command: Command,
    pub(crate) color: ColorChoice,
    /// Draw with ASCII only, also in a UTF-8 locale.
    pub(crate) ascii: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Demo(demo::Options),
    Receive(receive::Options),
    Show(show::Options),
    Check(check::Options),
    Init(init::Options),
    /// The directory.
    Spool(PathBuf),
    Drain(drain::Options),
    /// One that reads its options itself.
    Given(Given),
    Help(Topic),
    Version,
}

/// Arguments that are invalid, and what was probably meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for UsageError {
    fn from(message: String) -> Self {
        Self(message)
    }
}

impl From<lexopt::Error> for UsageError {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, UsageError> {
    let mut parser = Parser::from_args(words);
    let mut raw = RawArguments::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => raw.help = true,
            Arg::Long("version") | Arg::Short('V') => raw.version = true,
            Arg::Long("ascii") => raw.ascii = true,
            Arg::Long("color") => raw.color = color(&parser.value()?.string()?)?,
            Arg::Long("address") => {
                raw.address = Some(address("--address", HTTP_PORT, &parser.value()?.string()?)?);
            }
            Arg::Long("grpc-address") => {
                raw.grpc_address = Some(address("--grpc-address", GRPC_PORT, &parser.value()?.string()?)?);
            }
            Arg::Long("page") => raw.page = true,
            Arg::Long("page-address") => {
                raw.page_address = Some(address("--page-address", PAGE_PORT, &parser.value()?.string()?)?);
            }
            Arg::Long("env") => raw.env = true,
            Arg::Long("grpc") => raw.grpc = true,
            Arg::Long("offline") => raw.offline = true,
            Arg::Long("json") => raw.json = true,
            Arg::Long("stdout") => raw.stdout = true,
            Arg::Long("endpoint") => raw.endpoint = Some(parser.value()?.string()?),
            Arg::Long("header") => raw.headers.push(header(&parser.value()?.string()?)?),
            Arg::Long("timeout") => raw.timeout = Some(timeout(&parser.value()?.string()?)?),
            Arg::Long("to-stdout") => raw.to_stdout = true,
            Arg::Long("tree") => raw.tree = true,
            Arg::Long("flat") => raw.flat = true,
            Arg::Long("full") => raw.full = true,
            Arg::Long("save") => raw.save = Some(parser.value()?.into()),
            Arg::Long("service") => raw.filter.services.push(word("--service", parser.value()?.string()?)?),
            Arg::Long("name") => raw.filter.names.push(word("--name", parser.value()?.string()?)?),
            Arg::Long("hide") => raw.filter.hidden.push(word("--hide", parser.value()?.string()?)?),
            Arg::Long("level") => raw.filter.level = Some(view::level(&parser.value()?.string()?)?),
            Arg::Long("errors") => raw.filter.errors = true,
            Arg::Long("min") => raw.filter.min = Some(view::min(&parser.value()?.string()?)?),
            Arg::Long("trace") => raw.filter.trace = Some(view::trace(&parser.value()?.string()?)?),
            Arg::Value(word) if raw.command.is_none() => {
                let name = command(word)?;
                if let Some(topic) = Topic::of(&name).filter(|topic| topic.is_given()) {
                    raw.refuse_options_before(&name)?;
                    let given = Given::parse(topic, &mut parser).map_err(UsageError)?;
                    let command = given.filter(|_| !raw.help).map_or(Command::Help(topic), Command::Given);
                    return Ok(Arguments { command, color: raw.color, ascii: raw.ascii });
                }
                raw.command = Some(name);
            }
            // An empty argument is most often a variable of the shell that was never set.
            Arg::Value(word) if word.is_empty() => {}
            Arg::Value(word) => raw.operands.push(word),
            Arg::Long("port") => {
                let words = "unknown option \"--port\"; write --address 127.0.0.1:PORT";
                return Err(UsageError(words.to_owned()));
            }
            Arg::Long(name) => return Err(unknown("option", &format!("--{name}"), &OPTIONS)),
            Arg::Short(letter) => return Err(unknown("option", &format!("-{letter}"), &[])),
        }
    }
    raw.into_arguments()
}

/// The arguments as they were found, before they are checked together.
#[derive(Default)]
struct RawArguments {
    command: Option<String>,
    operands: Vec<OsString>,
    address: Option<SocketAddr>,
    grpc_address: Option<SocketAddr>,
    page: bool,
    page_address: Option<SocketAddr>,
    color: ColorChoice,
    ascii: bool,
    env: bool,
    grpc: bool,
    offline: bool,
    json: bool,
    stdout: bool,
    endpoint: Option<String>,
    headers: Vec<(String, String)>,
    timeout: Option<Duration>,
    to_stdout: bool,
    tree: bool,
    flat: bool,
    full: bool,
    save: Option<PathBuf>,
    filter: Filter,
    help: bool,
    version: bool,
}

impl RawArguments {
    fn into_arguments(self) -> Result<Arguments, UsageError> {
        let (color, ascii) = (self.color, self.ascii);
        let command = self.into_command()?;
        Ok(Arguments { command, color, ascii })
    }

    fn into_command(self) -> Result<Command, UsageError> {
        if self.version {
            return Ok(Command::Version);
        }
        let command = self.command.as_deref();
        if self.help {
            return Ok(Command::Help(command.and_then(Topic::of).unwrap_or(Topic::Overview)));
        }
        self.refuse_options_of_others()?;
        match command {
            Some("check") => self.into_check(),
            Some("init") => self.into_init(),
            Some("help") => self.into_help(),
            Some("spool") => Ok(Command::Spool(directory("spool", self.operands)?)),
            Some("drain") => self.into_drain(),
            Some("demo") => {
                let transport = if self.grpc { Transport::Grpc } else { Transport::Http };
                let order = demo::Options { transport, page: self.page() };
                self.without_operands(Command::Demo(order))
            }
            Some("receive") => self.into_receive(),
            Some("show") => self.into_show(),
            _ => Err(UsageError("no command given".to_owned())),
        }
    }

    /// The options of particular commands: theirs, and whether each is given.
    fn particular(&self) -> [(&'static str, &'static [&'static str], bool); 24] {
        const VIEWS: &[&str] = &["receive", "show"];
        let filter = &self.filter;
        [
            ("--address", &["receive"], self.address.is_some()),
            ("--grpc-address", &["receive"], self.grpc_address.is_some()),
            ("--page", &["receive", "demo"], self.page),
            ("--page-address", &["receive", "demo"], self.page_address.is_some()),
            ("--env", &["check"], self.env),
            ("--grpc", &["demo", "drain"], self.grpc),
            ("--offline", &["check"], self.offline),
            ("--json", &["check", "receive", "show"], self.json),
            ("--stdout", &["init"], self.stdout),
            ("--endpoint", &["drain"], self.endpoint.is_some()),
            ("--header", &["drain"], !self.headers.is_empty()),
            ("--timeout", &["drain"], self.timeout.is_some()),
            ("--to-stdout", &["drain"], self.to_stdout),
            ("--tree", VIEWS, self.tree),
            ("--flat", VIEWS, self.flat),
            ("--full", VIEWS, self.full),
            ("--save", &["receive"], self.save.is_some()),
            ("--service", VIEWS, !filter.services.is_empty()),
            ("--name", VIEWS, !filter.names.is_empty()),
            ("--hide", VIEWS, !filter.hidden.is_empty()),
            ("--level", VIEWS, filter.level.is_some()),
            ("--errors", VIEWS, filter.errors),
            ("--min", VIEWS, filter.min.is_some()),
            ("--trace", VIEWS, filter.trace.is_some()),
        ]
    }

    /// Refuses options before a command that reads its own.
    fn refuse_options_before(&self, command: &str) -> Result<(), UsageError> {
        let mut given = self.particular().into_iter().filter(|(_, _, is_given)| *is_given);
        match given.next() {
            Some((option, ..)) => {
                Err(UsageError(format!("{option} goes behind {command}: standpipe {command} {option} ...")))
            }
            None => Ok(()),
        }
    }

    fn refuse_options_of_others(&self) -> Result<(), UsageError> {
        for (option, owners, is_given) in self.particular() {
            if is_given && !owners.iter().any(|owner| self.command.as_deref() == Some(*owner)) {
                return Err(UsageError(format!("{option} is an option of {} only", owners.join(" and "))));
            }
        }
        Ok(())
    }

    fn into_receive(self) -> Result<Command, UsageError> {
        let http = self.address.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), HTTP_PORT));
        // with a free port for HTTP, the fixed port of gRPC could collide with another receiver
        let beside = SocketAddr::new(http.ip(), if http.port() == 0 { 0 } else { GRPC_PORT });
        let grpc = self.grpc_address.unwrap_or(beside);
        let [] = operands(self.operands.clone())?;
        let addresses = receive::Addresses { http, grpc, page: self.page() };
        let save = self.save.clone();
        Ok(Command::Receive(receive::Options { addresses, view: self.into_view()?, save }))
    }

    fn into_show(self) -> Result<Command, UsageError> {
        let [file] = operands(self.operands.clone())?;
        let file = file.ok_or_else(|| UsageError("show needs a FILE, or - for standard input".to_owned()))?;
        Ok(Command::Show(show::Options { file, view: self.into_view()? }))
    }

    fn into_view(self) -> Result<view::Options, UsageError> {
        let form = match (self.tree, self.flat, self.json) {
            (false, false, false) => None,
            (true, false, false) => Some(ViewForm::Tree),
            (false, true, false) => Some(ViewForm::Flat),
            (false, false, true) => Some(ViewForm::Json),
            _ => return Err(UsageError("write one of --tree, --flat and --json".to_owned())),
        };
        Ok(view::Options { form, full: self.full, filter: self.filter })
    }

    /// Where the page is to be, if it is wanted.
    fn page(&self) -> Option<SocketAddr> {
        let usual = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PAGE_PORT);
        self.page_address.or(self.page.then_some(usual))
    }

    fn into_check(self) -> Result<Command, UsageError> {
        let [file] = operands(self.operands)?;
        let subject = match (file, self.env) {
            (Some(file), false) if file == "-" => Subject::Stdin,
            (Some(file), false) => Subject::File(file.into()),
            (None, true) => Subject::Environment,
            (None, false) => return Err(UsageError("check needs a FILE or --env".to_owned())),
            (Some(_), true) => {
                return Err(UsageError("check takes a FILE or --env, not both".to_owned()));
            }
        };
        let probing = if self.offline { Probing::Offline } else { Probing::Online };
        let form = if self.json { Form::Json } else { Form::Drawing };
        Ok(Command::Check(check::Options { subject, probing, form }))
    }

    fn into_init(self) -> Result<Command, UsageError> {
        let [first, second] = operands(self.operands)?;
        init::Options::new(first, second, self.stdout).map(Command::Init).map_err(UsageError)
    }

    fn into_drain(self) -> Result<Command, UsageError> {
        let directory = directory("drain", self.operands)?;
        let transport = if self.grpc { Transport::Grpc } else { Transport::Http };
        let target = match (self.endpoint, self.to_stdout) {
            (Some(endpoint), false) => {
                sender::check_endpoint(&endpoint)?;
                Target::Collector { transport, endpoint, headers: self.headers }
            }
            (None, true) if !self.grpc && self.headers.is_empty() => Target::Stdout,
            (None, true) => {
                return Err(UsageError("--grpc and --header are for an --endpoint".to_owned()));
            }
            (None, false) => {
                return Err(UsageError("drain needs an --endpoint URL, or --to-stdout".to_owned()));
            }
            (Some(_), true) => {
                return Err(UsageError("drain takes --endpoint or --to-stdout, not both".to_owned()));
            }
        };
        Ok(Command::Drain(drain::Options { directory, target, timeout: self.timeout }))
    }

    fn into_help(self) -> Result<Command, UsageError> {
        let [topic] = operands(self.operands)?;
        let Some(topic) = topic else { return Ok(Command::Help(Topic::Overview)) };
        let topic = topic.to_string_lossy();
        Topic::of(&topic).map(Command::Help).ok_or_else(|| unknown_command(&topic))
    }

    fn without_operands(self, command: Command) -> Result<Command, UsageError> {
        let [] = operands(self.operands)?;
        Ok(command)
    }
}

/// A text that may not be empty: most often it is a variable of the shell that was never set.
fn word(option: &str, word: String) -> Result<String, UsageError> {
    if word.is_empty() { Err(UsageError(format!("{option}: write a name"))) } else { Ok(word) }
}

/// The one operand of a command.
fn directory(command: &str, words: Vec<OsString>) -> Result<PathBuf, UsageError> {
    let [directory] = operands(words)?;
    directory.map(PathBuf::from).ok_or_else(|| UsageError(format!("{command} needs a DIR")))
}

pub(crate) fn header(word: &str) -> Result<(String, String), UsageError> {
    let parts = word.split_once('=').filter(|(name, _)| !name.is_empty());
    // the word may have a secret
    parts
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| UsageError("--header: write NAME=VALUE".to_owned()))
}

fn timeout(word: &str) -> Result<Duration, UsageError> {
    text::duration(word).ok_or_else(|| UsageError(format!("--timeout {word:?}: write a time, as 30s or 5m")))
}

/// The operands of the command, of which there may be `N`.
fn operands<const N: usize>(words: Vec<OsString>) -> Result<[Option<OsString>; N], UsageError> {
    let mut words = words.into_iter();
    let taken = std::array::from_fn(|_| words.next());
    match words.next() {
        Some(word) => Err(too_much(&word)),
        None => Ok(taken),
    }
}

fn command(word: OsString) -> Result<String, UsageError> {
    let word = word.to_string_lossy().into_owned();
    if Topic::of(&word).is_some() { Ok(word) } else { Err(unknown_command(&word)) }
}

fn unknown_command(word: &str) -> UsageError {
    UsageError(text::unknown_of("command", word, &COMMANDS.map(|(name, _)| name)))
}

fn color(word: &str) -> Result<ColorChoice, UsageError> {
    match word {
        "auto" => Ok(ColorChoice::Auto),
        "always" => Ok(ColorChoice::Always),
        "never" => Ok(ColorChoice::Never),
        _ => Err(UsageError(format!("--color {word:?}: write auto, always or never"))),
    }
}

fn address(option: &str, port: u16, word: &str) -> Result<SocketAddr, UsageError> {
    let numeric = word.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numeric.as_deref().unwrap_or(word).parse();
    address.map_err(|_| {
        UsageError(format!("{option} {word:?}: write an IP address and a port, as 127.0.0.1:{port}"))
    })
}

fn too_much(word: &OsString) -> UsageError {
    UsageError(format!("unexpected argument {:?}", word.to_string_lossy()))
}

fn unknown(what: &str, word: &str, known: &[&str]) -> UsageError {
    UsageError(text::unknown(what, word, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, String> {
        parse(words.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    fn command(words: &[&str]) -> Result<Command, String> {
        parsed(words).map(|arguments| arguments.command)
    }

    fn check(file: &str) -> check::Options {
        let subject = Subject::File(file.into());
        check::Options { subject, probing: Probing::Online, form: Form::Drawing }
    }

    #[test]
    fn every_command_is_understood() {
        let demo = |transport| demo::Options { transport, page: None };
        assert_eq!(command(&["demo"]), Ok(Command::Demo(demo(Transport::Http))));
        assert_eq!(command(&["demo", "--grpc"]), Ok(Command::Demo(demo(Transport::Grpc))));
        assert_eq!(command(&["check", "a.toml"]), Ok(Command::Check(check("a.toml"))));
        assert_eq!(command(&["check", "--", "-a.toml"]), Ok(Command::Check(check("-a.toml"))));
        let quiet = check::Options { probing: Probing::Offline, form: Form::Json, ..check("a.toml") };
        assert_eq!(command(&["check", "--json", "a.toml", "--offline"]), Ok(Command::Check(quiet)));
        let environment = check::Options { subject: Subject::Environment, ..check("") };
        assert_eq!(command(&["check", "--env"]), Ok(Command::Check(environment)));
        assert!(matches!(command(&["init"]), Ok(Command::Init(_))));
        assert!(matches!(command(&["init", "env", "a.env"]), Ok(Command::Init(_))));
        assert_eq!(command(&["spool", "a"]), Ok(Command::Spool("a".into())));
        let drain =
            |target, timeout| Ok(Command::Drain(drain::Options { directory: "a".into(), target, timeout }));
        assert_eq!(command(&["drain", "a", "--to-stdout"]), drain(Target::Stdout, None));
        let collector = Target::Collector {
            transport: Transport::Grpc,
            endpoint: "http://b".to_owned(),
            headers: vec![("key".to_owned(), "x=y".to_owned())],
        };
        let words = ["drain", "a", "--endpoint", "http://b", "--grpc", "--header", "key=x=y", "--timeout=5m"];
        assert_eq!(command(&words), drain(collector, Some(Duration::from_secs(300))));
        assert_eq!(command(&["--version"]), Ok(Command::Version));
        assert_eq!(command(&["-V"]), Ok(Command::Version));
    }

    #[test]
    fn receive_listens_where_it_is_told_and_else_where_otlp_is_expected() {
        let receive = |http: &str, grpc: &str| {
            let parse = |address: &str| address.parse().expect("an address");
            let addresses = receive::Addresses { http: parse(http), grpc: parse(grpc), page: None };
            let view = view::Options { form: None, full: false, filter: Filter::default() };
            Ok(Command::Receive(receive::Options { addresses, view, save: None }))
        };
        assert_eq!(command(&["receive"]), receive("127.0.0.1:4318", "127.0.0.1:4317"));
        assert_eq!(command(&["receive", "--address", "[::1]:80"]), receive("[::1]:80", "[::1]:4317"));
        assert_eq!(command(&["receive", "--address", "localhost:0"]), receive("127.0.0.1:0", "127.0.0.1:0"));
        assert_eq!(
            command(&["--grpc-address=127.0.0.1:0", "receive"]),
            receive("127.0.0.1:4318", "127.0.0.1:0")
        );
    }

    #[test]
    fn the_options_that_are_taken_are_those_that_help_lists() {
        for (name, topic) in COMMANDS.into_iter().filter(|(_, topic)| !topic.is_given()) {
            let particular = RawArguments::default().particular();
            let taken =
                particular.iter().filter(|(_, owners, _)| owners.contains(&name)).map(|(option, ..)| *option);
            let mut taken: Vec<&str> = match topic {
                Topic::Overview => vec!["--color", "--ascii", "--help", "--version"],
                _ => taken.collect(),
            };
            let mut listed: Vec<&str> = topic.options().iter().map(|option| option.long).collect();
            assert!(taken.iter().all(|option| OPTIONS.contains(option)), "{taken:?}");
            taken.sort_unstable();
            listed.sort_unstable();
            assert_eq!(taken, listed, "{name}");
        }
    }

    #[test]
    fn help_is_found_wherever_it_is_looked_for() {
        assert_eq!(command(&["--help"]), Ok(Command::Help(Topic::Overview)));
        assert_eq!(command(&["help"]), Ok(Command::Help(Topic::Overview)));
        assert_eq!(command(&["help", "check"]), Ok(Command::Help(Topic::Check)));
        assert_eq!(command(&["check", "-h"]), Ok(Command::Help(Topic::Check)));
        assert_eq!(command(&["init", "env", "--help"]), Ok(Command::Help(Topic::Init)));
        assert_eq!(command(&["--help", "demo"]), Ok(Command::Help(Topic::Demo)));
    }

    #[test]
    fn drawing_options_stand_before_or_after_the_command() {
        for words in [["--color", "always", "--ascii", "demo"], ["demo", "--ascii", "--color", "always"]] {
            let arguments = parsed(&words).expect("it parses");
            assert_eq!(
                arguments,
                Arguments {
                    command: Command::Demo(demo::Options { transport: Transport::Http, page: None }),
                    color: ColorChoice::Always,
                    ascii: true
                }
            );
        }
    }

    #[test]
    fn mistakes_are_named_and_mended() {
        let cases: [(&[&str], &str); 39] = [
            (&[], "no command given"),
            (&["recieve"], "unknown command \"recieve\"; did you mean \"receive\"?"),
            (
                &["help", "frobnicate"],
                "unknown command \"frobnicate\"; there are demo, receive, show, check, init, exec, span, log, \
                 metric, spool, drain, completions, man, help",
            ),
            (&["receive", "--port", "9"], "unknown option \"--port\"; write --address 127.0.0.1:PORT"),
            (
                &["drain", "a", "--endpoint", "foo:bar"],
                "--endpoint: \"***\" has an invalid port; write 1 to 65535, usually 4318",
            ),
            (&["help", "chekc"], "unknown command \"chekc\"; did you mean \"check\"?"),
            (&["demo", "--colour", "never"], "unknown option \"--colour\"; did you mean \"--color\"?"),
            (&["demo", "-x"], "unknown option \"-x\""),
            (
                &["--endpoint", "http://a", "log", "hi"],
                "--endpoint goes behind log: standpipe log --endpoint ...",
            ),
            (&["receive", "--save"], "missing argument for option '--save'"),
            (&["exec", "--naem", "a", "b"], "unknown option \"--naem\"; did you mean \"--name\"?"),
            (&["demo", "now"], "unexpected argument \"now\""),
            (&["check"], "check needs a FILE or --env"),
            (&["check", ""], "check needs a FILE or --env"),
            (&["check", "a", "--env"], "check takes a FILE or --env, not both"),
            (&["check", "a", "--ofline"], "unknown option \"--ofline\"; did you mean \"--offline\"?"),
            (&["demo", "--env"], "--env is an option of check only"),
            (&["check", "a", "--grpc"], "--grpc is an option of demo and drain only"),
            (&["spool"], "spool needs a DIR"),
            (&["drain", "a"], "drain needs an --endpoint URL, or --to-stdout"),
            (
                &["drain", "a", "--to-stdout", "--endpoint", "b"],
                "drain takes --endpoint or --to-stdout, not both",
            ),
            (&["drain", "a", "--to-stdout", "--grpc"], "--grpc and --header are for an --endpoint"),
            (&["drain", "a", "--header", "secret"], "--header: write NAME=VALUE"),
            (&["drain", "a", "--timeout", "5d"], "--timeout \"5d\": write a time, as 30s or 5m"),
            (&["demo", "--json"], "--json is an option of check and receive and show only"),
            (&["demo", "--min", "1s"], "--min is an option of receive and show only"),
            (&["show", "a", "--save", "b"], "--save is an option of receive only"),
            (&["show"], "show needs a FILE, or - for standard input"),
            (&["show", "a", "--flat", "--json"], "write one of --tree, --flat and --json"),
            (&["receive", "--service="], "--service: write a name"),
            (&["receive", "--min", "100"], "--min \"100\": write a time, as 100ms or 1.5s"),
            (&["check", "a", "--stdout"], "--stdout is an option of init only"),
            (&["init", "env", "a", "b"], "unexpected argument \"b\""),
            (&["check", "a", "b"], "unexpected argument \"b\""),
            (&["demo", "--color", "pink"], "--color \"pink\": write auto, always or never"),
            (&["demo", "--address", "127.0.0.1:0"], "--address is an option of receive only"),
            (
                &["receive", "--address", "4318"],
                "--address \"4318\": write an IP address and a port, as 127.0.0.1:4318",
            ),
            (&["demo", "--grpc-address", "127.0.0.1:0"], "--grpc-address is an option of receive only"),
            (
                &["receive", "--grpc-address", "4317"],
                "--grpc-address \"4317\": write an IP address and a port, as 127.0.0.1:4317",
            ),
        ];
        for (words, message) in cases {
            assert_eq!(command(words), Err(message.to_owned()), "{words:?}");
        }
        assert!(command(&[&"x".repeat(1_000_000)]).is_err());
    }
}
