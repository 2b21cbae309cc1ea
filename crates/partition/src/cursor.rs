//! Walks a pattern in file order, one strided batch of equal runs at a time, and can jump ahead.
//!
//! This is the inner loop of everything: an innermost `Repeat` of a run is kept in six registers
//! and stepped without looking at the tree again.

use crate::node::{List, Node, Repeat};

/// `count` runs of `len` bytes, `stride` apart in the file and `step` apart in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// File offset of the first run.
    pub file: u64,
    /// View offset of the first run.
    pub view: u64,
    /// Bytes in each run.
    pub len: u64,
    /// File distance from run to run.
    pub stride: u64,
    /// View distance from run to run; negative where memory order is not file order.
    pub step: i64,
    /// Number of runs, at least 1.
    pub count: u64,
}

impl Batch {
    const NONE: Self = Self {
        file: 0,
        view: 0,
        len: 0,
        stride: 0,
        step: 0,
        count: 0,
    };

    /// File offset just after the last run.
    pub fn file_end(&self) -> u64 {
        self.file + (self.count - 1) * self.stride + self.len
    }

    /// The batch without its first `n` runs.
    #[inline]
    pub(crate) fn skip(mut self, n: u64) -> Self {
        self.file += n * self.stride;
        self.view = self.view.wrapping_add_signed(n as i64 * self.step);
        self.count -= n;
        self
    }

    /// One run of the batch's first run, without its first `by` bytes.
    fn trimmed(self, by: u64) -> Self {
        Self {
            file: self.file + by,
            view: self.view + by,
            len: self.len - by,
            stride: self.len - by,
            step: (self.len - by) as i64,
            count: 1,
        }
    }
}

enum Frame<'a> {
    Repeat {
        repeat: &'a Repeat,
        index: u64,
        file: u64,
        view: u64,
    },
    List {
        list: &'a List,
        index: usize,
        file: u64,
        view: u64,
    },
    /// The rest of a batch whose first run was cut.
    Rest(Batch),
}

/// A position in a pattern. The current batch is never empty until the pattern ends.
pub(crate) struct Cursor<'a> {
    frames: Vec<Frame<'a>>,
    pub batch: Batch,
}

impl<'a> Cursor<'a> {
    /// At the first run that ends after file offset `start`, cut so that it starts there.
    pub fn new(root: Option<&'a Node>, file: u64, view: u64, start: u64) -> Self {
        let mut cursor = Self {
            frames: Vec::new(),
            batch: Batch::NONE,
        };
        if let Some(root) = root {
            // Every level of the tree and one cut batch: no allocation after this one.
            cursor.frames.reserve_exact(root.summary().depth + 1);
            if start.saturating_sub(file) < root.span() {
                cursor.descend(root, file, view, start);
            }
        }
        cursor
    }

    pub fn at_end(&self) -> bool {
        self.batch.count == 0
    }

    /// Drops the current batch and takes up the next.
    pub fn next_batch(&mut self) {
        while let Some(frame) = self.frames.last_mut() {
            match frame {
                Frame::Rest(batch) => {
                    self.batch = *batch;
                    self.frames.pop();
                    return;
                }
                Frame::Repeat {
                    repeat,
                    index,
                    file,
                    view,
                } if *index + 1 < repeat.count => {
                    *index += 1;
                    let (repeat, i) = (*repeat, *index);
                    let at = *file + i * repeat.stride;
                    let to = view.wrapping_add_signed(i as i64 * repeat.step);
                    return self.descend(&repeat.child, at, to, at);
                }
                Frame::List {
                    list,
                    index,
                    file,
                    view,
                } if *index + 1 < list.entries.len() => {
                    *index += 1;
                    let entry = &list.entries[*index];
                    let at = *file + entry.file;
                    let to = view.wrapping_add_signed(entry.view);
                    return self.descend(&entry.node, at, to, at);
                }
                _ => {
                    self.frames.pop();
                }
            }
        }
        self.batch = Batch::NONE;
    }

    /// Drops one run.
    #[inline]
    pub fn next_run(&mut self) {
        if self.batch.count > 1 {
            self.batch = self.batch.skip(1);
        } else {
            self.next_batch();
        }
    }

