//! Client processes of a benchmark: all get ready, start at one signal, and report their end.

use anyhow::Context as _;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Processes of this binary that wait for the signal.
pub struct Crew {
    children: Vec<Child>,
    outputs: Vec<BufReader<ChildStdout>>,
}

impl Crew {
    /// Starts `count` of them with `arguments` and `--number N`, and waits until all are ready.
    pub fn start(count: u64, arguments: &[String]) -> anyhow::Result<Crew> {
        Crew::start_by(
            count,
            |_| Command::new(std::env::current_exe().unwrap_or_default()),
            arguments,
        )
    }

    /// The same with another way to start a process (in a network namespace, say).
    pub fn start_by(
        count: u64,
        command: impl Fn(u64) -> Command,
        arguments: &[String],
    ) -> anyhow::Result<Crew> {
        let mut crew = Crew {
            children: Vec::new(),
            outputs: Vec::new(),
        };
        for number in 0..count {
            let mut child = command(number)
                .args(arguments)
                .args(["--number", &number.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("start a client process")?;
            crew.outputs
                .push(BufReader::new(child.stdout.take().expect("was asked for")));
            crew.children.push(child);
        }
        crew.expect("ready")?;
        Ok(crew)
    }

    /// Gives the signal; the time until the last one is done.
    pub fn go(&mut self) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        for child in &mut self.children {
            child
                .stdin
                .as_mut()
                .expect("was asked for")
                .write_all(b"go\n")?;
        }
        self.expect("done")?;
        Ok(begin.elapsed())
    }

    /// Waits until all have ended well.
    pub fn finish(mut self) -> anyhow::Result<()> {
        for child in &mut self.children {
            anyhow::ensure!(child.wait()?.success(), "a client process failed");
        }
        self.children.clear();
        Ok(())
    }

    fn expect(&mut self, word: &str) -> anyhow::Result<()> {
        for output in &mut self.outputs {
            let mut line = String::new();
            output.read_line(&mut line)?;
            anyhow::ensure!(
                line.trim() == word,
                "a client said {line:?} instead of {word:?}"
            );
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// In a client process: everything is prepared; wait for the signal.
pub fn tell_ready_and_wait() -> anyhow::Result<()> {
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    anyhow::ensure!(line.trim() == "go", "the benchmark was given up");
    Ok(())
}
