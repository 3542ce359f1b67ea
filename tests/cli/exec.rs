//! `standpipe exec`: the command behaves as it does alone, and its span arrives.

#![cfg(unix)]

use std::ffi::CStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use standpipe::receiver::{Answer, ReceivedSpan, Receiver};
use standpipe::{SpanKind, Status};

use crate::support::command::{finish, standpipe, stderr, stdout};
use crate::support::scene::closed_endpoint;
use crate::support::scratch::Scratch;
use crate::support::stubborn::Unanswered;
use crate::support::tls::{TestCa, TlsFront};
use crate::support::{size_within, skip};

const PATIENCE: Duration = Duration::from_secs(20);
/// Extra time for a process on a busy machine, beyond its budget.
const SLACK: Duration = Duration::from_secs(5);
/// Longer than any delivery takes.
const LONG: &str = "60s";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Returns `standpipe exec` that sends to the receiver, with a timeout that suffices on any machine.
fn exec(receiver: &Receiver, arguments: &[&str]) -> Command {
    let mut command = standpipe(&[&["exec", "--timeout", LONG], arguments].concat());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()).env_remove("BAGGAGE");
    heed_signals(&mut command);
    command
}

/// Resets signals to their defaults. The program that started the tests may ignore some, for example `nohup` or a shell
/// with a background job.
#[allow(unsafe_code, reason = "std sets no dispositions")]
pub(crate) fn heed_signals(command: &mut Command) {
    let heed = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2]
        {
            // SAFETY: may be called between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure does nothing else.
    unsafe { command.pre_exec(heed) };
}

/// Runs the command. Returns its output and the only received span.
fn recorded(arguments: &[&str]) -> (Output, ReceivedSpan) {
    let receiver = Receiver::start().unwrap();
    let output = finish(&mut exec(&receiver, arguments));
    let mut spans = receiver.spans();
    assert_eq!(spans.len(), 1, "{output:?}");
    (output, spans.remove(0))
}

fn text(span: &ReceivedSpan, key: &str) -> String {
    span.attribute(key).as_str().unwrap_or_default().to_owned()
}

/// The complete scripts of the guide, in its order.
fn guide_scripts() -> Vec<&'static str> {
    let guide = include_str!("../../src/guide/shell.md");
    let blocks = guide.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    blocks.filter(|block| block.starts_with("#!/bin/sh\n")).collect()
}

/// Runs a script with `exec`. In the script, `standpipe` is the command under test, with the timeout of `exec`.
fn run_script(receiver: &Receiver, name: &str, script: &str) -> Output {
    let scratch = Scratch::new();
    let script = scratch.write(name, script);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let command = env!("CARGO_BIN_EXE_standpipe");
    let standpipe = format!(
        "#!/bin/sh\nstep=$1\nshift\n\
         case \"$step $1\" in\n\
         'span end') shift; exec '{command}' span end --timeout {LONG} \"$@\" ;;\n\
         'span '*) exec '{command}' span \"$@\" ;;\n\
         esac\n\
         exec '{command}' \"$step\" --timeout {LONG} \"$@\"\n"
    );
    let standpipe = scratch.write("standpipe", standpipe);
    fs::set_permissions(&standpipe, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", scratch.path().display(), env::var("PATH").unwrap());
    let mut command = exec(receiver, &["--", script.to_str().unwrap()]);
    finish(command.env("PATH", path).env("TMPDIR", scratch.path()))
}

#[test]
fn the_nested_script_of_the_guide_gives_one_tree() {
    let receiver = Receiver::start().unwrap();
    let output = run_script(&receiver, "release.sh", guide_scripts()[0]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let trace = receiver.only_trace();
    trace.assert_tree("release.sh\n  build\n    compile\n    link\n  test");
    assert!(trace.root().parent_id().is_none());
    assert_eq!(trace.span("compile").parent_id(), Some(trace.span("build").span_id()));
}

#[test]
fn the_span_file_of_the_guide_holds_a_script_together_however_it_ends() {
    let [_, script] = guide_scripts()[..] else { panic!("the guide has two scripts") };
    let failing = script.replace("migrate -- true", "migrate -- sh -c 'exit 4'");
    let ended_by = |end: &str| format!("{script}{end}");
    for (script, code) in
        [(ended_by(""), 0), (ended_by("exit 3\n"), 3), (ended_by("kill -TERM $$\n"), 143), (failing, 4)]
    {
        let receiver = Receiver::start().unwrap();
        let output = run_script(&receiver, "deploy.sh", &script);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(code), ""));
        let trace = receiver.only_trace();
        trace.assert_tree("deploy.sh\n  deploy\n    migrate");
        let deploy = trace.span("deploy");
        let message = format!("exit code {code}");
        assert_eq!(deploy.status(), (code != 0).then_some(Status::Error(&message)));
        // The steps after a failed one are not run.
        let is_whole = usize::from(code != 4);
        assert_eq!((deploy.events().len(), deploy.logs().len()), (is_whole, is_whole));
        assert_eq!(receiver.point_count(), is_whole as u64);
    }
}

