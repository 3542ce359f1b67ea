//! Lines of the interactive view: collects the rows of a [`Place`] from the store, and draws the visible rows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::super::describe::{self, LogView, SpanView};
use super::super::metrics_table;
use super::super::page::store::{KeptLog, Store, Trace, TraceKey, is_error as is_error_span};
use super::super::style::{Ink, Palette, Style, plain_style};
use super::super::table::{Column, Table, Text};
use super::super::text::base64;
use super::super::view::{Filter, Layout, log_row};
use super::super::waterfall::{self, Heading};
use super::{MARGIN, Place, Screen};

/// Width of a trace that is copied as text, in cells.
const TEXT_WIDTH: usize = 110;
const MAX_SERVICE_WIDTH: usize = 14;
/// Time for which the foot shows a refused request with its remedy, instead of the keys.
const REFUSAL_MILLIS: u128 = 15_000;
/// Maximum number of marks of services in a row.
const MAX_MARKS: usize = 8;

const HELP: &str = include_str!("../help/keys.txt");

/// Rows of a place. A list of traces or log records may be long, so it has only `keys`, and a row is drawn when it
/// becomes visible. All other places have finished `lines`.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// Ids of traces, or numbers of log records.
    pub(super) keys: Vec<u128>,
    lines: Vec<String>,
    /// In the list of services, the name of the service in each line.
    pub(super) names: Vec<String>,
    /// Trace of the log record that is shown, if it has one.
    pub(super) trace: Option<TraceKey>,
    /// Shortest and longest duration of the traces in nanoseconds.
    durations: [u64; 2],
}

impl Items {
    pub(super) fn len(&self) -> usize {
        self.keys.len().max(self.lines.len())
    }

    /// Returns whether `lines[line]` exists and contains `text`, ignoring case. `text` must be in lower case.
    pub(super) fn has(&self, line: usize, text: &str) -> bool {
        self.lines.get(line).is_some_and(|line| plain(line).to_lowercase().contains(text))
    }
}

