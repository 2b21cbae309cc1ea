//! A small server over both kinds of socket: calls, refusals, late answers, strangers, restarts.

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSlice, Read, Write};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use trireme_net::{
    Address, Deadline, Endpoint, Handler, Identity, Link, Listener, ListenerConfig, NetError, Peer,
    Pipeline, Pool,
};
use trireme_proto::hello::Role;
use trireme_proto::{Header, Key, Op, Refusal};

/// Answers what it is told; notes the texts in the order in which they took effect.
#[derive(Default)]
struct Echo {
    effects: Mutex<Vec<String>>,
}

impl Handler for Echo {
    type Session = u64;

    fn connected(&self, _peer: &Peer) -> u64 {
        0
    }

    fn request(
        &self,
        session: &mut u64,
        header: &Header,
        body: &[u8],
        link: &mut Link,
    ) -> Result<io::Result<()>, Refusal> {
        *session += 1;
        match header.op() {
            Op::META => {
                let text: String = trireme_proto::decode(body)?;
                if text == "later" {
                    let responder = link.responder(header);
                    std::thread::spawn(move || responder.reply_body(&"late".to_owned()));
                    return Ok(Ok(()));
                }
                if text.starts_with("held") {
                    link.responder(header).hold(Ok(&text));
                    return Ok(Ok(()));
                }
                if text == "no" {
                    return Err(Refusal::new(2, "there is no such thing"));
                }
                if text == "hang" {
                    std::thread::sleep(Duration::from_millis(700));
                }
                self.effects.lock().unwrap().push(text.clone());
                Ok(link.reply_body(header, &text))
            }
            Op::WRITE => {
                let mut bytes = vec![0; link.payload_left()];
                Ok(link
                    .receive_payload(&mut bytes)
                    .and_then(|()| link.reply_with(header.reply(), &[], &[IoSlice::new(&bytes)])))
            }
            // Takes as many milliseconds as it is asked for bytes.
            Op::READ => {
                std::thread::sleep(Duration::from_millis(header.length.get()));
                Ok(link.reply(header.reply()))
            }
            _ => Ok(Ok(())),
        }
    }
}

fn start(addresses: Vec<Address>, key: &Key) -> Listener {
    start_with(addresses, key, &Arc::default())
}

fn start_with(addresses: Vec<Address>, key: &Key, echo: &Arc<Echo>) -> Listener {
    let config = ListenerConfig {
        addresses,
        key: key.clone(),
        role: Role::Manager,
        server: 4,
        cluster: 9,
        incarnation: Arc::new(AtomicU64::new(77)),
    };
    Listener::start(config, echo.clone()).unwrap()
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(5))
}

fn pool(listener: &Listener, key: &Key) -> Pool {
    Pool::new(
        Endpoint::new(listener.addresses().to_vec()),
        key.clone(),
        Identity::of_this_process(),
    )
}

fn both() -> (tempfile::TempDir, Vec<Vec<Address>>) {
    let dir = tempfile::tempdir().unwrap();
    let unix = Address::Unix(dir.path().join("s"));
    (
        dir,
        vec![vec![unix], vec![Address::Tcp("127.0.0.1:0".into())]],
    )
}

#[test]
fn calls_refusals_and_late_answers_work_over_both_sockets() {
    let (_dir, kinds) = both();
    for addresses in kinds {
        let listener = start(addresses, &Key::open());
        let pool = pool(&listener, &Key::open());
        let say = |text: &str| pool.call::<_, String>(Op::META, &text, soon());
        assert_eq!(say("hello").unwrap(), "hello");
        assert_eq!(say("later").unwrap(), "late");
        let error = say("no").unwrap_err();
        assert_eq!(error.errno(), 2);
        assert!(
            error.to_string().contains("there is no such thing"),
            "{error}"
        );
        assert_eq!(pool.incarnation(), 77);

        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut back = vec![0; bytes.len()];
        let mut lease = pool.lease(soon()).unwrap();
        let mut header = Header::request(Op::WRITE);
        let reply = lease
            .call(&mut header, &[], &[IoSlice::new(&bytes)], &mut back, soon())
            .unwrap();
        assert_eq!(reply.header.payload.get() as usize, bytes.len());
        assert!(back == bytes);

        // A payload that the handler does not read leaves the stream in step.
        let mut header = Header::request(Op(0x7777));
        let unread = lease.call(&mut header, &[], &[IoSlice::new(&bytes)], &mut [], soon());
        assert_eq!(unread.unwrap_err().errno(), 95);
        let mut header = Header::request(Op::WRITE);
        lease
            .call(&mut header, &[], &[IoSlice::new(b"abc")], &mut back, soon())
            .unwrap();
        assert_eq!(&back[..3], b"abc");
    }
}

