//! Who owns nothing, and who owns twice: complement, coverage and overlap.
//!
//! These walk the structure, not the elements: a range that repeats is looked at once per period.

use crate::node::Node;
use crate::raw::Raw;
use crate::{Error, Part};
use std::ops::{Range, RangeInclusive};

/// How many of `parts` own each byte of `range`: the least and the greatest number.
///
/// Polynomial in the number of parts and the depth of their nesting, independent of the number of
/// elements, as long as the strides on one level have a common multiple inside the range.
///
/// ```
/// use trireme_partition::{multiplicity, Partition};
/// let view = Partition::named("rcc", 8, 1 << 40, 16)?;
/// let parts: Vec<_> = (0..16).map(|i| view.part(i)).collect::<Result<_, _>>()?;
/// let refs: Vec<_> = parts.iter().collect();
/// assert_eq!(multiplicity(&refs, 0..1 << 40), 1..=1);
/// assert_eq!(multiplicity(&refs[1..], 0..1 << 40), 0..=1);
/// # Ok::<(), trireme_partition::Error>(())
/// ```
pub fn multiplicity(parts: &[&Part], range: Range<u64>) -> RangeInclusive<u32> {
    multiplicity_within(parts, range, u64::MAX).expect("without a limit there is an answer")
}

/// [`multiplicity`], if it can be found in about so many steps: for parts that come from strangers.
pub fn multiplicity_within(
    parts: &[&Part],
    range: Range<u64>,
    mut steps: u64,
) -> Option<RangeInclusive<u32>> {
    let items = parts
        .iter()
        .filter_map(|p| p.node.as_ref().map(|node| (p.file, node)))
        .collect();
    let counts = count(items, 0, range, &mut steps).unwrap_or((0, 0));
    (steps > 0).then_some(counts.0..=counts.1)
}

/// Whether the union of `parts` holds every byte of `range`. Cost as [`multiplicity`].
pub fn covers(parts: &[&Part], range: Range<u64>) -> bool {
    range.is_empty() || *multiplicity(parts, range).start() > 0
}

/// Whether two parts have a byte of `range` in common. Cost as [`multiplicity`].
pub fn overlap(a: &Part, b: &Part, range: Range<u64>) -> bool {
    *multiplicity(&[a, b], range).end() > 1
}

/// A node placed in the file.
type Item<'a> = (u64, &'a Node);

/// Least and greatest number of owners in `window`, `base` of which own all of it. Meaningless once no
/// steps are left.
fn count(
    items: Vec<Item<'_>>,
    base: u32,
    window: Range<u64>,
    steps: &mut u64,
) -> Option<(u32, u32)> {
    if window.is_empty() || *steps == 0 {
        return None;
    }
    let items = open(items, &window);
    *steps = steps.saturating_sub(1 + items.len() as u64);
    // Between these cuts every item either spans the whole segment or is absent.
    let mut cuts = vec![window.start, window.end];
    for (file, node) in &items {
        cuts.extend(
            [*file, *file + node.span()]
                .iter()
                .filter(|x| window.contains(x)),
        );
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut total = None;
    for cut in cuts.windows(2) {
        let segment = cut[0]..cut[1];
        let mut base = base;
        let mut present: Vec<Item<'_>> = Vec::new();
        for &(file, node) in &items {
            if file <= segment.start && segment.end <= file + node.span() {
                match node {
                    Node::Run(_) => base += 1,
                    _ => present.push((file, node)),
                }
            }
        }
        let counts = if present.is_empty() {
            Some((base, base))
        } else if cuts.len() > 2 {
            count(present, base, segment, steps)
        } else {
            fold(present, base, segment, steps)
        };
        total = merge(total, counts);
    }
    total
}

/// Replaces every item by what of it can touch the window, as far as that is one or a few things.
fn open<'a>(items: Vec<Item<'a>>, window: &Range<u64>) -> Vec<Item<'a>> {
    let mut open = Vec::with_capacity(items.len());
    let mut todo = items;
    while let Some((file, node)) = todo.pop() {
        if file >= window.end || file + node.span() <= window.start {
            continue;
        }
        match node {
            Node::Run(_) => open.push((file, node)),
            Node::Repeat(r) => {
                let first = window.start.saturating_sub(file) / r.stride;
                let last = ((window.end - 1 - file) / r.stride).min(r.count - 1);
                // One period of a repeat shows two copies at most: take them apart.
                if last - first <= 1 {
                    todo.extend((first..=last).map(|i| (file + i * r.stride, &r.child)));
                } else {
                    open.push((file, node));
                }
            }
            Node::List(l) => {
                let first = l
                    .index_at_or_before(window.start.saturating_sub(file))
                    .unwrap_or(0);
                let touched = l.entries[first..]
                    .iter()
                    .take_while(|e| file + e.file < window.end);
                todo.extend(touched.map(|e| (file + e.file, &e.node)));
            }
        }
    }
    open
}