/// Removes the colors of a line.
fn plain(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// Returns whether a row of a list has an error, or, in any other place, whether a line shows an error.
pub(super) fn is_error(screen: &Screen, line: usize) -> bool {
    let store = screen.page.lock();
    match (screen.place, screen.items.keys.get(line)) {
        (Place::Traces, Some(key)) => {
            store.traces.get(&key.to_be_bytes()).is_some_and(|trace| trace.errors > 0)
        }
        (Place::Logs, Some(key)) => {
            store.log(*key as u64).is_some_and(|kept| LogView::from(&kept.log).is_error())
        }
        _ => {
            // The mark stands between spaces, so a name that merely contains the mark's character does not match.
            let mark = format!(" {} ", screen.style.glyph("✗"));
            let text = screen.items.lines.get(line).map(|line| plain(line) + " ").unwrap_or_default();
            let text = text.replace(" ERROR ", &mark).replace(" FATAL ", &mark);
            format!(" {text}").contains(&mark)
        }
    }
}

/// Collects the rows of the current place.
pub(super) fn collect(screen: &Screen) -> Items {
    let style = &screen.style;
    match screen.place {
        Place::Traces => traces(screen),
        Place::Logs => logs(screen),
        Place::Trace(key) => {
            let lines = waterfall_of(screen, &key, screen.full, style);
            let lines = lines.unwrap_or_else(|| vec!["the trace is no longer kept".to_owned()]);
            Items { lines, ..Items::default() }
        }
        Place::Log(number) => log(screen, number),
        Place::Metrics => {
            let store = screen.page.lock();
            let all: Vec<_> = store.series.all.values().collect();
            let facts = format!("{} series", all.len());
            let mut palette = palette(&store);
            let lines = metrics_table::draw_series(all, &facts, usize::MAX, true, &mut palette, style);
            Items { lines, ..Items::default() }
        }
        Place::Services => services(screen),
        Place::Help => Items { lines: HELP.lines().map(str::to_owned).collect(), ..Items::default() },
    }
}

/// Returns a palette with the colors in the order in which the services arrived.
fn palette(store: &Store) -> Palette {
    let mut palette = Palette::default();
    store.services.iter().for_each(|service| palette.assign(service));
    palette
}

/// Returns the matching traces, the latest first.
fn traces(screen: &Screen) -> Items {
    let mut traces = screen.page.traces();
    if !screen.filter.shows_everything() {
        // The handles are cloned first, so that requests need not wait for the lock while records are compared.
        let logs: Vec<_> = screen.page.lock().logs.iter().cloned().collect();
        let mut by_trace: HashMap<TraceKey, Vec<LogView<'_>>> = HashMap::new();
        for (key, kept) in logs.iter().filter_map(|kept| Some((kept.trace()?, kept))) {
            by_trace.entry(key).or_default().push((&kept.log).into());
        }
        let none = Vec::new();
        traces.retain(|trace| shows(&screen.filter, trace, by_trace.get(&trace.key).unwrap_or(&none)));
    }
    traces.retain(|trace| screen.query.matches_trace(trace));
    // The key makes the order unique, so that rows do not jump between two frames.
    traces.sort_unstable_by_key(|trace| Reverse((trace.start, trace.key)));
    let keys = traces.iter().map(|trace| u128::from_be_bytes(trace.key)).collect();
    let nanos = || traces.iter().map(|trace| trace.nanos());
    let durations = [nanos().min(), nanos().max()].map(Option::unwrap_or_default);
    Items { keys, durations, ..Items::default() }
}

fn shows(filter: &Filter, trace: &Trace, logs: &[LogView<'_>]) -> bool {
    let mut spans: Vec<SpanView<'_>> = trace.spans.iter().map(SpanView::from).collect();
    let hidden = filter.hidden_ids(&spans);
    spans.retain(|view| !hidden.contains(&view.span.span_id[..]));
    filter.shows_id(&trace.key) && !spans.is_empty() && filter.shows_trace(&spans, logs)
}

/// Returns the matching log records, the latest first.
fn logs(screen: &Screen) -> Items {
    let mut logs: Vec<Arc<KeptLog>> = screen.page.lock().logs.iter().cloned().collect();
    logs.retain(|kept| screen.filter.shows_log(&(&kept.log).into()) && screen.query.matches_log(&kept.log));
    logs.sort_by_cached_key(|kept| Reverse((LogView::from(&kept.log).unix_nanos(), kept.number)));
    Items { keys: logs.iter().map(|kept| kept.number.into()).collect(), ..Items::default() }
}

/// Draws a trace with its log records. `None` if the trace is no longer kept.
fn waterfall_of(screen: &Screen, key: &TraceKey, full: bool, style: &Style) -> Option<Vec<String>> {
    let (trace, logs, mut palette) = {
        let store = screen.page.lock();
        (store.traces.get(key)?.clone(), store.logs_of(key), palette(&store))
    };
    let mut spans: Vec<SpanView<'_>> = trace.spans.iter().map(SpanView::from).collect();
    let all = spans.len();
    let hidden = screen.filter.hidden_ids(&spans);
    spans.retain(|view| !hidden.contains(&view.span.span_id[..]));
    let logs: Vec<LogView<'_>> = logs.iter().map(|kept| (&kept.log).into()).collect();
    let heading = match (trace.root, trace.left_out) {
        (_, 1..) => Heading::Partial(format!("{} not kept", describe::count(trace.left_out, "span"))),
        (None, 0) => Heading::Partial("root span missing".to_owned()),
        (Some(_), 0) => Heading::Complete,
    };
    let options = waterfall::Options { full, heading, hidden: all - spans.len(), is_cut: false };
    Some(waterfall::draw(&spans, &logs, options, &mut palette, style))
}

/// Lists everything about a log record.
fn log(screen: &Screen, number: u64) -> Items {
    let Some(kept) = screen.page.lock().log(number) else {
        return Items { lines: vec!["the log record is no longer kept".to_owned()], ..Items::default() };
    };
    let (style, view) = (&screen.style, LogView::from(&kept.log));
    let line = |ink, text: &str| style.line_of(ink, text);
    let title =
        [&describe::time_of_day(view.unix_nanos()), view.service, &view.severity(), &view.log.event_name];
    let mut lines = vec![line(Ink::PLAIN.bold(), &title.join("  "))];
    lines.extend(view.body().lines().map(|text| line(view.ink(), text)));
    for (what, attributes) in
        [("attributes", &view.log.attributes), ("resource", &kept.log.resource.attributes)]
    {
        lines.extend([String::new(), line(Ink::FAINT, what)]);
        lines.extend(describe::telling(attributes, true).iter().map(|text| line(Ink::PLAIN, text)));
    }
    let trace = kept.trace();
    if let Some(key) = &trace {
        lines.extend([
            String::new(),
            line(Ink::FAINT, &format!("Enter opens the trace {}", describe::id(key))),
        ]);
    }
    Items { lines, trace, ..Items::default() }
}

/// Lists the services with their spans, their errors, and the average and longest duration.
fn services(screen: &Screen) -> Items {
    let (traces, palette) = (screen.page.traces(), palette(&screen.page.lock()));
    let mut sums: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for trace in &traces {
        for received in &trace.spans {
            let [spans, errors, nanos, longest] = sums.entry(received.service_name()).or_default();
            let taken = SpanView::from(received).nanos();
            (*spans, *errors) = (*spans + 1, *errors + u64::from(is_error_span(received)));
            (*nanos, *longest) = (nanos.saturating_add(taken), taken.max(*longest));
        }
    }
    let table = services_table(&screen.style);
    let row = |(service, [spans, errors, nanos, longest]): (&&str, &[u64; 4])| {
        let duration = |nanos| Text::new(Ink::PLAIN, describe::duration(nanos, &screen.style));
        let ink = if *errors > 0 { Ink::BAD } else { Ink::FAINT };
        table.row([
            Text::new(palette.ink(service), (*service).to_owned()),
            Text::new(Ink::PLAIN, spans.to_string()),
            Text::new(ink, errors.to_string()),
            duration(nanos / (*spans).max(1)),
            duration(*longest),
        ])
    };
    let lines = sums.iter().map(row).collect();
    Items { lines, names: sums.keys().map(ToString::to_string).collect(), ..Items::default() }
}

fn services_table(style: &Style) -> Table<'_> {
    let [spans, errors, average, longest] = [8, 8, 12, 12].map(Column::right);
    Table::new(style, 0, [Column::between(16, 40), spans, errors, average, longest.if_room()])
}

fn traces_table(style: &Style) -> Table<'_> {
    let columns = [
        Column::cut(13).if_room(),
        Column::between(16, style.width / 3),
        Column::between(10, 24).if_room(),
        Column::between(8, 40).if_room(),
        Column::right(9),
        Column::right(5),
        Column::cut(4),
    ];
    Table::new(style, 0, columns)
}

