//! Patterns as users state them, in any order, and their way into a canonical [`Node`].
//!
//! A raw pattern has two sides, the file and the view, and the same shape seen from either. Ordering
//! it by the file gives the tree that transfers walk; ordering it by the view gives the inverse that
//! a pattern needs when its memory order is not its file order.

use crate::node::{LIMIT, Node};
use crate::{Error, MAX_DEPTH, MAX_LISTED};

/// A pattern in the order in which its owner holds the bytes; offsets may be negative or fall back.
#[derive(Clone, Debug)]
pub(crate) enum Raw {
    Run(u64),
    Repeat {
        count: u64,
        file: i64,
        view: i64,
        child: Box<Raw>,
    },
    List(Vec<(i64, i64, Raw)>),
}

/// A node and the (file, view) place of its first byte.
pub(crate) type Placed = (i64, i64, Node);

impl Raw {
    /// The same bytes with file and view exchanged.
    pub fn swap(&self) -> Self {
        match self {
            Self::Run(len) => Self::Run(*len),
            Self::Repeat {
                count,
                file,
                view,
                child,
            } => Self::Repeat {
                count: *count,
                file: *view,
                view: *file,
                child: child.swap().into(),
            },
            Self::List(items) => Self::List(
                items
                    .iter()
                    .map(|(f, v, raw)| (*v, *f, raw.swap()))
                    .collect(),
            ),
        }
    }

    /// Reads a canonical node back as a raw pattern.
    pub fn of(node: &Node) -> Self {
        match node {
            Node::Run(len) => Self::Run(*len),
            Node::Repeat(r) => Self::Repeat {
                count: r.count,
                file: r.stride as i64,
                view: r.step,
                child: Self::of(&r.child).into(),
            },
            Node::List(l) => Self::List(
                l.entries
                    .iter()
                    .map(|e| (e.file as i64, e.view, Self::of(&e.node)))
                    .collect(),
            ),
        }
    }

    /// The canonical file-ordered node, `None` if there are no bytes.
    pub fn order(&self) -> Result<Option<Placed>, Error> {
        // A description may be expanded to a few times its own size, whatever that is.
        let limit = MAX_LISTED.max(self.nodes().saturating_mul(4));
        Order { limit }.order(self, 0)
    }

    fn nodes(&self) -> u64 {
        match self {
            Self::Run(_) => 1,
            Self::Repeat { child, .. } => 1 + child.nodes(),
            Self::List(items) => 1 + items.iter().map(|(_, _, raw)| raw.nodes()).sum::<u64>(),
        }
    }
}

/// One way from a raw pattern to a node, with its allowance of listed pieces.
struct Order {
    limit: u64,
}

impl Order {
    fn order(&self, raw: &Raw, depth: usize) -> Result<Option<Placed>, Error> {
        if depth > 2 * MAX_DEPTH {
            return Err(Error::TooDeep {
                depth,
                limit: 2 * MAX_DEPTH,
            });
        }
        match raw {
            Raw::Run(0) => Ok(None),
            Raw::Run(len) if *len > LIMIT => Err(Error::overflow("a run's length")),
            Raw::Run(len) => Ok(Some((0, 0, Node::Run(*len)))),
            Raw::Repeat { count: 0, .. } => Ok(None),
            Raw::Repeat {
                count,
                file,
                view,
                child,
            } => match self.order(child, depth + 1)? {
                None => Ok(None),
                Some(placed) => self.repeat(*count, *file, *view, placed).map(Some),
            },
            Raw::List(items) => {
                let mut placed = Vec::with_capacity(items.len());
                for (file, view, raw) in items {
                    if let Some((f, v, node)) = self.order(raw, depth + 1)? {
                        placed.push((add(*file, f)?, add(*view, v)?, node));
                    }
                }
                if placed.is_empty() {
                    Ok(None)
                } else {
                    self.list(placed).map(Some)
                }
            }
        }
    }

    /// `count` copies of a placed node at any stride, also negative or interleaving.
    fn repeat(&self, count: u64, file: i64, view: i64, placed: Placed) -> Result<Placed, Error> {
        let (mut at, mut to, node) = placed;
        if count == 1 {
            return Ok((at, to, node));
        }
        if file == 0 {
            return Err(Error::Overlap {
                what: "stride",
                value: 0,
                offset: 0,
            });
        }
        let (mut stride, mut step) = (file, view);
        if stride < 0 {
            // The last copy lies first in the file: start there and walk the other way.
            let last = i64::try_from(count - 1).map_err(|_| Error::overflow("a repeat count"))?;
            let shift = |by: i64| last.checked_mul(by).ok_or(Error::overflow("a stride"));
            at = add(at, shift(stride)?)?;
            to = add(to, shift(step)?)?;
            stride = stride.checked_neg().ok_or(Error::overflow("a stride"))?;
            step = step.checked_neg().ok_or(Error::overflow("a step"))?;
        }
        let stride = stride as u64;
        if let Some(node) = nest(count, stride, step, &node)? {
            return Ok((at, to, node));
        }
        // No nesting of loops gives file order: list the pieces, and see what regularity they have.
        let last_fits = (|| {
            let last = i64::try_from(count - 1).ok()?;
            let file = at.checked_add(last.checked_mul(stride as i64)?)?;
            fits(file, to.checked_add(last.checked_mul(step)?)?, &node)
        })();
        last_fits
            .and_then(|()| fits(at, to, &node))
            .ok_or(Error::overflow("an interleaved pattern's extent"))?;
        let runs = node.summary().runs.saturating_mul(count);
        let mut pieces = Expansion::new(runs, self.limit)?;
        for i in 0..count {
            pieces.push(at + (i * stride) as i64, to + i as i64 * step, &node);
        }
        pieces.finish("stride", stride as i64)
    }

