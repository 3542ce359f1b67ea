//! `standpipe man`: the manual page, made of the help texts.

use std::process::ExitCode;

use super::help::{COMMANDS, OptionHelp, Topic, summaries};
use super::{Failure, print_text};

/// Prints the page as roff.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    print_text(page().trim_end())
}

fn page() -> String {
    let (title, _) = Topic::Overview.text().split_once('\n').unwrap_or_default();
    let what = title.strip_prefix("standpipe: ").unwrap_or(title);
    let mut page = format!(".TH STANDPIPE 1 \"\" \"standpipe {}\"\n", env!("CARGO_PKG_VERSION"));
    page += &format!(".SH NAME\nstandpipe \\- {}\n", escape(what));
    page += ".SH SYNOPSIS\n.B standpipe\n.I COMMAND\n[OPTIONS]\n.SH COMMANDS\n";
    for (name, summary) in summaries() {
        page += &format!(".TP\n.B {name}\n{}\n", line(&summary));
    }
    page += ".SH OPTIONS\n";
    page += &options(&Topic::Overview.options());
    for (name, topic) in COMMANDS.into_iter().filter(|(_, topic)| *topic != Topic::Overview) {
        page += &format!(".SH {}\n", name.to_uppercase());
        page += &topic.text().split("\n\n").map(|block| render(block, topic)).collect::<String>();
    }
    page
}

/// A block of a help text: its usage, a list with a title, or a paragraph.
fn render(block: &str, topic: Topic) -> String {
    let block = block.trim_end();
    if let Some(usage) = block.strip_prefix("usage: ") {
        let lines: Vec<String> = usage.lines().map(|usage| line(usage.trim())).collect();
        return format!(".nf\n.B\n{}\n.fi\n", lines.join("\n.B\n"));
    }
    if block.starts_with("options:") {
        return format!(".PP\n.B options\n{}", options(&topic.options()));
    }
    match block.split_once(":\n") {
        Some((title, list)) if list.lines().all(|line| line.starts_with("  ")) => {
            let lines: Vec<String> = list.lines().map(|item| line(&item[2..])).collect();
            format!(".PP\n.B {}\n.RS 4\n.nf\n{}\n.fi\n.RE\n", escape(title), lines.join("\n"))
        }
        _ => {
            let lines: Vec<String> = block.lines().map(|text| line(text.trim())).collect();
            format!(".PP\n{}\n", lines.join("\n"))
        }
    }
}

fn options(options: &[OptionHelp]) -> String {
    let entry = |option: &OptionHelp| {
        let short = option.short.map(|letter| format!("-{letter}, ")).unwrap_or_default();
        let value = option.value.map(|value| format!(" {value}")).unwrap_or_default();
        let names = escape(&format!("{short}{}{value}", option.long));
        format!(".TP\n.B {names}\n{}\n", line(&option.description))
    };
    options.iter().map(entry).collect()
}

/// A line of text, which must not look like a request.
fn line(text: &str) -> String {
    let escaped = escape(text);
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_every_command_is_in_the_page() {
        let page = page();
        for (name, topic) in COMMANDS.into_iter().filter(|(_, topic)| *topic != Topic::Overview) {
            let (_, section) = page.split_once(&format!(".SH {}\n", name.to_uppercase())).expect(name);
            let section = section.split_once("\n.SH ").map_or(section, |(section, _)| section);
            for option in topic.options() {
                let long = escape(option.long);
                let is_entry = |line: &str| {
                    line.starts_with(".B ") && line.split(' ').any(|word| word.trim_end_matches(',') == long)
                };
                assert!(section.lines().any(is_entry), "{name} {}", option.long);
            }
        }
    }

    #[test]
    fn no_line_of_text_is_a_request() {
        assert_eq!(line(".profile -x \\n"), "\\&.profile \\-x \\en");
        assert_eq!(line("'quoted'"), "\\&'quoted'");
    }
}
