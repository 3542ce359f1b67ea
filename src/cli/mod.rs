//! The command line.

mod describe;
mod paint;
mod text;
mod waterfall;
