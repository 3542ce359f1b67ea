use std::collections::BTreeMap;
use std::net::TcpListener;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Names that the resolver of the tests knows, with their addresses.
static NAMES: Mutex<BTreeMap<String, Vec<SocketAddr>>> = Mutex::new(BTreeMap::new());

/// Returns the prepared addresses of a name.
pub(super) fn prepared(host: &str) -> Option<Vec<SocketAddr>> {
    lock(&NAMES).get(host).cloned()
}

#[cfg(target_os = "linux")]
impl Lookup {
    /// Returns a lookup with a prepared result.
    pub(in crate::transport) fn answering(addresses: &[SocketAddr]) -> Self {
        let search = Mailbox::new();
        search.put(Ok(addresses.to_vec()));
        Self { pending: Some(Arc::new(search)), ..Self::new("collector.test", 0, Driver::OwnThread) }
    }
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

#[test]
fn an_address_is_not_looked_up() {
    for (host, expected) in [("127.0.0.1", "127.0.0.1:4317"), ("::1", "[::1]:4317"), ("[::1]", "[::1]:4317")]
    {
        let mut lookup = Lookup::new(host, 4317, Driver::OwnThread);
        // The deadline has passed.
        let found = lookup.addresses(Instant::now()).unwrap();
        assert_eq!(found, [expected.parse().unwrap()]);
        assert!(lookup.pending.is_none());
    }
}

#[test]
fn a_name_is_looked_up_by_the_system() {
    for driver in [Driver::OwnThread, Driver::Caller] {
        let found = Lookup::new("localhost", 4317, driver).addresses(soon()).unwrap();
        let is_expected = |address: &SocketAddr| address.ip().is_loopback() && address.port() == 4317;
        assert!(!found.is_empty() && found.iter().all(is_expected), "{driver:?}: {found:?}");
    }
}

#[test]
fn a_look_up_that_takes_too_long_is_kept_and_not_begun_twice() {
    let search = Arc::new(Mailbox::new());
    let mut lookup = Lookup::new("slow.test", 4317, Driver::OwnThread);
    lookup.pending = Some(Arc::clone(&search));
    for _ in 0..2 {
        let error = lookup.addresses(Instant::now()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    let address: SocketAddr = "127.0.0.1:4317".parse().unwrap();
    search.put(Ok(vec![address]));
    assert_eq!(lookup.addresses(soon()).unwrap(), [address]);
    assert!(lookup.pending.is_none(), "the next one asks anew");
}

#[test]
fn a_host_without_addresses_is_not_found() {
    let search = Arc::new(Mailbox::new());
    search.put(Ok(Vec::new()));
    let mut lookup = Lookup::new("empty.test", 4317, Driver::OwnThread);
    lookup.pending = Some(search);
    assert_eq!(lookup.addresses(soon()).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn an_attempt_that_was_cut_gets_no_other_connection_and_the_next_one_does() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    let connect = || Arc::new(TcpStream::connect(address).expect("someone listens"));
    let interrupter = Interrupter::default();
    interrupter.forget_cut();
    interrupter.watch(&connect()).expect("nothing is broken yet");
    interrupter.cut();
    assert!(interrupter.is_broken());
    assert_eq!(interrupter.watch(&connect()).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    interrupter.forget_cut();
    assert!(!interrupter.is_broken());
    interrupter.watch(&connect()).expect("another attempt");
}

// Only Linux lets a connect wait while the backlog of a listener is full.
#[cfg(target_os = "linux")]
pub(in crate::transport) mod race {
    use std::io::Read;
    use std::sync::mpsc;
    use std::{iter, thread};

    use super::*;

    /// An address that neither accepts nor refuses connections.
    pub(in crate::transport) struct BlackHole {
        pub(in crate::transport) address: SocketAddr,
        listener: TcpListener,
        queued: Vec<TcpStream>,
    }

    /// Returns a listener on IPv6 loopback whose backlog is full, or prints why there is no IPv6 loopback.
    pub(in crate::transport) fn ipv6_black_hole() -> Option<BlackHole> {
        let listener = TcpListener::bind("[::1]:0")
            .inspect_err(|error| crate::tests::skip(format_args!("no IPv6 on loopback: {error}")));
        listener.ok().map(fill_backlog)
    }

    fn fill_backlog(listener: TcpListener) -> BlackHole {
        let address = listener.local_addr().expect("a bound listener has an address");
        let connects = (0..1_000).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(300)));
        let queued: Vec<_> = connects.map_while(Result::ok).collect();
        assert!(queued.len() < 1_000, "the backlog has no end");
        BlackHole { address, listener, queued }
    }

    fn good() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        (listener, address)
    }

    fn dialer(driver: Driver) -> Dialer {
        Dialer::new(Arc::default(), driver)
    }

    #[test]
    fn waits_one_head_start_for_a_black_holed_family_and_then_prefers_the_other() {
        for driver in [Driver::OwnThread, Driver::Caller] {
            let Some(hole) = ipv6_black_hole() else { return };
            let (_listener, good) = good();
            let (dialer, begun) = (dialer(driver), Instant::now());
            let addresses = [hole.address, good];
            let stream = dialer.connect(&addresses, begun + 2 * PATIENCE).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), good, "{driver:?}");
            // With an equal share of the time for each address, this would take one `PATIENCE`.
            assert!(
                (HEAD_START..PATIENCE / 2).contains(&begun.elapsed()),
                "{driver:?} {:?}",
                begun.elapsed()
            );
            assert_eq!(dialer.order(&addresses), [good, hole.address], "{driver:?}");
        }
    }

