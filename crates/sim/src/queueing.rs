//! Small queueing models with known answers: they validate the kernel, and the benchmark runs
//! them on other simulators too.

use crate::agenda::Agenda;
use crate::random::Stream;
use crate::statistics::OverTime;
use crate::time::Time;
use std::collections::VecDeque;

/// How long a service takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Exponentially distributed.
    Exponential,
    /// Always the same.
    Deterministic,
}

/// What a run of a queue gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Mean number of customers in the system.
    pub mean_number: f64,
    /// Mean time in the system, in units of the mean service time.
    pub mean_time: f64,
    /// Events of the simulation.
    pub events: u64,
}

/// One server with Poisson arrivals: `M/M/1` or `M/D/1` at the given load, until `customers` have
/// left. The first tenth is warm-up and not counted.
pub fn single_server(load: f64, service: Service, customers: u64, seed: u64) -> Queue {
    #[derive(Clone, Copy)]
    enum Event {
        Arrival,
        Departure,
    }
    let mean_service = Time::us(1);
    let mean_gap = Time((mean_service.0 as f64 / load) as u64);
    let mut arrivals = Stream::new(seed, "arrivals");
    let mut services = Stream::new(seed, "services");
    let mut service_time = || match service {
        Service::Exponential => services.exponential_time(mean_service),
        Service::Deterministic => mean_service,
    };
    let mut agenda = Agenda::new();
    let mut waiting: VecDeque<Time> = VecDeque::new();
    let mut number = OverTime::default();
    let (mut left, mut time_sum, mut counted) = (0, 0.0, 0u64);
    agenda.after(arrivals.exponential_time(mean_gap), Event::Arrival);
    while left < customers {
        let Some(event) = agenda.next_event() else {
            break;
        };
        let now = agenda.now();
        match event {
            Event::Arrival => {
                agenda.after(arrivals.exponential_time(mean_gap), Event::Arrival);
                if waiting.is_empty() {
                    agenda.after(service_time(), Event::Departure);
                }
                waiting.push_back(now);
            }
            Event::Departure => {
                let arrived = waiting.pop_front().expect("somebody was served");
                left += 1;
                if left == customers / 10 {
                    number.restart(now);
                } else if left > customers / 10 {
                    time_sum += (now - arrived).0 as f64;
                    counted += 1;
                }
                if !waiting.is_empty() {
                    agenda.after(service_time(), Event::Departure);
                }
            }
        }
        number.set(now, waiting.len() as f64);
    }
    Queue {
        mean_number: number.mean(agenda.now()),
        mean_time: time_sum / counted.max(1) as f64 / mean_service.0 as f64,
        events: agenda.processed(),
    }
}

/// What a run of a closed ring gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    /// Completed services per mean service time, of one station.
    pub throughput: f64,
    /// Events of the simulation.
    pub events: u64,
}

/// A closed ring of exponential stations with equal means: `customers` go round `stations` until
/// `services` are done. Product form gives a throughput of N / (N + M - 1) per station.
pub fn ring(stations: usize, customers: usize, services: u64, seed: u64) -> Ring {
    let mean = Time::us(1);
    let mut streams: Vec<Stream> = (0..stations)
        .map(|station| Stream::indexed(seed, "station", station))
        .collect();
    let mut agenda: Agenda<u32> = Agenda::new();
    let mut present = vec![0usize; stations];
    for customer in 0..customers {
        let station = customer % stations;
        present[station] += 1;
        if present[station] == 1 {
            agenda.after(streams[station].exponential_time(mean), station as u32);
        }
    }
    let warm_up = services / 10;
    let (mut done, mut started) = (0, Time::ZERO);
    while done < services {
        let Some(station) = agenda.next_event() else {
            break;
        };
        let station = station as usize;
        done += 1;
        if done == warm_up {
            started = agenda.now();
        }
        present[station] -= 1;
        if present[station] > 0 {
            agenda.after(streams[station].exponential_time(mean), station as u32);
        }
        let next = if station + 1 == stations {
            0
        } else {
            station + 1
        };
        present[next] += 1;
        if present[next] == 1 {
            agenda.after(streams[next].exponential_time(mean), next as u32);
        }
    }
    let span = (agenda.now() - started).0 as f64 / mean.0 as f64;
    Ring {
        throughput: (done - warm_up) as f64 / span / stations as f64,
        events: agenda.processed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicate::replicate;
    use crate::statistics::Tally;

    /// Twenty replications; the 95 % interval must cover the theory, and be narrow.
    #[track_caller]
    fn agrees(name: &str, theory: f64, width: f64, run: impl Fn(u64) -> f64 + Sync) {
        let seeds: Vec<u64> = (0..20).collect();
        let tally: Tally = replicate(2, &seeds, |seed| run(*seed))
            .into_iter()
            .collect();
        let (mean, half) = (tally.mean(), tally.half_width());
        assert!(
            tally.covers(theory),
            "{name}: {mean:.4} +- {half:.4}, theory {theory:.4}"
        );
        assert!(
            half < width * theory,
            "{name}: an interval of +- {half:.4} says little"
        );
    }

    #[test]
    fn mm1_agrees_with_theory() {
        // L = rho / (1 - rho) = 4 at load 0.8; W = 1 / (1 - rho) = 5 service times.
        let run = |seed| single_server(0.8, Service::Exponential, 400_000, seed);
        agrees("M/M/1 number", 4.0, 0.02, |seed| run(seed).mean_number);
        agrees("M/M/1 time", 5.0, 0.03, |seed| {
            single_server(0.8, Service::Exponential, 200_000, seed).mean_time
        });
        agrees("M/M/1 half load", 1.0, 0.02, |seed| {
            single_server(0.5, Service::Exponential, 200_000, seed).mean_number
        });
    }

    #[test]
    fn md1_agrees_with_theory() {
        // Pollaczek-Khinchine: L = rho + rho^2 / (2 (1 - rho)) = 2.4 at load 0.8.
        agrees("M/D/1 number", 2.4, 0.02, |seed| {
            single_server(0.8, Service::Deterministic, 400_000, seed).mean_number
        });
    }

    #[test]
    fn a_closed_ring_agrees_with_its_product_form() {
        for (stations, customers) in [(4, 6), (8, 8), (3, 30)] {
            let theory = customers as f64 / (customers + stations - 1) as f64;
            agrees("ring", theory, 0.01, |seed| {
                ring(stations, customers, 200_000, seed).throughput
            });
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let run = || single_server(0.8, Service::Exponential, 10_000, 7);
        assert_eq!(run(), run());
        // Pinned: any machine, any optimisation level.
        assert_eq!(run().events, 20_005);
    }
}
