//! Records that survive the process: while a collector cannot be reached, ready requests wait in segment files.
//!
//! ```text
//!  append ─► Journal ─► Storage ─► <instance>-0.segment  entry entry entry …
//!  next ◄── (order,     (files, or               1.segment  entry …
//!  done ──►  bounds)     a fake)
//! ```
//!
//! [`journal`] is a state machine over [`storage`], which the tests replace by one that fails. [`entry`] is the format, and
//! [`scan`] finds the entries of a segment, damaged or not. `proto/spool.md` describes the bytes.

#![cfg_attr(not(test), expect(dead_code, reason = "no exporter writes to a journal yet"))]

mod crc32c;
mod entry;
mod journal;
mod scan;
mod storage;
