//! Answers to what was committed are sent by a thread of their own: the one that commits is the busiest
//! of a manager, and sending took a sixth of its time.

use std::sync::mpsc::{Sender, channel};
use std::thread::ThreadId;

use trireme_meta::failure::Failure;
use trireme_net::Responder;
use trireme_proto::message::meta::Response;

type Result = std::result::Result<Response, Failure>;

/// The way to that thread, which ends when all of these are gone.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    queue: Sender<(Responder, Result)>,
}

impl Answers {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Answers> {
        let (queue, answers) = channel::<(Responder, Result)>();
        std::thread::Builder::new()
            .name("answers".into())
            .spawn(move || {
                for (responder, result) in answers {
                    if responder.is_ready() {
                        send(responder, result);
                    } else {
                        // Rare: somebody asks and does not read. Its own frame deadline ends this.
                        std::thread::spawn(move || send(responder, result));
                    }
                }
            })?;
        Ok(Answers { queue })
    }

    /// Answers, on the spot if this is the connection's `own` thread.
    pub fn give(&self, responder: Responder, result: Result, own: ThreadId) {
        if std::thread::current().id() == own {
            send(responder, result);
        } else if let Err(lost) = self.queue.send((responder, result)) {
            let (responder, result) = lost.0;
            send(responder, result);
        }
    }
}

fn send(responder: Responder, result: Result) {
    match result {
        Ok(response) => responder.reply_body(&response),
        Err(failure) => responder.refuse(&failure.into()),
    }
}
