//! A web service with one span for each request. The span is a child of the caller's span.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use std::{env, thread};

use standpipe::{Config, Context, SpanKind, Telemetry, Tracer};

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::from_env()?.default_service_name("shop");
    let telemetry = Telemetry::start(config.on_problem(|problem| eprintln!("telemetry: {problem}")))?;
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("listening on http://{}", listener.local_addr()?);
    let tracer = telemetry.tracer("shop");
    thread::spawn(move || serve(&listener, &tracer));
    io::copy(&mut io::stdin(), &mut io::sink())?; // returns at Ctrl-D
    println!("{}", telemetry.shutdown(Duration::from_secs(5)));
    Ok(())
}

fn serve(listener: &TcpListener, tracer: &Tracer) {
    for connection in listener.incoming().flatten() {
        let tracer = tracer.clone();
        thread::spawn(move || answer(&connection, &tracer));
    }
}

fn answer(mut connection: &TcpStream, tracer: &Tracer) -> io::Result<()> {
    let lines = BufReader::new(connection).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let header = |name: &str| {
        let mut fields = head.iter().filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let _caller = Context::from_headers(header).enter(); // spans from here on belong to the caller's trace
    let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or("/");
    let _request = tracer.span_builder("GET").kind(SpanKind::Server).set("url.path", path).start();
    let stock = look_up(path, tracer);
    write!(connection, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{stock}\n")
}

fn look_up(item: &str, tracer: &Tracer) -> usize {
    let mut span = tracer.span("look up"); // a child of the request
    let stock = item.len();
    span.set("stock", stock);
    stock
}
