//! The partition deserialisers: malformed input is an error, never a panic, never a large allocation.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trireme_partition::{Part, Partition};

fuzz_target!(|input: &[u8]| {
    if let Ok(part) = Part::decode(input) {
        // What was accepted keeps its promises.
        assert_eq!(Part::decode(&part.encode()).expect("our own encoding"), part);
        assert_eq!(part.bytes_in(0..1 << 63), part.size());
        let span = part.file_span();
        for run in part.runs(span.clone()).take(64) {
            assert_eq!(part.to_view(run.file), Some(run.view));
            assert_eq!(part.to_file(run.view), Some(run.file));
        }
        assert_eq!(part.to_string().parse::<Part>().expect("our own text"), part);
    }
    if let Ok(partition) = Partition::decode(input) {
        assert_eq!(Partition::decode(&partition.encode()).expect("our own encoding"), partition);
        if partition.parts() > 0 {
            let _ = partition.part(partition.parts() - 1);
        }
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = text.parse::<Part>();
        let _ = text.parse::<Partition>();
    }
});
