//! Finds the regularity in a list of placed nodes: what turns out regular is kept as strides.

use crate::Error;
use crate::node::Node;

type Item = (i64, i64, Node);

/// Joins neighbours and folds arithmetic progressions, again and again until nothing changes.
/// The items are in rising file order with disjoint windows, and stay so. O(items) per level.
pub(crate) fn compress(items: Vec<Item>) -> Result<Vec<Item>, Error> {
    let mut items = flatten(items);
    loop {
        let before = items.len();
        items = fold(join(items)?)?;
        if items.len() == before || items.len() == 1 {
            return Ok(items);
        }
    }
}

/// A list inside a list is one list.
fn flatten(items: Vec<Item>) -> Vec<Item> {
    if !items
        .iter()
        .any(|(_, _, node)| matches!(node, Node::List(_)))
    {
        return items;
    }
    let mut flat = Vec::with_capacity(items.len());
    for (file, view, node) in items {
        match &node {
            Node::List(list) => flat.extend(
                list.entries
                    .iter()
                    .map(|e| (file + e.file as i64, view + e.view, e.node.clone())),
            ),
            _ => flat.push((file, view, node)),
        }
    }
    flat
}

/// Runs that touch in the file and in the view become one run.
fn join(items: Vec<Item>) -> Result<Vec<Item>, Error> {
    let mut joined: Vec<Item> = Vec::with_capacity(items.len());
    for (file, view, node) in items {
        if let (Some((f, v, Node::Run(a))), Node::Run(b)) = (joined.last_mut(), &node)
            && *f + *a as i64 == file
            && *v + *a as i64 == view
        {
            let len = a.checked_add(*b).filter(|&len| len <= crate::node::LIMIT);
            *a = len.ok_or(Error::overflow("a run's length"))?;
            continue;
        }
        joined.push((file, view, node));
    }
    Ok(joined)
}

/// Three or more equal nodes (or two, if there is nothing else) at equal distances become a repeat.
fn fold(items: Vec<Item>) -> Result<Vec<Item>, Error> {
    let least = if items.len() == 2 { 2 } else { 3 };
    let mut folded: Vec<Item> = Vec::with_capacity(items.len());
    let mut i = 0;
    while i < items.len() {
        let n = progression(&items[i..]);
        let (file, view, node) = &items[i];
        if n >= least {
            let stride = items[i + 1].0 - file;
            let step = items[i + 1].1 - view;
            let repeat = Node::repeat(n as u64, stride as u64, step, node.clone())?;
            folded.push((*file, *view, repeat));
            i += n;
        } else {
            folded.push((*file, *view, node.clone()));
            i += 1;
        }
    }
    Ok(folded)
}

/// How many items from the first on are equal nodes at equal distances.
fn progression(items: &[Item]) -> usize {
    let [a, b, ..] = items else {
        return items.len();
    };
    if a.2 != b.2 {
        return 1;
    }
    let (stride, step) = (b.0 - a.0, b.1 - a.1);
    let more = items.windows(2).skip(1).take_while(|pair| {
        pair[1].2 == a.2 && pair[1].0 - pair[0].0 == stride && pair[1].1 - pair[0].1 == step
    });
    2 + more.count()
}
