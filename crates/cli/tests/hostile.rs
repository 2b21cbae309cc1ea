//! Strangers, garbage, slow peers and crowds: each costs itself, and nobody else.

mod support;

use std::io::{IoSlice, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use support::{Random, World, resident, world};
use trireme::{Cluster, Descriptor, Options};
use trireme_net::{Connection, Deadline, Endpoint, Identity};
use trireme_proto::{Header, Key, Op};
use zerocopy::{FromBytes, IntoBytes};

const EACCES: i32 = 13;

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(10))
}

fn socket(world: &World, server: usize) -> PathBuf {
    let address = world.local.servers()[server]
        .addresses
        .iter()
        .find_map(|address| address.strip_prefix("unix:"))
        .unwrap();
    address.into()
}

fn key(world: &World) -> Key {
    Key::from_text(&world.local.descriptor().unwrap().key.unwrap()).unwrap()
}

fn connect(world: &World, server: usize) -> Connection {
    let endpoint = Endpoint::from_texts(&world.local.servers()[server].addresses);
    Connection::connect(&endpoint, &key(world), Identity::of_this_process(), soon()).unwrap()
}

/// Writes and reads a little and says how long the slowest took.
fn honest_work(cluster: &Cluster, times: usize) -> Duration {
    let file = cluster.create("/honest").unwrap();
    let mut slowest = Duration::ZERO;
    for i in 0..times {
        let begin = Instant::now();
        let data = [i as u8; 5000];
        file.write_at(&data, i as u64 * 100).unwrap();
        let mut back = [0; 5000];
        file.read_exact_at(&mut back, i as u64 * 100).unwrap();
        assert!(back == data);
        slowest = slowest.max(begin.elapsed());
    }
    slowest
}

#[test]
fn without_the_key_and_without_a_grant_nothing_is_done() {
    let _together = beside_others();
    let world = world(2);
    let right = world.local.descriptor().unwrap();
    let options = Options {
        deadline: Duration::from_secs(2),
        ..Options::default()
    };
    for key in [None, Some("00".repeat(32))] {
        let wrong = Descriptor {
            key,
            ..right.clone()
        };
        let error = Cluster::connect(&wrong, options).unwrap_err();
        assert_eq!(error.errno(), EACCES, "{error}");
    }
    let cluster = world.client();
    let file = cluster.create("/mine").unwrap();
    file.write_at(b"secret", 0).unwrap();
    // Somebody with the key but without a grant guesses file numbers and tokens.
    let mut connection = connect(&world, 0);
    let mut random = Random::new(1);
    let operations = [
        Op::READ,
        Op::WRITE,
        Op::STAT,
        Op::TRUNCATE,
        Op::SYNC,
        Op::REMOVE,
        Op::READ_VIEW,
        Op::WRITE_VIEW,
        Op::ALLOCATE,
        Op::SEEK,
    ];
    for round in 0..2000 {
        let mut header = Header::request(operations[round % operations.len()]);
        header.file.set(file.inode());
        header.flags.set([4, 8, 16, 12, 28][round % 5]);
        header.token.set(random.next());
        header.length.set(6);
        let mut into = [0; 64];
        let error = connection
            .call(&mut header, &[], &[], &mut into, soon())
            .unwrap_err();
        assert_eq!(error.errno(), EACCES, "{error}");
    }
    let mut back = [0; 6];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(&back, b"secret");
}

