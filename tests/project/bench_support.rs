//! The benchmarks write their figures into `benches/README.md`, and excerpts of the figures into the README. They
//! replace only their own parts, and mark where a peer is faster.

use support::publish::{excerpts, replace};
use support::svg::{Chart, Colour, Curve, Picture};
use support::table::Table;

#[path = "../../benches/support/mod.rs"]
mod support;

const README: &str = "# standpipe\r\n\n<!-- figures: spans -->\nold\n\n<!-- end of figures -->\n\nbetween \u{2014}\t\n\
                      <!-- figures: logs -->\nolder\n<!-- end of figures -->\n  the end, without a newline";

#[test]
fn only_what_is_between_the_two_comments_is_replaced() {
    let written = replace(README, "logs", "| new |\n").unwrap();
    assert_eq!(written, README.replace("\nolder\n", "\n\n| new |\n\n"));
    let written = replace(&written, "spans", "first").unwrap();
    let again = replace(&written, "spans", "first").unwrap();
    assert_eq!(written, again, "the same figures change nothing");
    assert!(
        written
            .starts_with("# standpipe\r\n\n<!-- figures: spans -->\n\nfirst\n\n<!-- end of figures -->\n\nb")
    );
    assert!(written.ends_with("\n  the end, without a newline"));
}

#[test]
fn a_missing_comment_is_named_with_the_place_where_it_belongs() {
    let said = replace(README, "metrics", "").unwrap_err().to_string();
    assert!(said.contains("there is no <!-- figures: metrics -->"), "{said}");
    assert!(said.contains("<!-- end of figures -->"), "{said}");
    let said = replace("<!-- figures: a -->\n", "a", "").unwrap_err().to_string();
    assert!(said.contains("there is no <!-- end of figures -->"), "{said}");
}

#[test]
fn figures_are_never_written_over_those_that_follow() {
    let unclosed = README.replacen("<!-- end of figures -->", "", 1);
    let said = replace(&unclosed, "spans", "new").unwrap_err().to_string();
    assert!(said.contains("there is no <!-- end of figures --> after <!-- figures: spans -->"), "{said}");
}

const TABLE: &str = "<!-- figures: spans -->\n\n| who | ns | allocs |\n|---|--:|--:|\n| us | 1 | 2 |\n| them | 3 (3.0) | 4 |\n\n\
                     <!-- end of figures -->\n";

