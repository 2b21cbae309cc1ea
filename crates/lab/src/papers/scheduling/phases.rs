//! Executes plans that were made in advance: phase by phase, each as long as its slowest transfer.

use trireme_policy::random::Random;
use trireme_policy::schedule::heuristic::Heuristic;
use trireme_policy::schedule::replicated::{self, Priority};
use trireme_sim::time::Time;

use super::machine::{Equipment, Outcome, Servers};
use super::workload::Workload;

/// Plans by a heuristic on home servers and executes the plan.
pub fn heuristic(workload: &Workload, equipment: Equipment, by: Heuristic, seed: u64) -> Outcome {
    let (requests, order) = workload.as_matching();
    let plan = by.plan(&requests, &mut Random::new(seed));
    let slots = plan
        .phase
        .iter()
        .zip(&order)
        .map(|(&phase, &number)| (phase, workload.requests[number as usize].home, number));
    execute(workload, equipment, slots.collect(), plan.messages)
}

/// Plans by a priority on all replicas and executes the plan.
pub fn priority(workload: &Workload, equipment: Equipment, by: Priority) -> Outcome {
    let (requests, order) = workload.as_replicated();
    let plan = replicated::plan(workload.clients, workload.servers, &requests, by);
    let slots = plan
        .slots
        .iter()
        .zip(&order)
        .map(|(&(phase, server), &number)| (phase, server, number));
    execute(workload, equipment, slots.collect(), plan.messages)
}

fn execute(
    workload: &Workload,
    equipment: Equipment,
    mut slots: Vec<(u32, u32, u32)>,
    messages: u64,
) -> Outcome {
    slots.sort_unstable();
    let mut servers = Servers::new(workload, equipment);
    let mut completed = vec![Time::ZERO; workload.requests.len()];
    let mut start = Time::ZERO;
    for phase in slots.chunk_by(|a, b| a.0 == b.0) {
        let mut end = start;
        for &(_, server, number) in phase {
            let at = start + servers.serve(server, &[number]);
            completed[number as usize] = at;
            end = end.max(at);
        }
        start = end;
    }
    Outcome::of(workload, &completed, messages)
}
