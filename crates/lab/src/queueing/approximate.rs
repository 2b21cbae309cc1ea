//! Approximate mean value analysis: Schweitzer's and Bard's fixed points.
//!
//! Both replace the queue that an arriving job of class c finds, exactly Q_k(n - e_c), by a guess
//! from the queue at full population: Schweitzer takes a class's own share down by 1/N_c, Bard takes
//! Q_k(n) itself, which is right for large populations only. They cost nothing, and the tables of
//! "User-Level Parallel File I/O" show why they are not enough: with one or two jobs per class they
//! are off by up to 6 % and 65 %.

use super::network::Network;
use super::solution::Solution;
use crate::error::Error;

/// Which guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Q_kd - Q_kd / N_d for the arriving job's own class d, Q_k for the others.
    Schweitzer,
    /// Q_k at full population.
    Bard,
}

/// Steps after which a fixed point that has not been reached is given up.
const STEPS_MAX: u32 = 200_000;
/// Relative change of all queue lengths below which the iteration has arrived.
const PRECISION: f64 = 1e-12;

/// Solves a network approximately.
#[expect(
    clippy::needless_range_loop,
    reason = "the indices are the subscripts of the formulas"
)]
pub fn solve(network: &Network, method: Method) -> Result<Solution, Error> {
    network.check()?;
    let centres = network.centres.len();
    let classes = network.classes.len();
    // Start with each class spread evenly over the centres.
    let mut share: Vec<Vec<f64>> = network
        .classes
        .iter()
        .map(|class| vec![f64::from(class.population) / centres as f64; centres])
        .collect();
    let mut solution = Solution {
        throughput: vec![0.0; classes],
        residence: vec![vec![0.0; centres]; classes],
        queue: share_sum(&share, centres),
    };
    for _ in 0..STEPS_MAX {
        let mut change = 0.0f64;
        for class in 0..classes {
            let jobs = f64::from(network.classes[class].population);
            if jobs == 0.0 {
                share[class].fill(0.0);
                continue;
            }
            for centre in 0..centres {
                let found = match method {
                    _ if !network.is_queueing(centre) => 0.0,
                    Method::Schweitzer => solution.queue[centre] - share[class][centre] / jobs,
                    Method::Bard => solution.queue[centre],
                };
                solution.residence[class][centre] =
                    network.classes[class].demands[centre] * (1.0 + found);
            }
            solution.throughput[class] = jobs / solution.response(class);
        }
        for class in 0..classes {
            for centre in 0..centres {
                let queue = solution.throughput[class] * solution.residence[class][centre];
                change = change.max((queue - share[class][centre]).abs());
                share[class][centre] = queue;
            }
        }
        solution.queue = share_sum(&share, centres);
        if change < PRECISION {
            return Ok(solution);
        }
    }
    Err(Error::Model(format!(
        "{method:?}'s iteration did not settle in {STEPS_MAX} steps"
    )))
}

fn share_sum(share: &[Vec<f64>], centres: usize) -> Vec<f64> {
    (0..centres)
        .map(|centre| share.iter().map(|class| class[centre]).sum())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::exact;
    use super::super::exact::tests::network;
    use super::*;

    #[test]
    fn one_job_waits_for_nobody_and_schweitzer_knows_it() {
        let net = network(1, &[(1, &[3.0, 2.0, 4.0])]);
        let solution = solve(&net, Method::Schweitzer).unwrap();
        assert!((solution.response(0) - 9.0).abs() < 1e-9);
        assert!(solve(&net, Method::Bard).unwrap().response(0) > 9.5);
    }

    #[test]
    fn both_approach_the_exact_solution_with_many_jobs() {
        let net = network(1, &[(60, &[3.0, 2.0, 4.0]), (40, &[1.0, 3.0, 2.0])]);
        let exact = exact::solve(&net).unwrap();
        for method in [Method::Schweitzer, Method::Bard] {
            let near = solve(&net, method).unwrap();
            assert!(
                (near.total() / exact.total() - 1.0).abs() < 0.02,
                "{method:?}"
            );
        }
    }
}
