//! Lists against a second reading of POSIX.1e, which works on the lines as they are written.

use super::*;
use proptest::prelude::*;

type Written = (u16, u16, u32);

fn bytes(lines: &[Written]) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, rights, id) in lines {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn errno(bytes: &[u8]) -> Option<Errno> {
    Acl::parse(bytes).err().map(|failure| failure.errno)
}

const WHOLE: [Written; 6] = [
    (OWNER, 7, NOBODY),
    (USER, 6, 10),
    (OWNING_GROUP, 5, NOBODY),
    (GROUP, 4, 20),
    (MASK, 6, NOBODY),
    (OTHER, 1, NOBODY),
];

#[test]
fn whole_lists_are_read_and_written_as_they_are() {
    let acl = Acl::parse(&bytes(&WHOLE)).unwrap().unwrap();
    assert_eq!(acl.encode(), bytes(&WHOLE));
    assert_eq!(acl.mode(), 0o761);
    assert!(!acl.is_just_mode());
    let plain = [WHOLE[0], WHOLE[2], WHOLE[5]];
    let acl = Acl::parse(&bytes(&plain)).unwrap().unwrap();
    assert_eq!(acl.mode(), 0o751);
    assert!(acl.is_just_mode());
    assert_eq!(Acl::parse(&[]).unwrap(), None);
    assert_eq!(Acl::parse(&bytes(&[])).unwrap(), None);
}

#[test]
fn malformed_lists_are_refused() {
    let whole = bytes(&WHOLE);
    for cut in 1..whole.len() {
        if cut != 4 {
            assert_eq!(errno(&whole[..cut]), Some(Errno::Inval), "{cut} bytes");
        }
    }
    let mut version = whole.clone();
    version[0] = 3;
    assert_eq!(errno(&version), Some(Errno::NotSup));
    let many = |count: u32| {
        let mut lines = WHOLE.to_vec();
        lines.splice(1..2, (0..count).map(|id| (USER, 7, id)));
        bytes(&lines)
    };
    assert_eq!(errno(&many(506)), None);
    assert_eq!(errno(&many(507)), Some(Errno::TooBig));
}

#[test]
fn chmod_changes_the_mask_where_there_is_one_and_the_group_where_not() {
    let mut acl = Acl::parse(&bytes(&WHOLE)).unwrap().unwrap();
    acl.set_mode(0o6312);
    assert_eq!(acl.mode(), 0o312);
    assert_eq!(acl.group, 5);
    let plain = [WHOLE[0], WHOLE[2], WHOLE[5]];
    let mut acl = Acl::parse(&bytes(&plain)).unwrap().unwrap();
    acl.set_mode(0o624);
    assert_eq!(acl.encode()[4 + 8 + 2], 2);
}

#[test]
fn what_is_inherited_gives_nobody_more_than_its_maker_asked_for() {
    let acl = Acl::parse(&bytes(&WHOLE)).unwrap().unwrap();
    let made = acl.inherited(0o640);
    let expected = [
        (OWNER, 6, NOBODY),
        (USER, 6, 10),
        (OWNING_GROUP, 5, NOBODY),
        (GROUP, 4, 20),
        (MASK, 4, NOBODY),
        (OTHER, 0, NOBODY),
    ];
    assert_eq!(made.encode(), bytes(&expected));
}

/// Is this a valid list? By counting, where the code walks.
fn valid(lines: &[Written]) -> bool {
    let count = |tag| lines.iter().filter(|line| line.0 == tag).count();
    let known = [OWNER, USER, OWNING_GROUP, GROUP, MASK, OTHER];
    let named = count(USER) + count(GROUP);
    lines.is_sorted_by_key(|line| line.0)
        && [OWNER, OWNING_GROUP, OTHER]
            .iter()
            .all(|tag| count(*tag) == 1)
        && count(MASK) <= 1
        && (named == 0 || count(MASK) == 1)
        && lines.iter().all(|(tag, rights, id)| {
            known.contains(tag) && *rights <= 7 && (![USER, GROUP].contains(tag) || *id != NOBODY)
        })
}

/// The access check as the standard's text has it, step by step.
fn by_the_book(lines: &[Written], caller: &Caller, uid: u32, gid: u32, want: u16) -> bool {
    let of = |tag| lines.iter().filter(move |line| line.0 == tag);
    let mask = of(MASK).next().map_or(7, |line| line.1);
    // 1. The owner.
    if caller.uid == uid {
        return of(OWNER).all(|line| line.1 & want == want);
    }
    // 2. A named user: the entry, and the mask.
    if let Some(line) = of(USER).find(|line| line.2 == caller.uid) {
        return line.1 & want == want && mask & want == want;
    }
    // 3. The groups: any entry that contains all of it, and the mask; if one matches at all, no further.
    let mut matched = false;
    for line in of(OWNING_GROUP).chain(of(GROUP)) {
        let id = if line.0 == GROUP { line.2 } else { gid };
        if caller.gid == id || caller.groups.contains(&id) {
            matched = true;
            if line.1 & want == want && mask & want == want {
                return true;
            }
        }
    }
    // 4. Others.
    !matched && of(OTHER).all(|line| line.1 & want == want)
}

fn named(tag: u16) -> impl Strategy<Value = Vec<Written>> {
    prop::collection::vec((0..8u16, 1..6u32), 0..4)
        .prop_map(move |all| all.into_iter().map(|(r, id)| (tag, r, id)).collect())
}

prop_compose! {
    fn whole()(
        users in named(USER),
        groups in named(GROUP),
        rights in prop::array::uniform4(0..8u16),
        masked in any::<bool>(),
    ) -> Vec<Written> {
        let masked = masked || !users.is_empty() || !groups.is_empty();
        let mut lines = vec![(OWNER, rights[0], NOBODY)];
        lines.extend(users);
        lines.push((OWNING_GROUP, rights[1], NOBODY));
        lines.extend(groups);
        lines.extend(masked.then_some((MASK, rights[2], NOBODY)));
        lines.push((OTHER, rights[3], NOBODY));
        lines
    }
}

proptest! {
    #[test]
    fn everybody_gets_what_the_standard_says(
        lines in whole(),
        uid in 1..6u32,
        gid in 1..6u32,
        who in (1..6u32, 1..6u32, prop::collection::vec(1..6u32, 0..3)),
    ) {
        let acl = Acl::parse(&bytes(&lines)).unwrap().unwrap();
        prop_assert_eq!(acl.encode(), bytes(&lines));
        let caller = Caller { uid: who.0, gid: who.1, groups: who.2 };
        for want in 0..8 {
            let expected = by_the_book(&lines, &caller, uid, gid, want);
            prop_assert_eq!(acl.permits(&caller, uid, gid, want.into()), expected, "{}", want);
        }
    }

    #[test]
    fn a_list_is_taken_exactly_when_it_is_whole_and_in_order(
        mut lines in whole(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..5u8, any::<u16>()), 0..3),
    ) {
        for (index, what, noise) in changes {
            if lines.is_empty() {
                break;
            }
            let at = index.index(lines.len());
            match what {
                0 => drop(lines.remove(at)),
                1 => lines.push(lines[at]),
                2 => lines[at].0 = 1 << (noise % 7),
                3 => lines[at].1 = noise % 10,
                _ => lines[at].2 = NOBODY,
            }
        }
        let taken = Acl::parse(&bytes(&lines));
        prop_assert_eq!(taken.is_ok(), lines.is_empty() || valid(&lines), "{:?}", lines);
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut headed = VERSION.to_le_bytes().to_vec();
        headed.extend(&bytes);
        for bytes in [bytes, headed] {
            if let Ok(Some(acl)) = Acl::parse(&bytes) {
                prop_assert_eq!(Acl::parse(&acl.encode()).unwrap(), Some(acl));
            }
        }
    }
}
