//! Draws curves as an SVG picture of small charts.
//!
//! The picture has a background, so that it is legible in light and dark themes.

use std::fmt::Write;

/// A picture of several charts.
pub(crate) struct Picture {
    pub(crate) title: String,
    /// The two lines below the title.
    pub(crate) subtitle: [String; 2],
    pub(crate) charts: Vec<Chart>,
}

/// One chart. Its points are equally spaced on the horizontal axis; its vertical axis starts at zero.
pub(crate) struct Chart {
    pub(crate) title: String,
    /// Unit of the vertical axis.
    pub(crate) unit: String,
    /// Label of the horizontal axis.
    pub(crate) over: String,
    pub(crate) curves: Vec<Curve>,
    /// Whether the curves are expected to be flat.
    pub(crate) is_flat: bool,
}

/// A named curve, with its points from left to right.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) colour: Colour,
    /// Formats the value of a point.
    pub(crate) show: fn(f64) -> String,
}

/// Color of a curve, the same for the same subject in all charts. Readers who cannot see red can tell the colors apart.
#[derive(Clone, Copy)]
pub(crate) enum Colour {
    Blue,
    Orange,
    Teal,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Blue => "#1f5fa8",
            Self::Orange => "#c2570c",
            Self::Teal => "#0b7a75",
        }
    }
}

impl Curve {
    pub(crate) fn lowest(&self) -> f64 {
        self.values().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn highest(&self) -> f64 {
        self.values().fold(0.0, f64::max)
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.iter().map(|(_, value)| *value)
    }
}

const COLUMNS: usize = 3;
const CHART: (f64, f64) = (308.0, 236.0);
const MARGIN: f64 = 28.0;
const HEAD: f64 = 92.0;
/// Margins around the plot area of a chart.
const LEFT: f64 = 49.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 46.0;

const PAPER: &str = "#fcfcfa";
const INK: &str = "#24292f";
const FAINT_INK: &str = "#6b7280";
const GRID: &str = "#e7e7e2";
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

impl Picture {
    /// Returns the text of the SVG file.
    pub(crate) fn draw(&self) -> String {
        let rows = self.charts.len().div_ceil(COLUMNS);
        let width = MARGIN + COLUMNS as f64 * CHART.0;
        let height = HEAD + rows as f64 * CHART.1 + 8.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
             <title>{title}</title>\n\
             <style>\n\
             text {{ font-family: {FONT}; font-size: 10px; fill: {INK} }}\n\
             .head {{ font-size: 19px; font-weight: 600 }}\n\
             .chart {{ font-size: 13px; font-weight: 600 }}\n\
             .faint {{ fill: {FAINT_INK} }}\n\
             .value {{ font-size: 9.5px; paint-order: stroke; stroke: {PAPER}; stroke-width: 3px; stroke-linejoin: round }}\n\
             </style>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"{PAPER}\" stroke=\"{GRID}\"/>\n",
            width - 1.0,
            height - 1.0,
            title = escaped(&self.title),
        );
        text(&mut svg, (MARGIN, 38.0), "class=\"head\"", &self.title);
        for (line, baseline) in self.subtitle.iter().zip([57.0, 73.0]) {
            text(&mut svg, (MARGIN, baseline), "class=\"faint\" style=\"font-size: 11.5px\"", line);
        }
        for (index, chart) in self.charts.iter().enumerate() {
            let corner =
                (MARGIN + (index % COLUMNS) as f64 * CHART.0, HEAD + (index / COLUMNS) as f64 * CHART.1);
            chart.draw(corner, &mut svg);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Chart {
    fn draw(&self, (left, top): (f64, f64), svg: &mut String) {
        text(svg, (left, top + 20.0), "class=\"chart\"", &self.title);
        self.draw_names((left, top + 38.0), svg);
        let area = Area {
            left: left + LEFT - 14.0,
            right: left + CHART.0 - RIGHT - 14.0,
            top: top + TOP,
            bottom: top + CHART.1 - BOTTOM,
            highest: self.curves.iter().map(Curve::highest).fold(0.0, f64::max),
            positions: self.positions(),
        };
        self.draw_grid(&area, svg);
        for curve in &self.curves {
            draw_line(curve, &area, svg);
        }
        // Values are drawn after all lines, so that no line covers a value.
        let mut taken =
            Taken { lines: self.curves.iter().map(|curve| area.places(curve)).collect(), values: Vec::new() };
        for curve in &self.curves {
            draw_values(curve, &area, &mut taken, svg);
        }
    }

    /// Draws the unit, and the names of the curves in their colors.
    fn draw_names(&self, (left, baseline): (f64, f64), svg: &mut String) {
        let mut spans = format!("<tspan fill=\"{FAINT_INK}\">{}</tspan>", escaped(&self.unit));
        for curve in self.curves.iter().filter(|curve| !curve.name.is_empty()) {
            let (name, colour) = (escaped(&curve.name), curve.colour.code());
            let _ = write!(spans, "<tspan dx=\"9\" fill=\"{colour}\" font-weight=\"600\">{name}</tspan>");
        }
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{baseline}\">{spans}</text>");
    }

    fn draw_grid(&self, area: &Area, svg: &mut String) {
        let step = step(area.highest);
        let lines = (0..).map(|index| f64::from(index) * step).take_while(|value| *value <= area.scale());
        for value in lines {
            let y = area.y(value);
            let colour = if value == 0.0 { "#b9b9b2" } else { GRID };
            let _ =
                writeln!(svg, "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"{colour}\"/>", area.left, area.right);
            text(svg, (area.left - 6.0, y + 3.5), "class=\"faint\" text-anchor=\"end\"", &number(value));
        }
        for (index, value) in area.positions.iter().enumerate() {
            let place = (area.x(index), area.bottom + 15.0);
            text(svg, place, "class=\"faint\" text-anchor=\"middle\"", &power(*value));
        }
        let middle = ((area.left + area.right) / 2.0, area.bottom + 31.0);
        text(svg, middle, "class=\"faint\" text-anchor=\"middle\"", &self.over);
    }

    /// Returns all positions on the horizontal axis.
    fn positions(&self) -> Vec<f64> {
        let mut positions: Vec<f64> =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(|(place, _)| *place)).collect();
        positions.sort_unstable_by(f64::total_cmp);
        positions.dedup();
        positions
    }
}

/// Plot area of a chart.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    highest: f64,
    /// Values on the horizontal axis, in ascending order; they are drawn at equal distances, whatever their ratios.
    positions: Vec<f64>,
}

