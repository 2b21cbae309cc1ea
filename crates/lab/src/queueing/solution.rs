//! The mean values that every solver gives, under the same names.

use serde::Serialize;

use super::network::Network;

/// Mean values of a network in its steady state; times in milliseconds, rates per millisecond.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Solution {
    /// Per class: jobs completed per ms.
    pub throughput: Vec<f64>,
    /// Per class and centre: time a job spends there per cycle, waiting and in service.
    pub residence: Vec<Vec<f64>>,
    /// Per centre: mean number of jobs there.
    pub queue: Vec<f64>,
}

impl Solution {
    /// Time of one cycle of a class's job.
    pub fn response(&self, class: usize) -> f64 {
        self.residence[class].iter().sum()
    }

    /// Share of time in which a centre is busy (for a delay centre, the mean number of jobs).
    pub fn utilisation(&self, network: &Network, centre: usize) -> f64 {
        network
            .classes
            .iter()
            .zip(&self.throughput)
            .map(|(class, throughput)| throughput * class.demands[centre])
            .sum()
    }

    /// Jobs completed per ms over all classes.
    pub fn total(&self) -> f64 {
        self.throughput.iter().sum()
    }

    /// The queueing centre that is busiest.
    pub fn bottleneck(&self, network: &Network) -> usize {
        (0..network.centres.len())
            .filter(|&centre| network.is_queueing(centre))
            .max_by(|&a, &b| {
                self.utilisation(network, a)
                    .total_cmp(&self.utilisation(network, b))
            })
            .unwrap_or(0)
    }
}
