//! `std::io::{Read, Write, Seek}` on files: a position, moved by each call.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};

use super::File;

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.read_at(buffer, self.position)?;
        self.position += got as u64;
        Ok(got)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let got = self.read_vectored_at(buffers, self.position)?;
        self.position += got as u64;
        Ok(got)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_at(buffer, self.position)?;
        self.position += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_vectored_at(buffers, self.position)?;
        let all: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        self.position += all as u64;
        Ok(all)
    }

    /// Nothing is buffered here: what was written is at the servers. For disks see [`File::sync`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.size()?.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "seek to before the start of the file",
            )
        })?;
        Ok(self.position)
    }
}