#[test]
fn garbage_closes_its_own_connection_and_costs_no_memory() {
    let _together = beside_others();
    let world = world(2);
    let cluster = world.client();
    honest_work(&cluster, 50);
    let pid = world.local.servers()[0].pid();
    let before = resident(pid);
    let key = key(&world);
    let path = socket(&world, 0);
    let mut random = Random::new(7);
    let mut frames = 0;
    let begin = Instant::now();
    while frames < 1_000_000 && begin.elapsed() < Duration::from_mins(2) {
        // Half of the strangers say garbage instead of the hello, half say it after.
        if random.below(2) == 0 {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream
                .set_write_timeout(Some(Duration::from_secs(1)))
                .unwrap();
            let length = 1 + random.below(400) as usize;
            let _ = stream.write_all(&random.bytes(length));
            frames += 1;
            continue;
        }
        let endpoint = Endpoint::from_texts(&[format!("unix:{}", path.display())]);
        let connection =
            Connection::connect(&endpoint, &key, Identity::of_this_process(), soon()).unwrap();
        let socket = connection.socket();
        for _ in 0..random.below(60) {
            let mut bytes = random.bytes(64);
            if random.below(10) > 0 {
                // Right enough to be looked at: a good start, bounded lengths, wild everything else.
                let mut header = Header::request(Op(0x0100 + random.below(12) as u16));
                let wild = Header::read_from_bytes(&bytes[..]).unwrap();
                header.file = wild.file;
                header.offset = wild.offset;
                header.length = wild.length;
                header.token = wild.token;
                header.flags.set(random.next() as u16 & 0x3e);
                header.body.set(random.below(200) as u32);
                header.payload.set(random.below(300) as u32);
                let rest = random.bytes((header.body.get() + header.payload.get()) as usize);
                bytes = header.as_bytes().to_vec();
                bytes.extend_from_slice(&rest);
            }
            frames += 1;
            let short = Deadline::after(Duration::from_millis(200));
            if socket.send_all(&mut [IoSlice::new(&bytes)], short).is_err() {
                break;
            }
        }
    }
    let slowest = honest_work(&cluster, 200);
    let grown = resident(pid).saturating_sub(before);
    println!("{frames} garbage frames, server grew by {grown} bytes, honest slowest {slowest:?}");
    assert!(grown < 10 << 20, "the server grew by {grown} bytes");
}

/// Latencies and shares mean something only while no other test runs beside: who measures takes this
/// alone, everybody else together.
static QUIET: RwLock<()> = RwLock::new(());

fn beside_others() -> RwLockReadGuard<'static, ()> {
    QUIET.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, ()> {
    QUIET.write().unwrap_or_else(PoisonError::into_inner)
}

/// The time below which all but one in a hundred stay.
fn p99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() * 99 / 100]
}

/// Peers that send a byte a second and never finish their hello; whoever is put out is replaced.
struct SlowPeers {
    path: PathBuf,
    peers: Vec<(UnixStream, Instant)>,
    put_out: u64,
    longest: Duration,
}

impl SlowPeers {
    /// Fills up to `count` and gives each its byte.
    fn second(&mut self, count: usize) {
        self.peers.retain_mut(|(stream, since)| {
            let alive = stream.write_all(b"x").is_ok();
            self.put_out += u64::from(!alive);
            self.longest = self.longest.max(since.elapsed());
            alive
        });
        while self.peers.len() < count {
            let Ok(stream) = UnixStream::connect(&self.path) else {
                break;
            };
            stream.set_nonblocking(true).unwrap();
            self.peers.push((stream, Instant::now()));
        }
    }
}

#[test]
fn peers_that_never_finish_their_hello_are_put_out() {
    const SLOW: usize = 500;
    const TURNS: u32 = 4;
    const GOES: u32 = 3;
    let _alone = alone();
    let attack = Duration::from_secs(support::times(60));
    let world = world(2);
    let cluster = world.client();
    // Honest work in each second, and the slowest one in a hundred of that second.
    let honest = |seconds: Duration, worst: &mut Vec<Duration>, each_second: &mut dyn FnMut()| {
        let begin = Instant::now();
        while begin.elapsed() < seconds {
            each_second();
            let second = Instant::now();
            let mut times = Vec::new();
            while second.elapsed() < Duration::from_secs(1) {
                times.push(honest_work(&cluster, 1));
            }
            worst.push(p99(&times));
        }
    };
    let median = |worst: &mut Vec<Duration>| {
        worst.sort();
        worst[worst.len() / 2]
    };
    // What is the peers' doing is so each time; what else the machine does is not.
    for goes_left in (0..GOES).rev() {
        let mut slow = SlowPeers {
            path: socket(&world, 0),
            peers: Vec::new(),
            put_out: 0,
            longest: Duration::ZERO,
        };
        // In turns, so that a change of the machine's speed meets both.
        let (mut quiet, mut pressed) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            honest(Duration::from_secs(4), &mut quiet, &mut || {});
            honest(attack / TURNS, &mut pressed, &mut || slow.second(SLOW));
            slow.peers.clear();
        }
        let (put_out, longest) = (slow.put_out, slow.longest);
        let (quiet, pressed) = (median(&mut quiet), median(&mut pressed));
        let times = pressed.as_secs_f64() / quiet.as_secs_f64();
        println!(
            "{put_out} slow peers put out in {attack:?}, the longest after {longest:?}; honest create, write \
             and read, p99 of the median second: {quiet:?} without them, {pressed:?} with them ({times:.2}x)"
        );
        // Each is replaced as soon as it is out, so all of them go at least once in ten seconds of a turn.
        let least = SLOW as u64 * u64::from(TURNS) * ((attack / TURNS).as_secs() / 10);
        assert!(put_out >= least, "only {put_out} of {least} were put out");
        assert!(
            longest < Duration::from_secs(10),
            "one stayed for {longest:?}"
        );
        // Of the median second: what else the machine does for a few seconds is not the peers' doing, either.
        if times < 2.0 {
            return;
        }
        assert!(
            goes_left > 0,
            "honest p99 became {times:.2} times what it was"
        );
    }
}

