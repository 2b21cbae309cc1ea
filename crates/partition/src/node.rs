//! The tree of nested strided segments, always in file order: a few numbers for any regular pattern.
//!
//! A node is relative to its own first byte, which is at file offset 0 and view offset 0. Three
//! shapes suffice: a run of bytes, a child repeated at a stride, and a list of children. What a
//! node promises, and every constructor here keeps: bytes come in strictly rising file order, the
//! windows of siblings do not overlap, and neighbours that could be one are one.

use crate::{Error, MAX_DEPTH};
use std::sync::Arc;

/// Greatest offset and size that a pattern may reach, relative or absolute: 2^63 - 1 or less.
pub(crate) const LIMIT: u64 = i64::MAX as u64;

/// One pattern of bytes, relative to its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// Contiguous bytes.
    Run(u64),
    /// A child again and again at a fixed distance.
    Repeat(Arc<Repeat>),
    /// Different children one after the other.
    List(Arc<List>),
}

/// `count` copies of `child`, `stride` bytes apart in the file and `step` bytes in the view.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repeat {
    pub count: u64,
    pub stride: u64,
    pub step: i64,
    pub child: Node,
    /// What every query needs of `child`, kept here so that a descent touches one allocation.
    pub inner: Summary,
    pub total: Summary,
    /// The last run of one copy and the first of the next are one run.
    pub joined: bool,
}

/// Children in rising file order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub entries: Vec<Entry>,
    pub total: Summary,
}

/// One child of a [`List`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub file: u64,
    pub view: i64,
    pub node: Node,
    /// Bytes in the entries before this one.
    pub before: u64,
    /// Runs that start in the entries before this one.
    pub starts: u64,
    /// This entry's first run continues the previous entry's last one.
    pub joined: bool,
}

/// What is known of a node without looking into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Bytes owned.
    pub size: u64,
    /// File bytes from the first owned byte to the last, inclusive.
    pub span: u64,
    /// Maximal contiguous runs.
    pub runs: u64,
    /// View offset just after the last byte in file order.
    pub view_end: i64,
    /// Least view offset.
    pub view_min: i64,
    /// Greatest view offset plus one.
    pub view_max: i64,
    /// File order is view order, without holes in the view.
    pub ordered: bool,
    /// Levels of nesting.
    pub depth: usize,
}

impl Node {
    pub fn summary(&self) -> Summary {
        match self {
            Self::Run(len) => Summary {
                size: *len,
                span: *len,
                runs: 1,
                view_end: *len as i64,
                view_min: 0,
                view_max: *len as i64,
                ordered: true,
                depth: 0,
            },
            Self::Repeat(repeat) => repeat.total,
            Self::List(list) => list.total,
        }
    }

    pub fn size(&self) -> u64 {
        match self {
            Self::Run(len) => *len,
            Self::Repeat(repeat) => repeat.total.size,
            Self::List(list) => list.total.size,
        }
    }

    pub fn span(&self) -> u64 {
        match self {
            Self::Run(len) => *len,
            Self::Repeat(repeat) => repeat.total.span,
            Self::List(list) => list.total.span,
        }
    }

    /// `count` copies of `child`, which must be at least 1, with `stride >= child.span()`.
    pub fn repeat(count: u64, stride: u64, step: i64, child: Self) -> Result<Self, Error> {
        debug_assert!(count > 0);
        if count == 1 {
            return Ok(child);
        }
        let inner = child.summary();
        debug_assert!(stride >= inner.span, "the caller orders the loops");
        match &child {
            Self::Run(len) if stride == *len && step == *len as i64 => {
                let len = len.checked_mul(count).filter(|&len| len <= LIMIT);
                return Ok(Self::Run(len.ok_or(Error::overflow("a run's length"))?));
            }
            Self::Repeat(r)
                if r.count.checked_mul(r.stride) == Some(stride)
                    && i64::try_from(r.count)
                        .ok()
                        .and_then(|n| n.checked_mul(r.step))
                        == Some(step) =>
            {
                let count = count
                    .checked_mul(r.count)
                    .ok_or(Error::overflow("a repeat count"))?;
                return Self::repeat(count, r.stride, r.step, r.child.clone());
            }
            _ => {}
        }
        let joined = stride == inner.span && step == inner.view_end;
        let total = (|| {
            let last = count - 1;
            let reach = last.checked_mul(stride)?;
            let shift = i64::try_from(last).ok()?.checked_mul(step)?;
            Some(Summary {
                size: inner
                    .size
                    .checked_mul(count)
                    .filter(|&size| size <= LIMIT)?,
                span: reach
                    .checked_add(inner.span)
                    .filter(|&span| span <= LIMIT)?,
                runs: inner.runs.checked_mul(count)? - if joined { last } else { 0 },
                view_end: shift.checked_add(inner.view_end)?,
                view_min: inner.view_min.checked_add(shift.min(0))?,
                view_max: inner.view_max.checked_add(shift.max(0))?,
                ordered: inner.ordered && step as u64 == inner.size && step > 0,
                depth: inner.depth + 1,
            })
        })()
        .ok_or(Error::overflow("a repeated pattern's extent"))?;
        check_depth(total.depth)?;
        Ok(Self::Repeat(Arc::new(Repeat {
            count,
            stride,
            step,
            child,
            inner,
            total,
            joined,
        })))
    }