    #[test]
    fn alternates_families_and_begins_with_ipv6_or_the_last_one() {
        let addresses =
            ["[::1]:1", "[::1]:2", "[::1]:3", "127.0.0.1:4", "127.0.0.1:5"].map(|text| text.parse().unwrap());
        let ports = |last: &str, addresses: &[SocketAddr]| {
            let dialer = dialer(Driver::OwnThread);
            *lock(&dialer.last) = last.parse().ok();
            dialer.order(addresses).iter().map(SocketAddr::port).collect::<Vec<_>>()
        };
        assert_eq!(ports("", &addresses), [1, 4, 2, 5, 3]);
        assert_eq!(ports("127.0.0.1:9", &addresses), [4, 1, 5, 2, 3]);
        assert_eq!(ports("", &addresses[3..]), [4, 5]);
        assert_eq!(ports("127.0.0.1:9", &addresses[..3]), [1, 2, 3]);
        // Within the family of the last address, the order begins with the address after it.
        assert_eq!(ports("[::1]:1", &addresses), [2, 4, 3, 5, 1]);
        assert_eq!(ports("[::1]:3", &addresses), [1, 4, 2, 5, 3]);
        assert_eq!(ports("127.0.0.1:4", &addresses), [5, 1, 4, 2, 3]);
    }

    #[test]
    fn reaches_the_last_address_behind_more_black_holes_than_threads() {
        for driver in [Driver::OwnThread, Driver::Caller] {
            let (hole, (_listener, good)) = (fill_backlog(good().0), good());
            let mut addresses = [hole.address; MAX_THREADS + 2];
            addresses[MAX_THREADS + 1] = good;
            let stream = dialer(driver).connect(&addresses, Instant::now() + Duration::from_secs(6));
            assert_eq!(stream.unwrap().peer_addr().unwrap(), good, "{driver:?}");
        }
    }

    #[test]
    fn reports_a_refusal_rather_than_a_time_out_and_both_by_the_deadline() {
        for driver in [Driver::OwnThread, Driver::Caller] {
            let (hole, (listener, closed)) = (fill_backlog(good().0), good());
            drop(listener);
            let connect = |addresses: &[SocketAddr]| {
                let begun = Instant::now();
                let failure = dialer(driver).connect(addresses, begun + Duration::from_millis(600));
                assert!(begun.elapsed() < PATIENCE / 2, "{driver:?} {:?}", begun.elapsed());
                failure.unwrap_err().kind()
            };
            assert_eq!(connect(&[closed, hole.address]), ErrorKind::ConnectionRefused, "{driver:?}");
            assert_eq!(connect(&[hole.address, closed]), ErrorKind::ConnectionRefused, "{driver:?}");
            assert_eq!(connect(&[closed, closed]), ErrorKind::ConnectionRefused, "{driver:?}");
            assert_eq!(connect(&[hole.address, hole.address]), ErrorKind::TimedOut, "{driver:?}");
        }
    }

