//! Processor costs of the file systems' steps, on a 50 MHz processor.
//!
//! The papers do not print them. Those marked *fitted* were chosen so that the named cells of the
//! papers' tables come out; the others are judgement. Nothing is fitted per cell.

use crate::time::Time;
use serde::Deserialize;

/// Costs in microseconds (`Costs`), or as spans (`Costs<Time>`).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs<T = f64> {
    /// Taking an interrupt. Judgement.
    pub interrupt: T,
    /// Sending a message. Judgement.
    pub send: T,
    /// Creating a thread. Judgement.
    pub thread_create: T,
    /// Switching to a thread. Judgement.
    pub thread_switch: T,
    /// Deciding about a prefetch. Judgement.
    pub prefetch: T,
    /// Issuing a disk request. Fitted: I/O-node paper, 95 % of the processor left by an easy read.
    pub disk_issue: T,
    /// Cache lookup and LRU, per request. Fitted: TC rc and rcc, 8 B, contiguous.
    pub cache_lookup: T,
    /// A compute processor issuing a request. Fitted on the same two.
    pub cp_issue: T,
    /// A compute processor absorbing a reply. Fitted on the same two.
    pub cp_reply: T,
    /// Extra per write request. Fitted: TC wcc, 8 B, contiguous; 20 rather than 19, which fits
    /// that cell alone slightly better, because wbc on random blocks then stays within 30 %.
    pub write_extra: T,
    /// Copying 1000 bytes. Fitted: I/O-node paper, 90 % left by an easy write.
    pub copy_1000: T,
    /// Address of a piece, one dimension. Fitted: DD rc, 8 B, contiguous.
    pub piece_1d: T,
    /// Address of a piece, two dimensions. Fitted: DD rbc, 8 B, contiguous.
    pub piece_2d: T,
    /// Handling the reply to a Memget. Fitted: DD wc, 8 B, contiguous.
    pub memget_reply: T,
    /// Extra for two dimensions. Fitted: DD wbc, 8 B, contiguous.
    pub memget_reply_2d: T,
    /// A compute processor serving a Memput or Memget. Below 1.9, or rbc would be slower.
    pub member_service: T,
    /// One entry of a disk-directed block list. Judgement.
    pub list_entry: T,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            interrupt: 1.5,
            send: 2.0,
            thread_create: 4.0,
            thread_switch: 5.0,
            prefetch: 2.0,
            disk_issue: 70.0,
            cache_lookup: 8.0,
            cp_issue: 8.0,
            cp_reply: 8.0,
            write_extra: 20.0,
            copy_1000: 23.0,
            piece_1d: 2.45,
            piece_2d: 3.75,
            memget_reply: 2.55,
            memget_reply_2d: 0.45,
            member_service: 1.2,
            list_entry: 1.0,
        }
    }
}

impl Costs {
    /// The costs as spans of time on a processor `speed` times as fast as the papers' 50 MHz.
    pub fn spans(&self, speed: f64) -> Costs<Time> {
        let t = |us: f64| Time::from_us(us / speed);
        Costs {
            interrupt: t(self.interrupt),
            send: t(self.send),
            thread_create: t(self.thread_create),
            thread_switch: t(self.thread_switch),
            prefetch: t(self.prefetch),
            disk_issue: t(self.disk_issue),
            cache_lookup: t(self.cache_lookup),
            cp_issue: t(self.cp_issue),
            cp_reply: t(self.cp_reply),
            write_extra: t(self.write_extra),
            copy_1000: t(self.copy_1000),
            piece_1d: t(self.piece_1d),
            piece_2d: t(self.piece_2d),
            memget_reply: t(self.memget_reply),
            memget_reply_2d: t(self.memget_reply_2d),
            member_service: t(self.member_service),
            list_entry: t(self.list_entry),
        }
    }
}

impl Costs<Time> {
    /// The time to copy `bytes`.
    pub fn copy(&self, bytes: u64) -> Time {
        Time(self.copy_1000.0 * bytes / 1000)
    }
}
