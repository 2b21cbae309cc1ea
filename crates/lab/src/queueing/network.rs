//! A closed queueing network as data: what a user writes into a file, and what every solver takes.

use serde::Deserialize;
use std::collections::BTreeMap;

use crate::error::Error;

/// A closed network. Demands are in milliseconds per visit to the whole cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Where jobs spend their time.
    pub centres: Vec<Centre>,
    /// Who circulates.
    pub classes: Vec<Class>,
}

/// A place where jobs spend time.
#[derive(Clone, Debug, PartialEq)]
pub struct Centre {
    /// Its name in tables.
    pub name: String,
    /// Whether jobs wait for each other there.
    pub kind: CentreKind,
}

/// Whether jobs wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CentreKind {
    /// One server, a queue before it.
    #[default]
    Queueing,
    /// A server for each job: think time, or a latency that nobody shares.
    Delay,
}

/// Jobs that all make the same demands.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name in tables.
    pub name: String,
    /// How many jobs circulate.
    pub population: u32,
    /// Total service time that one cycle takes at each centre, in ms; zero where it does not go.
    pub demands: Vec<f64>,
}

/// The file's form: see `docs/models.md`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "centre")]
    centres: Vec<FileCentre>,
    #[serde(default, rename = "class")]
    classes: Vec<FileClass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCentre {
    name: String,
    #[serde(default)]
    kind: CentreKind,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileClass {
    name: String,
    population: u32,
    demands: BTreeMap<String, f64>,
}

impl Network {
    /// Reads a network from the text of a TOML file; `file` is its name for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, Error> {
        let refuse = |reason: String| Error::File {
            file: file.into(),
            reason,
        };
        let parsed: File = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        let names: Vec<&str> = parsed
            .centres
            .iter()
            .map(|centre| centre.name.as_str())
            .collect();
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                return Err(refuse(format!(
                    "two centres are called `{name}`: give each its own name"
                )));
            }
        }
        let mut classes = Vec::new();
        for class in &parsed.classes {
            let mut demands = vec![0.0; names.len()];
            for (centre, &demand) in &class.demands {
                let at = names
                    .iter()
                    .position(|name| name == centre)
                    .ok_or_else(|| Error::unknown("centre", centre, names.iter().copied()))?;
                demands[at] = demand;
            }
            classes.push(Class {
                name: class.name.clone(),
                population: class.population,
                demands,
            });
        }
        let centres = parsed
            .centres
            .into_iter()
            .map(|centre| Centre {
                name: centre.name,
                kind: centre.kind,
            })
            .collect();
        let network = Self { centres, classes };
        network.check()?;
        Ok(network)
    }

    /// Refuses what no solver can work with, naming the culprit.
    pub fn check(&self) -> Result<(), Error> {
        if self.centres.is_empty() || self.classes.is_empty() {
            return Err(Error::Model(
                "a network needs at least one [[centre]] and one [[class]]".into(),
            ));
        }
        for class in &self.classes {
            assert_eq!(
                class.demands.len(),
                self.centres.len(),
                "one demand per centre"
            );
            for (centre, &demand) in self.centres.iter().zip(&class.demands) {
                if !(demand.is_finite() && demand >= 0.0) {
                    return Err(Error::value(
                        &format!("class {}: demands.{}", class.name, centre.name),
                        demand,
                        "a demand is a time",
                        "milliseconds, 0 or more",
                    ));
                }
            }
            if class.population > 0 && class.demands.iter().sum::<f64>() <= 0.0 {
                return Err(Error::value(
                    &format!("class {}: demands", class.name),
                    0,
                    "its jobs would circulate infinitely fast",
                    "at least one demand above 0 ms",
                ));
            }
        }
        if self.classes.iter().all(|class| class.population == 0) {
            return Err(Error::value(
                "population",
                0,
                "nobody circulates",
                "at least one job",
            ));
        }
        Ok(())
    }

    /// Whether jobs wait for each other at this centre.
    pub fn is_queueing(&self, centre: usize) -> bool {
        self.centres[centre].kind == CentreKind::Queueing
    }

    /// A class's demand over the centres of one kind.
    pub fn demand(&self, class: usize, kind: CentreKind) -> f64 {
        self.centres
            .iter()
            .zip(&self.classes[class].demands)
            .filter(|(centre, _)| centre.kind == kind)
            .map(|(_, demand)| demand)
            .sum()
    }

    /// The queueing centres at which classes make different demands. There a first-come-first-served
    /// queue has no product form, and mean value analysis describes processor sharing instead.
    pub fn unequal_centres(&self) -> Vec<&str> {
        let unequal = |centre: usize| {
            let mut positive = self
                .classes
                .iter()
                .filter(|class| class.population > 0)
                .map(|class| class.demands[centre])
                .filter(|&demand| demand > 0.0);
            let first = positive.next();
            positive.any(|demand| Some(demand) != first)
        };
        (0..self.centres.len())
            .filter(|&centre| self.is_queueing(centre) && unequal(centre))
            .map(|centre| self.centres[centre].name.as_str())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[centre]]
        name = "cpu"
        [[centre]]
        name = "think"
        kind = "delay"
        [[class]]
        name = "users"
        population = 3
        demands = { cpu = 2.0, think = 10 }
    "#;

    #[test]
    fn a_file_is_read() {
        let network = Network::from_toml("net.toml", TEXT).unwrap();
        assert_eq!(network.centres[1].kind, CentreKind::Delay);
        assert_eq!(network.classes[0].demands, [2.0, 10.0]);
        assert_eq!(network.demand(0, CentreKind::Queueing), 2.0);
    }

    #[test]
    fn errors_name_the_key_and_the_remedy() {
        let says = |from: &str, to: &str| {
            let error = Network::from_toml("net.toml", &TEXT.replace(from, to)).unwrap_err();
            error.to_string()
        };
        assert!(says("cpu = 2.0", "cqu = 2.0").contains("did you mean `cpu`?"));
        assert!(says("2.0", "-2.0").contains("class users: demands.cpu = -2"));
        assert!(says("population = 3", "population = 0").contains("at least one job"));
        assert!(says("kind", "kinds").contains("kinds"));
        assert!(says("\"think\"\n", "\"cpu\"\n").contains("two centres are called `cpu`"));
        assert!(says("cpu = 2.0, think = 10", "").contains("infinitely fast"));
    }
}