#[test]
fn many_requests_on_one_connection_are_all_answered_whatever_their_size() {
    let (_dir, kinds) = both();
    for addresses in kinds {
        let listener = start(addresses, &Key::open());
        let pool = pool(&listener, &Key::open());
        let mut lease = pool.lease(soon()).unwrap();
        let mut pipeline = Pipeline::new(&mut lease);
        // Far more than the sockets hold in either direction: whoever only sends would wait for ever.
        let long = format!("held {}", "x".repeat(100_000));
        let texts: Vec<&str> = (0..600)
            .map(|number| match number % 6 {
                0 => "later",
                1 => "no",
                2 | 3 => "held",
                4 => "at once",
                _ => &long,
            })
            .collect();
        let asked: HashMap<u64, &str> = texts
            .iter()
            .map(|text| {
                let body = trireme_proto::encode(text);
                (pipeline.push(Op::META, &body, soon()), *text)
            })
            .collect();
        let mut answered = HashSet::new();
        for _ in 0..texts.len() {
            let (number, answer) = pipeline.next::<String>(soon()).unwrap();
            assert!(answered.insert(number), "two answers to {number}");
            match asked[&number] {
                "later" => assert_eq!(answer.unwrap(), "late"),
                "no" => assert_eq!(answer.unwrap_err().errno(), 2),
                text => assert_eq!(answer.unwrap(), text),
            }
        }
        // Nothing is left over: the connection is as good as new.
        lease.give_back();
        let text: String = pool.call(Op::META, &"hello", soon()).unwrap();
        assert_eq!(text, "hello");
    }
}

#[test]
fn a_silent_server_costs_the_deadline_and_not_more() {
    let (_dir, kinds) = both();
    for addresses in kinds {
        let listener = start(addresses, &Key::open());
        let pool = pool(&listener, &Key::open());
        let begin = Instant::now();
        let deadline = Deadline::after(Duration::from_millis(200));
        let error = pool
            .call::<_, String>(Op::META, &"hang", deadline)
            .unwrap_err();
        assert!(matches!(error, NetError::TimedOut { .. }), "{error}");
        assert!(begin.elapsed() < Duration::from_millis(600));
        assert_eq!(pool.call::<_, String>(Op::META, &"x", soon()).unwrap(), "x");
    }
}

#[test]
fn a_request_that_was_given_up_never_takes_effect_after_a_later_one() {
    let (_dir, kinds) = both();
    for addresses in kinds {
        let echo = Arc::new(Echo::default());
        let listener = start_with(addresses, &Key::open(), &echo);
        let pool = pool(&listener, &Key::open());
        let say = |text: &str| pool.call::<_, String>(Op::META, &text, soon());
        say("first").unwrap();
        // Others use the server, too, while one request after the other is given up.
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..20).for_each(|_| drop(say("other").unwrap()))))
                .collect();
            let quick = Deadline::after(Duration::from_millis(50));
            pool.call::<_, String>(Op::META, &"hang", quick)
                .unwrap_err();
            say("later").unwrap();
            say("after").unwrap();
            for other in others {
                other.join().expect("others go on");
            }
        });
        let effects = echo.effects.lock().unwrap();
        let place = |text: &str| effects.iter().position(|effect| effect == text);
        assert!(place("hang").is_none_or(|hang| Some(hang) < place("after")));
        drop(effects);
        // Afterwards connections are kept again.
        say("x").unwrap();
        assert!(pool.lease(soon()).unwrap().reused);
    }
}

