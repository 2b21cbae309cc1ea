//! The transfer against a model that keeps every block in a set and scans it.

use proptest::prelude::*;

use super::*;
use crate::random::Random;

fn schedules() -> impl Strategy<Value = Schedule> {
    prop::sample::select(Schedule::ALL.to_vec())
}

/// What the documentation says, in the most naive way.
struct Model {
    queued: Vec<Vec<(u64, u32)>>,
    in_flight: Vec<u32>,
    window: Window,
    cursor: u32,
}

impl Model {
    fn may_take(&self) -> Vec<u32> {
        if self.in_flight.iter().sum::<u32>() >= self.window.total {
            return Vec::new();
        }
        (0..self.queued.len() as u32)
            .filter(|&s| {
                !self.queued[s as usize].is_empty()
                    && self.in_flight[s as usize] < self.window.per_server
            })
            .collect()
    }

    fn expected(&self, schedule: Schedule) -> Option<u32> {
        let n = self.queued.len() as u32;
        let able = self.may_take();
        match schedule {
            Schedule::First => able
                .into_iter()
                .min_by_key(|&s| (self.queued[s as usize][0].0, s)),
            Schedule::Hash => able.into_iter().min_by_key(|&s| (s + n - self.cursor) % n),
            Schedule::Random => able.first().copied(),
        }
    }
}

proptest! {
    /// Every block goes out once and in its server's order, the window is never exceeded, the
    /// schedule's server is chosen among those able, and nothing is left idle.
    #[test]
    fn turns_are_those_of_the_naive_model(
        (schedule, unit, servers, first, offset, len, block) in
            (schedules(), 1u64..50, 1u32..140, 0u32..9, 0u64..5000, 0u64..20_000, 1u64..200),
        window in (1u32..4, 1u32..20),
        own in 0u32..200,
        seed: u64,
    ) {
        let blocks = Striped { unit, servers, first, offset, len, block };
        let window = Window { per_server: window.0, total: window.1 };
        let mut transfer = Transfer::new(blocks, window, schedule, own, seed);
        let mut model = Model {
            queued: (0..servers)
                .map(|s| (0..blocks.count(s)).map(|b| (blocks.position(s, b), b)).collect())
                .collect(),
            in_flight: vec![0; servers as usize],
            window,
            cursor: own % servers,
        };
        let mut random = Random::new(seed);
        let mut flying = Vec::new();
        loop {
            let expected = model.expected(schedule);
            let turn = transfer.next_turn();
            prop_assert_eq!(turn.is_some(), expected.is_some());
            let Some(turn) = turn else {
                if flying.is_empty() {
                    break;
                }
                let server: u32 = flying.swap_remove(random.index(flying.len()));
                transfer.acknowledged(server);
                model.in_flight[server as usize] -= 1;
                continue;
            };
            if schedule == Schedule::Random {
                prop_assert!(model.may_take().contains(&turn.server));
            } else {
                prop_assert_eq!(Some(turn.server), expected);
            }
            let (_, block) = model.queued[turn.server as usize].remove(0);
            prop_assert_eq!(turn.block, block);
            model.in_flight[turn.server as usize] += 1;
            model.cursor = (turn.server + 1) % servers;
            flying.push(turn.server);
        }
        prop_assert!(transfer.is_done());
        prop_assert!(model.queued.iter().all(Vec::is_empty));
    }

    /// The blocks of a striped request are exactly its bytes, each where striping puts it.
    #[test]
    fn striped_blocks_are_the_bytes_of_the_request(
        unit in 1u64..9, servers in 1u32..7, first in 0u32..9,
        offset in 0u64..200, len in 0u64..300, block in 1u64..20,
    ) {
        let blocks = Striped { unit, servers, first, offset, len, block };
        let mut covered = Vec::new();
        for server in 0..servers {
            let mut last = None;
            for number in 0..blocks.count(server) {
                let range = blocks.range(server, number);
                prop_assert!(!range.is_empty() && range.end - range.start <= block);
                let position = blocks.position(server, number);
                prop_assert!(last < Some(position));
                last = Some(position);
                for (step, byte) in range.enumerate() {
                    let unit_number = byte / unit * u64::from(servers) + blocks.slot(server);
                    let file = unit_number * unit + byte % unit;
                    prop_assert_eq!((unit_number + u64::from(first)) % u64::from(servers), u64::from(server));
                    if step == 0 {
                        prop_assert_eq!(file, position);
                    }
                    covered.push(file);
                }
            }
        }
        covered.sort_unstable();
        prop_assert!(covered.into_iter().eq(offset..offset + len));
    }

    /// Abandoning a server ends its queue and leaves everybody else's alone.
    #[test]
    fn an_abandoned_server_holds_nobody_up(
        schedule in schedules(),
        counts in prop::collection::vec(0u32..6, 1..9),
        victim in 0usize..9, sent_before in 0usize..20, seed: u64,
    ) {
        let victim = (victim % counts.len()) as u32;
        let total: u32 = counts.iter().sum();
        let mut transfer =
            Transfer::new(counts, Window::per_server(2), schedule, 1, seed);
        let mut sent = 0;
        let mut dropped = 0;
        for step in 0.. {
            if step == sent_before {
                dropped = transfer.abandon(victim);
                prop_assert_eq!(transfer.abandon(victim), 0);
            }
            if let Some(turn) = transfer.next_turn() {
                prop_assert!(step < sent_before || turn.server != victim);
                sent += 1;
                transfer.acknowledged(turn.server);
            } else if step > sent_before {
                break;
            }
        }
        prop_assert!(transfer.is_done());
        prop_assert_eq!(sent + dropped, total);
    }
}

#[test]
fn the_first_round_is_that_of_pio_write() {
    let blocks = Striped {
        unit: 10,
        servers: 4,
        first: 0,
        offset: 10,
        len: 90,
        block: 10,
    };
    let mut transfer = Transfer::new(blocks, Window::per_server(2), Schedule::First, 0, 0);
    let order: Vec<_> = std::iter::from_fn(|| transfer.next_turn())
        .map(|t| t.server)
        .collect();
    assert_eq!(order, [1, 2, 3, 0, 1, 2, 3, 0]);
    transfer.acknowledged(2);
    assert_eq!(
        transfer.next_turn(),
        None,
        "server 2 has had its two blocks"
    );
    transfer.acknowledged(1);
    assert_eq!(
        transfer.next_turn(),
        Some(Turn {
            server: 1,
            block: 2
        })
    );
}

#[test]
fn hash_in_step_never_meets() {
    let n = 8;
    let mut clients: Vec<_> = (0..n)
        .map(|own| Transfer::new(vec![3; 8], Window::one_at_a_time(), Schedule::Hash, own, 0))
        .collect();
    for _ in 0..3 * n {
        let mut seen = std::collections::BTreeSet::new();
        for client in &mut clients {
            let turn = client.next_turn().unwrap();
            assert!(seen.insert(turn.server));
            client.acknowledged(turn.server);
        }
    }
    assert!(clients.iter().all(Transfer::is_done));
}

#[test]
#[should_panic(expected = "server 1 acknowledged a block that was not sent")]
fn an_acknowledgement_of_nothing_is_refused() {
    let mut transfer = Transfer::new(vec![1, 1], Window::per_server(1), Schedule::First, 0, 0);
    assert_eq!(
        transfer.next_turn(),
        Some(Turn {
            server: 0,
            block: 0
        })
    );
    transfer.acknowledged(1);
}
