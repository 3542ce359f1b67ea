//! A command-line tool that counts lines, and exports only if the environment says where to.

use std::error::Error;
use std::process::ExitCode;
use std::{env, fs};

use standpipe::{Config, Context, RecordErr, Telemetry};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // Without an OTEL_ variable there is no exporter and no thread, and the calls below do almost nothing.
    let config = Config::from_env_if_set()?.default_service_name("lines");
    let telemetry = Telemetry::start(config.on_problem(|problem| eprintln!("telemetry: {problem}")))?;
    let tracer = telemetry.tracer("lines");
    let _caller = Context::from_env().enter(); // TRACEPARENT: join the trace of the script that runs this program
    let mut run = tracer.span("lines");
    let mut failed = 0;
    for path in env::args().skip(1) {
        let mut span = tracer.span_builder("read").set("file.path", path.as_str()).start();
        match fs::read_to_string(&path).record_err(&mut span) {
            Ok(text) => println!("{} {path}", text.lines().count()),
            Err(error) => {
                eprintln!("{path}: {error}");
                failed += 1;
            }
        }
    }
    run.set("failed", failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
} // The spans end first. Dropping `telemetry` then sends them, within two seconds.