#[test]
fn a_link_called_standpipe_exec_runs_what_follows_it() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    let link = scratch.path().join("standpipe-exec");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_standpipe"), &link).unwrap();
    let mut command = Command::new(link);
    crate::support::command::forget_surroundings(&mut command);
    command.args(["sh", "-c", "echo $0 $1 ${TRACEPARENT:+in a span}; exit 3", "--name", "x"]);
    let output = finish(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()));
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(3), "--name x in a span\n"));
}

#[test]
fn it_ends_as_the_command_does_and_records_how() {
    for (script, code, signal) in [
        ("exit 0", 0, ""),
        ("exit 3", 3, ""),
        ("kill -INT $$", 130, "SIGINT"),
        ("kill -TERM $$", 143, "SIGTERM"),
        ("kill -KILL $$", 137, "SIGKILL"),
        // The shell must not write a core file.
        ("ulimit -c 0; kill -ABRT $$", 134, "SIGABRT"),
    ] {
        let (output, span) = recorded(&["--", "sh", "-c", script]);
        let by_signal = !signal.is_empty() && signal != "SIGABRT";
        assert_eq!(output.status.signal(), by_signal.then_some(code - 128), "{script}");
        assert_eq!(output.status.code(), (!by_signal).then_some(code), "{script}");
        assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()), "{script}");
        assert_eq!(span.attribute("process.exit.code").as_i64(), Some(i64::from(code)));
        assert_eq!(text(&span, "process.exit.signal"), signal);
        assert_eq!(matches!(span.status(), Some(Status::Error(_))), code != 0, "{script}");
        assert!(span.attribute("process.pid").as_i64().unwrap() > 0);
        assert!(span.attribute("process.cpu.time.user").as_f64().is_some());
        assert_eq!((span.name(), span.kind()), ("sh", SpanKind::Client));
    }
}

#[test]
fn a_command_that_cannot_be_started_is_reported_as_a_shell_does() {
    let scratch = Scratch::new();
    let file = scratch.write("data", "no program");
    let file = file.to_str().unwrap();
    for (program, code, reason) in
        [("no-such-command", 127, "command not found"), (file, 126, "Permission denied")]
    {
        let (output, span) = recorded(&["--", program]);
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(stderr(&output), format!("standpipe: {program}: {reason}\n"));
        assert_eq!(span.status(), Some(Status::Error(reason)));
        assert_eq!(span.attribute("process.exit.code").as_i64(), Some(i64::from(code)));
    }
}

#[test]
fn peak_memory_and_processor_time_are_those_of_the_command() {
    // The script builds a variable of 64 MiB by doubling.
    let script = "a=0123456789abcdef; i=0; while [ $i -lt 22 ]; do a=$a$a; i=$((i+1)); done; exit 0";
    let (_, span) = recorded(&["--", "sh", "-c", script]);
    assert!(span.attribute("process.memory.max_rss").as_i64().unwrap() > 64 << 20, "{span:?}");
    assert!(span.attribute("process.cpu.time.user").as_f64().unwrap() > 0.0);
}

/// A running `exec` whose output is read line by line.
struct Running {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        Self { lines: lines_of(process.stdout.take().unwrap()), process }
    }

    fn next_line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line comes in time")
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([format!("-{name}"), self.process.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }
}