    #[test]
    fn closes_a_connection_that_loses_and_ends_its_thread() {
        let Some(hole) = ipv6_black_hole() else { return };
        let (_listener, good) = good();
        let dialer = dialer(Driver::OwnThread);
        let begun = Instant::now();
        dialer.connect(&[hole.address, good], begun + 2 * PATIENCE).unwrap();
        // Accepting makes room in the backlog, so the connect that lost succeeds when its SYN is repeated.
        let queued: Vec<_> = hole.queued.iter().map(|queued| queued.local_addr().unwrap()).collect();
        let (report, losers) = mpsc::channel();
        let listener = hole.listener.try_clone().unwrap();
        // If the losing connect never succeeds, the thread ends with the process.
        thread::spawn(move || {
            let mut accepted = iter::from_fn(|| listener.accept().ok());
            let loser = accepted.find(|(_, from)| !queued.contains(from));
            report.send(loser.map(|(loser, _)| loser))
        });
        let loser = losers.recv_timeout(PATIENCE).expect("the connect was not continued");
        let mut loser = loser.expect("a listener accepts");
        loser.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(loser.read(&mut [0; 1]).unwrap(), 0, "the connection stays open");
        while Arc::strong_count(&dialer.threads) > 1 {
            assert!(begun.elapsed() < 2 * PATIENCE, "the thread lives on");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn stops_waiting_for_one_or_several_addresses_when_the_attempt_is_cut() {
        let hole = fill_backlog(good().0);
        for count in [1, 2] {
            let (dialer, begun) = (dialer(Driver::OwnThread), Instant::now());
            let addresses = vec![hole.address; count];
            thread::scope(|scope| {
                let racing = scope.spawn(|| dialer.connect(&addresses, begun + 3 * PATIENCE));
                while Arc::strong_count(&dialer.threads) == 1 && !racing.is_finished() {
                    thread::sleep(Duration::from_millis(1));
                }
                assert!(!racing.is_finished(), "{count}: the connect ended before the cut");
                dialer.interrupter.cut();
                assert_eq!(racing.join().unwrap().unwrap_err().kind(), ErrorKind::TimedOut, "{count}");
            });
            assert!(begun.elapsed() < PATIENCE, "{count}: {:?}", begun.elapsed());
        }
    }
}

/// Two servers behind one name.
#[cfg(all(feature = "receiver", feature = "grpc"))]
mod names {
    use super::super::super::{GrpcSpec, HttpSpec, Payload, Transport, Verdict};
    use super::*;
    use crate::config::{Exporter, Proxy};
    use crate::receiver::{Answer, Receiver};
    use crate::record::Signal;

    struct Scene {
        receivers: [Receiver; 2],
        transport: Box<dyn Transport>,
    }

    /// Runs a test over HTTP and over gRPC.
    fn with_both(test: &str, age: Duration, run: impl Fn(Scene)) {
        for is_grpc in [false, true] {
            let receivers = [(); 2].map(|()| Receiver::start().unwrap());
            let address = if is_grpc { Receiver::grpc_address } else { Receiver::address };
            // Tests run in parallel, so each uses a different host name.
            let name = format!("{test}-{is_grpc}.test");
            lock(&NAMES).insert(name.clone(), receivers.iter().map(address).collect());
            let url = format!("http://{name}");
            let exporter = if is_grpc { Exporter::grpc(url) } else { Exporter::http(url) };
            let settings = exporter.proxy(Proxy::Off).max_connection_age(age).connection;
            let transport: Box<dyn Transport> = match is_grpc {
                true => Box::new(GrpcSpec::new(&settings).unwrap().open(Driver::OwnThread)),
                false => Box::new(HttpSpec::new(&settings).unwrap().open(Driver::OwnThread, None)),
            };
            run(Scene { receivers, transport });
        }
    }

    impl Scene {
        fn send(&mut self) -> Verdict {
            self.transport.send(&Payload { signal: Signal::Traces, body: &[] }, soon())
        }

        fn counts(&self) -> [(u64, u64); 2] {
            self.receivers.each_ref().map(|receiver| (receiver.connection_count(), receiver.request_count()))
        }
    }

    #[test]
    fn connections_of_limited_age_take_turns_between_the_servers() {
        with_both("turns", Duration::ZERO, |mut scene| {
            (0..4).for_each(|_| assert_eq!(scene.send(), Verdict::Accepted));
            assert_eq!(scene.counts(), [(2, 2), (2, 2)]);
        });
    }

    #[test]
    fn keeps_a_connection_until_it_ends_and_then_connects_to_another_server() {
        with_both("kept", Duration::MAX, |mut scene| {
            (0..3).for_each(|_| assert_eq!(scene.send(), Verdict::Accepted));
            assert_eq!(scene.counts(), [(1, 3), (0, 0)]);
            let [first, second] = scene.receivers;
            drop(first);
            let payload = Payload { signal: Signal::Traces, body: &[] };
            assert_eq!(scene.transport.send(&payload, soon()), Verdict::Accepted);
            assert_eq!((second.connection_count(), second.request_count()), (1, 1));
        });
    }

    #[test]
    fn the_attempt_after_an_error_asks_another_server() {
        with_both("error", Duration::MAX, |mut scene| {
            scene.receivers[0].always(Answer::status(503));
            assert!(matches!(scene.send(), Verdict::TryLater { after: None, .. }));
            (0..2).for_each(|_| assert_eq!(scene.send(), Verdict::Accepted));
            assert_eq!(scene.counts(), [(1, 1), (1, 2)]);
        });
    }

    #[test]
    fn a_server_that_asks_for_a_delay_keeps_its_connection() {
        with_both("delay", Duration::MAX, |mut scene| {
            scene.receivers[0].script([Answer::status(503).retry_after("1")]);
            assert!(matches!(scene.send(), Verdict::TryLater { after: Some(_), .. }));
            assert_eq!(scene.send(), Verdict::Accepted);
            assert_eq!(scene.counts(), [(1, 2), (0, 0)]);
        });
    }
}
