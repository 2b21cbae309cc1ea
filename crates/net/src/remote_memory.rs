//! The memory of another process on this host: pulled and pushed by the kernel in one copy, without
//! that process doing anything.
//!
//! The kernel allows it between processes of one user unless a container or a security module
//! forbids it; then the error is `EPERM` and the caller takes the socket instead.

use std::io;

/// Longest list of places in one system call.
const PLACES: usize = 1024;

/// Bytes of another process: address and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub address: u64,
    /// How many.
    pub length: u64,
}

/// Fills `local` from the places `remote` of process `pid`; both are equally long in all.
///
/// # Safety
/// Each of `local` must be writable memory of this process that nobody else uses meanwhile.
pub unsafe fn pull(pid: u32, remote: &[Place], local: &[libc::iovec]) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { each(pid, remote, local, libc::process_vm_readv) }
}

/// Copies `local` to the places `remote` of process `pid`; both are equally long in all.
///
/// # Safety
/// Each of `local` must be readable memory of this process. Process `pid` must expect the bytes.
pub unsafe fn push(pid: u32, remote: &[Place], local: &[libc::iovec]) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { each(pid, remote, local, libc::process_vm_writev) }
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

unsafe fn each(pid: u32, remote: &[Place], local: &[libc::iovec], call: Call) -> io::Result<()> {
    let mut theirs: Vec<libc::iovec> = remote
        .iter()
        .map(|place| libc::iovec {
            iov_base: place.address as usize as *mut libc::c_void,
            iov_len: place.length as usize,
        })
        .collect();
    let mut ours = local.to_vec();
    let (mut theirs, mut ours) = (&mut theirs[..], &mut ours[..]);
    loop {
        theirs = skip(theirs, 0);
        ours = skip(ours, 0);
        if ours.is_empty() || theirs.is_empty() {
            return if ours.is_empty() && theirs.is_empty() {
                Ok(())
            } else {
                Err(io::Error::other("the two sides are not equally long"))
            };
        }
        // SAFETY: lists of valid entries; the kernel checks every access on both sides.
        let moved = unsafe {
            call(
                pid as libc::pid_t,
                ours.as_ptr(),
                ours.len().min(PLACES) as libc::c_ulong,
                theirs.as_ptr(),
                theirs.len().min(PLACES) as libc::c_ulong,
                0,
            )
        };
        match moved {
            0 => return Err(io::Error::other("the kernel moved nothing")),
            1.. => {
                theirs = skip(theirs, moved as usize);
                ours = skip(ours, moved as usize);
            }
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// A list without its first `bytes` bytes and without what is empty there.
fn skip(mut list: &mut [libc::iovec], mut bytes: usize) -> &mut [libc::iovec] {
    while let Some(first) = list.first_mut() {
        if first.iov_len > bytes {
            first.iov_len -= bytes;
            first.iov_base = first.iov_base.wrapping_byte_add(bytes);
            break;
        }
        bytes -= first.iov_len;
        list = &mut list[1..];
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(bytes: &mut [u8]) -> libc::iovec {
        libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        }
    }

    #[test]
    fn pieces_of_different_lengths_meet_on_both_sides() {
        let source: Vec<u8> = (0..=255).cycle().take(5000).map(|b: u32| b as u8).collect();
        let at = source.as_ptr() as u64;
        // More places than one system call takes.
        let remote: Vec<Place> = (0..2500)
            .map(|i| Place {
                address: at + i * 2,
                length: 2,
            })
            .collect();
        let mut target = vec![0; 5000];
        let (a, rest) = target.split_at_mut(7);
        let (b, c) = rest.split_at_mut(3000);
        let local = [ours(a), ours(b), ours(&mut []), ours(c)];
        // SAFETY: three disjoint parts of `target`.
        unsafe { pull(std::process::id(), &remote, &local) }.unwrap();
        assert_eq!(target, source);
        let mut back = vec![0; 5000];
        let place = Place {
            address: back.as_mut_ptr() as u64,
            length: 5000,
        };
        // SAFETY: `back` is ours and nobody looks at it now.
        unsafe { push(std::process::id(), &[place], &[ours(&mut target)]) }.unwrap();
        assert_eq!(back, source);
    }

    #[test]
    fn bad_addresses_and_lengths_are_errors() {
        let mut target = [0; 16];
        let nowhere = Place {
            address: 8,
            length: 16,
        };
        // SAFETY: `target` is ours.
        let error =
            unsafe { pull(std::process::id(), &[nowhere], &[ours(&mut target)]) }.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        let short = Place {
            address: target.as_ptr() as u64,
            length: 4,
        };
        // SAFETY: as above.
        assert!(unsafe { push(std::process::id(), &[short], &[ours(&mut target)]) }.is_err());
        // SAFETY: as above; there is no such process.
        assert!(unsafe { pull(u32::MAX >> 2, &[short], &[ours(&mut target[..4])]) }.is_err());
    }
}
