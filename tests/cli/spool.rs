//! `standpipe spool` and `standpipe drain`: show and deliver the records in a spool directory.

#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use standpipe::receiver::{Answer, Receiver};
use standpipe::{Config, Exporter, Telemetry};

use crate::support::command::{finish, run, standpipe, stderr, stdout, without_reader};
use crate::support::scratch::Scratch;
use crate::support::stubborn::saying;
use crate::support::tls::{TestCa, TlsFront};

const PATIENCE: Duration = Duration::from_secs(30);
/// An endpoint on which nothing listens.
const NOWHERE: &str = "http://127.0.0.1:9";

fn private() -> Scratch {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o700)).unwrap();
    scratch
}

fn start(name: &str, spool: &Path) -> Telemetry {
    let exporter = Exporter::http(NOWHERE).named(name).queue_bytes(1 << 20).spool(spool);
    let exporter = exporter.throttle(Duration::ZERO).batch_records(100);
    Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap()
}

/// Leaves `spans` spans and one log record in the spool.
fn leave(name: &str, spool: &Path, spans: i64) {
    let telemetry = start(name, spool);
    let tracer = telemetry.tracer("shop");
    (0..spans).for_each(|number| tracer.span_builder("work").set("number", number).start().end());
    telemetry.logger("shop").info("left behind").emit();
    assert_eq!(telemetry.shutdown(PATIENCE).total().spooled, spans as u64 + 1);
}

fn drain(spool: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(&[&["drain", spool.to_str().unwrap()], arguments].concat());
    (output.status.code(), stdout(&output), stderr(&output))
}

fn show(spool: &Path) -> String {
    let output = run(&["spool", spool.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn files(spool: &Path) -> HashMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn spool_shows_what_each_process_has_left_and_changes_nothing() {
    let spool = private();
    assert!(show(spool.path()).contains(": no spool files"), "{}", show(spool.path()));
    leave("eu", spool.path(), 700);
    leave("us", spool.path(), 1);
    let running = start("running", spool.path());
    let before = files(spool.path());
    let text = show(spool.path());
    for expected in [
        ": 703 records of 2 processes that ended",
        "eu  of shop  ended, started ",
        "700 spans",
        "1 log record",
        "us  of shop  ended",
        "running  of shop  running",
        "waiting for ",
        "to send it: standpipe drain ",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    assert!(files(spool.path()) == before, "nothing has changed");
    drop(running);
}

#[test]
fn drain_delivers_what_exporters_of_all_names_have_left() {
    let spool = private();
    leave("eu", spool.path(), 700);
    leave("us", spool.path(), 300);
    let receiver = Receiver::start().unwrap();
    let (code, text, errors) = drain(spool.path(), &["--endpoint", &receiver.endpoint()]);
    assert_eq!((code, &*text), (Some(0), "✓ delivered 1002 records\n✓ nothing is left\n"), "{errors}");
    assert_eq!((receiver.span_count(), receiver.log_count()), (1000, 2));
    assert!(receiver.spans().iter().all(|span| span.service_name() == "shop"));
    assert!(files(spool.path()).is_empty());
    let (code, text, _) = drain(spool.path(), &["--endpoint", &receiver.grpc_endpoint(), "--grpc"]);
    assert_eq!((code, &*text), (Some(0), "✓ nothing is left\n"));
}

#[test]
fn drain_leaves_what_it_could_not_deliver_and_can_be_repeated() {
    let spool = private();
    leave("eu", spool.path(), 1000);
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::ok(), Answer::ok(), Answer::ok()]);
    receiver.always(Answer::status(503));
    let arguments = ["drain", spool.path().to_str().unwrap(), "--endpoint", &receiver.endpoint()];
    let mut command = standpipe(&arguments);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("503") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "it ends without a failure");
    }
    assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("are left: run it again"), "{}", stdout(&output));
    // A new receiver, because a request of the killed process may still arrive at the first one.
    let next = Receiver::start().unwrap();
    let (code, text, errors) = drain(spool.path(), &["--endpoint", &next.endpoint()]);
    assert_eq!(code, Some(0), "{text}{errors}");
    let spans = receiver.spans().into_iter().chain(next.spans());
    let numbers = spans.map(|span| span.attribute("number").as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>(), "each once, and oldest first");
}

#[test]
fn drain_says_once_that_it_goes_on_trying_and_how_to_end_it() {
    let spool = private();
    leave("eu", spool.path(), 1);
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::status(503));
    let arguments = ["drain", spool.path().to_str().unwrap(), "--endpoint", &receiver.endpoint()];
    let mut command = standpipe(&arguments);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(receiver.wait_for_requests(6, PATIENCE), "it tries again");
    receiver.behave();
    let mut errors = String::new();
    process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(process.wait().unwrap().success(), "{errors}");
    assert_eq!(errors.matches("/v1/traces: 503").count(), 1, "{errors}");
    assert_eq!(errors.matches("nothing is lost: the request is retried").count(), 1, "{errors}");
    assert!(errors.contains("; is a collector running? try: standpipe receive\n"), "{errors}");
    assert!(errors.contains("press Ctrl-C to stop, or set --timeout TIME\n"), "{errors}");
}

