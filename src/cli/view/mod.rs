//! Renders received telemetry: trees of completed traces with the metrics that changed, a flat list, or OTLP JSON.

mod assembler;
mod filter;
mod flat;

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Instant;

use clap::Args;
use standpipe::receiver::proto;
use standpipe::receiver::{Protocol, ReceivedMetric, Records};

use self::assembler::{Assembler, Block, Cause, Root, State};
pub(crate) use self::filter::Filter;
pub(crate) use self::flat::{Layout, log_row};
use super::describe::{self, LogView, SpanView};
use super::metrics_table;
use super::series::{Series, SeriesStore};
use super::style::{Palette, Style};
use super::waterfall::{self, Heading};

/// Maximum number of points kept for a series: one for each bar of its sparkline.
const MAX_POINTS: usize = 16;
/// Maximum memory of all series.
const MAX_SERIES_BYTES: usize = 64 * 1024 * 1024;
/// Maximum number of series listed for a request without `--full`; the rest is counted.
const MAX_LISTED: usize = 12;

/// Options for the form and the content of the output.
#[derive(Debug, Default, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Print each trace as a tree, even if the output is not a terminal. On a terminal, print instead of opening the
    /// interactive list.
    #[arg(long, group = "form")]
    tree: bool,
    /// Print an entry for each record as it arrives, even on a terminal.
    #[arg(long, group = "form")]
    flat: bool,
    /// Print OTLP JSON, one line for each request; all other messages go to standard error.
    #[arg(long, group = "form")]
    json: bool,
    /// Show everything: all spans of a tree, with all attributes, ids and stack traces. By default, similar or deep
    /// spans are counted, and a span shows up to four attributes, without those of host, os, thread, code, telemetry,
    /// network.protocol and process (except command_args). With --flat, show all events; by default, up to six events
    /// with up to four attributes each.
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

impl Options {
    /// Returns the form of printed output, if an option selects one. The interactive view is then not used.
    pub(crate) fn form(&self) -> Option<Form> {
        let forms = [(self.tree, Form::Tree), (self.flat, Form::Flat), (self.json, Form::Json)];
        forms.into_iter().find(|(is_chosen, _)| *is_chosen).map(|(_, form)| form)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Whole traces with their log records.
    Tree,
    /// Single records.
    Flat,
    /// A line of OTLP JSON for each request.
    Json,
}

/// Renders records as they arrive.
pub(crate) struct View {
    pub(crate) form: Form,
    layout: Layout,
    full: bool,
    filter: Filter,
    pub(crate) style: Style,
    assembler: Assembler,
    series: SeriesStore,
    palette: Palette,
    last: Printed,
}

/// Kind of the last output. An empty line separates a block of several lines from all other output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Printed {
    Nothing,
    Row,
    Block,
}

impl View {
    /// Returns a view whose incomplete traces take up to `max_bytes` of memory.
    pub(crate) fn new(options: &Options, is_terminal: bool, max_bytes: usize, style: Style) -> Self {
        let (form, layout) =
            if is_terminal { (Form::Tree, Layout::Cut) } else { (Form::Flat, Layout::Whole) };
        Self {
            form: options.form().unwrap_or(form),
            layout,
            full: options.full,
            filter: options.filter.clone(),
            style,
            assembler: Assembler::new(max_bytes),
            series: SeriesStore::new(MAX_POINTS, MAX_SERIES_BYTES),
            palette: Palette::default(),
            last: Printed::Nothing,
        }
    }

    /// Returns whether anything was printed.
    pub(crate) fn has_printed(&self) -> bool {
        self.last != Printed::Nothing
    }

    /// Adds the records of a request, and writes the output that is due. `protocol` is `None` for records of a file.
    pub(crate) fn add(
        &mut self,
        records: &Records,
        protocol: Option<Protocol>,
        now: Instant,
        out: &mut impl Write,
    ) -> io::Result<()> {
        if self.form == Form::Tree {
            return self.add_to_trees(records, now, out);
        }
        let shown = self.filter.select(records);
        if shown.count() > 0 {
            self.last = Printed::Row;
        }
        match self.form {
            Form::Json => shown.write_json_lines(out),
            _ => flat::print(&shown, protocol, self.layout, self.full, &self.style, out),
        }
    }