    /// Children at (file, view) places, in rising file order with disjoint windows; the first place
    /// need not be 0. Returns the first place and the node.
    pub fn list(items: Vec<(i64, i64, Self)>) -> Result<(i64, i64, Self), Error> {
        debug_assert!(!items.is_empty());
        check_places(&items).ok_or(Error::overflow("a list's extent"))?;
        let items = crate::compress::compress(items)?;
        let (file, view) = (items[0].0, items[0].1);
        if items.len() == 1 {
            let node = items.into_iter().next().expect("one item").2;
            return Ok((file, view, node));
        }
        let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
        let mut total = Summary {
            size: 0,
            span: 0,
            runs: 0,
            view_end: 0,
            view_min: 0,
            view_max: 0,
            ordered: true,
            depth: 0,
        };
        for (at, to, node) in items {
            let inner = node.summary();
            (|| {
                let at = u64::try_from(at.checked_sub(file)?).ok()?;
                let to = to.checked_sub(view)?;
                let joined = !entries.is_empty() && at == total.span && to == total.view_end;
                entries.push(Entry {
                    file: at,
                    view: to,
                    node,
                    before: total.size,
                    starts: total.runs,
                    joined,
                });
                total.ordered &= inner.ordered && to as u64 == total.size && to >= 0;
                total.size = total
                    .size
                    .checked_add(inner.size)
                    .filter(|&size| size <= LIMIT)?;
                total.span = at.checked_add(inner.span).filter(|&span| span <= LIMIT)?;
                total.runs = total.runs.checked_add(inner.runs)? - u64::from(joined);
                total.view_end = to.checked_add(inner.view_end)?;
                total.view_min = total.view_min.min(to.checked_add(inner.view_min)?);
                total.view_max = total.view_max.max(to.checked_add(inner.view_max)?);
                total.depth = total.depth.max(inner.depth + 1);
                Some(())
            })()
            .ok_or(Error::overflow("a list's extent"))?;
        }
        check_depth(total.depth)?;
        Ok((file, view, Self::List(Arc::new(List { entries, total }))))
    }

    /// Bytes owned in the first `x` bytes of the window. O(depth), binary search in lists.
    pub fn rank(&self, mut x: u64) -> u64 {
        let mut node = self;
        let mut sum = 0;
        loop {
            match node {
                Self::Run(len) => return sum + x.min(*len),
                Self::Repeat(r) => {
                    if x >= r.total.span {
                        return sum + r.total.size;
                    }
                    let i = x / r.stride;
                    sum += i * r.inner.size;
                    x -= i * r.stride;
                    node = &r.child;
                }
                Self::List(l) => {
                    let Some(entry) = l.at_or_before(x) else {
                        return sum;
                    };
                    sum += entry.before;
                    x -= entry.file;
                    node = &entry.node;
                }
            }
        }
    }

    /// Maximal runs that start in the first `x` bytes of the window. O(depth).
    pub fn starts_before(&self, mut x: u64) -> u64 {
        let mut node = self;
        let mut sum = 0;
        loop {
            if x == 0 {
                return sum;
            }
            match node {
                Self::Run(_) => return sum + 1,
                Self::Repeat(r) => {
                    // Each copy before this one has one run less if it is joined to its successor.
                    let i = ((x - 1) / r.stride).min(r.count - 1);
                    sum += i * (r.inner.runs - u64::from(r.joined));
                    x -= i * r.stride;
                    node = &r.child;
                }
                Self::List(l) => {
                    let entry = l.at_or_before(x - 1).expect("a list starts at 0");
                    // The entry will count its first start, which is the previous run's if joined.
                    sum += entry.starts - u64::from(entry.joined);
                    x -= entry.file;
                    node = &entry.node;
                }
            }
        }
    }

