//! Everything of the wire that a peer can send: headers, hellos, message bodies, views.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trireme_proto::frame::HEADER_BYTES;
use trireme_proto::hello::{Answer, Challenge, Role, Welcome, Who};
use trireme_proto::message::{collective, group, io, meta};
use trireme_proto::{Header, Key, Refusal, limits};
use zerocopy::{FromBytes, IntoBytes};

fuzz_target!(|input: &[u8]| {
    if let Some(bytes) = input.first_chunk::<HEADER_BYTES>()
        && let Ok(header) = Header::parse(bytes)
    {
        assert!(header.body.get() <= limits::BODY_BYTES);
        assert!(header.payload.get() <= limits::PAYLOAD_BYTES);
        assert_eq!(header.as_bytes(), bytes);
        let _ = header.reply();
    }
    hello(input);
    let _ = trireme_proto::decode::<Refusal>(input);
    let _ = trireme_proto::decode::<meta::Call>(input);
    let _ = trireme_proto::decode::<meta::Response>(input);
    let _ = trireme_proto::decode::<io::Stat>(input);
    let _ = trireme_proto::decode::<io::List>(input);
    let _ = trireme_proto::decode::<group::Join>(input);
    let _ = trireme_proto::decode::<group::Lane>(input);
    let _ = trireme_proto::decode::<group::Gathered>(input);
    let _ = trireme_proto::decode::<group::Absent>(input);
    let _ = trireme_proto::decode::<collective::Collective>(input);
    if let Ok((ranges, total)) = collective::decode_ranges(input, 1000) {
        assert!(ranges.iter().all(|range| range.start <= range.end && range.end <= 1000));
        assert_eq!(ranges.iter().map(|range| range.end - range.start).sum::<u64>(), total);
    }
    if let Ok(view) = trireme_proto::decode::<io::View>(input)
        && let Ok(pattern) = view.decode()
    {
        let mut last = 0;
        for piece in pattern.pieces().take(64) {
            assert!(piece.len > 0 && piece.file >= last);
            assert!(piece.view >= view.range.start && piece.view + piece.len <= view.range.end);
            last = piece.file + piece.len;
        }
    }
});

/// No bytes are ever taken for a proof.
fn hello(input: &[u8]) {
    let key = Key::new([7; 32]);
    let ours = Challenge::new(Role::Io, 1, 2, [3; 32]);
    if let Ok((answer, _)) = Answer::read_from_prefix(input) {
        assert!(answer.check(&ours, &key).is_err());
        if let Ok((welcome, _)) = Welcome::read_from_prefix(input) {
            assert!(welcome.check(&ours, &answer, &key).is_err());
        }
    }
    if let Ok((challenge, _)) = Challenge::read_from_prefix(input) {
        let who = Who { uid: 0, gid: 0, pid: 0, client: 0, generation: 0 };
        let _ = Answer::new(&challenge, &key, who, [1; 32]);
    }
}
