//! A record that is both in the queue of a dead process and in a request on disk is delivered once.

use super::*;
use crate::spool::segment::HEADER_LEN;

impl Folder {
    /// Leaves the files of a process that died after it wrote two entries. The first entry has the record that is also
    /// in the queue.
    fn leave_chunk_and_entries(&self) {
        let mut spool = self.open();
        let mut chunk = Chunk::with_capacity(Signal::Logs, 0);
        chunk.move_to(spool.recorder().take(Signal::Logs, 0).unwrap());
        chunk.append(&Arc::new(Scope::new(Signal::Logs, "shop", "")), &record(), 1);
        let note_entry = |segment, offset| chunk.note_entry(segment, offset);
        spool.append(Signal::Logs, 1, &[b"the record"], &note_entry).unwrap();
        spool.append(Signal::Logs, 1, &[b"another"], &|_, _| ()).unwrap();
        spool.recorder().close();
    }
}

#[test]
fn a_record_in_the_queue_and_in_a_request_on_disk_is_delivered_once() {
    let folder = Folder::new("in-both");
    folder.leave_chunk_and_entries();
    assert_eq!(inspect(&folder.0).unwrap()[0].records(), 2);
    let mut dies = folder.open();
    assert_eq!(dies.next(Signal::Logs).unwrap().unwrap().body, b"the record");
    dies.settle(Signal::Logs).unwrap();
    drop(dies);
    let mut next = folder.open();
    assert_eq!(drain(&mut next), [b"another"], "what was delivered is in neither");
    next.close();
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn what_a_request_on_disk_has_of_a_chunk_is_settled_before_the_rest_is_written() {
    let folder = Folder::new("rest");
    let mut spool = folder.open();
    let scope = Arc::new(Scope::new(Signal::Logs, "shop", ""));
    let mut chunk = Chunk::with_capacity(Signal::Logs, 0);
    chunk.move_to(spool.recorder().take(Signal::Logs, 0).unwrap());
    [1, 2].iter().for_each(|_| chunk.append(&scope, &record(), 1));
    let start = chunk.runs()[0].start;
    let first = chunk.copy_bytes(start, start + record().len());
    let note_entry = |segment, offset| first.note_entry(segment, offset);
    spool.append(Signal::Logs, 1, &[b"the first"], &note_entry).unwrap();
    first.settle();
    // The process dies in the next append, before it has written the entry with the remaining record.
    chunk.note_entry(0, 4711);
    spool.recorder().close();
    drop((first, chunk, spool));
    assert_eq!(inspect(&folder.0).unwrap()[0].records(), 2);
    let bodies = drain(&mut folder.open());
    assert_eq!((bodies.len(), &bodies[0][..]), (2, &b"the first"[..]), "{bodies:?}");
}

#[test]
fn a_record_whose_request_on_disk_is_not_whole_is_delivered_from_the_queue() {
    let cases: [fn(&mut Vec<u8>); 3] = [
        |segment| segment.truncate(HEADER_LEN + 3),
        |segment| segment[HEADER_LEN] ^= 1,
        |segment| segment[HEADER_LEN - 1] ^= 1,
    ];
    for break_entry in cases {
        let folder = Folder::new("not-whole");
        folder.leave_chunk_and_entries();
        folder.edit(".segment", break_entry);
        let bodies = drain(&mut folder.open());
        assert!(bodies.iter().any(|body| body.ends_with(&record())), "{bodies:?}");
    }
}

#[test]
fn a_record_whose_request_is_in_a_segment_that_is_left_alone_is_delivered_from_the_queue() {
    let folder = Folder::new("in-left-alone");
    folder.leave_chunk_and_entries();
    let segment = fs::OpenOptions::new().write(true).open(folder.file(".segment")).unwrap();
    segment.set_len(200 << 20).unwrap();
    let mut spool = folder.open();
    let notes = spool.take_notes();
    assert!(notes.len() == 1 && notes[0].contains(".segment: left alone: "), "{notes:?}");
    let bodies = drain(&mut spool);
    assert!(bodies.len() == 1 && bodies[0].ends_with(&record()), "{bodies:?}");
}