    fn add_to_trees(&mut self, records: &Records, now: Instant, out: &mut impl Write) -> io::Result<()> {
        let (mut last_span, mut last_log) = (None, None);
        for received in &records.spans {
            if self.filter.shows_id(&received.span.trace_id) {
                // Consecutive records usually share their resource and scope, which are then counted once.
                let bytes = received.memory_bytes_after(last_span.replace(received));
                self.assembler.add_span(received, bytes, now);
                self.draw_due(now, out)?;
            }
        }
        for received in &records.logs {
            let view = LogView::from(received);
            match describe::is_id(&received.log.trace_id) {
                false if self.filter.shows_log(&view) => self.print_log(&view, out)?,
                // The other filters concern whole traces, and are applied when the trace is drawn.
                true if self.filter.has_level(&view) && self.filter.shows_id(&received.log.trace_id) => {
                    let bytes = received.memory_bytes_after(last_log.replace(received));
                    self.assembler.add_log(received, bytes, now);
                    self.draw_due(now, out)?;
                }
                _ => {}
            }
        }
        let metrics = records.metrics.iter().filter(|received| self.filter.shows_metric(received));
        let lines = self.draw_changed(&metrics.collect::<Vec<_>>());
        self.print_block(&lines, out)
    }

    /// Draws a row for each series that is new or has changed.
    fn draw_changed(&mut self, metrics: &[&ReceivedMetric]) -> Vec<String> {
        let mut series: HashMap<u64, bool> = HashMap::new();
        for (identity, is_changed) in metrics.iter().flat_map(|metric| self.series.add(metric)) {
            // A request may have several points of a series; one change is enough.
            *series.entry(identity).or_default() |= is_changed;
        }
        let changed = series.iter().filter(|(_, is_changed)| **is_changed);
        let changed: Vec<&Series> =
            changed.filter_map(|(identity, _)| self.series.all.get(identity)).collect();
        let times =
            metrics.iter().flat_map(|metric| proto::points(&metric.metric)).map(|point| point.times().1);
        let newest = times.max().filter(|time| *time > 0).unwrap_or_else(flat::now);
        let count = match changed.len() == series.len() {
            true => format!("{} series", series.len()),
            false => format!("{} of {} series changed", changed.len(), series.len()),
        };
        let facts = format!("{}{}{count}", describe::time_of_day(newest), self.style.glyph(" · "));
        let max_rows = if self.full { usize::MAX } else { MAX_LISTED };
        metrics_table::draw_series(changed, &facts, max_rows, true, &mut self.palette, &self.style)
    }