#[test]
fn drain_prints_otlp_json_and_what_was_not_read_stays() {
    let spool = private();
    leave("eu", spool.path(), 1000);
    let mut command = standpipe(&["drain", spool.path().to_str().unwrap(), "--to-stdout"]);
    let output = finish(command.stdout(without_reader()));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("write to stdout: broken pipe"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("lost"), "{}", stderr(&output));
    let (code, text, errors) = drain(spool.path(), &["--to-stdout"]);
    assert_eq!((code, &*errors), (Some(0), "✓ delivered 1001 records\n✓ nothing is left\n"));
    let spans = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let spans =
        spans.flat_map(|request| request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned());
    assert_eq!(spans.flatten().count(), 1000);
    // `standpipe show` can read the output.
    let scratch = Scratch::new();
    let lines = scratch.path().join("left.jsonl");
    fs::write(&lines, &text).unwrap();
    let shown = run(&["show", lines.to_str().unwrap(), "--json"]);
    assert_eq!((shown.status.code(), stdout(&shown).lines().count()), (Some(0), text.lines().count()));
}

#[test]
fn drain_says_what_is_left_though_its_worker_still_holds_it() {
    let spool = private();
    leave("eu", spool.path(), 1000);
    let directory = spool.path().to_str().unwrap();
    let mut child = standpipe(&["drain", directory, "--to-stdout", "--timeout", "100ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Nothing reads the output, so the worker blocks in a write that cannot be interrupted.
    let _unread = child.stdout.take();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("--timeout has passed"), "{}", stderr(&output));
    assert!(stderr(&output).contains("are left: run it again"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("lost"), "{}", stderr(&output));
}

#[test]
fn what_is_damaged_is_shown_and_the_rest_delivered() {
    let spool = private();
    leave("eu", spool.path(), 700);
    let segments = files(spool.path()).into_keys().filter(|path| path.extension().unwrap() == "segment");
    // The larger segment has the spans, the smaller one the log record.
    let segment = segments.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[300] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let text = show(spool.path());
    assert!(!text.contains("700 spans") && text.contains("1 damaged place of"), "{text}");
    let receiver = Receiver::start().unwrap();
    let (code, text, errors) = drain(spool.path(), &["--endpoint", &receiver.endpoint()]);
    assert_eq!(code, Some(1), "{text}{errors}");
    let lost = text.lines().find_map(|line| line.strip_suffix(": damaged")).expect(&text);
    let lost: u64 = lost.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(lost > 0 && receiver.span_count() + lost == 700, "{text}");
}

#[test]
fn drain_reports_each_of_several_damaged_places() {
    let spool = private();
    leave("eu", spool.path(), 700);
    let segments = files(spool.path()).into_keys().filter(|path| path.extension().unwrap() == "segment");
    // The larger segment has the spans.
    let segment = segments.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    // A request has at most 100 of the 700 spans, so the three places are in three different requests.
    let places = [3, 7, 11].map(|part| bytes.len() * part / 14);
    places.into_iter().for_each(|place| bytes[place] ^= 0x55);
    fs::write(&segment, bytes).unwrap();
    let receiver = Receiver::start().unwrap();
    let (code, text, errors) = drain(spool.path(), &["--endpoint", &receiver.endpoint()]);
    assert!(code == Some(1) && receiver.span_count() < 700, "{text}{errors}");
    assert_eq!(errors.matches("1 damaged place of").count(), 3, "{errors}");
}

#[test]
fn drain_delivers_segments_without_a_recorder_or_a_readable_owner() {
    for damages_owner in [false, true] {
        let spool = private();
        leave("eu", spool.path(), 1999);
        for path in files(spool.path()).into_keys() {
            match path.extension().and_then(|end| end.to_str()) {
                Some("recorder") => fs::remove_file(path).unwrap(),
                Some("segment") if damages_owner => {
                    let mut bytes = fs::read(&path).unwrap();
                    bytes[12] ^= 1;
                    fs::write(&path, bytes).unwrap();
                }
                _ => {}
            }
        }
        let shown = show(spool.path());
        assert!(shown.contains("2000 records of 1 process that ended"), "{shown}");
        assert!(shown.contains("the flight recorder is missing"), "{shown}");
        assert_eq!(shown.contains("eu  of shop"), !damages_owner, "{shown}");
        let receiver = Receiver::start().unwrap();
        let (code, text, errors) = drain(spool.path(), &["--endpoint", &receiver.endpoint()]);
        // Without the recorder, the number of queued records is unknown.
        let lost = "✗ an unknown number of records was lost, or files were left alone: see above\n";
        let expected = format!("✓ delivered 2000 records\n{lost}");
        assert_eq!((code, &*text), (Some(1), &*expected), "{errors}");
        assert!(errors.contains("an unknown number of queued records is lost"), "{errors}");
        assert_eq!((receiver.span_count(), receiver.log_count()), (1999, 1));
        let (code, text, _) = drain(spool.path(), &["--endpoint", &receiver.endpoint()]);
        assert_eq!((code, &*text), (Some(0), "✓ nothing is left\n"));
    }
}

#[test]
fn drain_fails_if_it_leaves_a_file_alone() {
    let spool = private();
    leave("eu", spool.path(), 1);
    let is_recorder = |path: &PathBuf| path.extension().is_some_and(|end| end == "recorder");
    let recorder = files(spool.path()).into_keys().find(is_recorder).unwrap();
    let mut bytes = fs::read(&recorder).unwrap();
    // The byte is part of the version.
    bytes[8] ^= 7;
    fs::write(&recorder, bytes).unwrap();
    let receiver = Receiver::start().unwrap();
    let (code, text, errors) = drain(spool.path(), &["--endpoint", &receiver.endpoint()]);
    assert_eq!(code, Some(1), "{text}{errors}");
    assert!(errors.contains("left alone: its layout has the version"), "{errors}");
    assert!(!text.contains("nothing is left") && text.contains("files were left alone"), "{text}");
    assert!(recorder.exists());
}

#[test]
fn drain_sends_nothing_to_a_server_that_would_refuse_everything() {
    let spool = private();
    leave("eu", spool.path(), 700);
    let before = files(spool.path());
    let receiver = Receiver::start().unwrap();
    for status in [302, 400, 401, 403, 404, 405, 500] {
        receiver.always(Answer::status(status));
        let (code, text, errors) = drain(spool.path(), &["--endpoint", &receiver.endpoint()]);
        assert_eq!((code, &*text), (Some(1), ""), "{status}: {errors}");
        assert!(errors.contains(&status.to_string()), "{errors}");
        assert!(errors.contains("; nothing was sent, and all records stay in "), "{errors}");
    }
    receiver.always(Answer::status(401));
    let (code, _, errors) = drain(spool.path(), &["--endpoint", &receiver.grpc_endpoint(), "--grpc"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("UNAUTHENTICATED") && errors.contains("; nothing was sent"), "{errors}");
    assert!(files(spool.path()) == before, "all files stay");
    receiver.behave();
    let (code, text, errors) = drain(spool.path(), &["--endpoint", &receiver.endpoint()]);
    assert_eq!((code, &*text), (Some(0), "✓ delivered 701 records\n✓ nothing is left\n"), "{errors}");
}

#[test]
fn drain_sends_nothing_without_a_valid_certificate_or_in_a_protocol_that_the_server_does_not_speak() {
    let spool = private();
    leave("eu", spool.path(), 700);
    let before = files(spool.path());
    let receiver = Receiver::start().unwrap();
    receiver.always(Answer::grpc(8));
    let front = TlsFront::start(&TestCa::new().leaf("localhost"), receiver.address());
    let ssh = format!("http://{}", saying(b"SSH-2.0-OpenSSH_9.6\r\n"));
    for (arguments, words) in [
        (&[&*front.url()][..], "the server's certificate has an unknown issuer"),
        (&[&*ssh], "the answer is not HTTP;"),
        (&[&*ssh, "--grpc"], "the answer is not HTTP/2"),
        // An exporter would drop the records, because the server sends no delay with this status.
        (&[&*receiver.grpc_endpoint(), "--grpc"], "RESOURCE_EXHAUSTED"),
    ] {
        let (code, text, errors) = drain(spool.path(), &[&["--endpoint"], arguments].concat());
        assert_eq!((code, &*text), (Some(1), ""), "{errors}");
        assert!(errors.contains(words) && errors.contains("; nothing was sent"), "{errors}");
    }
    assert!(files(spool.path()) == before, "all files stay");
}

#[test]
fn drain_ends_when_its_time_is_up() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let spool = private();
    leave("eu", spool.path(), 1);
    // Accepts connections (in the backlog) but never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let began = Instant::now();
    let (code, text, errors) = drain(spool.path(), &["--endpoint", &endpoint, "--timeout", "1s"]);
    let took = began.elapsed();
    assert_eq!(code, Some(1), "{text}{errors}");
    assert!(
        errors.contains("--timeout has passed") && text.contains("are left: run it again"),
        "{text}{errors}"
    );
    assert!(took < TIMEOUT + Duration::from_millis(1500), "{took:?}");
}

#[test]
fn a_directory_that_is_not_there_is_not_made() {
    let scratch = private();
    let missing = scratch.path().join("missing");
    for arguments in
        [&["spool", missing.to_str().unwrap()][..], &["drain", missing.to_str().unwrap(), "--to-stdout"]]
    {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("missing: No such file or directory"), "{}", stderr(&output));
    }
    assert!(!missing.exists());
}