impl Screen {
    /// Draws the whole screen.
    pub(super) fn frame(&self) -> String {
        let style = &self.style;
        let store = self.page.lock();
        let (palette, traces) = (palette(&store), traces_table(style));
        let mut lines = vec![self.head(), self.titles(&traces)];
        let visible = self.cursor.top..self.items.len().min(self.cursor.top + self.rows);
        for line in visible {
            let row = match (self.place, self.items.keys.get(line)) {
                (Place::Traces, Some(key)) => self.trace_row(*key, &store, &palette, &traces),
                (_, Some(number)) => self.log_row(*number as u64, &store),
                (_, None) => self.items.lines[line].clone(),
            };
            let mark = if line == self.cursor.line { style.glyph("▸") } else { " " };
            lines.push(format!("{mark} {row}"));
        }
        if self.items.len() == 0 {
            lines.extend(
                self.empty(&store).into_iter().map(|text| format!("  {}", style.line_of(Ink::FAINT, &text))),
            );
        }
        lines.resize(self.rows + 2, String::new());
        lines.push(self.foot(&store));
        // Each line is erased before it is drawn, not afterwards: after a line as wide as the terminal, the cursor is
        // on the last cell, and erasing would remove that cell.
        lines.iter().map(|line| format!("\x1b[K{line}")).collect::<Vec<_>>().join("\r\n")
    }

