//! Event simulation of a closed network: the cross-check of the analysis, and the way beyond it.
//!
//! A job of a class visits the centres of its demands in their order, once per cycle; queues are
//! first come, first served. With exponential service and equal demands per centre the product form
//! holds and the means must be those of [`super::exact`]; deterministic service shows what the
//! exponential assumption costs.

use std::collections::VecDeque;

use trireme_sim::agenda::Agenda;
use trireme_sim::random::Stream;
use trireme_sim::statistics::Tally;
use trireme_sim::time::Time;

use super::network::Network;
use crate::error::Error;

/// How service times scatter about their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// As the analysis assumes.
    Exponential,
    /// Always the mean.
    Deterministic,
}

/// What a simulation measured, with confidence intervals over batches of time.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Per class: jobs completed per ms.
    pub throughput: Vec<Tally>,
    /// Over all classes.
    pub total: Tally,
    /// Per class: mean time of a cycle, ms.
    pub response: Vec<f64>,
    /// Per centre: share of time busy (jobs present, for a delay).
    pub utilisation: Vec<f64>,
    /// Events processed.
    pub events: u64,
}

/// How long to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Not measured: until the start is forgotten.
    pub warm_up: Time,
    /// Length of one batch.
    pub batch: Time,
    /// Number of batches, at least two.
    pub batches: u32,
}

impl Span {
    /// Twenty batches that together last `ms`, after a warm-up of one batch.
    pub fn of_ms(ms: f64) -> Self {
        let batch = Time::from_ms(ms / 20.0);
        Self {
            warm_up: batch,
            batch,
            batches: 20,
        }
    }
}

/// Simulates a network from one seed.
pub fn simulate(
    network: &Network,
    service: Service,
    span: Span,
    seed: u64,
) -> Result<Measured, Error> {
    network.check()?;
    let mut run = Run::new(network, service, seed);
    let mut measured = Measured {
        throughput: vec![Tally::default(); network.classes.len()],
        total: Tally::default(),
        response: Vec::new(),
        utilisation: Vec::new(),
        events: 0,
    };
    run.until(span.warm_up);
    run.forget();
    for batch in 1..=u64::from(span.batches) {
        let before = run.completed.clone();
        run.until(span.warm_up + span.batch * batch);
        let length = span.batch.as_ms();
        let mut total = 0.0;
        for (class, tally) in measured.throughput.iter_mut().enumerate() {
            let rate = (run.completed[class].0 - before[class].0) as f64 / length;
            tally.add(rate);
            total += rate;
        }
        measured.total.add(total);
    }
    measured.response = run
        .completed
        .iter()
        .map(|&(count, time)| {
            if count == 0 {
                0.0
            } else {
                time.as_ms() / count as f64
            }
        })
        .collect();
    let length = (span.batch * u64::from(span.batches)).as_ms();
    measured.utilisation = run.busy.iter().map(|busy| busy.as_ms() / length).collect();
    measured.events = run.agenda.processed();
    Ok(measured)
}

/// The simulation's state.
struct Run<'a> {
    network: &'a Network,
    service: Service,
    agenda: Agenda<Served>,
    streams: Vec<Stream>,
    jobs: Vec<Job>,
    queues: Vec<VecDeque<u32>>,
    /// Per class: cycles completed and the time they took, since the last `forget`.
    completed: Vec<(u64, Time)>,
    busy: Vec<Time>,
}

#[derive(Clone, Copy)]
struct Served {
    centre: u32,
    job: u32,
}

struct Job {
    class: u32,
    started: Time,
}

