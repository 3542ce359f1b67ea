//! Where the values of a document stand.

use std::collections::BTreeSet;
use std::ops::Range;

use granit_parser::Marker;

use crate::config::Location;
use crate::config::node::Places;

/// The places of a document: a place is an index into their list.
#[derive(Debug)]
pub(super) struct Marks {
    file: String,
    /// Line and column, both from 1.
    marks: Vec<(usize, usize)>,
    spoilt: BTreeSet<usize>,
    spoilt_lines: Vec<Range<usize>>,
}

impl Marks {
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), marks: Vec::new(), spoilt: BTreeSet::new(), spoilt_lines: Vec::new() }
    }

    /// Remembers a place.
    pub(super) fn add(&mut self, marker: Marker) -> usize {
        self.marks.push(line_and_column(marker));
        self.marks.len() - 1
    }

    pub(super) fn spoil(&mut self, at: usize) {
        self.spoilt.insert(at);
    }

    /// The same for all places in some lines.
    pub(super) fn spoil_lines(&mut self, lines: Range<usize>) {
        self.spoilt_lines.push(lines);
    }
}

impl Places for Marks {
    fn location(&self, at: usize) -> Location {
        // an empty document has no places and begins where every document does
        let (line, column) = self.marks.get(at).copied().unwrap_or((1, 1));
        Location { file: self.file.clone(), line, column }
    }

    fn is_spoilt(&self, at: usize) -> bool {
        let line = self.marks.get(at).map_or(1, |(line, _)| *line);
        self.spoilt.contains(&at) || self.spoilt_lines.iter().any(|lines| lines.contains(&line))
    }
}

/// The parser counts columns from 0.
pub(super) fn line_and_column(marker: Marker) -> (usize, usize) {
    (marker.line(), marker.col() + 1)
}