impl Drop for Running {
    /// Ends the command, even if the test has failed.
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.signal("TERM");
            let _ = self.lines.iter().find(|line| line == "TERM");
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn lines_of(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

/// A script that prints the name of each signal at once, and ends at SIGTERM or after a while.
const REPORT_SIGNALS: &str = "for name in HUP INT USR1 USR2 WINCH; do trap \"echo $name\" $name; done\n\
    sleep 120 >/dev/null 2>&1 & trap 'kill $!; echo TERM; exit 7' TERM; echo ready\n\
    while kill -0 $! 2>/dev/null; do wait $!; done";

#[test]
fn a_signal_reaches_the_command_once() {
    let receiver = Receiver::start().unwrap();
    let mut running = Running::start(&mut exec(&receiver, &["--", "sh", "-c", REPORT_SIGNALS]));
    assert_eq!(running.next_line(), "ready");
    // Each signal is answered before the next one is sent, so a second delivery would be seen in between.
    for name in ["USR1", "HUP", "WINCH", "USR2", "USR1", "HUP", "TERM"] {
        running.signal(name);
        assert_eq!(running.next_line(), name);
    }
    assert_eq!(running.process.wait().unwrap().code(), Some(7));
    assert!(running.lines.recv_timeout(PATIENCE).is_err(), "nothing was printed twice");
    assert_eq!(receiver.spans()[0].attribute("process.exit.code").as_i64(), Some(7));
}

#[test]
fn ctrl_c_of_a_terminal_reaches_the_command_once() {
    let receiver = Receiver::start().unwrap();
    let (mut keyboard, terminal) = pseudo_terminal();
    let mut command = exec(&receiver, &["--", "sh", "-c", REPORT_SIGNALS]);
    command.stdin(terminal);
    lead_session(&mut command);
    let mut running = Running::start(&mut command);
    assert_eq!(running.next_line(), "ready");
    // The kernel merges a signal with a pending one, so a second delivery is not always visible. Hence several rounds.
    for _ in 0..10 {
        keyboard.write_all(b"\x03").unwrap();
        assert_eq!(running.next_line(), "INT");
        // If the INT was delivered twice, the next line is INT instead of USR1.
        running.signal("USR1");
        assert_eq!(running.next_line(), "USR1");
    }
    running.signal("TERM");
    assert_eq!(running.next_line(), "TERM");
    assert_eq!(running.process.wait().unwrap().code(), Some(7));
}

#[test]
fn the_hang_up_of_a_terminal_reaches_the_command_through_the_leader_of_the_session() {
    let receiver = Receiver::start().unwrap();
    let (keyboard, terminal) = pseudo_terminal();
    let mut command = exec(&receiver, &["--", "sh", "-c", REPORT_SIGNALS]);
    command.stdin(terminal);
    lead_session(&mut command);
    let mut running = Running::start(&mut command);
    assert_eq!(running.next_line(), "ready");
    drop((command, keyboard));
    assert_eq!(running.next_line(), "HUP");
    running.signal("TERM");
    assert_eq!(running.next_line(), "TERM");
    assert_eq!(running.process.wait().unwrap().code(), Some(7));
}

#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_reaches_a_command_in_a_session_of_its_own() {
    let receiver = Receiver::start().unwrap();
    let (mut keyboard, terminal) = pseudo_terminal();
    let mut command = exec(&receiver, &["--", "setsid", "sh", "-c", REPORT_SIGNALS]);
    command.stdin(terminal);
    lead_session(&mut command);
    let mut running = Running::start(&mut command);
    assert_eq!(running.next_line(), "ready");
    keyboard.write_all(b"\x03").unwrap();
    assert_eq!(running.next_line(), "INT");
    running.signal("TERM");
    assert_eq!(running.next_line(), "TERM");
    assert_eq!(running.process.wait().unwrap().code(), Some(7));
}

#[test]
fn a_signal_ends_the_delivery_after_the_command() {
    for program in ["true", "no-such-command"] {
        let receiver = Receiver::start().unwrap();
        receiver.always(Answer::hang());
        let mut running = Running::start(&mut exec(&receiver, &["--timeout", "60s", "--", program]));
        let began = Instant::now();
        while receiver.request_count() == 0 {
            assert!(began.elapsed() < PATIENCE, "no request");
            thread::park_timeout(Duration::from_millis(1));
        }
        running.signal("TERM");
        assert_eq!(running.process.wait().unwrap().signal(), Some(libc::SIGTERM), "{program}");
        assert!(began.elapsed() < PATIENCE + SLACK);
    }
}

#[test]
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "std sets no dispositions")]
fn a_caller_that_ignores_the_end_of_its_children_has_the_command_do_so_and_learns_how_it_ended() {
    let receiver = Receiver::start().unwrap();
    let mut command = exec(&receiver, &["--", "grep", "^SigIgn:", "/proc/self/status"]);
    let ignore = || {
        // SAFETY: may be called between fork and exec.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        Ok(())
    };
    // SAFETY: the closure does nothing else.
    unsafe { command.pre_exec(ignore) };
    let output = finish(&mut command);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let ignored = u64::from_str_radix(stdout(&output).trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert!(ignored & 1 << (libc::SIGCHLD - 1) != 0, "{ignored:x}");
    assert_eq!(receiver.spans()[0].attribute("process.exit.code").as_i64(), Some(0));
}

#[test]
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "std sets no dispositions")]
fn command_inherits_whether_sigpipe_is_ignored() {
    for (disposition, is_ignored) in [(libc::SIG_IGN, true), (libc::SIG_DFL, false)] {
        let receiver = Receiver::start().unwrap();
        let mut command = exec(&receiver, &["--", "grep", "^SigIgn:", "/proc/self/status"]);
        let set = move || {
            // SAFETY: may be called between fork and exec.
            unsafe { libc::signal(libc::SIGPIPE, disposition) };
            Ok(())
        };
        // SAFETY: the closure does nothing else.
        unsafe { command.pre_exec(set) };
        let output = finish(&mut command);
        let ignored = u64::from_str_radix(stdout(&output).trim_start_matches("SigIgn:").trim(), 16).unwrap();
        assert_eq!(ignored & 1 << (libc::SIGPIPE - 1) != 0, is_ignored, "{ignored:x}");
    }
}