#[test]
fn a_frame_that_never_ends_is_cut_off() {
    let _together = beside_others();
    let world = world(1);
    let cluster = world.client();
    let connection = connect(&world, 0);
    let mut header = Header::request(Op::PING);
    header.payload.set(1000);
    connection
        .socket()
        .send_all(&mut [IoSlice::new(header.as_bytes())], soon())
        .unwrap();
    let begin = Instant::now();
    let mut byte = [0; 64];
    // The answer to the ping comes; then the server waits for the payload, and not for ever.
    connection
        .socket()
        .receive_exact(&mut byte, soon())
        .unwrap();
    let end = connection
        .socket()
        .receive_exact(&mut byte[..1], Deadline::after(Duration::from_secs(20)))
        .unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof, "{end}");
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "took {:?}",
        begin.elapsed()
    );
    honest_work(&cluster, 10);
}

#[test]
fn five_hundred_idle_and_sixty_four_busy_clients_are_served() {
    let _together = beside_others();
    let world = world(4);
    let idle: Vec<Vec<Connection>> = (0..500)
        .map(|_| (0..4).map(|server| connect(&world, server)).collect())
        .collect();
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let busy: Vec<_> = (0..64u64)
            .map(|client| {
                let world = &world;
                scope.spawn(move || {
                    let cluster = world.client();
                    let data = Random::new(client).bytes(1 << 20);
                    let begin = Instant::now();
                    let file = cluster.create(format!("/busy-{client}")).unwrap();
                    file.write_at(&data, 0).unwrap();
                    let mut back = vec![0; data.len()];
                    file.read_exact_at(&mut back, 0).unwrap();
                    assert!(back == data, "client {client}");
                    begin.elapsed()
                })
            })
            .collect();
        busy.into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    let (fast, slow) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    let memory: Vec<u64> = world
        .local
        .servers()
        .iter()
        .map(|server| resident(server.pid()) >> 20)
        .collect();
    println!("500 idle, 64 busy: fastest {fast:?}, slowest {slow:?}, resident MiB {memory:?}");
    assert!(
        memory.iter().all(|mib| *mib < 256),
        "servers take {memory:?} MiB"
    );
    for mut connection in idle.into_iter().flatten() {
        let mut header = Header::request(Op::PING);
        connection
            .call(&mut header, &[], &[], &mut [], soon())
            .unwrap();
    }
}

