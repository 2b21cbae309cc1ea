//! The iterators over a part's bytes: maximal runs, strided batches, and pieces of an intersection.

use crate::cursor::{Batch, Cursor};

/// A maximal contiguous run of one part: the same bytes in the file and in the owner's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// File offset.
    pub file: u64,
    /// Offset in the owner's own bytes.
    pub view: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A maximal contiguous run in the intersection of a view part and a layout part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// File offset.
    pub file: u64,
    /// Offset in the view part's own bytes: the process's buffer.
    pub view: u64,
    /// Offset in the layout part's own bytes: the server's subfile.
    pub part: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Iterator of [`crate::Part::runs`].
pub struct Runs<'a> {
    cursor: Cursor<'a>,
    end: u64,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(cursor: Cursor<'a>, end: u64) -> Self {
        Self { cursor, end }
    }

    /// The last run of a batch may go on in the next one.
    #[cold]
    fn next_joined(&mut self) -> Option<Run> {
        let first = self.cursor.batch;
        if first.count == 0 || first.file >= self.end {
            return None;
        }
        let mut run = Run {
            file: first.file,
            view: first.view,
            len: first.len,
        };
        self.cursor.next_run();
        loop {
            let next = self.cursor.batch;
            if run.file + run.len >= self.end {
                run.len = self.end - run.file;
                return Some(run);
            }
            if next.count == 0 || next.file != run.file + run.len || next.view != run.view + run.len
            {
                return Some(run);
            }
            run.len += next.len;
            self.cursor.next_run();
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        let batch = &mut self.cursor.batch;
        // Inside a batch no run touches the next, or they would have been one.
        if batch.count > 1 && batch.file + batch.len <= self.end {
            let run = Run {
                file: batch.file,
                view: batch.view,
                len: batch.len,
            };
            *batch = batch.skip(1);
            return Some(run);
        }
        self.next_joined()
    }
}

/// Iterator of [`crate::Part::batches`].
pub struct Batches<'a> {
    cursor: Cursor<'a>,
    end: u64,
}

impl<'a> Batches<'a> {
    pub(crate) fn new(cursor: Cursor<'a>, end: u64) -> Self {
        Self { cursor, end }
    }

    /// The next batch, if there is one, perhaps beyond the range.
    pub(crate) fn peek(&self) -> Option<Batch> {
        (!self.cursor.at_end()).then_some(self.cursor.batch)
    }

    /// The batches up to file offset `end` (at most the range's own end); more remain for later.
    pub fn take_before(&mut self, end: u64) -> Option<Batch> {
        self.cursor.take_before(end.min(self.end))
    }
}

impl Iterator for Batches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        self.cursor.take_before(self.end)
    }
}

/// Iterator of [`crate::Part::intersect`].
pub struct Intersection<'a> {
    view: Cursor<'a>,
    layout: Cursor<'a>,
    end: u64,
    /// Found, but perhaps continued by the next.
    pending: Option<Piece>,
}

impl<'a> Intersection<'a> {
    pub(crate) fn new(view: Cursor<'a>, layout: Cursor<'a>, end: u64) -> Self {
        Self {
            view,
            layout,
            end,
            pending: None,
        }
    }

    #[inline]
    fn next_cut(&mut self) -> Option<Piece> {
        loop {
            let (a, b) = (&self.view.batch, &self.layout.batch);
            if a.count == 0 || b.count == 0 {
                return None;
            }
            let (a_end, b_end) = (a.file + a.len, b.file + b.len);
            let start = a.file.max(b.file);
            let stop = a_end.min(b_end).min(self.end);
            if start >= self.end {
                return None;
            }
            if start < stop {
                let piece = Piece {
                    file: start,
                    view: a.view + (start - a.file),
                    part: b.view + (start - b.file),
                    len: stop - start,
                };
                if a_end <= b_end {
                    self.view.next_run();
                }
                if b_end <= a_end {
                    self.layout.next_run();
                }
                return Some(piece);
            }
            if a_end <= b.file {
                let x = b.file;
                self.view.skip_to(x);
            } else {
                let x = a.file;
                self.layout.skip_to(x);
            }
        }
    }
}

impl Iterator for Intersection<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        loop {
            let Some(piece) = self.next_cut() else {
                return self.pending.take();
            };
            match &mut self.pending {
                Some(last)
                    if last.file + last.len == piece.file
                        && last.view + last.len == piece.view
                        && last.part + last.len == piece.part =>
                {
                    last.len += piece.len;
                }
                Some(last) => return Some(std::mem::replace(last, piece)),
                None => self.pending = Some(piece),
            }
        }
    }
}