/// Opens a pseudo-terminal. Returns the side of the keyboard and the side of the programs.
#[allow(unsafe_code, reason = "std opens no terminals")]
pub(crate) fn pseudo_terminal() -> (fs::File, OwnedFd) {
    // `ptsname` returns a buffer that all threads share.
    static NAMING: Mutex<()> = Mutex::new(());
    // No child may inherit the master end of the pseudo-terminal: the terminal hangs up when the last descriptor of
    // this end is closed.
    // SAFETY: the call has no preconditions.
    let keyboard = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) };
    assert!(keyboard >= 0, "{}", std::io::Error::last_os_error());
    let naming = NAMING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: `keyboard` was just opened, and the name is copied before another thread asks for a name.
    let name = unsafe {
        assert_eq!((libc::grantpt(keyboard), libc::unlockpt(keyboard)), (0, 0));
        CStr::from_ptr(libc::ptsname(keyboard)).to_str().unwrap().to_owned()
    };
    drop(naming);
    let mut terminal = fs::OpenOptions::new();
    let terminal = terminal.read(true).write(true).custom_flags(libc::O_NOCTTY).open(name).unwrap();
    // SAFETY: `keyboard` was just opened, and nothing else owns it.
    (unsafe { fs::File::from_raw_fd(keyboard) }, terminal.into())
}

/// Makes the command the leader of a session whose terminal is its standard input.
#[allow(unsafe_code, reason = "std starts no sessions")]
fn lead_session(command: &mut Command) {
    let begin = || {
        // SAFETY: both functions may be called between fork and exec.
        let done = unsafe { libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY as _, 0) == 0 };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the closure does nothing else.
    unsafe { command.pre_exec(begin) };
}

#[test]
fn a_command_that_runs_too_long_is_ended_and_its_span_says_so() {
    let (output, span) = recorded(&["--command-timeout", "100ms", "--", "sleep", "60"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(124), String::new()));
    assert_eq!(stderr(&output), "standpipe: timed out after 100ms\n");
    assert_eq!(span.status(), Some(Status::Error("timed out after 100ms")));
    assert_eq!(
        (text(&span, "error.type"), text(&span, "process.exit.signal")),
        ("timeout".into(), "SIGTERM".into())
    );
    assert_eq!(span.attribute("process.exit.code"), 124);

    // A command that ends in time is not affected, whatever its exit code is.
    let (output, span) = recorded(&["--command-timeout", LONG, "--", "sh", "-c", "exit 3"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(3), String::new()));
    assert_eq!(text(&span, "error.type"), "3");
}

#[test]
fn the_files_of_the_tls_options_replace_those_of_the_environment() {
    let (ca, folder, receiver) = (TestCa::new(), Scratch::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    let certificate = folder.write("ca.pem", ca.pem());
    let endpoint = format!("https://localhost:{}", front.address().port());
    let options =
        ["--endpoint", &endpoint, "--ca-file", certificate.to_str().unwrap(), "--fail", "--", "true"];
    let output = finish(exec(&receiver, &options).env("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/nowhere"));
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert_eq!(receiver.span_count(), 1);

    // The name of the option is in the message, and the command runs nevertheless.
    let output = finish(&mut exec(&receiver, &["--ca-file", "/nowhere", "--fail", "--", "echo", "done"]));
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), "done\n".to_owned()));
    assert!(stderr(&output).contains("--ca-file: cannot read file"), "{}", stderr(&output));
}

#[test]
fn a_collector_that_is_of_no_use_delays_by_no_more_than_the_budget_and_changes_nothing() {
    let hanging = Receiver::start().unwrap();
    hanging.always(Answer::hang());
    let unanswered = Unanswered::start();
    let down_endpoint = closed_endpoint();
    for endpoint in [&hanging.endpoint(), &unanswered.url(), &down_endpoint, "http://no-such-host.invalid"] {
        let began = Instant::now();
        let arguments = ["exec", "--endpoint", endpoint, "--timeout", "200ms", "--", "sh", "-c", "exit 3"];
        let output = finish(&mut standpipe(&arguments));
        assert!(began.elapsed() < Duration::from_millis(200) + SLACK, "{endpoint}: {:?}", began.elapsed());
        assert_eq!(output.status.code(), Some(3), "{endpoint}");
        assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()), "{endpoint}");
    }
    let arguments = ["exec", "--endpoint", &down_endpoint, "--timeout", LONG, "--fail", "--", "true"];
    let output = finish(&mut standpipe(&arguments));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("standpipe: 1 record not delivered: "), "{}", stderr(&output));
    assert!(stderr(&output).contains("try: standpipe receive"), "{}", stderr(&output));
}

