use super::*;

fn scope(name: &str) -> Arc<Scope> {
    Arc::new(Scope::new(Signal::Traces, name, ""))
}

/// A framed record of `count` bytes, header included.
fn record(count: u8) -> Vec<u8> {
    let mut record = vec![0x12, count - 2];
    record.resize(usize::from(count), b'x');
    record
}

fn chunk_of(records: &[(&Arc<Scope>, u8)]) -> Chunk {
    let mut chunk = Chunk::with_capacity(Signal::Traces, 1024);
    for (scope, count) in records {
        chunk.append(scope, &record(*count), 1);
    }
    chunk
}

fn runs(chunk: &Chunk) -> Vec<(String, usize, usize)> {
    chunk.runs().iter().map(|run| (run.scope.name.clone(), run.records, run.end - run.start)).collect()
}

#[test]
fn consecutive_records_of_a_scope_are_one_run() {
    let (a, b) = (scope("a"), scope("b"));
    let chunk = chunk_of(&[(&a, 10), (&a, 20), (&b, 30), (&a, 40)]);
    let expected = [("a", 2, 30), ("b", 1, 30), ("a", 1, 40)];
    assert_eq!(runs(&chunk), expected.map(|(name, records, bytes)| (name.to_owned(), records, bytes)));
    assert_eq!((chunk.len(), chunk.is_empty()), (100, false));
}

#[test]
fn as_many_records_fit_as_both_limits_allow() {
    let a = scope("a");
    let chunk = chunk_of(&[(&a, 10), (&a, 20), (&a, 30)]);
    let run = &chunk.runs()[0];
    for (max_records, max_bytes, expected) in [
        (3, 60, (3, 60)),
        (usize::MAX, usize::MAX, (3, 60)),
        (3, 59, (2, 30)),
        (2, 60, (2, 30)),
        (3, 30, (2, 30)),
        (3, 29, (1, 10)),
        (1, 60, (1, 10)),
        (3, 9, (0, 0)),
        (0, 60, (0, 0)),
    ] {
        assert_eq!(chunk.fitting(run, max_records, max_bytes), expected, "{max_records}, {max_bytes}");
    }
}

#[test]
fn records_are_taken_from_the_front_until_none_is_left() {
    let (a, b) = (scope("a"), scope("b"));
    let mut chunk = chunk_of(&[(&a, 10), (&a, 20), (&b, 30)]);
    let mut left = Vec::new();
    for count in [10, 20, 30] {
        assert_eq!(chunk.first_frame().1, count);
        chunk.take_part(1, count);
        left.push(chunk.runs().iter().map(|run| run.records).sum::<usize>());
    }
    assert_eq!(left, [2, 1, 0]);
    assert!(chunk.is_empty());
    assert_eq!((chunk.first_frame().1, chunk.len()), (0, 60), "the bytes stay until it is recycled");
}

#[test]
fn a_recycled_chunk_is_empty_keeps_its_storage_and_lets_its_scopes_go() {
    let a = scope("a");
    let mut chunk = chunk_of(&[(&a, 10), (&a, 20)]);
    chunk.take_part(1, 10);
    chunk.recycle(Signal::Traces);
    assert!(chunk.is_empty() && chunk.runs().is_empty());
    assert_eq!((chunk.len(), chunk.is_for(1024)), (0, true));
    assert_eq!(Arc::strong_count(&a), 1);
    chunk.append(&a, &record(10), 1);
    assert_eq!(runs(&chunk), [("a".to_owned(), 1, 10)]);
}

#[test]
fn a_chunk_that_grew_is_known_by_its_size() {
    let mut chunk = Chunk::with_capacity(Signal::Traces, 16);
    assert!(chunk.is_for(16));
    chunk.append(&scope("a"), &record(17), 1);
    assert!(!chunk.is_for(16));
}

#[test]
fn a_chunk_that_has_a_place_for_a_record_appends_it_without_an_allocation() {
    let scopes: Vec<_> = (0..50).map(|number| scope(&number.to_string())).collect();
    let mut chunk = Chunk::with_capacity(Signal::Traces, Chunk::BYTES);
    for of in &scopes {
        if !chunk.has_place(of, 10) {
            let mut longer = Vec::with_capacity(2 * chunk.max_runs());
            chunk.swap_runs(&mut longer);
            assert!(longer.is_empty(), "all runs have moved");
        }
        let storage = (chunk.bytes.as_slice().as_ptr(), chunk.runs.as_ptr());
        chunk.append(of, &record(10), 1);
        assert_eq!((chunk.bytes.as_slice().as_ptr(), chunk.runs.as_ptr()), storage);
    }
    assert_eq!(runs(&chunk), scopes.iter().map(|scope| (scope.name.clone(), 1, 10)).collect::<Vec<_>>());
}

#[test]
fn a_full_chunk_has_a_place_for_nothing_but_what_has_no_bytes() {
    let a = scope("a");
    let mut chunk = Chunk::with_capacity(Signal::Traces, Chunk::BYTES);
    chunk.append(&a, &vec![0; Chunk::BYTES - 10], 1);
    assert!(chunk.has_place(&a, 10) && !chunk.has_place(&a, 11));
    chunk.append(&a, &record(10), 1);
    assert!(chunk.has_place(&a, 0) && !chunk.has_place(&a, 1));
}
