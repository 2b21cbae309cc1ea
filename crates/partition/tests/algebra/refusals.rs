//! Bad input is refused with an error that names the number and the reason.

use trireme_partition::{ArraySpec, Datatype, Dist, Error, Extent, Hyperslab, Part, Partition};

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &[&str]) {
    let message = result.unwrap_err().to_string();
    for word in words {
        assert!(message.contains(word), "'{message}' does not say '{word}'");
    }
}

#[test]
fn zero_strides_and_units() {
    refused(Part::strided(0, 8, 0, 2), &["stride is 0"]);
    refused(Partition::striped(0, 4, 0), &["stripe unit is 0"]);
    refused(Partition::striped(64, 0, 0), &["number of servers is 0"]);
    refused(
        Partition::striped(64, 4, 4),
        &["first server is 4", "number of servers is 4"],
    );
    let zero = Datatype::bytes(8).unwrap().resized(0, 0).unwrap();
    refused(Part::tiled(0, &zero), &["extent is 0"]);
    refused(Part::of(0, &zero, 2), &["twice", "0 bytes"]);
}

#[test]
fn overlapping_parts() {
    refused(Part::strided(0, 8, 7, 3), &["twice", "stride of 7"]);
    let two = [Extent { offset: 0, len: 8 }, Extent { offset: 4, len: 8 }];
    refused(Part::from_extents(&two), &["offset 4", "twice"]);
    let wide = Datatype::bytes(8)
        .unwrap()
        .vector(4, 1, 4)
        .unwrap()
        .resized(0, 16)
        .unwrap();
    refused(Part::tiled(0, &wide), &["extent of 16"]);
}

#[test]
fn overflow() {
    refused(Part::contiguous(u64::MAX, 1), &["2^63"]);
    refused(Part::contiguous(1, i64::MAX as u64), &["2^63"]);
    refused(Part::strided(0, 1, 1 << 62, 3), &["2^63"]);
    refused(Partition::striped(1 << 62, 4, 0), &["stripe unit", "2^63"]);
    let spec = ArraySpec::new(&[1 << 32, 1 << 32], 8, &[Dist::Block; 2], &[2, 2]);
    refused(Partition::array(spec), &["array", "2^63"]);
    refused(
        Datatype::bytes(1 << 40).unwrap().contiguous(1 << 40),
        &["2^63"],
    );
}

#[test]
fn a_grid_that_does_not_match() {
    let spec = |grid: &[u32]| ArraySpec::new(&[10, 10], 8, &[Dist::Block, Dist::None], grid);
    refused(
        Partition::array(spec(&[4])),
        &["grid's length is 1", "dimensions is 2"],
    );
    refused(
        Partition::array(spec(&[4, 2])),
        &["grid extent is 2", "undivided"],
    );
    refused(Partition::array(spec(&[0, 1])), &["grid extent is 0"]);
    refused(
        Partition::array(spec(&[4, 1]).for_processes(16)),
        &["product is 4", "processes is 16"],
    );
    refused(
        Partition::array(spec(&[4, 1])).unwrap().expect_parts(5),
        &["parts is 4", "processes is 5"],
    );
    let short = ArraySpec::new(&[10], 8, &[Dist::BlockOf(2)], &[4]);
    refused(
        Partition::array(short),
        &["block size is 2", "extent is 10"],
    );
    let cyclic = ArraySpec::new(&[10], 8, &[Dist::Cyclic(0)], &[4]);
    refused(Partition::array(cyclic), &["block size is 0"]);
    let ghost = ArraySpec::new(&[10], 8, &[Dist::Cyclic(1)], &[4]).with_ghosts(&[1]);
    refused(Partition::array(ghost), &["ghost width is 1"]);
}

#[test]
fn names_records_and_parts_that_do_not_exist() {
    refused(
        Partition::named("xcc", 8, 80, 4),
        &["'xcc'", "starts with r"],
    );
    refused(Partition::named("rcx", 8, 80, 4), &["'rcx'", "CYCLIC"]);
    refused(
        Partition::named("rccc", 8, 80, 4),
        &["'rccc'", "two dimensions"],
    );
    refused(Partition::named("wa", 8, 80, 4), &["'wa'", "same bytes"]);
    refused(
        Partition::named("rc", 8, 81, 4),
        &["size is 81", "record is 8"],
    );
    refused(Partition::named("rc", 0, 80, 4), &["record is 0"]);
    refused(
        Partition::striped(8, 4, 0).unwrap().part(4),
        &["part 4", "0 to 3"],
    );
    let slab = Hyperslab::block(&[10, 10], &[5, 0], &[6, 10], 8);
    refused(Part::hyperslab(&slab), &["end is 11", "extent is 10"]);
    refused(
        "2-D 3x3 of 8 B, BLOK x NONE over 1x1".parse::<Partition>(),
        &["BLOCK"],
    );
}

#[test]
fn a_type_that_starts_before_the_file() {
    let before = Datatype::structure(&[(-8, Datatype::bytes(8).unwrap())]).unwrap();
    refused(
        Part::of(4, &before, 1),
        &["first offset is -4", "before the file"],
    );
    assert_eq!(Part::of(8, &before, 1).unwrap().to_file(0), Some(0));
}

#[test]
fn nesting_too_deep() {
    let mut t = Datatype::bytes(1).unwrap();
    for level in 0..40 {
        // Gaps of changing size: equal ones would make one long loop of it.
        let stride = t.extent() + 1 + level % 2 * 2;
        t = t.hvector(2, 1, stride).unwrap();
    }
    refused(Part::of(0, &t, 1), &["nested", "32"]);
}