#[test]
fn an_excerpt_keeps_its_rows_and_columns_and_gets_new_figures() {
    let text = "before\n<!-- excerpt: spans -->\n\n| one span | allocs |\n|---|--:|\n| them | 9 |\n\n| not | this |\n";
    assert_eq!(excerpts(text, TABLE).unwrap(), text.replace("| them | 9 |", "| them | 4 |"));
    for (missing, said) in [
        (text.replace("them", "others"), "spans has no row \"others\""),
        (text.replace("allocs", "bytes"), "spans has no column \"bytes\""),
        (text.replace("excerpt: spans", "excerpt: logs"), "there is no <!-- figures: logs -->"),
    ] {
        let error = excerpts(&missing, TABLE).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn the_excerpts_of_the_readme_are_the_figures_of_the_benchmarks() {
    let readme = include_str!("../../README.md");
    assert_eq!(excerpts(readme, include_str!("../../benches/README.md")).unwrap(), readme);
    assert_eq!(readme.matches("<!-- excerpt: ").count(), 2);
}

#[test]
fn a_peer_that_is_ahead_is_in_bold() {
    let mut table = Table::new(["one call", "standpipe", "fastrace", "emit", "bare socket", "target"]);
    table.limit("bare socket");
    table.row(cells(["instructions", "1,492", "1,022 (0.7)", "8,527 (5.7)", "412", "≤ 900"]));
    table.row_of_more(cells(["spans/s", "20,764", "15,305", "30,000", "99,999", ""]));
    table.row(cells(["time", "1.2 µs", "900 ns", "1.2 µs", "–", ""]));
    table.row(cells(["allocations", "0.00", "–", "0.00", "0.00", ""]));
    table.note("emit: uncompressed");
    let expected = "\
| one call | standpipe | fastrace | emit | bare socket |
|---|--:|--:|--:|--:|
| instructions | 1,492 | **1,022** (0.7) | 8,527 (5.7) | 412 |
| spans/s | 20,764 | 15,305 | **30,000** | 99,999 |
| time | 1.2 µs | **900 ns** | 1.2 µs | – |
| allocations | 0.00 | – | 0.00 | 0.00 |

- emit: uncompressed
";
    assert_eq!(table.markdown(), expected);
}

#[test]
fn the_best_of_our_own_columns_is_the_bar() {
    let mut table = Table::new(["one span", "standpipe, lean", "standpipe", "registry", ""]);
    table.row(cells(["ns", "552", "649", "600", ""]));
    table.row(cells(["instructions", "4,275", "5,202", "1,301", ""]));
    assert!(table.markdown().contains("| ns | 552 | 649 | 600 |\n"));
    assert!(table.markdown().contains("| instructions | 4,275 | 5,202 | **1,301** |\n"));
}

#[test]
fn with_a_contender_in_each_row_a_peer_that_is_ahead_is_in_bold() {
    let mut table = Table::of_contenders(["contender", "instructions", "spans/s", ""], &["spans/s"]);
    table.limit("limit: memcpy");
    table.row(cells(["standpipe, HTTP", "1,100 (1.0)", "900 (1.0)", ""]));
    table.row(cells(["standpipe, gRPC", "1,000 (0.9)", "950 (1.1)", ""]));
    table.row(cells(["fastrace", "1,050 (1.0)", "940 (1.0)", "no kind"]));
    table.row(cells(["emit", "999 (0.9)", "951 (1.1)", ""]));
    table.row(cells(["limit: memcpy", "54 (0.0)", "9,999 (11.0)", ""]));
    let expected = "\
| contender | instructions | spans/s |  |
|---|--:|--:|--:|
| standpipe, HTTP | 1,100 (1.0) | 900 (1.0) |  |
| standpipe, gRPC | 1,000 (0.9) | 950 (1.1) |  |
| fastrace | 1,050 (1.0) | 940 (1.0) | no kind |
| emit | **999** (0.9) | **951** (1.1) |  |
| limit: memcpy | 54 (0.0) | 9,999 (11.0) |  |
";
    assert_eq!(table.markdown(), expected);
}

#[test]
fn the_picture_has_a_point_and_a_figure_for_every_value() {
    let show = |value: f64| format!("<{value}>");
    let curve = |points: &[(f64, f64)], colour| Curve {
        name: "a & b".to_owned(),
        points: points.to_vec(),
        colour,
        show,
    };
    let chart = Chart {
        title: "Spans".to_owned(),
        unit: "ns".to_owned(),
        over: "waiting".to_owned(),
        curves: vec![
            curve(&[(0.0, 7.0), (1000.0, 7.0), (100_000.0, 9.0)], Colour::Blue),
            curve(&[(0.0, 0.0), (1000.0, 0.0)], Colour::Orange),
        ],
        is_flat: true,
    };
    let picture = Picture {
        title: "Cost".to_owned(),
        subtitle: ["so".to_owned(), "and so".to_owned()],
        charts: vec![chart],
    };
    let svg = picture.draw();
    assert_eq!(svg.matches("<circle").count(), 5);
    assert_eq!(svg.matches(">&lt;7&gt;</text>").count(), 2);
    assert_eq!(svg.matches("a &amp; b").count(), 2);
    for place in [">0</text>", ">10³</text>", ">10⁵</text>"] {
        assert!(svg.contains(place), "{place}: {svg}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
}

fn cells<const COUNT: usize>(cells: [&str; COUNT]) -> [String; COUNT] {
    cells.map(str::to_owned)
}