    /// The view offset of file offset `x`, if it is owned. O(depth).
    pub fn view_of(&self, mut x: u64) -> Option<i64> {
        let mut node = self;
        let mut view = 0;
        loop {
            match node {
                Self::Run(len) => return (x < *len).then_some(view + x as i64),
                Self::Repeat(r) => {
                    if x >= r.total.span {
                        return None;
                    }
                    let i = x / r.stride;
                    view += i as i64 * r.step;
                    x -= i * r.stride;
                    node = &r.child;
                }
                Self::List(l) => {
                    let entry = l.at_or_before(x)?;
                    view += entry.view;
                    x -= entry.file;
                    node = &entry.node;
                }
            }
        }
    }

    /// The file offset of the `rank`-th byte in file order. O(depth).
    pub fn select(&self, mut rank: u64) -> Option<u64> {
        let mut node = self;
        let mut file = 0;
        loop {
            match node {
                Self::Run(len) => return (rank < *len).then_some(file + rank),
                Self::Repeat(r) => {
                    if rank >= r.total.size {
                        return None;
                    }
                    let i = rank / r.inner.size;
                    file += i * r.stride;
                    rank -= i * r.inner.size;
                    node = &r.child;
                }
                Self::List(l) => {
                    let i = l.entries.partition_point(|e| e.before <= rank) - 1;
                    let entry = &l.entries[i];
                    file += entry.file;
                    rank -= entry.before;
                    node = &entry.node;
                }
            }
        }
    }

    /// Least and greatest-plus-one view offsets of the bytes in `start..end` of the window.
    pub fn view_bounds(&self, start: u64, end: u64) -> Option<(i64, i64)> {
        let end = end.min(self.span());
        if start >= end {
            return None;
        }
        if start == 0 && end == self.span() {
            let summary = self.summary();
            return Some((summary.view_min, summary.view_max));
        }
        let shift = |bounds: Option<(i64, i64)>, by: i64| bounds.map(|(a, b)| (a + by, b + by));
        match self {
            Self::Run(_) => Some((start as i64, end as i64)),
            Self::Repeat(r) => {
                let copy = |i: u64| {
                    let base = i * r.stride;
                    let part = r
                        .child
                        .view_bounds(start.saturating_sub(base), end.saturating_sub(base));
                    shift(part, i as i64 * r.step)
                };
                let (first, last) = (start / r.stride, (end - 1) / r.stride);
                let mut bounds = hull(copy(first), copy(last));
                if first + 1 < last {
                    // Whole copies: the extremes are at the ends of the arithmetic progression.
                    let whole = Some((r.inner.view_min, r.inner.view_max));
                    bounds = hull(bounds, shift(whole, (first + 1) as i64 * r.step));
                    bounds = hull(bounds, shift(whole, (last - 1) as i64 * r.step));
                }
                bounds
            }
            Self::List(l) => {
                let first = l.index_at_or_before(start).unwrap_or(0);
                l.entries[first..]
                    .iter()
                    .take_while(|e| e.file < end)
                    .fold(None, |bounds, e| {
                        let part = e
                            .node
                            .view_bounds(start.saturating_sub(e.file), end.saturating_sub(e.file));
                        hull(bounds, shift(part, e.view))
                    })
            }
        }
    }
}

impl List {
    /// The last entry that starts at or before `x`.
    pub fn at_or_before(&self, x: u64) -> Option<&Entry> {
        self.index_at_or_before(x).map(|i| &self.entries[i])
    }

    /// The index of the last entry that starts at or before `x`.
    pub fn index_at_or_before(&self, x: u64) -> Option<usize> {
        self.entries.partition_point(|e| e.file <= x).checked_sub(1)
    }
}

fn hull(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some((a0, a1)), Some((b0, b1))) => Some((a0.min(b0), a1.max(b1))),
        (one, other) => one.or(other),
    }
}

/// All differences between places, and all places inside the items, fit an `i64`.
fn check_places(items: &[(i64, i64, Node)]) -> Option<()> {
    let mut bounds: Option<(i64, i64)> = None;
    for (file, view, node) in items {
        let summary = node.summary();
        file.checked_add_unsigned(summary.span)?;
        let inside = (
            view.checked_add(summary.view_min)?,
            view.checked_add(summary.view_max)?,
        );
        bounds = hull(bounds, Some(inside));
    }
    let (low, high) = bounds?;
    high.checked_sub(low)?;
    items.last()?.0.checked_sub(items[0].0)?;
    Some(())
}

fn check_depth(depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep {
            depth,
            limit: MAX_DEPTH,
        });
    }
    Ok(())
}