    /// Returns when the next trace is due if no further record arrives.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.assembler.next_due()
    }

    /// Draws all traces that are due.
    pub(crate) fn draw_due(&mut self, now: Instant, out: &mut impl Write) -> io::Result<()> {
        while let Some(block) = self.assembler.take_due(now) {
            self.draw(&block, out)?;
        }
        Ok(())
    }

    /// Draws all open traces, at the end of the input.
    pub(crate) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.assembler.finish().iter().try_for_each(|block| self.draw(block, out))
    }

    /// Returns the number of open traces and their spans: `3 traces open · 41 spans`. `None` if there are no open
    /// traces.
    pub(crate) fn open(&self) -> Option<String> {
        let Assembler { open, spans, .. } = &self.assembler;
        let traces = describe::count(open.len() as u64, "trace");
        let spans = describe::count(*spans as u64, "span");
        (!open.is_empty()).then(|| format!("{traces} open{}{spans}", self.style.glyph(" · ")))
    }

    fn draw(&mut self, block: &Block, out: &mut impl Write) -> io::Result<()> {
        let past =
            block.ancestors.iter().map(|received| SpanView { is_past: true, ..SpanView::from(received) });
        let mut spans: Vec<SpanView<'_>> = block.spans.iter().map(SpanView::from).chain(past).collect();
        spans.iter_mut().for_each(|view| view.is_wanted = !view.is_past && self.filter.is_match(view));
        let mut logs: Vec<LogView<'_>> = block.logs.iter().map(LogView::from).collect();
        if spans.is_empty() {
            // No span of the trace arrived, so its log records are shown one by one.
            logs.retain(|view| self.filter.shows_log(view));
            return logs.iter().try_for_each(|view| self.print_log(view, out));
        }
        let hidden = self.filter.hidden_ids(&spans);
        let all = spans.len();
        spans.retain(|view| !hidden.contains(view.span.span_id.as_slice()) && !self.filter.hides(view));
        logs.retain(|view| !hidden.contains(view.log.span_id.as_slice()));
        // If the filter hides all late spans, their ancestors alone are not drawn again.
        let has_new = spans.iter().any(|view| !view.is_past) || !logs.is_empty();
        let is_shown = has_new && self.filter.shows_trace(&spans, &logs);
        // Late records need this: their heading says if the earlier records of the trace were filtered out.
        spans.first().iter().for_each(|view| self.assembler.set_shown(&view.span.trace_id, is_shown));
        if !is_shown {
            return Ok(());
        }
        let heading = heading(block, self.style.glyph(" · "));
        let is_cut = matches!(block.state, State::Late { is_cut: true, .. });
        let options = waterfall::Options { full: self.full, heading, hidden: all - spans.len(), is_cut };
        let lines = waterfall::draw(&spans, &logs, options, &mut self.palette, &self.style);
        self.print_block(&lines, out)
    }

    fn print_log(&mut self, view: &LogView<'_>, out: &mut impl Write) -> io::Result<()> {
        self.begin_row(out)?;
        let attributes = describe::telling(&view.log.attributes, self.full).join("  ");
        let layout = if self.full { Layout::Whole } else { Layout::Cut };
        flat::log_row(view, attributes, layout).print(&self.style, out)
    }

    /// Separates the next line from a block above it. Call this before each line that is not part of a block.
    pub(crate) fn begin_row(&mut self, out: &mut impl Write) -> io::Result<()> {
        match std::mem::replace(&mut self.last, Printed::Row) {
            Printed::Block => writeln!(out),
            Printed::Nothing | Printed::Row => Ok(()),
        }
    }

    fn print_block(&mut self, lines: &[String], out: &mut impl Write) -> io::Result<()> {
        let printed = match lines.len() {
            0 => return Ok(()),
            1 => Printed::Row,
            _ => Printed::Block,
        };
        let last = std::mem::replace(&mut self.last, printed);
        if last != Printed::Nothing && [last, printed].contains(&Printed::Block) {
            writeln!(out)?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

/// Returns the heading of a trace: what is missing, or what arrived late.
fn heading(block: &Block, separator: &str) -> Heading {
    match &block.state {
        State::Complete => Heading::Complete,
        State::Partial { root, missing_parents, cause } => {
            let missing = match (root, missing_parents) {
                (Root::Missing, _) => "root span missing".to_owned(),
                (Root::Open, 0) => "root span has not ended".to_owned(),
                (Root::Open | Root::Ended, parents) => {
                    format!("{} missing", describe::count(*parents as u64, "parent"))
                }
            };
            Heading::Partial(match cause {
                Cause::Quiet | Cause::End => missing,
                Cause::Age => format!("{missing}{separator}open for 30 s"),
                Cause::Memory => format!("{missing}{separator}too many are open"),
            })
        }
        State::Late { was_shown: false, .. } => {
            Heading::Partial("earlier records were filtered out".to_owned())
        }
        State::Late { was_shown: true, .. } => {
            let late = [(block.spans.len(), "late span"), (block.logs.len(), "late log record")];
            let late = late.into_iter().filter(|(number, _)| *number > 0);
            let late = late.map(|(number, what)| describe::count(number as u64, what));
            Heading::Late(late.collect::<Vec<_>>().join(", +"))
        }
    }
}

#[cfg(test)]
mod tests;
