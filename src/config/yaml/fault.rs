//! Syntax errors of the YAML parser, with advice.

use granit_parser::{ErrorKind, ScanError};

use super::MAX_DEPTH;
use crate::config::Location;
use crate::config::error::{Diagnostic, Fault};

/// Returns a syntax error at its place.
pub(super) fn diagnostic(error: &ScanError, text: &str, file: &str) -> Diagnostic {
    let marker = error.marker();
    let (mut line, mut column) = (marker.line(), marker.col() + 1);
    if is_about_tabs(error.kind()) {
        // The parser reports the place of the value before the tab.
        if let Some(found) = tab_in_indentation(text, line) {
            (line, column) = found;
        }
    }
    in_our_words(error.kind()).error(Some(Location { file: file.to_owned(), line, column }), "")
}

pub(super) fn too_deep() -> Fault {
    Fault::new(format!("nested deeper than {MAX_DEPTH} levels"), "write fewer levels")
}

/// Returns what is wrong and what to write, for every kind of error of the parser.
pub(super) fn in_our_words(kind: &ErrorKind) -> Fault {
    use ErrorKind::*;
    if is_about_tabs(kind) {
        return Fault::new("a tab is used for indentation", "write spaces");
    }
    let (what, fix) = match kind {
        RecursionLimitExceeded => return too_deep(),
        UnexpectedCharacter { character } => return unexpected(*character),
        UnclosedFlowCollection { open } => {
            return Fault::new(format!("{open} is never closed"), format!("write {}", closing(*open)));
        }
        MismatchedFlowCollectionEnd { open, close } => {
            return Fault::new(format!("{open} is closed by {close}"), format!("write {}", closing(*open)));
        }
        MisplacedFlowCollectionEnd => {
            ("a bracket is closed that was never opened", "remove it, or quote the text")
        }
        UnexpectedEofFlowSequence | ExpectedFlowSequenceSeparator => {
            ("a comma is missing in a list", "write , or ] here")
        }
        UnexpectedEofFlowMapping | UnexpectedEofImplicitFlowMapping | ExpectedFlowMappingSeparator => {
            ("a comma is missing in a table", "write , or } here")
        }
        UnclosedQuotedScalar | DocumentIndicatorInQuotedScalar => ("a quote is never closed", "close it"),
        InvalidQuotedScalarIndent => {
            ("a line of quoted text is not indented", "close the quote above, or indent this line")
        }
        InvalidTrailingSingleQuotedScalar | InvalidTrailingDoubleQuotedScalar => {
            ("text after the closing quote", "quote the whole value")
        }
        MappingValueNotAllowed | InvalidColonPlacement | FlowMappingValueAdjacentCollection => (
            "an unexpected colon",
            "quote text that contains a colon, indent keys alike, and close brackets and quotes above",
        ),
        InvalidMappingValueWhitespace => ("no space after a colon", "write one"),
        SimpleKeyExpected | InvalidSimpleKey => {
            ("a key without a colon", "write a colon and a space after it, in the same line")
        }
        ExpectedBlockMappingKey | MappingKeyNotAllowed | UnexpectedEofBlockMapping => {
            ("a key is expected here", "indent all keys of a table alike")
        }
        ExpectedBlockSequenceEntry
        | BlockSequenceEntryNotAllowed
        | BlockEntryInFlowCollection
        | InvalidBlockEntryWhitespace
        | PlainScalarStartsWithDashFlowIndicator
        | UnexpectedEofBlockSequence => {
            ("a list is out of place", "write its dashes under each other, each with a space after it")
        }
        InvalidIndentation | InvalidFlowScalarIndent | InvalidBlockScalarIndent => {
            ("the indentation matches no line above", "indent keys of one table alike")
        }
        ExpectedDocumentStart | InvalidDocumentEnd => {
            ("the document has ended before this", "indent keys of one table alike, or remove the rest")
        }
        InvalidBlockScalarHeader | ZeroBlockScalarIndent => {
            ("text after | or >", "begin it in the next line; quote text that begins with | or >")
        }
        MissingAnchorOrAliasName => ("& or * without a name", "quote text that begins with & or *"),
        UnknownQuotedScalarEscape
        | InvalidQuotedScalarHexEscape
        | InvalidLowSurrogateHexEscape
        | InvalidLowSurrogate
        | MissingLowSurrogate
        | UnpairedLowSurrogate
        | InvalidUnicodeEscape => {
            ("an unknown escape in double quotes", "write \\\\ for a backslash, or use single quotes")
        }
        CommentNotSeparated | CommentInterceptedScalar => {
            ("a comment is out of place", "write a space before #; quote text that contains #")
        }
        BomInsideDocument => ("a byte order mark within the text", "remove it"),
        DuplicateVersionDirective
        | UnsupportedYamlMajorVersion
        | DuplicateTagDirective
        | MissingDocumentEndBeforeDirective
        | InvalidDirectiveTerminator
        | MissingYamlVersionSeparator
        | MissingDirectiveName
        | InvalidDirectiveName
        | DirectiveByteLimitExceeded { .. }
        | TooManyReservedDirectiveParams { .. }
        | YamlVersionTooLong
        | MissingYamlVersion
        | ExpectedTagDirectiveBang
        | InvalidTagDirectiveTerminator => {
            ("a directive that cannot be read", "remove the line that begins with %")
        }
        UndeclaredTagHandle
        | ExpectedTagBang
        | InvalidGlobalTagCharacter
        | InvalidTagTerminator
        | MissingTagUri
        | UnclosedVerbatimTag
        | InvalidTagEscape
        | InvalidTagUtf8LeadingByte
        | InvalidTagUtf8TrailingByte
        | InvalidTagUtf8 => ("a tag that cannot be read", "remove it; quote text that begins with !"),
        _ => ("this is not YAML", "put text with special characters into quotes"),
    };
    Fault::new(what, fix)
}

fn unexpected(character: char) -> Fault {
    if character.is_control() || character == '\u{feff}' {
        return Fault::new(
            format!("a character that YAML does not allow: {}", character.escape_default()),
            "remove it, or write it as an escape in double quotes",
        );
    }
    Fault::new(format!("text cannot begin with {character}"), "quote it")
}

fn closing(open: char) -> char {
    if open == '[' { ']' } else { '}' }
}

fn is_about_tabs(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabAtBlockScalarStart
            | ErrorKind::TabInPlainScalar
    )
}

/// Returns line and column of the first tab in the indentation of a line, searching from `from_line` on.
fn tab_in_indentation(text: &str, from_line: usize) -> Option<(usize, usize)> {
    (1..).zip(text.lines()).skip(from_line.saturating_sub(1)).find_map(|(number, line)| {
        let indentation = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        indentation.find('\t').map(|column| (number, column + 1))
    })
}