    fn head(&self) -> String {
        let style = &self.style;
        let tabs = [
            ("traces", matches!(self.place, Place::Traces | Place::Trace(_))),
            ("logs", matches!(self.place, Place::Logs | Place::Log(_))),
            ("metrics", self.place == Place::Metrics),
            ("services", self.place == Place::Services),
        ];
        let tabs = tabs.map(|(name, is_current)| match is_current {
            true => (Ink::PLAIN.bold().reversed(), format!("[{name}]")),
            false => (Ink::FAINT, name.to_owned()),
        });
        let search = if self.search.is_empty() { String::new() } else { format!(" /{}", self.search) };
        let mut left: Vec<_> = tabs.iter().map(|(ink, name)| (*ink, name.as_str())).collect();
        left.push((Ink::WARNING, &search));
        let state = if self.is_paused { (Ink::WARNING.bold(), "paused") } else { (Ink::GOOD, "live") };
        format!("  {}", style.ruled(&left, &[state]))
    }

    fn titles(&self, traces: &Table<'_>) -> String {
        let heads = |titles: &[&'static str]| {
            titles.iter().map(|title| Text::new(Ink::FAINT, *title)).collect::<Vec<_>>()
        };
        let titles = match self.place {
            Place::Traces => {
                traces.row(heads(&["time", "trace", "services", "duration", "", "spans", "err"]))
            }
            Place::Services => {
                services_table(&self.style).row(heads(&["service", "spans", "errors", "average", "longest"]))
            }
            _ => String::new(),
        };
        format!("{}{titles}", " ".repeat(MARGIN))
    }

    fn trace_row(&self, key: u128, store: &Store, palette: &Palette, table: &Table<'_>) -> String {
        let style = &self.style;
        let Some(trace) = store.traces.get(&key.to_be_bytes()) else {
            return style.line_of(Ink::FAINT, "no longer kept");
        };
        let head = trace.head();
        let (ink, bar_ink) = match trace.errors {
            0 => (Ink::PLAIN, palette.ink(head.service_name())),
            _ => (Ink::BAD, Ink::BAD),
        };
        let name = Some(head.span.name.as_str()).filter(|name| !name.is_empty()).unwrap_or("(no name)");
        let mut title = Text::new(ink.bold(), name.to_owned());
        if trace.root.is_none() {
            title = Text::new(Ink::WARNING, "(no root)").and(1, ink.bold(), name.to_owned());
        }
        let service = head.service_name().chars().take(MAX_SERVICE_WIDTH).collect::<String>();
        let mut services = Text::new(palette.ink(head.service_name()), service);
        let others = trace.services.iter().filter_map(|(number, _)| store.services.get(*number as usize));
        for (index, other) in others.filter(|other| *other != head.service_name()).take(MAX_MARKS).enumerate()
        {
            services = services.and(usize::from(index == 0), palette.ink(other), palette.mark(other, style));
        }
        // The scale is logarithmic, so that one long trace does not shorten the bars of all others.
        let [shortest, longest] = self.items.durations.map(|nanos| (nanos.max(1) as f64).ln());
        let share = ((trace.nanos().max(1) as f64).ln() - shortest) / (longest - shortest).max(1.0);
        let cells = (share.clamp(0.0, 1.0) * table.width_of(3) as f64).round() as usize;
        let errors = (trace.errors > 0).then(|| format!("{}{}", style.glyph("✗"), trace.errors));
        table.row([
            Text::new(Ink::FAINT, describe::time_of_day(trace.start)),
            title,
            services,
            Text::new(bar_ink, style.glyph("█").repeat(cells.max(1))),
            Text::new(ink, describe::duration(trace.nanos(), style)),
            Text::new(Ink::FAINT, trace.spans.len().to_string()),
            Text::new(Ink::BAD.bold(), errors.unwrap_or_default()),
        ])
    }

