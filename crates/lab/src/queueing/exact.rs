//! Exact multi-class mean value analysis (Reiser and Lavenberg).
//!
//! For every population vector n from 0 to N, with e_c one job of class c:
//! R_ck(n) = D_ck (1 + Q_k(n - e_c)) at queues and D_ck at delays, X_c(n) = n_c / sum_k R_ck(n),
//! Q_k(n) = sum_c X_c(n) R_ck(n). The number of vectors, the product of all N_c + 1, is the price.

use super::network::Network;
use super::solution::Solution;
use crate::error::Error;

/// The most mean queue lengths kept at once (256 MiB): beyond it the answer would come after swap.
pub const STATES_TIMES_CENTRES_MAX: u64 = 1 << 25;

/// Solves a network exactly.
#[expect(
    clippy::needless_range_loop,
    reason = "the indices are the subscripts of the formulas"
)]
pub fn solve(network: &Network) -> Result<Solution, Error> {
    network.check()?;
    let states = states(network).filter(|states| {
        states.saturating_mul(network.centres.len() as u64) <= STATES_TIMES_CENTRES_MAX
    });
    let Some(states) = states else {
        return Err(Error::Model(format!(
            "exact analysis of {} classes with populations {:?} has too many population vectors; \
             merge classes that make the same demands, or use the approximation of Schweitzer",
            network.classes.len(),
            network
                .classes
                .iter()
                .map(|class| class.population)
                .collect::<Vec<_>>(),
        )));
    };
    let centres = network.centres.len();
    let classes = network.classes.len();
    // Vectors in mixed radix: taking one job of class c away is a step of `stride[c]`.
    let mut stride = vec![1usize; classes];
    for class in 1..classes {
        stride[class] = stride[class - 1] * (network.classes[class - 1].population as usize + 1);
    }
    let mut queue = vec![0.0; states as usize * centres];
    let mut population = vec![0u32; classes];
    let mut solution = Solution {
        throughput: vec![0.0; classes],
        residence: vec![vec![0.0; centres]; classes],
        queue: vec![0.0; centres],
    };
    for state in 1..states as usize {
        increment(&mut population, network);
        solution.queue.fill(0.0);
        for class in 0..classes {
            if population[class] == 0 {
                continue;
            }
            let before = (state - stride[class]) * centres;
            let residence = &mut solution.residence[class];
            for centre in 0..centres {
                let waiting = if network.is_queueing(centre) {
                    queue[before + centre]
                } else {
                    0.0
                };
                residence[centre] = network.classes[class].demands[centre] * (1.0 + waiting);
            }
            let throughput = f64::from(population[class]) / residence.iter().sum::<f64>();
            solution.throughput[class] = throughput;
            for centre in 0..centres {
                solution.queue[centre] += throughput * residence[centre];
            }
        }
        queue[state * centres..][..centres].copy_from_slice(&solution.queue);
    }
    Ok(solution)
}

/// The number of population vectors, unless it overflows.
pub fn states(network: &Network) -> Option<u64> {
    network.classes.iter().try_fold(1u64, |states, class| {
        states.checked_mul(u64::from(class.population) + 1)
    })
}

fn increment(population: &mut [u32], network: &Network) {
    for (count, class) in population.iter_mut().zip(&network.classes) {
        if *count < class.population {
            *count += 1;
            return;
        }
        *count = 0;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::network::{Centre, CentreKind, Class};
    use super::*;

    pub(in super::super) fn network(delays: usize, classes: &[(u32, &[f64])]) -> Network {
        let centres = classes[0].1.len();
        Network {
            centres: (0..centres)
                .map(|at| Centre {
                    name: format!("centre {at}"),
                    kind: if at < delays {
                        CentreKind::Delay
                    } else {
                        CentreKind::Queueing
                    },
                })
                .collect(),
            classes: classes
                .iter()
                .enumerate()
                .map(|(at, &(population, demands))| Class {
                    name: format!("class {at}"),
                    population,
                    demands: demands.to_vec(),
                })
                .collect(),
        }
    }

    #[test]
    fn balanced_networks_have_a_closed_form() {
        // N jobs over K equal queues: X = N / (D (N + K - 1)) with D the demand at one of them.
        for jobs in 1..20 {
            let solution = solve(&network(0, &[(jobs, &[2.0; 5])])).unwrap();
            let expected = f64::from(jobs) / (2.0 * f64::from(jobs + 4));
            assert!((solution.total() - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn the_machine_repairman_has_a_closed_form() {
        // N jobs that think Z and are served S: 1 - p0 = S X, p0 from the Erlang loss formula.
        let (think, service, jobs) = (8.0, 2.0, 6u32);
        let solution = solve(&network(1, &[(jobs, &[think, service])])).unwrap();
        let load: f64 = think / service;
        let mut term = 1.0;
        let mut sum = 1.0;
        for k in 1..=jobs {
            term *= load / f64::from(k);
            sum += term;
        }
        let busy = 1.0 - term / sum;
        assert!((solution.total() - busy / service).abs() < 1e-12);
    }

    /// Two classes against the product form, summed over all states by brute force.
    #[test]
    fn two_classes_agree_with_the_product_form() {
        let demands: [&[f64]; 2] = [&[5.0, 1.0, 3.0], &[7.0, 2.0, 0.5]];
        let population = [3u32, 2];
        let weight = |n: [u32; 2]| product_form(&demands, n);
        let expected = weight([2, 2]) / weight([3, 2]);
        let net = network(
            1,
            &[(population[0], demands[0]), (population[1], demands[1])],
        );
        let solution = solve(&net).unwrap();
        assert!(
            (solution.throughput[0] - expected).abs() < 1e-12,
            "{solution:?}"
        );
        assert!((solution.queue.iter().sum::<f64>() - 5.0).abs() < 1e-12);
    }

    /// The normalising constant G(n) of a network whose centre 0 is a delay.
    fn product_form(demands: &[&[f64]; 2], n: [u32; 2]) -> f64 {
        let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
        let mut sum = 0.0;
        for a0 in 0..=n[0] {
            for a1 in 0..=n[0] - a0 {
                for b0 in 0..=n[1] {
                    for b1 in 0..=n[1] - b0 {
                        let (a, b) = ([a0, a1, n[0] - a0 - a1], [b0, b1, n[1] - b0 - b1]);
                        let mut weight = 1.0;
                        for k in 0..3 {
                            weight *= demands[0][k].powi(a[k] as i32)
                                * demands[1][k].powi(b[k] as i32)
                                / (factorial(a[k]) * factorial(b[k]));
                            if k > 0 {
                                weight *= factorial(a[k] + b[k]);
                            }
                        }
                        sum += weight;
                    }
                }
            }
        }
        sum
    }

    #[test]
    fn too_many_vectors_are_refused_with_a_remedy() {
        let demands: &[f64] = &[1.0, 2.0];
        let error = solve(&network(0, &[(4, demands); 40]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("Schweitzer"), "{error}");
    }
}
