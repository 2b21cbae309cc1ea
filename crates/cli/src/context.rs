//! What all commands share: which cluster, how long to wait, how to print.

use std::time::Duration;
use trireme::{Cluster, Descriptor, Options};

/// Options of every command.
#[derive(clap::Args)]
pub struct Context {
    /// The cluster: its directory, its address file, or the manager's address (unix:/path,
    /// tcp:host:port). Default: the one that `trireme up` started last
    #[arg(long, global = true, env = "TRIREME_CLUSTER", value_name = "WHERE")]
    pub cluster: Option<String>,
    /// Print data as JSON; set from the command's own `--json`.
    #[arg(skip)]
    pub json: bool,
    /// The command line, for a process that goes on with it.
    #[arg(skip)]
    pub words: Vec<std::ffi::OsString>,
    /// Seconds after which a call that gets no answer fails
    #[arg(
        long,
        global = true,
        default_value = "30",
        value_name = "SECONDS",
        hide_short_help = true
    )]
    pub timeout: f64,
}

impl Context {
    /// How to reach the cluster.
    pub fn descriptor(&self) -> anyhow::Result<Descriptor> {
        Ok(match &self.cluster {
            Some(name) => Descriptor::named(name)?,
            None => Descriptor::find()?,
        })
    }

    /// A client of the cluster.
    pub fn connect(&self) -> anyhow::Result<Cluster> {
        anyhow::ensure!(
            self.timeout.is_finite() && self.timeout > 0.0,
            "--timeout {}: must be more than 0 seconds",
            self.timeout
        );
        let deadline = Duration::from_secs_f64(self.timeout.min(86_400.0));
        let options = Options {
            deadline,
            ..Options::default()
        };
        Ok(Cluster::connect(&self.descriptor()?, options)?)
    }
}

// A command that prints data: its arguments, and `--json`. Not an option of every command, for
// elsewhere `--json` names a file. No doc comment: it would stand as the help of each command.
#[derive(clap::Args)]
pub struct Printing<A: clap::Args> {
    #[command(flatten)]
    pub args: A,
    /// Print data as JSON
    #[arg(long)]
    pub json: bool,
}

impl<A: clap::Args> Printing<A> {
    /// Runs the command with its choice of printing.
    pub fn run(
        self,
        mut context: Context,
        run: fn(&Context, &A) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        context.json = self.json;
        run(&context, &self.args)
    }
}