#[test]
fn a_configuration_that_cannot_be_used_is_silent_unless_asked_about() {
    let run = |arguments: &[&str]| {
        let arguments = [&["exec"], arguments, &["--", "sh", "-c", "exit 3"]].concat();
        let mut command = standpipe(&arguments);
        finish(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://collector"))
    };
    let output = run(&[]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(3), String::new()));
    let output = run(&["--verbose"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{}", stderr(&output));
}

#[test]
fn a_warning_is_not_given_as_the_reason_of_a_failed_delivery() {
    let variables = [("OTEL_ENTITIES", "x"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://collector")];
    let run = |option: &str| stderr(&finish(standpipe(&["exec", option, "--", "true"]).envs(variables)));
    let error =
        "OTEL_EXPORTER_OTLP_ENDPOINT: \"ftp://***\" has an unknown scheme; write http:// or https://\n";
    assert_eq!(run("--fail"), format!("standpipe: nothing was sent: {error}"));
    // With `--verbose`, both the warning and the error are reported, each once.
    let reported = run("--verbose");
    assert_eq!(reported.matches("warning: OTEL_ENTITIES: ").count(), 1, "{reported}");
    assert_eq!(reported.matches(error).count(), 1, "{reported}");
}

#[test]
fn records_the_command_line_only_with_args_and_then_unchanged() {
    let script = "true --api-key s3cr3t \"Cookie: a=s3cr3t\"";
    let options = ["--verbose", "--log-output", "--header", "api-key=s3cr3t"];
    for command in [&["/bin/true", "API_KEY2=s3cr3t", "-su", "me:s3cr3t"][..], &["sh", "-ec", script]] {
        let receiver = Receiver::start().unwrap();
        let output = finish(&mut exec(&receiver, &[&options[..], &["--"], command].concat()));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let [span] = &receiver.spans()[..] else { panic!("one span: {output:?}") };
        let arrived = format!("{span:?}{:?}", receiver.logs());
        assert!(!arrived.contains("s3cr3t") && !arrived.contains("command_args"), "{arrived}");
        assert!(!stderr(&output).contains("s3cr3t"), "{}", stderr(&output));
        assert_eq!(text(span, "process.executable.name"), span.name());

        let (_, span) = recorded(&[&["--args", "--"], command].concat());
        let arguments = span.attribute("process.command_args");
        let arguments: Vec<_> =
            arguments.items().iter().map(|item| item.as_str().unwrap().to_owned()).collect();
        assert_eq!(arguments, command);
        assert_eq!(span.name(), if command.len() == 3 { script } else { "true" });
    }
}

#[test]
fn nested_commands_inherit_the_service_of_the_option_and_other_programs_do_not() {
    let receiver = Receiver::start().unwrap();
    let script = "\"$0\" exec --timeout 60s -n inner -- sh -c 'echo $OTEL_SERVICE_NAME'\n\
                  \"$0\" exec --timeout 60s -n own -s own true";
    let arguments = ["-s", "ci", "-n", "outer", "--", "sh", "-c", script, env!("CARGO_BIN_EXE_standpipe")];
    let output = finish(exec(&receiver, &arguments).env("OTEL_SERVICE_NAME", "shop"));
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("shop\n", ""));
    let trace = receiver.only_trace();
    trace.assert_tree("outer\n  inner\n  own");
    for (name, service) in [("outer", "ci"), ("inner", "ci"), ("own", "own")] {
        assert_eq!(trace.span(name).service_name(), service, "{name}");
    }
}

/// In a container, orphans become children of the first process, which must reap them.
#[test]
#[cfg(target_os = "linux")]
fn reaps_orphans_as_the_first_process() {
    let unshare = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).args(arguments).stdin(Stdio::null());
        crate::support::command::forget_surroundings(&mut command);
        command
    };
    if !unshare(&["true"]).output().is_ok_and(|output| output.status.success()) {
        return skip("unshare cannot make a namespace for processes here");
    }
    let receiver = Receiver::start().unwrap();
    // An ended process can be signaled until it is reaped.
    let script = "orphan=$(sh -c 'sleep 0.1 >/dev/null & echo $!'); tries=0\n\
                  while kill -0 $orphan 2>/dev/null; do\n\
                  tries=$((tries + 1)); [ $tries -lt 200 ] || exit 9; sleep 0.1\n\
                  done; exit 3";
    let mut command = unshare(&[env!("CARGO_BIN_EXE_standpipe"), "exec", "--timeout", LONG]);
    command.args(["--", "sh", "-c", script]).env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint());
    let output = finish(&mut command);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(3), ""));
    assert_eq!(receiver.spans()[0].attribute("process.exit.code").as_i64(), Some(3));
}

#[test]
#[cfg(target_os = "linux")]
fn threads_that_log_output_block_the_forwarded_signals() {
    let receiver = Receiver::start().unwrap();
    let arguments = ["--log-output", "--", "sh", "-c", REPORT_SIGNALS];
    let mut running = Running::start(&mut exec(&receiver, &arguments));
    assert_eq!(running.next_line(), "ready");
    let tasks = format!("/proc/{}/task", running.process.id());
    let statuses = || {
        let tasks = fs::read_dir(&tasks).unwrap().map(|task| task.unwrap().path().join("status"));
        let statuses = tasks.filter_map(|status| fs::read_to_string(status).ok());
        statuses.filter(|status| status.starts_with("Name:\tstandpipe-std")).collect::<Vec<_>>()
    };
    // Threads set their own names after they have started.
    let began = Instant::now();
    while statuses().len() < 2 {
        assert!(began.elapsed() < PATIENCE, "there is no thread for each stream");
        thread::park_timeout(Duration::from_millis(1));
    }
    for status in statuses() {
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
        let blocked = u64::from_str_radix(blocked, 16).unwrap();
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGWINCH] {
            assert!(blocked & 1 << (signal - 1) != 0, "signal {signal}: {status}");
        }
    }
    running.signal("TERM");
    assert_eq!(running.next_line(), "TERM");
    assert_eq!(running.process.wait().unwrap().code(), Some(7));
}

