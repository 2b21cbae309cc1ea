//! Views, and what they say about offsets and types.

use std::ffi::{c_char, c_void};

use super::{handle, routine};
use crate::abi::Handle;
use crate::class::{Class, Failure, Result};
use crate::mpi;
use crate::open::{Open, mode};
use crate::view::{Representation, Type, View};

/// `MPI_DISPLACEMENT_CURRENT`: the same in every MPI.
const CURRENT: i64 = -54_278_278;

fn displacement(open: &Open, wanted: i64) -> Result<u64> {
    if wanted == CURRENT && open.amode & mode::SEQUENTIAL != 0 {
        let place = open.move_shared(Ok)?;
        let view = open.view();
        view.unfold(place, 1);
        return Ok(view.to_file(place).unwrap_or(0));
    }
    u64::try_from(wanted)
        .map_err(|_| Failure::new(Class::Arg, format!("a displacement of {wanted}")))
}

routine!(MPI_File_set_view PMPI_File_set_view (file, place: i64, etype: Handle, filetype: Handle,
    representation: *const c_char, info: Handle) open => {
    open.settle();
    let made = (|| {
        // SAFETY: a C string of the program's.
        let representation = Representation::named(&unsafe { mpi::c_text(representation) })?;
        let hints = mpi::info_pairs(handle(info)?)?;
        let place = displacement(&open, place)?;
        let folds = open.amode & mode::RDONLY != 0;
        let view = View::new(place, handle(etype)?, handle(filetype)?, representation, folds)?;
        crate::open::lock(&open.hints).extend(hints);
        Ok(view)
    })();
    let view = open.comm.agree(made)?;
    let reset = if open.comm.rank == 0 { open.reset_shared() } else { Ok(()) };
    open.comm.agree(reset)?;
    open.set_view(view);
    Ok(())
});

routine!(MPI_File_get_view PMPI_File_get_view (file, place: *mut i64, etype: *mut c_void,
    filetype: *mut c_void, representation: *mut c_char) open => {
    let view = open.view();
    let abi = mpi::own()?;
    let name = view.representation.name();
    // The program gives these back itself.
    let give = |kept: &Type| Type::copy(kept.handle).map(|copy| {
        let handle = copy.handle;
        std::mem::forget(copy);
        handle
    });
    let (element, tile) = (give(&view.etype)?, give(&view.filetype)?);
    // SAFETY: the program's places; the name is shorter than MPI_MAX_DATAREP_STRING.
    unsafe {
        place.write(view.displacement as i64);
        abi.store(etype, element);
        abi.store(filetype, tile);
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), representation, name.len());
        representation.add(name.len()).write(0);
    }
    Ok(())
});

routine!(MPI_File_get_byte_offset PMPI_File_get_byte_offset (file, offset: i64, place: *mut i64) open => {
    open.permits(open.amode & mode::WRONLY != 0, false)?;
    let view = open.view();
    let byte = u64::try_from(offset).ok().and_then(|offset| offset.checked_mul(view.unit));
    let byte = byte.and_then(|byte| {
        view.unfold(byte, 1);
        view.to_file(byte)
    });
    let byte = byte.ok_or_else(|| Failure::new(Class::Arg, format!("an offset of {offset}")))?;
    // SAFETY: the program's place for the offset.
    unsafe { place.write(byte as i64) };
    Ok(())
});

routine!(MPI_File_get_type_extent PMPI_File_get_type_extent (file, datatype: Handle, extent: *mut isize) open => {
    let (measured, _) = open.view().representation.measure(handle(datatype)?)?;
    // SAFETY: the program's place for the extent.
    unsafe { extent.write(measured.extent as isize) };
    Ok(())
});

routine!(MPI_File_get_type_extent_c PMPI_File_get_type_extent_c (file, datatype: Handle, extent: *mut i64) open => {
    let (measured, _) = open.view().representation.measure(handle(datatype)?)?;
    // SAFETY: the program's place for the extent.
    unsafe { extent.write(measured.extent) };
    Ok(())
});