#[test]
fn a_thousand_clients_write_read_and_verify_a_mebibyte_each() {
    const CLIENTS: usize = 1000;
    const BYTES: usize = 1 << 20;
    const PIECE: usize = BYTES / 4;
    // The kernel leaves one or the other of a thousand runnable threads alone for seconds: a bad moment
    // of the machine spoils only one round.
    const ROUNDS: usize = 8;
    let _alone = alone();
    // A thousand clients are threads here, which would wait for each other in the allocator.
    // SAFETY: sets one number of the allocator's.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, CLIENTS as i32) };
    let world = world(4);
    if !many_descriptors() {
        return;
    }
    // All clients' bytes are pieces of these: no memory per client but what it reads into.
    let pool = Random::new(3).bytes(BYTES + CLIENTS * 512);
    let times: Vec<AtomicU64> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let done = AtomicUsize::new(0);
    // Which round it is. Nobody looks again and again: that would be work for a thousand threads while
    // others still connect.
    let round = (Mutex::new(0), Condvar::new());
    // Who has noticed: whoever is woken first must not be done before the others are.
    let awake = AtomicUsize::new(0);
    let began = Mutex::new(Instant::now());
    let fair = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (world, data) = (&world, &pool[client * 512..][..BYTES]);
            let (time, stop, round, done) = (&times[client], &stop, &round, &done);
            let (awake, began) = (&awake, &began);
            let work = move || {
                let _stop_all = StopOnPanic(stop);
                let cluster = world.client();
                let file = cluster.create(format!("/many-{client}")).unwrap();
                // The servers are what is tested.
                let mut plain = file.transfer();
                plain.lend = false;
                file.set_transfer(plain);
                let mut back = vec![0; PIECE];
                // All are connected to all servers before the work begins.
                file.write_at(data, 0).unwrap();
                for mine in 1..=ROUNDS {
                    done.fetch_add(1, Ordering::Relaxed);
                    let mut now = round.0.lock().unwrap();
                    while *now < mine && !stop.load(Ordering::Relaxed) {
                        let soon = Duration::from_secs(1);
                        now = round.1.wait_timeout(now, soon).unwrap().0;
                    }
                    drop(now);
                    if awake.fetch_add(1, Ordering::SeqCst) + 1 == mine * CLIENTS {
                        *began.lock().unwrap() = Instant::now();
                    }
                    while awake.load(Ordering::SeqCst) < mine * CLIENTS {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    let begin = *began.lock().unwrap();
                    for (part, data) in data.chunks(PIECE).enumerate() {
                        file.write_at(data, (part * PIECE) as u64).unwrap();
                    }
                    for (part, data) in data.chunks(PIECE).enumerate() {
                        file.read_exact_at(&mut back, (part * PIECE) as u64)
                            .unwrap();
                        assert!(back == data, "client {client}");
                    }
                    time.store(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
                }
                done.fetch_add(1, Ordering::Relaxed);
            };
            std::thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, work)
                .unwrap();
        }
        let _stop_all = StopOnPanic(&stop);
        let begin = Instant::now();
        let all_done = |rounds: usize| {
            while done.load(Ordering::Relaxed) < (rounds + 1) * CLIENTS {
                assert!(!stop.load(Ordering::Relaxed), "a client failed");
                assert!(begin.elapsed() < Duration::from_mins(2), "took too long");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        all_done(0);
        println!("1000 clients are connected after {:?}", begin.elapsed());
        let fair = (1..=ROUNDS).any(|number| {
            *round.0.lock().unwrap() = number;
            round.1.notify_all();
            all_done(number);
            let mut times: Vec<u64> = times
                .iter()
                .map(|time| time.load(Ordering::Relaxed))
                .collect();
            times.sort_unstable();
            let (least, most) = (times[0], times[CLIENTS - 1]);
            println!("a mebibyte of each took {least} to {most} ms");
            most <= 5 * least
        });
        stop.store(true, Ordering::Relaxed);
        fair
    });
    let memory: Vec<u64> = world
        .local
        .servers()
        .iter()
        .map(|server| resident(server.pid()) >> 20)
        .collect();
    println!("resident MiB {memory:?}");
    assert!(memory.iter().all(|mib| *mib < 1024), "{memory:?} MiB");
    assert!(fair, "some clients waited much longer than others");
}

/// Raises the limit of descriptors; false where a thousand clients cannot be had.
fn many_descriptors() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < 16_384) {
        let why = "fewer than 16384 descriptors are allowed";
        support::skip("a thousand clients", why);
        return false;
    }
    let all = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, all).unwrap();
    true
}

/// One failed thread ends the others, so that the failure is what is seen.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