    /// Placed nodes in any order.
    fn list(&self, mut items: Vec<Placed>) -> Result<Placed, Error> {
        items.sort_by_key(|(file, _, _)| *file);
        let disjoint = |items: &[Placed]| {
            items.windows(2).all(|w| {
                w[0].0
                    .checked_add_unsigned(w[0].2.span())
                    .is_some_and(|end| end <= w[1].0)
            })
        };
        if disjoint(&items) {
            return Node::list(items);
        }
        if let Some(zipped) = self.zip(&items)? {
            return Ok(zipped);
        }
        let runs = items
            .iter()
            .fold(0u64, |sum, i| sum.saturating_add(i.2.summary().runs));
        let mut pieces = Expansion::new(runs, self.limit)?;
        for (file, view, node) in &items {
            fits(*file, *view, node).ok_or(Error::overflow("a list's extent"))?;
            pieces.push(*file, *view, node);
        }
        pieces.finish("displacement", items[1].0.saturating_sub(items[0].0))
    }

    /// Loops of the same shape that interleave are one loop around a list.
    fn zip(&self, items: &[Placed]) -> Result<Option<Placed>, Error> {
        let Node::Repeat(first) = &items[0].2 else {
            return Ok(None);
        };
        let mut inner = Vec::with_capacity(items.len());
        for (file, view, node) in items {
            match node {
                Node::Repeat(r)
                    if (r.count, r.stride, r.step) == (first.count, first.stride, first.step) =>
                {
                    inner.push((*file, *view, r.child.clone()));
                }
                _ => return Ok(None),
            }
        }
        let (file, view, child) = self.list(inner)?;
        if child.span() > first.stride {
            return Ok(None);
        }
        let node = Node::repeat(first.count, first.stride, first.step, child)?;
        Ok(Some((file, view, node)))
    }
}

fn add(a: i64, b: i64) -> Result<i64, Error> {
    a.checked_add(b).ok_or(Error::overflow("an offset"))
}

/// Whether the offsets of all runs of a node that lies there can be told.
fn fits(file: i64, view: i64, node: &Node) -> Option<()> {
    let summary = node.summary();
    file.checked_add_unsigned(summary.span)?;
    view.checked_add(summary.view_min)?;
    view.checked_add(summary.view_max).map(|_| ())
}

/// Puts a loop where it belongs among the loops of `node`: outside if its stride spans the node,
/// inside otherwise. `None` if no place gives disjoint windows.
fn nest(count: u64, stride: u64, step: i64, node: &Node) -> Result<Option<Node>, Error> {
    if stride >= node.span() {
        return Node::repeat(count, stride, step, node.clone()).map(Some);
    }
    match node {
        Node::Run(len) => Err(Error::Overlap {
            what: "stride",
            value: stride as i64,
            offset: stride.min(*len),
        }),
        Node::Repeat(r) => match nest(count, stride, step, &r.child)? {
            Some(inner) if inner.span() <= r.stride => {
                Node::repeat(r.count, r.stride, r.step, inner).map(Some)
            }
            _ => Ok(None),
        },
        Node::List(l) => {
            let mut items: Vec<Placed> = Vec::with_capacity(l.entries.len());
            for e in &l.entries {
                // An entry that is itself spanned starts the same way: it only has to leave room.
                let Some(inner) = nest(count, stride, step, &e.node)? else {
                    return Ok(None);
                };
                if let Some((f, _, before)) = items.last()
                    && (*f as u64) + before.span() > e.file
                {
                    return Ok(None);
                }
                items.push((e.file as i64, e.view, inner));
            }
            Node::list(items).map(|(_, _, node)| Some(node))
        }
    }
}

/// The irregular case: every run by itself, sorted, checked, and compressed again.
struct Expansion {
    pieces: Vec<(i64, i64, u64)>,
}

impl Expansion {
    fn new(runs: u64, limit: u64) -> Result<Self, Error> {
        if runs > limit {
            return Err(Error::TooIrregular {
                pieces: runs,
                limit,
            });
        }
        Ok(Self {
            pieces: Vec::with_capacity(runs as usize),
        })
    }

    fn push(&mut self, file: i64, view: i64, node: &Node) {
        match node {
            Node::Run(len) => self.pieces.push((file, view, *len)),
            Node::Repeat(r) => {
                for i in 0..r.count {
                    self.push(
                        file + (i * r.stride) as i64,
                        view + i as i64 * r.step,
                        &r.child,
                    );
                }
            }
            Node::List(l) => {
                for e in &l.entries {
                    self.push(file + e.file as i64, view + e.view, &e.node);
                }
            }
        }
    }

    fn finish(mut self, what: &'static str, value: i64) -> Result<Placed, Error> {
        self.pieces.sort_unstable();
        let start = self.pieces[0].0;
        for w in self.pieces.windows(2) {
            if w[0]
                .0
                .checked_add_unsigned(w[0].2)
                .is_none_or(|end| end > w[1].0)
            {
                return Err(Error::Overlap {
                    what,
                    value,
                    offset: w[1].0.abs_diff(start),
                });
            }
        }
        let items = self
            .pieces
            .into_iter()
            .map(|(f, v, len)| (f, v, Node::Run(len)))
            .collect();
        Node::list(items)
    }
}
