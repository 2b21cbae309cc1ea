//! Plans of collective operations: which blocks in which order, and who gets what of each.
//!
//! A plan is derived from partitions alone. The disk-directed method visits blocks in an order
//! that suits the disk and moves each member's share; the independent method turns a member's
//! part into requests of at most one block; the two-phase method first moves data in a
//! distribution that conforms to the file and then exchanges it among the members.

mod blocks;
mod directed;
mod independent;
mod two_phase;

pub use blocks::{Block, Blocks};
pub use directed::{Share, Step, disk_directed, shares};
pub use independent::{Request, requests};
pub use two_phase::{Conforming, Exchange, domain, exchange};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trireme_partition::{Part, Partition};

    const BLOCK: u64 = 64;
    const FILE: u64 = 64 * 40;

    fn parts(name: &str, record: u64, members: u32) -> Vec<Part> {
        let partition = Partition::named(name, record, FILE, members).unwrap();
        (0..members)
            .map(|member| partition.part(member).unwrap())
            .collect()
    }

    /// The owner of every byte, found the slow way.
    fn owners(parts: &[Part]) -> Vec<Option<usize>> {
        (0..FILE)
            .map(|byte| parts.iter().position(|part| part.to_view(byte).is_some()))
            .collect()
    }

    fn pattern() -> impl Strategy<Value = (&'static str, u64, u32)> {
        let names = prop::sample::select(vec!["rb", "rc", "rn", "rbb", "rcc", "rcb", "rbc", "rnb"]);
        let records = prop::sample::select(vec![1, 4, 16, 64, 128]);
        (names, records, prop::sample::select(vec![1, 2, 4, 8]))
    }

    proptest! {
        #[test]
        fn shares_count_every_byte_and_every_piece((name, record, members) in pattern()) {
            let parts = parts(name, record, members);
            let owners = owners(&parts);
            for block in 0..FILE / BLOCK {
                let range = block * BLOCK..(block + 1) * BLOCK;
                let bytes = &owners[range.start as usize..range.end as usize];
                for share in shares(&parts, range) {
                    let mine = |owner: &Option<usize>| *owner == Some(share.member as usize);
                    prop_assert_eq!(bytes.iter().filter(|o| mine(o)).count(), share.bytes as usize);
                    let starts = (0..bytes.len())
                        .filter(|i| mine(&bytes[*i]) && (*i == 0 || !mine(&bytes[i - 1])))
                        .count();
                    prop_assert_eq!(starts, share.pieces as usize);
                }
            }
        }

        #[test]
        fn requests_walk_a_part_in_order_one_block_each((name, record, members) in pattern()) {
            let parts = parts(name, record, members);
            let owners = owners(&parts);
            for (member, part) in parts.iter().enumerate() {
                let mine = |byte: usize| owners.get(byte) == Some(&Some(member));
                // Chunks by the byte: a new one wherever the byte before is somebody else's.
                let (mut expected, mut byte) = (vec![], 0);
                while byte < FILE as usize {
                    if !mine(byte) {
                        byte += 1;
                        continue;
                    }
                    let start = byte;
                    while mine(byte) && byte / BLOCK as usize == start / BLOCK as usize {
                        byte += 1;
                    }
                    let bytes = (byte - start) as u32;
                    let block = start as u64 / BLOCK;
                    expected.push(Request { block, bytes, last: !mine(byte) });
                }
                prop_assert_eq!(requests(part, BLOCK, FILE), expected);
            }
        }

        #[test]
        fn an_exchange_moves_every_byte_once(
            (name, record, members) in pattern(),
            conforming in prop::sample::select(vec![Conforming::Block, Conforming::Cyclic]),
        ) {
            let parts = parts(name, record, members);
            let matrix = exchange(&parts, conforming, BLOCK, FILE);
            for (member, part) in parts.iter().enumerate() {
                let received: u64 = matrix.iter().map(|row| row[member].bytes).sum();
                prop_assert_eq!(received, part.size());
            }
            for (owner, row) in matrix.iter().enumerate() {
                let blocks = FILE / BLOCK;
                let requests = conforming.requests(owner as u32, members, blocks, BLOCK as u32);
                let sent: u64 = row.iter().map(|load| load.bytes).sum();
                let moved: u64 = requests.iter().map(|request| u64::from(request.bytes)).sum();
                prop_assert_eq!(sent, moved);
            }
        }

        #[test]
        fn domains_divide_a_span_at_multiples_of_the_unit(
            start in 0u64..500, len in 0u64..500, members in 1u32..9, align in 1u64..40,
        ) {
            let span = start..start + len;
            let mut at = start;
            for member in 0..members {
                let domain = domain(span.clone(), member, members, align);
                prop_assert_eq!(domain.start, at);
                prop_assert!(domain.end == span.end || domain.end.is_multiple_of(align));
                at = domain.end;
            }
            prop_assert_eq!(at, span.end);
        }

        #[test]
        fn presort_orders_by_position_and_loses_nothing(
            positions in prop::collection::vec(0u64..50, 0..40),
        ) {
            let steps = positions.iter().enumerate().map(|(block, position)| Step {
                block: block as u64,
                position: *position,
            });
            let steps: Vec<Step> = steps.collect();
            prop_assert_eq!(&disk_directed(steps.clone(), false), &steps);
            let sorted = disk_directed(steps.clone(), true);
            prop_assert!(sorted.is_sorted_by_key(|step| (step.position, step.block)));
            prop_assert_eq!(sorted.len(), steps.len());
        }
    }
}