#[test]
fn output_passes_through_byte_for_byte_and_its_lines_are_logs_of_the_span() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    let bytes: Vec<u8> =
        (0..=255_u8).cycle().take(100_000).chain(*b"\nthe end, without a line end").collect();
    let file = scratch.write("bytes", &bytes);
    let file = file.to_str().unwrap();
    for option in ["--log-output", "--args"] {
        let arguments = [option, "--", "sh", "-c", "cat \"$0\"; cat \"$0\" >&2", file];
        let output = finish(&mut exec(&receiver, &arguments));
        assert!(output.stdout == bytes && output.stderr == bytes, "{option}");
    }
    let trace_id = receiver.spans()[0].trace_id();
    let logs = receiver.logs();
    let last = |stream: &str| {
        let mut of_stream = logs.iter().filter(|log| log.attribute("log.iostream").as_str() == Some(stream));
        of_stream.next_back().unwrap()
    };
    for stream in ["stdout", "stderr"] {
        assert_eq!(last(stream).body().as_str(), Some("the end, without a line end"));
        assert_eq!(last(stream).trace_id(), Some(trace_id));
        assert_eq!(last(stream).span_id(), Some(receiver.spans()[0].span_id()));
    }
}

#[test]
fn a_process_that_the_command_leaves_behind_does_not_hold_up_the_end() {
    let receiver = Receiver::start().unwrap();
    let began = Instant::now();
    let script = "sleep 60 & echo $!; echo unfinished >&2";
    let output = finish(&mut exec(&receiver, &["--log-output", "--", "sh", "-c", script]));
    let left = stdout(&output);
    assert!(Command::new("kill").arg(left.trim()).status().unwrap().success());
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), "unfinished\n"));
    assert_eq!(receiver.log_count(), 2);
}

#[test]
fn output_that_is_not_read_does_not_hold_up_the_end() {
    let receiver = Receiver::start().unwrap();
    let (unread, output) = UnixStream::pair().unwrap();
    drop(unread);
    let began = Instant::now();
    let script = "sleep 60 & echo $! >&2; echo unread";
    let mut command = exec(&receiver, &["--log-output", "--", "sh", "-c", script]);
    let process = command.stdout(OwnedFd::from(output)).stderr(Stdio::piped()).spawn().unwrap();
    let output = process.wait_with_output().unwrap();
    let _ = Command::new("kill").arg(stderr(&output).trim()).stderr(Stdio::null()).status();
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn without_a_thread_for_its_output_the_command_runs_as_it_does_alone() {
    let receiver = Receiver::start().unwrap();
    let script = "echo one; echo two >&2; exit 3";
    let mut command = exec(&receiver, &["--log-output", "-v", "--", "sh", "-c", script]);
    // Larger than any possible stack, so that no thread can be started.
    let output = finish(command.env("RUST_MIN_STACK", (usize::MAX / 8 * 7).to_string()));
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), "one\n"));
    let stderr = stderr(&output);
    assert!(stderr.contains("\nstandpipe: the output of the command is not logged: "), "{stderr}");
    assert!(stderr.ends_with("\ntwo\n"), "{stderr}");
}

#[test]
fn no_line_of_a_fast_command_is_lost() {
    let receiver = Receiver::start().unwrap();
    let lines = size_within(5000..=20_000);
    let script = format!("i=0; while [ $i -lt {lines} ]; do echo $i; i=$((i+1)); done");
    let output = finish(&mut exec(&receiver, &["--log-output", "--", "sh", "-c", &script]));
    assert_eq!(stdout(&output).lines().count(), lines as usize);
    assert_eq!(receiver.log_count(), u64::from(lines));
}

