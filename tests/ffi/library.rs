//! The shared library, and how programs are built with it.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::scratch::Scratch;
use crate::support::{command, examples, skip};

/// The example whose shared library exports the functions of the C interface.
const LIBRARY: &str = "standpipe_c";
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ffi/programs");
const HEADER_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ffi");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    C99,
    Cxx17,
}

impl Language {
    /// The compiler and its options for this language.
    fn compiler(self) -> (String, [&'static str; 3]) {
        let (variable, usual, options) = match self {
            Language::C99 => ("CC", "cc", ["-x", "c", "-std=c99"]),
            Language::Cxx17 => ("CXX", "c++", ["-x", "c++", "-std=c++17"]),
        };
        (std::env::var(variable).unwrap_or_else(|_| usual.to_owned()), options)
    }
}

/// Returns a compiler for this machine, with strict options. If the compiler is missing or targets another machine,
/// prints the reason for skipping the test and returns `None`.
pub(crate) fn compiler(language: Language) -> Option<Command> {
    let (name, options) = language.compiler();
    let reason = match Command::new(&name).arg("-dumpmachine").output() {
        Err(error) => format!("there is no {name}: {error}"),
        Ok(output) if !is_this_machine(&command::stdout(&output)) => {
            format!("{name} is for another machine than this test, {}", command::stdout(&output).trim())
        }
        Ok(_) => {
            let mut compiler = Command::new(name);
            compiler.args(options).args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-I", HEADER_FOLDER]);
            return Some(compiler);
        }
    };
    skip(format_args!("{reason}"));
    None
}

fn is_this_machine(machine: &str) -> bool {
    let architecture = machine.split('-').next().unwrap_or_default();
    let is_known = match ARCH {
        "x86" => matches!(architecture, "i386" | "i486" | "i586" | "i686"),
        "arm" => architecture.starts_with("arm"),
        other => architecture == other,
    };
    // A statically linked C library cannot load another library.
    is_known && cfg!(target_env = "musl") == machine.contains("musl") && !cfg!(target_feature = "crt-static")
}

/// A program that was built, in a folder that is removed on drop.
pub(crate) struct Built {
    program: PathBuf,
    _folder: Scratch,
}

impl Built {
    /// Builds `tests/ffi/programs/NAME`, with the extension `.c` by default, and links it with the library. Prints the
    /// reason if that is impossible.
    pub(crate) fn new(name: &str, language: Language) -> Option<Self> {
        let mut compiler = compiler(language)?;
        let (folder, library) = (Scratch::new(), library());
        let program = folder.path().join(name);
        let beside = library.parent().expect("it is in a folder");
        let file = [name, if name.contains('.') { "" } else { ".c" }].concat();
        compiler.arg(format!("{FOLDER}/{file}")).args(["-x", "none", "-o"]).arg(&program);
        compiler.arg("-L").arg(beside).arg(format!("-l{LIBRARY}"));
        compiler.arg(format!("-Wl,-rpath,{}", beside.display())).args(["-pthread", "-ldl"]);
        let output = compiler.output().expect("the compiler runs");
        assert!(output.status.success(), "{name}: {}", command::stderr(&output));
        Some(Self { program, _folder: folder })
    }

    /// Runs the program, which must succeed. Returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, &[])
    }

    /// Like [`run`](Self::run), with these variables and no other variables that a configuration reads.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        finish(Command::new(&self.program).args(arguments), variables)
    }
}

/// Returns the output of a program that must succeed, and print nothing on standard error.
pub(crate) fn finish(command: &mut Command, variables: &[(&str, &str)]) -> String {
    command::forget_surroundings(command);
    command.envs(variables.iter().copied());
    let output: Output = command.output().expect("it can be started");
    let shown = || format!("{command:?}: {}\n{}", output.status, command::stderr(&output));
    assert!(output.status.success() && output.stderr.is_empty(), "{}", shown());
    command::stdout(&output)
}

pub(crate) fn library() -> PathBuf {
    examples::library(LIBRARY)
}

/// Returns a script in the folder of the programs.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}
