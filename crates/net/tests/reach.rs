//! Reaching a member's buffer: by the kernel, and by the wire where the kernel forbids it.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use trireme_net::{Deadline, Interval, Member, Reach, Shuffle, Whereabouts, Wire};
use trireme_partition::Partition;

/// A wire to a buffer, as if it were far away; says what was asked for.
struct FarAway<'a> {
    buffer: &'a Mutex<Vec<u8>>,
    asked: &'a Mutex<Vec<Vec<Range<u64>>>>,
}

impl Wire for FarAway<'_> {
    fn ask(&self, _: usize, ranges: &[Range<u64>], _: Deadline) -> io::Result<()> {
        self.asked.lock().unwrap().push(ranges.to_vec());
        Ok(())
    }

    fn take(&self, _: usize, into: &mut [IoSliceMut<'_>], _: Deadline) -> io::Result<()> {
        let ranges = self.asked.lock().unwrap().last().unwrap().clone();
        let buffer = self.buffer.lock().unwrap();
        let mut bytes = ranges
            .iter()
            .flat_map(|range| &buffer[range.start as usize..range.end as usize]);
        for byte in into.iter_mut().flat_map(|slice| slice.iter_mut()) {
            *byte = *bytes.next().unwrap();
        }
        assert!(bytes.next().is_none());
        Ok(())
    }

    fn put(
        &self,
        _: usize,
        ranges: &[Range<u64>],
        from: &mut [IoSlice<'_>],
        _: Deadline,
    ) -> io::Result<()> {
        self.asked.lock().unwrap().push(ranges.to_vec());
        let mut buffer = self.buffer.lock().unwrap();
        let mut bytes = from.iter().flat_map(|slice| slice.iter());
        for at in ranges.iter().flat_map(Clone::clone) {
            buffer[at as usize] = *bytes.next().unwrap();
        }
        assert!(bytes.next().is_none());
        Ok(())
    }

    fn finish(&self, _: Deadline) -> io::Result<()> {
        Ok(())
    }

    fn is_open(&self) -> bool {
        true
    }
}

/// Makes the kernel refuse this thread the memory of other processes, as containers do.
fn forbid_process_memory() {
    #[repr(C)]
    struct Step(u16, u8, u8, u32);
    #[repr(C)]
    struct Program(u16, *const Step);
    const LOAD_NUMBER: Step = Step(0x20, 0, 0, 0);
    let numbers = [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];
    let refuse = 0x0005_0000 | libc::EPERM as u32;
    let steps = [
        LOAD_NUMBER,
        Step(0x15, 1, 0, numbers[0] as u32),
        Step(0x15, 0, 1, numbers[1] as u32),
        Step(0x06, 0, 0, refuse),
        Step(0x06, 0, 0, 0x7fff_0000),
    ];
    let program = Program(steps.len() as u16, steps.as_ptr());
    // SAFETY: a filter of this thread only; the kernel copies it and checks it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program, 0, 0),
            0
        );
    }
}

#[test]
fn where_the_kernel_forbids_it_the_wire_is_taken() {
    std::thread::spawn(|| {
        forbid_process_memory();
        let (buffer, asked) = (Mutex::new((0..100).collect()), Mutex::default());
        let wire = FarAway {
            buffer: &buffer,
            asked: &asked,
        };
        let me = Whereabouts::Process(std::process::id(), 4096);
        let reach = Reach::new(me, 100, Box::new(wire));
        assert!(!reach.is_away(), "not known yet");
        let deadline = Deadline::after(Duration::from_secs(5));
        let mut bytes = [0u8; 10];
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: 10,
        };
        // SAFETY: `bytes` is ours alone.
        unsafe { reach.get(0, &[20..25, 30..35], &[local], deadline) }.unwrap();
        assert_eq!(bytes, [20, 21, 22, 23, 24, 30, 31, 32, 33, 34]);
        assert!(reach.is_away(), "not tried again");
        // SAFETY: as above.
        unsafe { reach.put(0, std::slice::from_ref(&(0..10)), &[local], deadline) }.unwrap();
        assert_eq!(buffer.lock().unwrap()[..10], bytes);
        let beyond = [Range {
            start: 95,
            end: 105,
        }];
        // SAFETY: as above.
        assert!(unsafe { reach.get(0, &beyond, &[local], deadline) }.is_err());
    })
    .join()
    .unwrap();
}

#[test]
fn each_block_and_member_is_one_transfer_however_many_records() {
    const BLOCK: u64 = 1 << 16;
    let partition = Partition::named("rc", 8, BLOCK * 4, 4).unwrap();
    let file: Vec<u8> = (0..BLOCK * 4).map(|i| (i / 8 % 251) as u8).collect();
    let buffers: Vec<Mutex<Vec<u8>>> = (0..4)
        .map(|_| Mutex::new(vec![0; BLOCK as usize]))
        .collect();
    let asked: Vec<Mutex<Vec<Vec<Range<u64>>>>> = (0..4).map(|_| Mutex::default()).collect();
    let members: Vec<Member<'_>> = (0..4)
        .map(|rank| Member {
            rank,
            part: partition.part(rank).unwrap(),
            reach: Reach::new(
                Whereabouts::Away,
                BLOCK,
                Box::new(FarAway {
                    buffer: &buffers[rank as usize],
                    asked: &asked[rank as usize],
                }),
            ),
        })
        .collect();
    let deadline = Deadline::after(Duration::from_secs(5));
    let mut shuffle = Shuffle::new(&members, 0, BLOCK as usize, deadline);
    for block in 0..4 {
        let interval = Interval {
            file: block * BLOCK,
            at: 0,
            len: BLOCK as usize,
        };
        let survey = shuffle.load(&[interval], block as usize);
        assert_eq!((survey.bytes, survey.pieces), (BLOCK, BLOCK / 8));
        let bytes = &file[(block * BLOCK) as usize..((block + 1) * BLOCK) as usize];
        shuffle.scatter(bytes).unwrap();
        let mut back = vec![0; BLOCK as usize];
        shuffle.gather(&mut back).unwrap();
        assert!(back == bytes);
    }
    for asked in &asked {
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 8, "one put and one get per block");
        assert!(
            asked.iter().all(|ranges| ranges.len() == 1),
            "one range each"
        );
    }
}