/// All items are repeats that span the window: one common period tells everything.
fn fold(
    items: Vec<Item<'_>>,
    base: u32,
    window: Range<u64>,
    steps: &mut u64,
) -> Option<(u32, u32)> {
    let len = window.end - window.start;
    let strides = items.iter().map(|(_, node)| match node {
        Node::Repeat(r) => r.stride,
        _ => unreachable!("runs are counted and lists are opened"),
    });
    let period = strides
        .clone()
        .try_fold(1, lcm)
        .filter(|&period| period < len);
    if let Some(period) = period {
        return count(items, base, window.start..window.start + period, steps);
    }
    // No common period inside the window: go through the copies of the widest stride one by one.
    let widest = strides.max().expect("there are items");
    let mut total = None;
    let mut start = window.start;
    while start < window.end && *steps > 0 {
        let end = window.end.min(start + widest);
        total = merge(total, count(items.clone(), base, start..end, steps));
        start = end;
    }
    total
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

fn merge(a: Option<(u32, u32)>, b: Option<(u32, u32)>) -> Option<(u32, u32)> {
    match (a, b) {
        (Some((a0, a1)), Some((b0, b1))) => Some((a0.min(b0), a1.max(b1))),
        (one, other) => one.or(other),
    }
}

impl Part {
    /// The bytes of `range` that this part does not own, in file order. O(size of the description).
    ///
    /// ```
    /// use trireme_partition::Part;
    /// let part = Part::strided(8, 8, 32, 1_000_000)?;
    /// let holes = part.complement(0..32_000_000)?;
    /// assert_eq!(holes.size(), 24_000_000);
    /// assert_eq!(holes.to_view(8), None);
    /// # Ok::<(), trireme_partition::Error>(())
    /// ```
    pub fn complement(&self, range: Range<u64>) -> Result<Self, Error> {
        if range.is_empty() {
            return Ok(Self::empty());
        }
        let mut inside = Vec::new();
        if let Some(node) = &self.node {
            clip(self.file, node, &range, &mut inside);
        }
        let mut gaps = Gaps::default();
        let mut at = range.start;
        for (i, (file, node)) in inside.iter().enumerate() {
            gaps.push(at, Raw::Run(file - at), file - at);
            let end = inside.get(i + 1).map_or(range.end, |next| next.0);
            let (raw, size) = gaps_in(node, end - file);
            gaps.push(*file, raw, size);
            at = end;
        }
        gaps.push(at, Raw::Run(range.end - at), range.end - at);
        Self::from_raw(0, &Raw::List(gaps.items))
    }

    /// The same owner's bytes inside a file range only, numbered anew in file order.
    pub fn clip(&self, range: Range<u64>) -> Result<Self, Error> {
        let mut inside = Vec::new();
        if let Some(node) = &self.node {
            clip(self.file, node, &range, &mut inside);
        }
        let mut kept = Gaps::default();
        for (file, node) in &inside {
            kept.push(*file, in_file_order(node), node.size());
        }
        Self::from_raw(0, &Raw::List(kept.items))
    }
}

/// A list in the making, numbered in file order.
#[derive(Default)]
struct Gaps {
    items: Vec<(i64, i64, Raw)>,
    size: u64,
}

impl Gaps {
    fn push(&mut self, file: u64, raw: Raw, size: u64) {
        if size > 0 {
            self.items.push((file as i64, self.size as i64, raw));
            self.size += size;
        }
    }
}

/// The node's bytes inside `range` as placed nodes, in file order.
fn clip(file: u64, node: &Node, range: &Range<u64>, out: &mut Vec<(u64, Node)>) {
    let (start, end) = (range.start.max(file), range.end.min(file + node.span()));
    if start >= end {
        return;
    }
    if start == file && end == file + node.span() {
        out.push((file, node.clone()));
        return;
    }
    match node {
        Node::Run(_) => out.push((start, Node::Run(end - start))),
        Node::Repeat(r) => {
            let first = (start - file) / r.stride;
            let last = (end - 1 - file) / r.stride;
            clip(file + first * r.stride, &r.child, range, out);
            if last - first > 1 {
                let middle = Node::repeat(last - first - 1, r.stride, r.step, r.child.clone());
                let middle = middle.expect("fewer copies of what exists");
                out.push((file + (first + 1) * r.stride, middle));
            }
            if last > first {
                clip(file + last * r.stride, &r.child, range, out);
            }
        }
        Node::List(l) => {
            for e in &l.entries {
                clip(file + e.file, &e.node, range, out);
            }
        }
    }
}

/// The bytes that `node` leaves free in the first `window` bytes from its start on.
fn gaps_in(node: &Node, window: u64) -> (Raw, u64) {
    match node {
        Node::Run(len) => {
            let gap = window - len;
            (Raw::List(vec![(*len as i64, 0, Raw::Run(gap))]), gap)
        }
        Node::Repeat(r) => {
            let (inner, inner_size) = gaps_in(&r.child, r.stride);
            let last = (r.count - 1) * r.stride;
            let (end, end_size) = gaps_in(&r.child, window - last);
            let mut gaps = Gaps::default();
            let copies = Raw::Repeat {
                count: r.count - 1,
                file: r.stride as i64,
                view: inner_size as i64,
                child: inner.into(),
            };
            gaps.push(0, copies, inner_size * (r.count - 1));
            gaps.push(last, end, end_size);
            (Raw::List(gaps.items), gaps.size)
        }
        Node::List(l) => {
            let mut gaps = Gaps::default();
            for (i, e) in l.entries.iter().enumerate() {
                let end = l.entries.get(i + 1).map_or(window, |next| next.file);
                let (raw, size) = gaps_in(&e.node, end - e.file);
                gaps.push(e.file, raw, size);
            }
            (Raw::List(gaps.items), gaps.size)
        }
    }
}

/// The same bytes numbered in file order.
fn in_file_order(node: &Node) -> Raw {
    match node {
        Node::Run(len) => Raw::Run(*len),
        Node::Repeat(r) => Raw::Repeat {
            count: r.count,
            file: r.stride as i64,
            view: r.inner.size as i64,
            child: in_file_order(&r.child).into(),
        },
        Node::List(l) => Raw::List(
            l.entries
                .iter()
                .map(|e| (e.file as i64, e.before as i64, in_file_order(&e.node)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_the_steps_is_kept_and_harmless_where_it_suffices() {
        // Strides without a common multiple in the range: an answer would take a billion steps.
        let a = Part::strided(0, 1, 1_000_003, 1 << 30).unwrap();
        let b = Part::strided(5, 1, 1_000_033, 1 << 30).unwrap();
        assert_eq!(multiplicity_within(&[&a, &b], 0..1 << 50, 10_000), None);
        let c = Part::strided(0, 1, 1000, 1 << 30).unwrap();
        let d = Part::strided(5, 1, 1000, 1 << 30).unwrap();
        assert_eq!(
            multiplicity_within(&[&c, &d], 0..1 << 40, 10_000),
            Some(0..=1)
        );
        let few = Part::strided(0, 1, 1_000_003, 10).unwrap();
        assert_eq!(
            multiplicity_within(&[&few, &b], 0..10_000_000, 10_000),
            Some(multiplicity(&[&few, &b], 0..10_000_000))
        );
    }
}
