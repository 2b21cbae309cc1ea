//! Parameters of experiments: their ranges, their documentation, and the settings of one run.

use crate::error::Error;
use std::collections::BTreeMap;

/// Something about an experiment that may be changed with `--set name=value`.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// What it means, with the unit.
    pub about: &'static str,
    /// Its type, default and range.
    pub kind: Kind,
}

/// A parameter's type, default and range.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number.
    Integer {
        /// Value unless set.
        default: u64,
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A number.
    Number {
        /// Value unless set.
        default: f64,
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// One of a few words.
    Choice {
        /// Value unless set.
        default: &'static str,
        /// All allowed words.
        of: &'static [&'static str],
    },
    /// `true` or `false`.
    Flag {
        /// Value unless set.
        default: bool,
    },
}

impl Parameter {
    /// A whole number.
    pub const fn integer(
        name: &'static str,
        default: u64,
        min: u64,
        max: u64,
        about: &'static str,
    ) -> Parameter {
        Parameter {
            name,
            about,
            kind: Kind::Integer { default, min, max },
        }
    }

    /// A number.
    pub const fn number(
        name: &'static str,
        default: f64,
        min: f64,
        max: f64,
        about: &'static str,
    ) -> Parameter {
        Parameter {
            name,
            about,
            kind: Kind::Number { default, min, max },
        }
    }

    /// One of a few words.
    pub const fn choice(
        name: &'static str,
        default: &'static str,
        of: &'static [&'static str],
        about: &'static str,
    ) -> Parameter {
        Parameter {
            name,
            about,
            kind: Kind::Choice { default, of },
        }
    }

    /// A switch.
    pub const fn flag(name: &'static str, default: bool, about: &'static str) -> Parameter {
        Parameter {
            name,
            about,
            kind: Kind::Flag { default },
        }
    }

    /// The default as text.
    pub fn default(&self) -> String {
        match self.kind {
            Kind::Integer { default, .. } => default.to_string(),
            Kind::Number { default, .. } => default.to_string(),
            Kind::Choice { default, .. } => default.into(),
            Kind::Flag { default } => default.to_string(),
        }
    }

    /// The allowed values as text.
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Integer { min, max, .. } => format!("a whole number from {min} to {max}"),
            Kind::Number { min, max, .. } => format!("a number from {min} to {max}"),
            Kind::Choice { of, .. } => of.join(", "),
            Kind::Flag { .. } => "true, false".into(),
        }
    }

    /// Refuses a text that is not an allowed value.
    pub fn check(&self, text: &str) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::value(self.name, text, reason, self.allowed()));
        match self.kind {
            Kind::Integer { min, max, .. } => match text.parse::<u64>() {
                Ok(n) if (min..=max).contains(&n) => Ok(()),
                Ok(_) => refuse("out of range".into()),
                Err(_) => refuse("not a whole number".into()),
            },
            Kind::Number { min, max, .. } => match text.parse::<f64>() {
                Ok(x) if (min..=max).contains(&x) => Ok(()),
                Ok(_) => refuse("out of range".into()),
                Err(_) => refuse("not a number".into()),
            },
            Kind::Choice { of, .. } if of.contains(&text) => Ok(()),
            Kind::Choice { of, .. } => refuse(match crate::error::nearest(text, of) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "not one of the choices".into(),
            }),
            Kind::Flag { .. } if text == "true" || text == "false" => Ok(()),
            Kind::Flag { .. } => refuse("not a switch".into()),
        }
    }
}

/// The settings of one run: parameters by name, and what every experiment has.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Replications (seeds 0, 1, ... or the experiment's own count if `None`).
    pub seeds: Option<u32>,
    /// Threads for replications.
    pub jobs: usize,
    /// A smaller, faster version of the study, where it has one.
    pub quick: bool,
    parameters: &'static [Parameter],
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// All defaults.
    pub fn new(parameters: &'static [Parameter]) -> Settings {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Settings {
            seeds: None,
            jobs,
            quick: false,
            parameters,
            values: BTreeMap::new(),
        }
    }

    /// Sets one parameter from its text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let parameter = self.parameter(name)?;
        parameter.check(text)?;
        self.values.insert(parameter.name, text.into());
        Ok(())
    }

    /// Sets parameters from `name=value` texts.
    pub fn set_all<'a>(&mut self, pairs: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        for pair in pairs {
            let (name, text) = pair.split_once('=').ok_or_else(|| {
                Error::value(pair, "", "no `=` in it", "name=value, such as disks=32")
            })?;
            self.set(name.trim(), text.trim())?;
        }
        Ok(())
    }

    /// The `name=value` pairs that differ from the defaults.
    pub fn changed(&self) -> Vec<String> {
        let default = |name| {
            self.parameters
                .iter()
                .find(|p| p.name == name)
                .map(Parameter::default)
        };
        self.values
            .iter()
            .filter(|(name, value)| default(**name).as_ref() != Some(value))
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    /// A whole number's value. Panics if the experiment has no such parameter.
    pub fn integer(&self, name: &str) -> u64 {
        self.text(name).parse().expect("checked when it was set")
    }

    /// A number's value.
    pub fn number(&self, name: &str) -> f64 {
        self.text(name).parse().expect("checked when it was set")
    }

    /// A choice's value.
    pub fn choice(&self, name: &str) -> String {
        self.text(name)
    }

    /// A switch's value.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    fn text(&self, name: &str) -> String {
        match self.values.get(name) {
            Some(text) => text.clone(),
            None => self
                .parameter(name)
                .expect("an experiment reads its own parameters")
                .default(),
        }
    }

    fn parameter(&self, name: &str) -> Result<&'static Parameter, Error> {
        let known = || self.parameters.iter().map(|p| p.name);
        self.parameters
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| Error::unknown("parameter", name, known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: &[Parameter] = &[
        Parameter::integer("disks", 16, 1, 64, "disks"),
        Parameter::choice(
            "layout",
            "contiguous",
            &["contiguous", "random-blocks"],
            "layout",
        ),
        Parameter::number("jitter", 0.5, 0.0, 1.0, "jitter"),
    ];

    #[test]
    fn errors_name_key_range_and_nearest_name() {
        let mut settings = Settings::new(PARAMETERS);
        let error = settings.set("disks", "0").unwrap_err().to_string();
        assert!(
            error.contains("`disks = 0`") && error.contains("from 1 to 64"),
            "{error}"
        );
        let error = settings.set("dusks", "3").unwrap_err().to_string();
        assert!(error.contains("did you mean `disks`"), "{error}");
        let error = settings.set("layout", "contigous").unwrap_err().to_string();
        assert!(error.contains("did you mean `contiguous`"), "{error}");
        let error = settings.set_all(["disks"]).unwrap_err().to_string();
        assert!(error.contains("name=value"), "{error}");
    }

    #[test]
    fn values_and_defaults() {
        let mut settings = Settings::new(PARAMETERS);
        settings.set_all(["disks=32", "jitter = 0.5"]).unwrap();
        assert_eq!(settings.integer("disks"), 32);
        assert_eq!(settings.choice("layout"), "contiguous");
        assert_eq!(settings.changed(), ["disks=32"]);
    }
}
