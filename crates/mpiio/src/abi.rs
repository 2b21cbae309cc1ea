//! Which MPI this process runs, and what is different about it: the width of handles, the values of
//! constants, where its own routines are.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An MPI handle as it arrives in a register: an `int` under MPICH, an address under Open MPI.
pub type Handle = usize;

/// The two families of binary interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MPICH and everything that shares its interface (Intel MPI, MVAPICH, Cray MPICH).
    Mpich,
    /// Open MPI.
    OpenMpi,
}

/// The MPI of this process.
#[derive(Debug)]
pub struct Abi {
    pub kind: Kind,
    library: usize,
    /// `MPI_BYTE`.
    pub byte: Handle,
    /// `MPI_COMM_SELF`.
    pub comm_self: Handle,
    /// `MPI_INFO_NULL`.
    pub info_null: Handle,
    /// `MPI_FILE_NULL`.
    pub file_null: Handle,
    /// `MPI_DATATYPE_NULL`.
    pub datatype_null: Handle,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: Handle,
    /// `MPI_ERRORS_ARE_FATAL`.
    pub errors_are_fatal: Handle,
    /// `MPI_STATUS_IGNORE`.
    pub status_ignore: usize,
    /// `MPI_ORDER_FORTRAN`.
    pub order_fortran: c_int,
    /// `MPI_DISTRIBUTE_BLOCK`; cyclic and none follow it.
    pub distribute_block: c_int,
    /// `MPI_DISTRIBUTE_DFLT_DARG`.
    pub distribute_default: c_int,
    /// `MPI_COMBINER_NAMED`; the others follow it in the same order everywhere.
    pub combiner_named: c_int,
}

static ABI: OnceLock<Option<Abi>> = OnceLock::new();

/// The MPI of this process; `None` where none is loaded.
pub fn abi() -> Option<&'static Abi> {
    ABI.get_or_init(find).as_ref()
}

impl Abi {
    /// The handle in a register, whose upper half an `int` leaves undefined.
    pub fn handle(&self, raw: Handle) -> Handle {
        match self.kind {
            Kind::Mpich => raw & 0xffff_ffff,
            Kind::OpenMpi => raw,
        }
    }

    /// Stores a handle where the program wants it.
    ///
    /// # Safety
    /// `place` must be a place for a handle of this MPI.
    pub unsafe fn store(&self, place: *mut c_void, handle: Handle) {
        // SAFETY: the caller's promise; the widths are those of the interface.
        unsafe {
            match self.kind {
                Kind::Mpich => place.cast::<u32>().write(handle as u32),
                Kind::OpenMpi => place.cast::<usize>().write(handle),
            }
        }
    }

    /// Reads a handle that the program or MPI keeps in memory.
    ///
    /// # Safety
    /// `place` must hold a handle of this MPI.
    pub unsafe fn load(&self, place: *const c_void) -> Handle {
        // SAFETY: the caller's promise.
        unsafe {
            match self.kind {
                Kind::Mpich => place.cast::<u32>().read() as Handle,
                Kind::OpenMpi => place.cast::<usize>().read(),
            }
        }
    }
}

/// One of MPI's own routines, looked up when first used.
pub struct Symbol {
    name: &'static CStr,
    /// 0: not looked up yet; 1: not there.
    address: AtomicUsize,
}

impl Symbol {
    pub const fn new(name: &'static CStr) -> Symbol {
        Symbol {
            name,
            address: AtomicUsize::new(0),
        }
    }

    /// Where it is, if this MPI has it.
    pub fn address(&self) -> Option<*const c_void> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address == 0 {
            address = abi().map_or(0, |abi| lookup(abi.library as *mut c_void, self.name));
            address = address.max(1);
            self.address.store(address, Ordering::Relaxed);
        }
        (address > 1).then_some(address as *const c_void)
    }
}

fn lookup(library: *mut c_void, name: &CStr) -> usize {
    // SAFETY: `library` came from dlopen and is never closed. Searching it and what it depends on,
    // not everything loaded, passes by this library's own routines of the same names.
    unsafe { libc::dlsym(library, name.as_ptr()) as usize }
}

fn find() -> Option<Abi> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the callback gets the vector back, and only during the call.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    names.iter().find_map(|name| of_library(name))
}

unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    names: *mut c_void,
) -> c_int {
    // SAFETY: the loader's promise, and `find`'s for the vector.
    unsafe {
        let name: *const c_char = (*info).dlpi_name;
        if !name.is_null() {
            (*names.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned());
        }
    }
    0
}

fn of_library(name: &CStr) -> Option<Abi> {
    let path = name.to_string_lossy();
    let file = path.rsplit('/').next()?;
    if !file.starts_with("libmpi") && !file.starts_with("libpmpi") {
        return None;
    }
    // SAFETY: only asks for a library that is there already.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    if library.is_null() || lookup(library, c"PMPI_File_open") == 0 {
        return None;
    }
    let library_address = library as usize;
    // A program can have its own copy of a library's variable, and then all use that one.
    let open_mpi = |name: &CStr| {
        // SAFETY: asks for a name in everything loaded.
        let everywhere = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if everywhere.is_null() {
            lookup(library, name)
        } else {
            everywhere as usize
        }
    };
    if open_mpi(c"ompi_mpi_byte") != 0 {
        return Some(Abi {
            kind: Kind::OpenMpi,
            library: library_address,
            byte: open_mpi(c"ompi_mpi_byte"),
            comm_self: open_mpi(c"ompi_mpi_comm_self"),
            info_null: open_mpi(c"ompi_mpi_info_null"),
            file_null: open_mpi(c"ompi_mpi_file_null"),
            datatype_null: open_mpi(c"ompi_mpi_datatype_null"),
            errors_return: open_mpi(c"ompi_mpi_errors_return"),
            errors_are_fatal: open_mpi(c"ompi_mpi_errors_are_fatal"),
            status_ignore: 0,
            order_fortran: 1,
            distribute_block: 0,
            distribute_default: -1,
            combiner_named: 0,
        });
    }
    Some(Abi {
        kind: Kind::Mpich,
        library: library_address,
        byte: 0x4c00_010d,
        comm_self: 0x4400_0001,
        info_null: 0x1c00_0000,
        file_null: 0,
        datatype_null: 0x0c00_0000,
        errors_return: 0x5400_0001,
        errors_are_fatal: 0x5400_0000,
        status_ignore: 1,
        order_fortran: 57,
        distribute_block: 121,
        distribute_default: -49767,
        combiner_named: 1,
    })
}

/// Calls one of MPI's own routines: `call!(c"PMPI_Barrier", comm => Handle)`. The types are those of
/// the standard's C binding, and it is the caller's part that they are right. A routine that this MPI
/// does not have gives the class for what is not supported.
macro_rules! call {
    ($name:expr $(, $argument:expr => $type:ty)* $(,)?) => {{
        static ROUTINE: $crate::abi::Symbol = $crate::abi::Symbol::new($name);
        match ROUTINE.address() {
            None => $crate::class::Class::UnsupportedOperation.value(),
            Some(address) => {
                // SAFETY: the standard fixes the routine's type; pointers among the arguments are the
                // program's own or live until the routine returns.
                unsafe {
                    let routine = std::mem::transmute::<
                        *const std::ffi::c_void,
                        unsafe extern "C" fn($($type),*) -> std::ffi::c_int,
                    >(address);
                    routine($($argument),*)
                }
            }
        }
    }};
}
pub(crate) use call;
