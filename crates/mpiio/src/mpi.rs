//! MPI's own routines, as far as this library needs them, with results instead of codes.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::abi::{Abi, Handle, abi, call};
use crate::class::{Class, Code, Failure, Result};

/// The MPI of this process.
pub fn own() -> Result<&'static Abi> {
    abi().ok_or_else(|| {
        Failure::new(
            Class::Intern,
            "no MPI library that this one knows is loaded in this process",
        )
    })
}

/// A code as a result.
pub fn check(what: &str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Failure {
        code: Code::Mpi(code),
        message: format!("{what} returned {code}"),
    })
}

/// Rank and size of a communicator.
pub fn seat(comm: Handle) -> Result<(u32, u32)> {
    let (mut rank, mut size) = (0, 0);
    check(
        "MPI_Comm_rank",
        call!(c"PMPI_Comm_rank", comm => Handle, &raw mut rank => *mut c_int),
    )?;
    check(
        "MPI_Comm_size",
        call!(c"PMPI_Comm_size", comm => Handle, &raw mut size => *mut c_int),
    )?;
    Ok((rank as u32, size as u32))
}

/// A communicator of our own with the same members, whose errors come back to us.
pub fn duplicate(comm: Handle) -> Result<Handle> {
    let mut inter = 0;
    check(
        "MPI_Comm_test_inter",
        call!(c"PMPI_Comm_test_inter", comm => Handle, &raw mut inter => *mut c_int),
    )?;
    if inter != 0 {
        return Err(Failure::new(
            Class::Comm,
            "a file needs an intracommunicator",
        ));
    }
    let mut copy: Handle = 0;
    check(
        "MPI_Comm_dup",
        call!(c"PMPI_Comm_dup", comm => Handle, (&raw mut copy).cast() => *mut c_void),
    )?;
    let handler = own()?.errors_return;
    let _ = call!(c"PMPI_Comm_set_errhandler", copy => Handle, handler => Handle);
    Ok(copy)
}

/// Lets MPI move messages, for a thread that waits for something else: looking for one that nobody sends
/// does, where a communicator has more than one process.
pub fn progress(comm: Handle) {
    let Ok(abi) = own() else { return };
    let mut found = 0;
    let _ = call!(c"PMPI_Iprobe", 0 => c_int, 0 => c_int, comm => Handle,
        &raw mut found => *mut c_int, abi.status_ignore as *mut c_void => *mut c_void);
}

/// Gives a communicator back.
pub fn free_comm(mut comm: Handle) {
    let _ = call!(c"PMPI_Comm_free", (&raw mut comm).cast() => *mut c_void);
}

/// Size, lower bound and extent of a type.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub size: u64,
    pub lower: i64,
    pub extent: i64,
}

/// Measures a type.
pub fn extent(datatype: Handle) -> Result<Extent> {
    // MPI itself would end the program.
    if datatype == own()?.datatype_null {
        return Err(Failure::new(Class::Type, "MPI_DATATYPE_NULL is not a type"));
    }
    let (mut size, mut lower, mut extent) = (0i64, 0i64, 0i64);
    check(
        "MPI_Type_size",
        call!(c"PMPI_Type_size_x", datatype => Handle, &raw mut size => *mut i64),
    )?;
    check(
        "MPI_Type_get_extent",
        call!(c"PMPI_Type_get_extent_x", datatype => Handle, &raw mut lower => *mut i64,
            &raw mut extent => *mut i64),
    )?;
    let size = u64::try_from(size)
        .map_err(|_| Failure::new(Class::Type, "the type is larger than any file"))?;
    Ok(Extent {
        size,
        lower,
        extent,
    })
}

/// First and one past the last byte of a type's data, relative to its origin.
pub fn true_span(datatype: Handle) -> Result<(i64, i64)> {
    let (mut lower, mut extent) = (0i64, 0i64);
    check(
        "MPI_Type_get_true_extent",
        call!(c"PMPI_Type_get_true_extent_x", datatype => Handle, &raw mut lower => *mut i64,
            &raw mut extent => *mut i64),
    )?;
    Ok((lower, lower.saturating_add(extent)))
}

/// A type of our own that means the same.
pub fn duplicate_type(datatype: Handle) -> Result<Handle> {
    let mut copy: Handle = 0;
    check(
        "MPI_Type_dup",
        call!(c"PMPI_Type_dup", datatype => Handle, (&raw mut copy).cast() => *mut c_void),
    )?;
    Ok(copy)
}

/// Gives a type back.
pub fn free_type(mut datatype: Handle) {
    let _ = call!(c"PMPI_Type_free", (&raw mut datatype).cast() => *mut c_void);
}

/// Fills a status: that many bytes, not cancelled.
pub fn set_status(status: *mut c_void, bytes: u64) {
    let Some(abi) = abi() else { return };
    if status as usize == abi.status_ignore || status.is_null() {
        return;
    }
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let _ = call!(c"PMPI_Status_set_elements_x", status => *mut c_void, abi.byte => Handle,
        bytes => i64);
    let _ = call!(c"PMPI_Status_set_cancelled", status => *mut c_void, 0 => c_int);
}

/// Whether any thread may call MPI.
pub fn threads_may_call() -> bool {
    const MULTIPLE: c_int = 3;
    let mut level = 0;
    call!(c"PMPI_Query_thread", &raw mut level => *mut c_int) == 0 && level == MULTIPLE
}

/// The pairs of an info object.
pub fn info_pairs(info: Handle) -> Result<Vec<(String, String)>> {
    if info == own()?.info_null {
        return Ok(Vec::new());
    }
    let mut count = 0;
    check(
        "MPI_Info_get_nkeys",
        call!(c"PMPI_Info_get_nkeys", info => Handle, &raw mut count => *mut c_int),
    )?;
    let mut pairs = Vec::new();
    for number in 0..count {
        let mut key = [0 as c_char; 512];
        check(
            "MPI_Info_get_nthkey",
            call!(c"PMPI_Info_get_nthkey", info => Handle, number => c_int,
                key.as_mut_ptr() => *mut c_char),
        )?;
        let (mut length, mut there) = (0, 0);
        check(
            "MPI_Info_get_valuelen",
            call!(c"PMPI_Info_get_valuelen", info => Handle, key.as_ptr() => *const c_char,
                &raw mut length => *mut c_int, &raw mut there => *mut c_int),
        )?;
        let mut value = vec![0 as c_char; length.max(0) as usize + 1];
        check(
            "MPI_Info_get",
            call!(c"PMPI_Info_get", info => Handle, key.as_ptr() => *const c_char, length => c_int,
                value.as_mut_ptr() => *mut c_char, &raw mut there => *mut c_int),
        )?;
        if there != 0 {
            pairs.push((text(&key), text(&value)));
        }
    }
    Ok(pairs)
}

fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes
        .iter()
        .take_while(|byte| **byte != 0)
        .map(|byte| *byte as u8)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A new info object with these pairs.
pub fn info_of<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Handle> {
    let mut info: Handle = 0;
    check(
        "MPI_Info_create",
        call!(c"PMPI_Info_create", (&raw mut info).cast() => *mut c_void),
    )?;
    for (key, value) in pairs {
        let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) else {
            continue;
        };
        let _ = call!(c"PMPI_Info_set", info => Handle, key.as_ptr() => *const c_char,
            value.as_ptr() => *const c_char);
    }
    Ok(info)
}

/// A C string of the program.
///
/// # Safety
/// `name` must be null or end with a zero byte.
pub unsafe fn c_text(name: *const c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(name) };
    bytes.to_string_lossy().into_owned()
}