    fn log_row(&self, number: u64, store: &Store) -> String {
        let Some(kept) = store.log(number) else { return self.style.line_of(Ink::FAINT, "no longer kept") };
        let view = LogView::from(&kept.log);
        let row = log_row(&view, describe::telling(&view.log.attributes, false).join("  "), Layout::Cut);
        // The second line has details that did not fit; they are shown when the record is opened.
        row.draw(&self.style).swap_remove(0)
    }

    /// Explains why nothing is listed.
    fn empty(&self, store: &Store) -> Vec<String> {
        let [http, grpc] = self.page.endpoints();
        let is_filtered = !self.search.is_empty() || !self.filter.shows_everything();
        if is_filtered && store.version > 0 {
            return vec!["nothing matches; Esc clears the search".to_owned()];
        }
        match http {
            "" => vec!["nothing yet".to_owned()],
            _ => {
                let mut lines = vec![
                    "nothing yet; try: standpipe exec -- ls".to_owned(),
                    format!("listening on {http} (HTTP)"),
                    format!("         and {grpc} (gRPC)"),
                ];
                // Without a server, the page has port 0.
                if self.page.address.port() != 0 {
                    lines.push(format!("     page at {}", self.page.url()));
                }
                lines
            }
        }
    }

    fn foot(&self, store: &Store) -> String {
        let style = &self.style;
        let separator = style.glyph(" · ");
        let counts = &store.counts;
        let mut facts = match store.traces.len() as u64 {
            kept if kept == counts.traces => describe::count(kept, "trace"),
            kept => format!("{kept} of {} kept", describe::count(counts.traces, "trace")),
        };
        facts += &format!("{separator}{}", describe::size(store.bytes() as u64));
        if counts.refused > 0 {
            facts = format!("{} refused{separator}{facts}", counts.refused);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let refusal = store.refusals.iter().max_by_key(|refusal| refusal.at);
        let refusal = refusal.filter(|refusal| now.saturating_sub(refusal.at) < REFUSAL_MILLIS);
        let refusal = refusal.map_or("", |refusal| refusal.what.as_str());
        let typed = self.input.as_ref().map(|input| format!("/{input}_"));
        let (ink, left) = match &typed {
            Some(typed) => (Ink::PLAIN.bold(), typed.as_str()),
            None if !self.message.is_empty() => (Ink::WARNING, self.message.as_str()),
            None if !refusal.is_empty() => (Ink::WARNING, refusal),
            None => (Ink::FAINT, "? help  / search  Enter open  e error  q quit"),
        };
        format!("  {}", style.ruled(&[(ink, left)], &[(Ink::FAINT, &facts)]))
    }
}

/// Returns the text that the key `y` copies: the whole trace, or the selected line.
pub(super) fn text(screen: &Screen) -> String {
    let key = match (screen.place, screen.items.keys.get(screen.cursor.line)) {
        (Place::Trace(key), _) => Some(key),
        (Place::Traces, Some(key)) => Some(key.to_be_bytes()),
        _ => None,
    };
    if let Some(lines) = key.and_then(|key| waterfall_of(screen, &key, true, &plain_style(TEXT_WIDTH))) {
        return lines.join("\n") + "\n";
    }
    match screen.items.keys.get(screen.cursor.line) {
        Some(number) => plain(&screen.log_row(*number as u64, &screen.page.lock())),
        None => screen.items.lines.get(screen.cursor.line).map(|line| plain(line)).unwrap_or_default(),
    }
}

/// Returns the escape sequence that sets the clipboard of the terminal (OSC 52), with the text in Base64.
pub(super) fn copy_sequence(text: &str) -> String {
    format!("\x1b]52;c;{}\x07", base64::encode(text.as_bytes()))
}
