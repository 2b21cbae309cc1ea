//! Answers to what was committed are sent by a thread of their own: the one that commits is the busiest
//! of a manager, and sending took a sixth of its time. What was committed together is answered together.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ThreadId;

use trireme_meta::failure::Failure;
use trireme_net::{Post, Responder};
use trireme_proto::Refusal;
use trireme_proto::message::meta::Response;

type Result = std::result::Result<Response, Failure>;

/// The way to that thread, which ends when all of these are gone.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    queue: Sender<(Responder, Result)>,
}

/// Most answers that are gathered before the first of them is sent.
const TOGETHER: usize = 512;

impl Answers {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Answers> {
        let (queue, answers) = channel();
        std::thread::Builder::new()
            .name("answers".into())
            .spawn(move || deliver(&answers))?;
        Ok(Answers { queue })
    }

    /// Answers; if this is the connection's `own` thread, as soon as it has no further request at hand.
    pub fn give(&self, responder: Responder, result: Result, own: ThreadId) {
        if std::thread::current().id() == own {
            let result = result.map_err(Refusal::from);
            responder.hold(result.as_ref());
        } else if let Err(lost) = self.queue.send((responder, result)) {
            let (responder, result) = lost.0;
            match result {
                Ok(response) => responder.reply_body(&response),
                Err(failure) => responder.refuse(&failure.into()),
            }
        }
    }
}

fn deliver(answers: &Receiver<(Responder, Result)>) {
    let mut post = Post::default();
    while let Ok(first) = answers.recv() {
        let more = answers.try_iter().take(TOGETHER - 1);
        for (responder, result) in std::iter::once(first).chain(more) {
            let result = result.map_err(Refusal::from);
            post.add(&responder, result.as_ref());
        }
        post.send();
    }
}