    /// Takes the runs that end at or before file offset `end`, or the part of one that does.
    pub fn take_before(&mut self, end: u64) -> Option<Batch> {
        let batch = self.batch;
        if batch.count == 0 || batch.file >= end {
            return None;
        }
        if batch.file_end() <= end {
            self.next_batch();
            return Some(batch);
        }
        let reach = end - batch.file;
        if reach < batch.len {
            if batch.count > 1 {
                self.frames.push(Frame::Rest(batch.skip(1)));
            }
            self.batch = batch.trimmed(reach);
            return Some(Batch {
                len: reach,
                stride: reach,
                step: reach as i64,
                count: 1,
                ..batch
            });
        }
        let whole = (reach - batch.len) / batch.stride + 1;
        self.batch = batch.skip(whole);
        Some(Batch {
            count: whole,
            ..batch
        })
    }

    /// Moves on to the first run that ends after file offset `x`; never goes back.
    /// O(1) inside a batch, O(depth) otherwise.
    #[inline]
    pub fn skip_to(&mut self, x: u64) {
        if self.batch.file + self.batch.len > x || self.at_end() {
            return;
        }
        if x < self.batch.file_end() {
            let n = (x - self.batch.file) / self.batch.stride;
            let into = x - self.batch.file - n * self.batch.stride;
            self.batch = self.batch.skip(n + u64::from(into >= self.batch.len));
        } else {
            self.climb_to(x);
        }
    }

    fn climb_to(&mut self, x: u64) {
        // The next batch is the common case: look there before searching from the root.
        self.next_batch();
        if self.at_end() || x < self.batch.file + self.batch.len {
            return;
        }
        if x < self.batch.file_end() {
            return self.skip_to(x);
        }
        while let Some(frame) = self.frames.pop() {
            match frame {
                Frame::Rest(batch) => {
                    if x < batch.file_end() {
                        self.batch = batch;
                        return self.skip_to(x);
                    }
                }
                Frame::Repeat {
                    repeat, file, view, ..
                } => {
                    if x < file + repeat.total.span {
                        return self.enter_repeat(repeat, file, view, x);
                    }
                }
                Frame::List {
                    list, file, view, ..
                } => {
                    if x < file + list.total.span {
                        return self.enter_list(list, file, view, x);
                    }
                }
            }
        }
        self.batch = Batch::NONE;
    }

    /// Enters `node`, placed at (file, view), at the first run that ends after `x`. Such a run must
    /// exist: `x` lies before the node's end.
    fn descend(&mut self, node: &'a Node, file: u64, view: u64, x: u64) {
        match node {
            Node::Run(len) => {
                let batch = Batch {
                    file,
                    view,
                    len: *len,
                    stride: *len,
                    step: 0,
                    count: 1,
                };
                self.batch = if x > file {
                    batch.trimmed(x - file)
                } else {
                    batch
                };
            }
            Node::Repeat(repeat) => self.enter_repeat(repeat, file, view, x),
            Node::List(list) => self.enter_list(list, file, view, x),
        }
    }

    fn enter_repeat(&mut self, repeat: &'a Repeat, file: u64, view: u64, x: u64) {
        let ahead = x.saturating_sub(file);
        let mut index = ahead / repeat.stride;
        if ahead - index * repeat.stride >= repeat.inner.span {
            // In the gap after this copy: the next one exists, for `x` is before the end.
            index += 1;
        }
        let at = file + index * repeat.stride;
        let to = view.wrapping_add_signed(index as i64 * repeat.step);
        if let Node::Run(len) = repeat.child {
            let batch = Batch {
                file: at,
                view: to,
                len,
                stride: repeat.stride,
                step: repeat.step,
                count: repeat.count - index,
            };
            if x > at {
                if batch.count > 1 {
                    self.frames.push(Frame::Rest(batch.skip(1)));
                }
                self.batch = batch.trimmed(x - at);
            } else {
                self.batch = batch;
            }
            return;
        }
        self.frames.push(Frame::Repeat {
            repeat,
            index,
            file,
            view,
        });
        self.descend(&repeat.child, at, to, x);
    }

    fn enter_list(&mut self, list: &'a List, file: u64, view: u64, x: u64) {
        let ahead = x.saturating_sub(file);
        let mut index = list.index_at_or_before(ahead).unwrap_or(0);
        let entry = &list.entries[index];
        if ahead >= entry.file + entry.node.span() {
            index += 1;
        }
        let entry = &list.entries[index];
        self.frames.push(Frame::List {
            list,
            index,
            file,
            view,
        });
        let (at, to) = (file + entry.file, view.wrapping_add_signed(entry.view));
        self.descend(&entry.node, at, to, x);
    }
}