#[test]
fn requests_that_change_nothing_go_on_when_another_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let listener = start(vec![Address::Unix(dir.path().join("s"))], &Key::open());
    let pool = pool(&listener, &Key::open());
    let mut reading = pool.lease(soon()).unwrap();
    let mut header = Header::request(Op::READ);
    header.length.set(1500);
    reading.send(&mut header, &[], &[], soon()).unwrap();
    let quick = Deadline::after(Duration::from_millis(50));
    pool.call::<_, String>(Op::META, &"hang", quick)
        .unwrap_err();
    // Waits until what was given up has ended, and not for the other.
    pool.call::<_, String>(Op::META, &"after", soon()).unwrap();
    reading.receive(&mut [], soon()).expect("not cut off");
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let addresses = vec![Address::Unix(dir.path().join("s"))];
    let mut listener = start(addresses.clone(), &Key::open());
    let pool = pool(&listener, &Key::open());
    assert_eq!(pool.call::<_, String>(Op::META, &"a", soon()).unwrap(), "a");
    listener.stop();
    let quick = Deadline::after(Duration::from_millis(100));
    let error = pool.call::<_, String>(Op::META, &"b", quick).unwrap_err();
    assert!(error.to_string().contains("trireme up"), "{error}");
    let back = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        start(addresses, &Key::open())
    });
    assert_eq!(pool.call::<_, String>(Op::META, &"c", soon()).unwrap(), "c");
    drop(back.join().unwrap());
}

#[test]
fn without_the_key_nothing_works_and_the_key_is_needed_beyond_loopback() {
    let (_dir, kinds) = both();
    let key = Key::new([3; 32]);
    for addresses in kinds {
        let listener = start(addresses, &key);
        let error = pool(&listener, &Key::open())
            .call::<_, String>(Op::META, &"x", soon())
            .unwrap_err();
        assert_eq!(error.errno(), 13, "{error}");
        assert_eq!(
            pool(&listener, &key)
                .call::<_, String>(Op::META, &"x", soon())
                .unwrap(),
            "x"
        );
    }
    let config = ListenerConfig {
        addresses: vec![Address::Tcp("0.0.0.0:0".into())],
        key: Key::open(),
        role: Role::Io,
        server: 0,
        cluster: 0,
        incarnation: Arc::new(AtomicU64::new(1)),
    };
    let error = Listener::start(config, Arc::new(Echo::default())).unwrap_err();
    assert!(error.to_string().contains("--key"), "{error}");
}

#[test]
fn a_recorded_hello_and_garbage_frames_cost_only_their_own_connection() {
    let dir = tempfile::tempdir().unwrap();
    let key = Key::new([3; 32]);
    let listener = start(vec![Address::Unix(dir.path().join("s"))], &key);
    let honest = pool(&listener, &key);
    honest.call::<_, String>(Op::META, &"x", soon()).unwrap();

    // Record an answer by standing between a client and the server, then send it again.
    let middle = std::os::unix::net::UnixListener::bind(dir.path().join("m")).unwrap();
    let real = dir.path().join("s");
    let recorded = std::thread::spawn(move || {
        let (mut client, _) = middle.accept().unwrap();
        let mut server = std::os::unix::net::UnixStream::connect(&real).unwrap();
        let (mut challenge, mut answer, mut welcome) = ([0; 64], [0; 128], [0; 96]);
        server.read_exact(&mut challenge).unwrap();
        client.write_all(&challenge).unwrap();
        client.read_exact(&mut answer).unwrap();
        server.write_all(&answer).unwrap();
        server.read_exact(&mut welcome).unwrap();
        client.write_all(&welcome).unwrap();
        (answer, real)
    });
    let through = Pool::new(
        Endpoint::new(vec![Address::Unix(dir.path().join("m"))]),
        key.clone(),
        Identity::of_this_process(),
    );
    drop(through.lease(soon()).unwrap());
    let (answer, real) = recorded.join().unwrap();
    let mut replay = std::os::unix::net::UnixStream::connect(&real).unwrap();
    let mut challenge = [0; 64];
    replay.read_exact(&mut challenge).unwrap();
    replay.write_all(&answer).unwrap();
    let mut welcome = Vec::new();
    replay.read_to_end(&mut welcome).unwrap();
    assert_eq!(&welcome[8..12], 3u32.to_le_bytes(), "verdict: wrong key");

    // An authenticated client that then sends garbage is cut off; the honest one does not notice.
    let mut lease = honest.lease(soon()).unwrap();
    let mut header = Header::request(Op::META);
    header.magic.set(0xdead_beef);
    lease.send(&mut header, &[], &[], soon()).unwrap();
    let error = lease.receive(&mut [], soon()).unwrap_err();
    assert!(matches!(error, NetError::Lost { .. }), "{error}");
    drop(lease);
    assert_eq!(
        honest.call::<_, String>(Op::META, &"y", soon()).unwrap(),
        "y"
    );
}
