//! `standpipe completions`: scripts that complete the command line in a shell, made of the help texts.

use std::process::ExitCode;

use super::given::Given;
use super::help::{COMMANDS, OptionHelp, Topic, summaries};
use super::init::Flavour;
use super::{Failure, print_text, text};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Prints the script of a shell.
pub(crate) fn run(given: &Given) -> Result<ExitCode, Failure> {
    let words = given.words().map_err(Failure::Usage)?;
    match words[..] {
        ["bash"] => print_text(bash().trim_end()),
        ["zsh"] => print_text(zsh().trim_end()),
        ["fish"] => print_text(fish().trim_end()),
        [shell] => Err(Failure::Usage(text::unknown_of("shell", shell, &SHELLS))),
        _ => Err(Failure::Usage("completions needs a shell: bash, zsh or fish".to_owned())),
    }
}

/// What an option's value, or an operand, may be.
enum Candidates {
    Words(Vec<&'static str>),
    Files,
    Anything,
}

/// By what stands for a value in the help.
fn of_value(value: &str) -> Candidates {
    match value {
        "WHEN" => Candidates::Words(vec!["auto", "always", "never"]),
        "KIND" => Candidates::Words(vec!["internal", "server", "client", "producer", "consumer"]),
        "LEVEL" => Candidates::Words(vec!["trace", "debug", "info", "warn", "error", "fatal"]),
        "STATUS" => Candidates::Words(vec!["ok", "error"]),
        "FILE" | "CONTEXT" => Candidates::Files,
        _ => Candidates::Anything,
    }
}

fn of_operand(topic: Topic) -> Candidates {
    match topic {
        Topic::Overview => Candidates::Words(COMMANDS.map(|(name, _)| name).to_vec()),
        Topic::Init => Candidates::Words(Flavour::ALL.iter().map(|flavour| flavour.name()).collect()),
        Topic::Span => Candidates::Words(vec!["start", "event", "end"]),
        Topic::Metric => Candidates::Words(vec!["counter", "gauge", "histogram"]),
        Topic::Completions => Candidates::Words(SHELLS.to_vec()),
        Topic::Check | Topic::Spool | Topic::Drain => Candidates::Files,
        _ => Candidates::Anything,
    }
}

/// Those of the command, and those of all commands.
fn options(topic: Topic) -> Vec<OptionHelp> {
    let mut options = if topic == Topic::Overview { Vec::new() } else { topic.options() };
    let is_common = |option: &OptionHelp| !topic.is_given() || option.long == "--help";
    options.extend(Topic::Overview.options().into_iter().filter(is_common));
    options
}

/// Both names.
fn names(option: &OptionHelp) -> Vec<String> {
    let short = option.short.map(|letter| format!("-{letter}"));
    short.into_iter().chain([option.long.to_owned()]).collect()
}

/// The first part of what it does, as shells show it in one line.
fn first_part(option: &OptionHelp) -> &str {
    let end = [";", ". "].iter().filter_map(|end| option.description.find(end)).min();
    &option.description[..end.unwrap_or(option.description.len())]
}

fn bash() -> String {
    let all = COMMANDS.map(|(name, _)| name);
    let mut values = String::new();
    let mut cases = String::new();
    for (name, topic) in COMMANDS {
        for option in options(topic) {
            let Some(value) = option.value else { continue };
            let patterns: Vec<String> =
                names(&option).iter().map(|option| format!("{name},{option}")).collect();
            let reply = match of_value(value) {
                Candidates::Words(words) => {
                    format!("COMPREPLY=($(compgen -W '{}' -- \"$word\")); ", words.join(" "))
                }
                Candidates::Files | Candidates::Anything => String::new(),
            };
            values += &format!("        {}) {reply}return ;;\n", patterns.join("|"));
        }
        let listed: Vec<String> = options(topic).iter().flat_map(names).collect();
        let operands = match of_operand(topic) {
            Candidates::Words(words) => words.join(" "),
            Candidates::Files | Candidates::Anything => String::new(),
        };
        cases += &format!("        {name}) options='{}' operands='{operands}' ;;\n", listed.join(" "));
    }
    let common: Vec<String> = Topic::Overview.options().iter().flat_map(names).collect();
    format!(
        "# completions of standpipe for bash: source <(standpipe completions bash)\n\
         _standpipe() {{\n    \
             local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command= index\n    \
             COMPREPLY=()\n    \
             for ((index = 1; index < COMP_CWORD; index++)); do\n        \
                 if [[ $command == exec && ${{COMP_WORDS[index]}} == -- ]]; then\n            \
                     # the command of exec, and then its arguments\n            \
                     ((index + 1 == COMP_CWORD)) && COMPREPLY=($(compgen -c -- \"$word\"))\n            \
                     return\n        \
                 fi\n        \
                 case ${{COMP_WORDS[index]}} in\n            \
                     {}) [[ $command ]] || command=${{COMP_WORDS[index]}} ;;\n        \
                 esac\n    \
             done\n    \
             case $command,$previous in\n{values}    esac\n    \
             local options='{}' operands='{}'\n    \
             case $command in\n{cases}    esac\n    \
             if [[ $word == -* ]]; then\n        \
                 COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n    \
             else\n        \
                 COMPREPLY=($(compgen -W \"$operands\" -- \"$word\"))\n    \
             fi\n\
         }}\n\
         # where it completes nothing, files are\n\
         complete -o default -F _standpipe standpipe\n",
        all.join("|"),
        common.join(" "),
        all.join(" "),
    )
}

fn zsh() -> String {
    let quoted =
        |text: &str| text.replace('\'', "'\\''").replace(':', "\\:").replace('[', "\\[").replace(']', "\\]");
    let action = |candidates: Candidates| match candidates {
        Candidates::Words(words) => format!("({})", words.join(" ")),
        Candidates::Files => "_files".to_owned(),
        Candidates::Anything => String::new(),
    };
    let mut commands = String::new();
    let mut cases = String::new();
    for (name, topic) in COMMANDS {
        let summary = summaries().into_iter().find(|(command, _)| *command == name).unwrap_or_default().1;
        commands += &format!("        '{name}:{}'\n", quoted(&summary));
        let mut specs = String::new();
        for option in options(topic) {
            let value = option.value.map(|value| format!(":{}:{}", quoted(value), action(of_value(value))));
            for name in names(&option) {
                let value = value.as_deref().unwrap_or_default();
                specs += &format!(" \\\n            '*{name}[{}]{value}'", quoted(first_part(&option)));
            }
        }
        let operands = match topic {
            Topic::Exec => "'*::command:_normal'".to_owned(),
            topic => format!("'*:operand:{}'", action(of_operand(topic))),
        };
        cases += &format!("        {name}) _arguments -s -S{specs} \\\n            {operands} ;;\n");
    }
    format!(
        "#compdef standpipe\n# completions of standpipe for zsh: standpipe completions zsh > a directory of $fpath/_standpipe\n\
         _standpipe() {{\n    \
             local -a subcommands=(\n{commands}    )\n    \
             if (( CURRENT == 2 )); then\n        \
                 _describe command subcommands\n        \
                 return\n    \
             fi\n    \
             local command=$words[2]\n    \
             shift words\n    \
             (( CURRENT-- ))\n    \
             # behind -- is a command line of its own\n    \
             local dashes=${{words[(i)--]}}\n    \
             if [[ $command == exec ]] && (( dashes < CURRENT )); then\n        \
                 shift $dashes words\n        \
                 (( CURRENT -= dashes ))\n        \
                 _normal\n        \
                 return\n    \
             fi\n    \
             case $command in\n{cases}    esac\n\
         }}\n\
         # autoloaded from a file, this is the first call; read by source, it is none\n\
         if [[ $funcstack[1] == _standpipe ]]; then\n    \
             _standpipe \"$@\"\n\
         else\n    \
             compdef _standpipe standpipe\n\
         fi\n"
    )
}

fn fish() -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut script = "# completions of standpipe for fish: standpipe completions fish | source\n\
        complete -c standpipe -n __fish_use_subcommand -f\n"
        .to_owned();
    for (name, summary) in summaries() {
        script +=
            &format!("complete -c standpipe -n __fish_use_subcommand -a {name} -d {}\n", quoted(&summary));
    }
    for (name, topic) in COMMANDS {
        let of_command = format!("complete -c standpipe -n '__fish_seen_subcommand_from {name}'");
        for option in options(topic) {
            let short = option.short.map(|letter| format!(" -s {letter}")).unwrap_or_default();
            let value = match option.value.map(of_value) {
                None => String::new(),
                Some(Candidates::Words(words)) => format!(" -x -a {}", quoted(&words.join(" "))),
                Some(Candidates::Files) => " -r -F".to_owned(),
                Some(Candidates::Anything) => " -x".to_owned(),
            };
            let (long, description) = (&option.long[2..], quoted(first_part(&option)));
            script += &format!("{of_command}{short} -l {long}{value} -d {description}\n");
        }
        script += &match (topic, of_operand(topic)) {
            (Topic::Exec, _) => format!("{of_command} -x -a '(__fish_complete_subcommand)'\n"),
            (_, Candidates::Words(words)) => format!("{of_command} -f -a {}\n", quoted(&words.join(" "))),
            (_, Candidates::Files) => String::new(),
            (_, Candidates::Anything) => format!("{of_command} -f\n"),
        };
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_every_command_is_in_every_script() {
        let (bash, zsh, fish) = (bash(), zsh(), fish());
        for (name, topic) in COMMANDS {
            let line_of = |script: &str, start: &str| {
                let found = script.lines().find(|line| line.trim_start().starts_with(start));
                found.unwrap_or_else(|| panic!("no {start:?}")).to_owned()
            };
            let words = line_of(&bash, &format!("{name}) options="));
            let (_, specs) = zsh.split_once(&format!("        {name}) _arguments")).expect(name);
            let specs = specs.split_once(";;").expect(name).0;
            for option in topic.options() {
                assert!(
                    words.contains(&format!("{} ", option.long))
                        || words.contains(&format!("{}'", option.long))
                );
                assert!(specs.contains(&format!("'*{}[", option.long)), "{name} {}", option.long);
                let start = format!("complete -c standpipe -n '__fish_seen_subcommand_from {name}'");
                let long = format!(" -l {} ", &option.long[2..]);
                assert!(
                    fish.lines().any(|line| line.starts_with(&start) && line.contains(&long)),
                    "{name} {long}"
                );
            }
        }
    }
}
