//! emit with emit_otlp, uncompressed.

use std::hint::black_box;
use std::rc::Rc;

use crate::support::Error;
use crate::support::program::{Burst, Program};
use crate::support::workload::{PATIENCE, text};
use crate::{Contender, case};

pub(crate) const CONTENDER: Contender = Contender {
    name: "emit 2.23",
    cases: &[case::LOG, case::FILTERED_LOG],
    note: "emit_otlp without compression; it has no counters and histograms that aggregate in the program, so they are \
           not measured",
    start,
};

fn start(case: &str, endpoint: &str) -> Result<Program, Error> {
    let transport = emit_otlp::http(format!("{endpoint}/v1/logs"));
    let otlp = emit_otlp::new()
        .resource(emit::props! { #[emit::key("service.name")] service_name: "bench" })
        .logs(emit_otlp::logs_proto(transport.allow_compression(false)))
        .spawn();
    let filter = emit::level::min_filter(emit::Level::Info);
    let emitter = Rc::new(emit::setup().emit_when(filter).emit_to(otlp).init());
    let burst: Burst = match case {
        case::LOG => Box::new(|calls| in_span(|| (0..calls).for_each(|_| log()))),
        case::FILTERED_LOG => Box::new(|calls| {
            in_span(|| (0..calls).for_each(|_| filtered_log()));
            emit::info!("order placed");
        }),
        _ => return Err(format!("{case}: not a case of this contender").into()),
    };
    let flush = move || match emitter.blocking_flush(PATIENCE) {
        true => Ok(()),
        false => Err("emit did not send everything in time".into()),
    };
    let end = flush.clone();
    Ok(Program::new(burst, flush, end))
}

fn in_span(work: impl FnOnce()) {
    let span = emit::span::SpanCtxt::new_root(emit::rng());
    emit::Frame::push(emit::ctxt(), span).call(work);
}

fn log() {
    emit::info!(
        "order placed",
        #[emit::key("http.route")]
        route: black_box(text::ROUTE.1),
        #[emit::key("server.address")]
        host: black_box(text::HOST.1),
        #[emit::key("cloud.region")]
        zone: black_box(text::ZONE.1),
        #[emit::key("http.response.status_code")]
        status: black_box(text::STATUS.1),
        #[emit::key("cache.hit")]
        cached: black_box(text::CACHED.1),
    );
}

fn filtered_log() {
    emit::debug!(
        "order placed",
        #[emit::key("http.route")]
        route: black_box(text::ROUTE.1),
        #[emit::key("server.address")]
        host: black_box(text::HOST.1),
        #[emit::key("cloud.region")]
        zone: black_box(text::ZONE.1),
        #[emit::key("http.response.status_code")]
        status: black_box(text::STATUS.1),
        #[emit::key("cache.hit")]
        cached: black_box(text::CACHED.1),
    );
}