impl Area {
    fn x(&self, index: usize) -> f64 {
        let inset = 14.0;
        let steps = self.positions.len().saturating_sub(1).max(1) as f64;
        self.left + inset + (self.right - self.left - 2.0 * inset) * index as f64 / steps
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * value / self.scale()
    }

    /// Returns the value at the top of the area, which leaves room for the figures.
    fn scale(&self) -> f64 {
        (self.highest * 1.18).max(f64::MIN_POSITIVE)
    }

    /// Returns the coordinates of the points of a curve.
    fn places(&self, curve: &Curve) -> Vec<(f64, f64)> {
        let index = |place: f64| self.positions.iter().position(|known| *known == place).unwrap_or_default();
        curve.points.iter().map(|(place, value)| (self.x(index(*place)), self.y(*value))).collect()
    }
}

fn draw_line(curve: &Curve, area: &Area, svg: &mut String) {
    let (places, colour) = (area.places(curve), curve.colour.code());
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke-linecap=\"round\"/>",
        path.join("L")
    );
    for (x, y) in places {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\" stroke=\"{PAPER}\" stroke-width=\"1.2\"/>"
        );
    }
}

/// Draws each value above or below its point, wherever it overlaps fewer lines and values.
fn draw_values(curve: &Curve, area: &Area, taken: &mut Taken, svg: &mut String) {
    let style = format!("class=\"value\" text-anchor=\"middle\" style=\"fill: {}\"", curve.colour.code());
    for ((x, y), (_, value)) in area.places(curve).into_iter().zip(&curve.points) {
        let (above, below) = ((x, y - 7.0), (x, y + 14.0));
        let is_better_below = below.1 + 2.0 < area.bottom && taken.at(below) < taken.at(above);
        let place = if is_better_below { below } else { above };
        taken.values.push(place);
        text(svg, place, &style, &(curve.show)(*value));
    }
}

/// Lines and values that a new value must avoid.
struct Taken {
    lines: Vec<Vec<(f64, f64)>>,
    /// Centers of the baselines of the values drawn so far.
    values: Vec<(f64, f64)>,
}

impl Taken {
    /// Returns how strongly a label of four digits would overlap what is drawn here. Labels count more than lines.
    fn at(&self, (x, baseline): (f64, f64)) -> usize {
        let samples = (-7..=7).map(|step| x + 2.0 * f64::from(step));
        let lines = samples.map(|x| self.lines.iter().filter(|line| is_crossed(line, x, baseline)).count());
        let is_near = |value: &&(f64, f64)| (value.0 - x).abs() < 28.0 && (value.1 - baseline).abs() < 11.0;
        lines.sum::<usize>() + 100 * self.values.iter().filter(is_near).count()
    }
}

/// Returns whether the line crosses a text at `x`.
fn is_crossed(line: &[(f64, f64)], x: f64, baseline: f64) -> bool {
    line.windows(2).any(|ends| {
        let [(x1, y1), (x2, y2)] = ends else { return false };
        let y = y1 + (y2 - y1) * (x - x1) / (x2 - x1);
        (*x1..=*x2).contains(&x) && (baseline - 10.0..baseline + 3.0).contains(&y)
    })
}

fn text(svg: &mut String, (x, y): (f64, f64), attributes: &str, content: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>", escaped(content));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the distance between grid lines: 1, 2 or 5 times a power of ten, for at most five lines.
fn step(highest: f64) -> f64 {
    let mut step = 10f64.powf((highest.max(1e-9) / 5.0).log10().floor());
    for factor in [2.0, 2.5, 2.0] {
        if highest / step <= 4.0 {
            break;
        }
        step *= factor;
    }
    step
}

/// Formats `2500` as `2,500`, and `0.5` without a change.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { super::table::whole(value) } else { format!("{value:.1}") }
}

/// Formats powers of ten from a thousand on with an exponent, and other values as numbers.
fn power(value: f64) -> String {
    let exponent = value.log10();
    if value < 1000.0 || exponent.fract() != 0.0 {
        return super::table::whole(value);
    }
    let raised = |digit: char| match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    };
    format!("10{}", format!("{exponent:.0}").chars().map(raised).collect::<String>())
}
