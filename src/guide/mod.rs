//! How is standpipe used, configured and operated? The manual, one chapter per question.
//!
//! | chapter | answers |
//! |---|---|
//! | [`programs`] | what does a whole program look like, and what if it may have no threads? |
//! | [`signals`] | how do I write spans, log records and metrics, and sample traces? |
//! | [`contexts`] | how does a trace go on in other threads, processes and services, and how do I use a global? |
//! | [`configuration`] | which settings are there, and what are their defaults? |
//! | [`environment`] | which environment variables are read? |
//! | [`bridges`] | how do I keep `tracing`, `log`, `metrics` or the OpenTelemetry API? |
//! | [`migration`] | what changes when I move from tracing-opentelemetry or opentelemetry-otlp? |
//! | [`grpc`] | how does OTLP over gRPC behave? |
//! | [`c`] | how do I use it from C, C++ or another language? |
//! | [`operations`] | what happens when the queue is full, the collector is down, or the process forks? |
//! | [`spool`] | how do records survive `kill -9`, and outages of the collector? |
//! | [`exit`] | what survives `process::exit`, a panic, SIGTERM, `kill -9`? |
//! | [`messages`] | what does each problem and each diagnostic mean, and what helps? |
//! | [`limits`] | how large can everything become? |
//! | [`targets`] | on which systems and processors is it tested, and what differs there? |
//! | [`testing`] | how do I test my program's telemetry? |
//! | [`size`] | how small can a program become? |
//! | [`growing`] | what comes when one machine is not enough? |
//! | [`shell`] | how do I trace shell scripts, make, cargo and CI jobs? |
//! | [`command`] | what does the `standpipe` command do? |

// Programs of a chapter that need a feature are tested with it: the published crate is tested without, too.
#[cfg(any(not(doctest), feature = "tracing"))]
pub mod bridges {
    #![doc = include_str!("bridges.md")]
}

pub mod c {
    #![doc = include_str!("c.md")]
}

pub mod command {
    #![doc = include_str!("command.md")]
}

pub mod configuration {
    #![doc = include_str!("configuration.md")]
}

#[cfg(any(not(doctest), feature = "tracing"))]
pub mod contexts {
    #![doc = include_str!("contexts.md")]
}

pub mod environment {
    #![doc = include_str!("environment.md")]
}

pub mod exit {
    #![doc = include_str!("exit.md")]
}

pub mod growing {
    #![doc = include_str!("growing.md")]
}

pub mod grpc {
    #![doc = include_str!("grpc.md")]
}

pub mod limits {
    #![doc = include_str!("limits.md")]
}

pub mod messages {
    #![doc = include_str!("messages.md")]
}

pub mod migration {
    #![doc = include_str!("migration.md")]
}

pub mod operations {
    #![doc = include_str!("operations.md")]
}

#[cfg(any(not(doctest), feature = "tracing"))]
pub mod programs {
    #![doc = include_str!("programs.md")]
}

pub mod shell {
    #![doc = include_str!("shell.md")]
}

pub mod signals {
    #![doc = include_str!("signals.md")]
}

pub mod size {
    #![doc = include_str!("size.md")]
}

pub mod spool {
    #![doc = include_str!("spool.md")]
}

pub mod targets {
    #![doc = include_str!("targets.md")]
}

#[cfg(any(not(doctest), feature = "receiver"))]
pub mod testing {
    #![doc = include_str!("testing.md")]
}
