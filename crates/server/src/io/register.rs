//! Tells the manager, again and again, that this I/O server lives and where.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use trireme_net::{Deadline, Endpoint, Identity, NetError, Pool};
use trireme_proto::message::meta::{Call, Making, Request, Response, ServerInfo};
use trireme_proto::{Key, Op};

/// How often: a manager that restarted knows all servers again within this time.
const PERIOD: Duration = Duration::from_millis(500);

/// A running registration; ends when dropped.
#[derive(Debug)]
pub struct Registration {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Registration {
    /// Registers once, within the deadline, and then keeps doing it.
    pub fn start(
        manager: Endpoint,
        key: Key,
        server: ServerInfo,
        deadline: Deadline,
    ) -> Result<Registration, NetError> {
        let pool = Pool::new(manager, key, Identity::of_this_process());
        register(&pool, &server, deadline)?;
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let ours = stop.clone();
        let thread = std::thread::Builder::new()
            .name("register".into())
            .spawn(move || {
                let mut known = true;
                let (flag, changed) = &*ours;
                let mut stopped = flag.lock().expect("no panic under this lock");
                while !*stopped {
                    stopped = changed
                        .wait_timeout(stopped, PERIOD)
                        .expect("no panic under this lock")
                        .0;
                    if *stopped {
                        return;
                    }
                    drop(stopped);
                    match register(&pool, &server, Deadline::after(PERIOD)) {
                        Ok(()) if !known => {
                            tracing::info!("the manager is back");
                            known = true;
                        }
                        Ok(()) => {}
                        Err(error) => {
                            if known {
                                tracing::warn!("cannot register: {error}; trying on");
                            }
                            known = false;
                        }
                    }
                    stopped = flag.lock().expect("no panic under this lock");
                }
            });
        Ok(Registration {
            stop,
            thread: thread.ok(),
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        *self.stop.0.lock().expect("no panic under this lock") = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn register(pool: &Pool, server: &ServerInfo, deadline: Deadline) -> Result<(), NetError> {
    let request = Request::Register {
        server: server.clone(),
    };
    pool.call::<_, Response>(
        Op::META,
        &Call {
            serial: 0,
            soft: false,
            making: Making::default(),
            caller: None,
            request,
        },
        deadline,
    )?;
    Ok(())
}
