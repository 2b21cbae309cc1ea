//! Limits on throughput that need only the demands: asymptotic and balanced-job bounds.
//!
//! With D the total queueing demand of a class, Z its delay, D_max its largest single demand, N_c
//! its jobs and N all jobs of the network:
//!
//! * asymptotic: X <= min(N_c / (D + Z), 1 / D_max), reached when nobody waits or one centre never
//!   rests; X >= N_c / (Z + D + (N - 1) D_max), when everybody always waits at the worst place;
//! * balanced job (Zahorjan et al.), for one class, with D_avg the mean demand over the centres it
//!   visits: N / (D + Z + (N - 1) D_max / (1 + Z / (N D))) <= X <=
//!   min(1 / D_max, N / (D + Z + (N - 1) D_avg / (1 + Z / D)));
//! * all classes together: for each centre alone, the best mix of classes that it can carry.

use serde::Serialize;

use super::network::{CentreKind, Network};

/// Bounds of a network's throughputs, jobs per millisecond.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Per class.
    pub classes: Vec<ClassBounds>,
    /// No mix of classes can complete more than this in total.
    pub total_max: f64,
    /// The centre that says so; none when it is the number of jobs.
    pub bottleneck: Option<String>,
}

/// Bounds of one class's throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassBounds {
    /// Asymptotic lower and upper bound.
    pub asymptotic: (f64, f64),
    /// Balanced-job lower and upper bound; only for a network of one class.
    pub balanced: Option<(f64, f64)>,
}

/// The bounds of a network.
pub fn bounds(network: &Network) -> Bounds {
    let jobs: u32 = network.classes.iter().map(|class| class.population).sum();
    let classes: Vec<ClassBounds> = (0..network.classes.len())
        .map(|class| class_bounds(network, class, jobs))
        .collect();
    let population_max: f64 = classes.iter().map(|class| class.asymptotic.1).sum();
    let tightest = (0..network.centres.len())
        .filter(|&centre| network.is_queueing(centre))
        .map(|centre| (capacity(network, &classes, centre), centre))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    match tightest {
        Some((capacity, centre)) if capacity < population_max * (1.0 - 1e-12) => Bounds {
            classes,
            total_max: capacity,
            bottleneck: Some(network.centres[centre].name.clone()),
        },
        _ => Bounds {
            classes,
            total_max: population_max,
            bottleneck: None,
        },
    }
}

fn class_bounds(network: &Network, class: usize, jobs: u32) -> ClassBounds {
    let own = f64::from(network.classes[class].population);
    let demand = network.demand(class, CentreKind::Queueing);
    let delay = network.demand(class, CentreKind::Delay);
    let visited: Vec<f64> = network
        .centres
        .iter()
        .zip(&network.classes[class].demands)
        .filter(|(centre, demand)| centre.kind == CentreKind::Queueing && **demand > 0.0)
        .map(|(_, &demand)| demand)
        .collect();
    let largest = visited.iter().copied().fold(0.0, f64::max);
    let others = f64::from(jobs.saturating_sub(1));
    let asymptotic = if own == 0.0 {
        (0.0, 0.0)
    } else {
        (
            own / (delay + demand + others * largest),
            (own / (demand + delay)).min(1.0 / largest),
        )
    };
    let balanced = (network.classes.len() == 1 && demand > 0.0).then(|| {
        let mean = demand / visited.len() as f64;
        let low = own / (demand + delay + others * largest / (1.0 + delay / (own * demand)));
        let high = own / (demand + delay + others * mean / (1.0 + delay / demand));
        (low, high.min(1.0 / largest))
    });
    ClassBounds {
        asymptotic,
        balanced,
    }
}

/// The largest total throughput if only this centre were shared: classes that burden it least go
/// first, each up to its own bound, until it is always busy.
fn capacity(network: &Network, classes: &[ClassBounds], centre: usize) -> f64 {
    let mut order: Vec<usize> = (0..classes.len()).collect();
    let demand = |class: usize| network.classes[class].demands[centre];
    order.sort_by(|&a, &b| demand(a).total_cmp(&demand(b)));
    let (mut total, mut left) = (0.0, 1.0);
    for class in order {
        let most = classes[class].asymptotic.1;
        let carried = if demand(class) > 0.0 {
            most.min(f64::max(left, 0.0) / demand(class))
        } else {
            most
        };
        total += carried;
        left -= carried * demand(class);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::super::exact;
    use super::super::exact::tests::network;
    use super::*;
    use trireme_policy::random::Random;

    /// On random networks the exact solution lies within all bounds, and the balanced ones are the
    /// tighter.
    #[test]
    fn the_exact_solution_is_within_the_bounds() {
        let mut random = Random::new(3);
        for round in 0..2000 {
            let centres = 1 + random.index(5);
            let delays = random.index(2).min(centres - 1);
            let classes = 1 + round % 3;
            let demands: Vec<Vec<f64>> = (0..classes)
                .map(|_| (0..centres).map(|_| 0.1 + 10.0 * random.unit()).collect())
                .collect();
            let spec: Vec<(u32, &[f64])> = demands
                .iter()
                .map(|d| (1 + random.below(4) as u32, &d[..]))
                .collect();
            let net = network(delays, &spec);
            let exact = exact::solve(&net).unwrap();
            let bounds = bounds(&net);
            let slack = 1.0 + 1e-9;
            assert!(exact.total() <= bounds.total_max * slack, "{net:?}");
            for (class, &x) in bounds.classes.iter().zip(&exact.throughput) {
                let (low, high) = class.asymptotic;
                assert!(
                    low <= x * slack && x <= high * slack,
                    "{x} {class:?} {net:?}"
                );
                if let Some((tight_low, tight_high)) = class.balanced {
                    assert!(
                        tight_low <= x * slack && x <= tight_high * slack,
                        "{x} {class:?}"
                    );
                    assert!(low <= tight_low * slack && tight_high <= high * slack);
                }
            }
        }
    }

    #[test]
    fn the_bottleneck_is_named() {
        let net = network(0, &[(4, &[1.0, 5.0]), (4, &[1.0, 5.0])]);
        let bounds = bounds(&net);
        assert_eq!(bounds.bottleneck.as_deref(), Some("centre 1"));
        assert!((bounds.total_max - 0.2).abs() < 1e-12);
    }
}
