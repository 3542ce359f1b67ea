//! Records that survive the process.

#![cfg_attr(not(test), expect(dead_code, reason = "no exporter writes to a journal yet"))]

mod crc32c;
mod entry;
mod storage;