#[test]
fn standard_input_is_the_command_s() {
    let receiver = Receiver::start().unwrap();
    let mut command = exec(&receiver, &["--", "cat"]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(b"a\0b").unwrap();
    assert_eq!(process.wait_with_output().unwrap().stdout, b"a\0b");
}

#[test]
fn the_context_of_the_caller_is_passed_on() {
    let receiver = Receiver::start().unwrap();
    let print = ["--", "sh", "-c", "echo $TRACEPARENT $TRACESTATE $BAGGAGE"];
    let run = |parent: &str| {
        let mut command = exec(&receiver, &print);
        command.env("TRACEPARENT", parent).env("TRACESTATE", "a=1").env("BAGGAGE", "user=7;p, odd");
        stdout(&finish(&mut command)).trim_end().to_owned()
    };
    let printed = run(PARENT);
    let span = &receiver.spans()[0];
    assert_eq!(format!("{}", span.trace_id()), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(span.parent_id().map(|id| id.to_string()).as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(printed, format!("00-{}-{}-01 a=1 user=7;p, odd", span.trace_id(), span.span_id()));

    // The caller is not sampled, so the span is not recorded, and the command inherits the unsampled context.
    let printed = run(&PARENT.replace("-01", "-00"));
    assert!(printed.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{printed}");
    assert!(printed.ends_with("-00 a=1 user=7;p, odd"), "{printed}");
    assert_eq!(receiver.span_count(), 1);

    // A tracestate without a traceparent is ignored and not inherited.
    let printed = run("");
    assert!(printed.ends_with("-03 user=7;p, odd"), "{printed}");
}

#[test]
fn the_selected_propagators_read_and_write_the_variables() {
    let receiver = Receiver::start().unwrap();
    let print =
        ["--", "sh", "-c", "echo $TRACEPARENT/$B3/$X_B3_TRACEID/$X_B3_SPANID/$X_B3_SAMPLED/$X_B3_FLAGS"];
    let run = |selection: &str, variables: &[(&str, &str)]| {
        let mut command = exec(&receiver, &print);
        command.env("OTEL_PROPAGATORS", selection).envs(variables.iter().copied());
        let printed = stdout(&finish(&mut command)).trim_end().to_owned();
        let span = receiver.spans().pop().unwrap();
        (printed, span.trace_id().to_string(), span.span_id().to_string(), span.parent_id().is_some())
    };
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let b3 = format!("{TRACE}-00f067aa0ba902b7-d");
    let (printed, trace, span, has_parent) = run("b3multi", &[("B3", &b3), ("X_B3_SAMPLED", "0")]);
    assert_eq!((printed, &*trace, has_parent), (format!("/{b3}/{TRACE}/{span}//1"), TRACE, true));
    let (printed, trace, span, has_parent) = run("b3,tracecontext", &[("TRACEPARENT", PARENT)]);
    assert_eq!(printed, format!("00-{TRACE}-{span}-01/{TRACE}-{span}-1////"));
    assert_eq!((&*trace, has_parent), (TRACE, true));
    // With `none`, standpipe reads no variables, and the command inherits them unchanged.
    let (printed, trace, _, has_parent) = run("none", &[("TRACEPARENT", PARENT), ("B3", &b3)]);
    assert_eq!((printed, has_parent), (format!("{PARENT}/{b3}////"), false));
    assert_ne!(trace, TRACE);
}

#[test]
fn one_shot_commands_have_no_instance_id_unless_the_user_sets_one() {
    let receiver = Receiver::start().unwrap();
    for attributes in ["team=a", "service.instance.id=7"] {
        let mut command = exec(&receiver, &["--", "true"]);
        finish(command.env("OTEL_RESOURCE_ATTRIBUTES", attributes));
    }
    let ids: Vec<_> =
        receiver.spans().iter().map(|span| text_of_resource(span, "service.instance.id")).collect();
    assert_eq!(ids, [None, Some("7".to_owned())]);
}

fn text_of_resource(span: &ReceivedSpan, key: &str) -> Option<String> {
    span.resource_attribute(key).as_str().map(str::to_owned)
}

#[test]
fn standard_output_is_the_command_s_though_the_console_is_chosen() {
    let mut command = standpipe(&["exec", "--", "echo", "value"]);
    let output =
        finish(command.env("OTEL_TRACES_EXPORTER", "console").env("OTEL_LOGS_EXPORTER", "otlp/stdout"));
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("value\n", Some(0)));
}

#[test]
fn what_stands_before_a_printed_context_stays_there() {
    let scratch = Scratch::new();
    let file = scratch.write("output", "one\n");
    let output = fs::OpenOptions::new().append(true).open(&file).unwrap();
    let mut command =
        standpipe(&["exec", "--timeout", "1ms", "--print-to", "/dev/stdout", "--", "echo", "two"]);
    assert!(command.stdout(output).status().unwrap().success());
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(matches!(lines[..], ["one", context, "two"] if context.starts_with("TRACEPARENT=")), "{text}");
}

#[test]
fn without_telemetry_the_caller_s_context_is_put_into_arguments() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut command = standpipe(&["exec", "--", "echo", "{{traceparent}}"]);
    let output = finish(command.env("OTEL_SDK_DISABLED", "true").env("TRACEPARENT", parent));
    assert_eq!(stdout(&output).trim(), parent);
}

#[test]
fn nothing_is_passed_on_where_nothing_is_recorded() {
    let mut command = standpipe(&["exec", "--", "sh", "-c", "echo \"[$TRACEPARENT]\""]);
    assert_eq!(stdout(&finish(command.env("OTEL_SDK_DISABLED", "true"))), "[]\n");
    assert_eq!(stdout(&finish(command.env("TRACEPARENT", PARENT))), format!("[{PARENT}]\n"));
}

#[test]
fn options_set_what_the_span_has() {
    let arguments =
        ["-n", "job", "-k", "consumer", "-s", "shop", "-a", "a=1", "-a", "b:=1", "-a", "c:=[true]"];
    let (_, span) = recorded(&[&arguments[..], &["--attr", "d:=1.5", "true"]].concat());
    assert_eq!((span.name(), span.kind(), span.service_name()), ("job", SpanKind::Consumer, "shop"));
    assert_eq!(text(&span, "a"), "1");
    assert_eq!(span.attribute("b").as_i64(), Some(1));
    assert_eq!(span.attribute("c").items()[0].as_bool(), Some(true));
    assert_eq!(span.attribute("d").as_f64(), Some(1.5));
}

#[test]
fn variables_of_otel_cli_are_used_where_options_say_nothing() {
    let receiver = Receiver::start().unwrap();
    let mut command = exec(&receiver, &["--", "sh", "-c", "exit 3"]);
    command.env("OTEL_CLI_TRACE_KIND", "odd").env("OTEL_CLI_ATTRIBUTES", "odd");
    assert_eq!(finish(&mut command).status.code(), Some(3), "a bad one is no reason not to run the command");
    receiver.take();
    let mut command = exec(&receiver, &["--attr", "b=3", "--", "true"]);
    command.env("OTEL_CLI_SPAN_NAME", "job").env("OTEL_CLI_ATTRIBUTES", "a=1,b=2");
    command.env("OTEL_CLI_SERVICE_NAME", "shop").env("OTEL_CLI_TRACE_KIND", "server");
    assert_eq!(finish(&mut command).status.code(), Some(0));
    let span = &receiver.spans()[0];
    assert_eq!((span.name(), span.kind(), span.service_name()), ("job", SpanKind::Server, "shop"));
    assert_eq!((text(span, "a"), text(span, "b")), ("1".to_owned(), "3".to_owned()));
}

#[test]
fn the_context_is_put_into_arguments_and_files_and_read_from_them() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    let file = scratch.path().join("context");
    let file = file.to_str().unwrap();
    let arguments = ["--print-to", file, "--", "echo", "{{traceparent}} {{trace_id}} {{span_id}}"];
    let output = finish(&mut exec(&receiver, &arguments));
    let first = &receiver.spans()[0];
    let (trace, span) = (first.trace_id(), first.span_id());
    let traceparent = format!("00-{trace}-{span}-03");
    assert_eq!(stdout(&output), format!("{traceparent} {trace} {span}\n"));
    assert_eq!(fs::read_to_string(file).unwrap(), format!("TRACEPARENT={traceparent}\n"));

    let output = finish(&mut exec(&receiver, &["--parent", file, "--print-to", "stderr", "--", "true"]));
    let second = &receiver.spans()[1];
    assert_eq!((second.trace_id(), second.parent_id()), (trace, Some(span)));
    assert_eq!(stderr(&output), format!("TRACEPARENT=00-{trace}-{}-03\n", second.span_id()));
}

#[test]
fn the_make_recipe_of_the_guide_names_each_span_after_its_line() {
    if Command::new("make").arg("--version").output().is_err() {
        return skip("there is no make here");
    }
    let guide = include_str!("../../src/guide/shell.md");
    let recipe = guide.lines().find(|line| line.starts_with("standpipe exec -- make ")).unwrap();
    let scratch = Scratch::new();
    let targets = ["one", "two", "three", "four", "five", "six"];
    let rules = targets.map(|target| format!("{target}:\n\t@echo {target}\n"));
    scratch.write("Makefile", format!("all: {}\n{}", targets.join(" "), rules.concat()));
    let receiver = Receiver::start().unwrap();
    let script =
        format!("#!/bin/sh\nunset MAKEFLAGS MAKELEVEL\ncd '{}'\n{recipe}\n", scratch.path().display());
    let output = run_script(&receiver, "build.sh", &script);
    assert_eq!(stdout(&output).split_whitespace().collect::<Vec<_>>(), targets, "{}", stderr(&output));
    let names = targets.map(|target| format!("\n    echo {target}"));
    receiver.only_trace().assert_tree(&format!("build.sh\n  make{}", names.concat()));
}

#[test]
fn a_command_line_in_one_word_is_not_recorded_and_nor_is_an_assignment() {
    for (line, name) in [
        ("sh -c hunter2", "sh"),
        ("curl http://user@host/hunter2", "curl"),
        ("API_KEY=hunter2", "API_KEY"),
        (" API_KEY=hunter2 make", "API_KEY"),
        ("DATA=/tmp/hunter2", "DATA"),
    ] {
        let (output, span) = recorded(&["--", line]);
        assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
        assert_eq!(span.name(), name);
        assert!(!format!("{span:?}").contains("hunter2"), "{span:?}");
    }
}

#[test]
fn print_to_makes_a_file_that_only_its_user_can_read() {
    let scratch = Scratch::new();
    let file = scratch.path().join("context");
    recorded(&["--print-to", file.to_str().unwrap(), "--", "true"]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_bad_command_line_runs_nothing() {
    let cases: [(&[&str], &str); 5] = [
        (&[], "<COMMAND>..."),
        (&["--attr", "a", "--", "echo", "ran"], "for '--attr <KEY=VALUE>': write KEY=VALUE"),
        (&["--kind", "odd", "--", "echo", "ran"], "[possible values: internal, server"),
        (&["--timeout", "soon", "--", "echo", "ran"], "for '--timeout <TIME>': write a time"),
        (&["--endpoint", "ftp://host", "--", "echo", "ran"], "--endpoint"),
    ];
    for (arguments, expected) in cases {
        let output = finish(&mut standpipe(&[&["exec"], arguments].concat()));
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
