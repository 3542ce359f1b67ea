use super::*;

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

#[test]
fn an_address_is_not_looked_up() {
    for (host, expected) in [("127.0.0.1", "127.0.0.1:4317"), ("::1", "[::1]:4317"), ("[::1]", "[::1]:4317")]
    {
        let mut lookup = Lookup::new(host, 4317);
        // there is no time for it
        let found = lookup.addresses(Some(Instant::now())).unwrap();
        assert_eq!(found, [expected.parse().unwrap()]);
        assert!(lookup.pending.is_none());
    }
}

#[test]
fn a_name_is_looked_up_by_the_system() {
    let found = Lookup::new("localhost", 4317).addresses(soon()).unwrap();
    assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 4317), "{found:?}");
    assert!(!found.is_empty());
}

#[test]
fn a_look_up_that_takes_too_long_is_kept_and_not_begun_twice() {
    let search = Arc::new(Search::default());
    let mut lookup = Lookup { host: "slow.test".to_owned(), port: 4317, pending: Some(Arc::clone(&search)) };
    for _ in 0..2 {
        let error = lookup.addresses(Some(Instant::now())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    let address: SocketAddr = "127.0.0.1:4317".parse().unwrap();
    search.end(Ok(vec![address]));
    assert_eq!(lookup.addresses(soon()).unwrap(), [address]);
    assert!(lookup.pending.is_none(), "the next one asks anew");
}

#[test]
fn a_host_without_addresses_is_not_found() {
    let search = Arc::new(Search::default());
    search.end(Ok(Vec::new()));
    let mut lookup = Lookup { host: "empty.test".to_owned(), port: 4317, pending: Some(search) };
    assert_eq!(lookup.addresses(soon()).unwrap_err().kind(), ErrorKind::NotFound);
}