impl<'a> Run<'a> {
    fn new(network: &'a Network, service: Service, seed: u64) -> Self {
        let mut run = Self {
            network,
            service,
            agenda: Agenda::new(),
            streams: (0..network.centres.len())
                .map(|centre| Stream::indexed(seed, "centre", centre))
                .collect(),
            jobs: Vec::new(),
            queues: vec![VecDeque::new(); network.centres.len()],
            completed: vec![(0, Time::ZERO); network.classes.len()],
            busy: vec![Time::ZERO; network.centres.len()],
        };
        for (class, description) in network.classes.iter().enumerate() {
            for _ in 0..description.population {
                run.jobs.push(Job {
                    class: class as u32,
                    started: Time::ZERO,
                });
                run.advance(run.jobs.len() as u32 - 1, 0);
            }
        }
        run
    }

    fn until(&mut self, end: Time) {
        // The marker is planned, so that the clock stops exactly at the end of the batch.
        self.agenda.at(
            end,
            Served {
                centre: u32::MAX,
                job: 0,
            },
        );
        while let Some(event) = self.agenda.next_event() {
            if event.centre == u32::MAX {
                return;
            }
            self.served(event);
        }
    }

    fn forget(&mut self) {
        self.completed.fill((0, Time::ZERO));
        self.busy.fill(Time::ZERO);
    }

    fn served(&mut self, Served { centre, job }: Served) {
        if self.network.is_queueing(centre as usize) {
            self.queues[centre as usize].pop_front();
            if let Some(&next) = self.queues[centre as usize].front() {
                self.serve(centre as usize, next);
            }
        }
        self.advance(job, centre as usize + 1);
    }

    /// Sends a job to the first centre from `from` on that it visits; past the last one its cycle
    /// is complete and the next begins.
    fn advance(&mut self, job: u32, from: usize) {
        let class = self.jobs[job as usize].class as usize;
        let demands = &self.network.classes[class].demands;
        let visits = |range: std::ops::Range<usize>| range.clone().find(|&c| demands[c] > 0.0);
        let centre = if let Some(centre) = visits(from..demands.len()) {
            centre
        } else {
            let now = self.agenda.now();
            let started = std::mem::replace(&mut self.jobs[job as usize].started, now);
            self.completed[class].0 += 1;
            self.completed[class].1 += now - started;
            visits(0..from).expect("a class demands something")
        };
        if self.network.is_queueing(centre) {
            self.queues[centre].push_back(job);
            if self.queues[centre].len() > 1 {
                return;
            }
        }
        self.serve(centre, job);
    }

    fn serve(&mut self, centre: usize, job: u32) {
        let class = self.jobs[job as usize].class as usize;
        let mean = Time::from_ms(self.network.classes[class].demands[centre]);
        let time = match self.service {
            Service::Deterministic => mean,
            Service::Exponential => self.streams[centre].exponential_time(mean),
        };
        self.busy[centre] += time;
        self.agenda.after(
            time,
            Served {
                centre: centre as u32,
                job,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::exact;
    use super::super::exact::tests::network;
    use super::*;

    #[test]
    fn exponential_service_is_what_the_analysis_predicts() {
        let net = network(1, &[(3, &[9.0, 2.0, 4.0]), (2, &[5.0, 2.0, 4.0])]);
        let exact = exact::solve(&net).unwrap();
        let run = simulate(&net, Service::Exponential, Span::of_ms(2e6), 1).unwrap();
        assert!(
            (run.total.mean() / exact.total() - 1.0).abs() < 0.005,
            "{:?}",
            run.total
        );
        assert!(run.total.half_width() / run.total.mean() < 0.01);
        for class in 0..2 {
            let ratio = run.response[class] / exact.response(class);
            assert!((ratio - 1.0).abs() < 0.01, "class {class}: {ratio}");
        }
        let ratio = run.utilisation[2] / exact.utilisation(&net, 2);
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn deterministic_service_saturates_the_bottleneck() {
        let net = network(0, &[(3, &[2.0, 4.0])]);
        let run = simulate(&net, Service::Deterministic, Span::of_ms(1e4), 1).unwrap();
        assert!((run.total.mean() - 0.25).abs() < 0.001);
    }
}
