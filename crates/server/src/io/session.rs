//! What an I/O server keeps per connection: the last file, a buffer, a shared window.

use std::sync::{Arc, Weak};

use trireme_net::Window;
use trireme_proto::{Header, Refusal, Rights, refusal::errno};
use trireme_store::Subfile;

use super::{Shared, buffer::Buffer, refusal};

/// State of one connection.
#[derive(Debug, Default)]
pub struct Session {
    /// The last subfile used: a stream of requests to one file looks nothing up. It is not held: a file that
    /// is removed must give its space back, however long nothing more is asked for here.
    last: Option<(u64, Weak<Subfile>)>,
    /// The last file, rights and token that were checked.
    checked: Option<(u64, Rights, u64)>,
    pub buffer: Buffer,
    /// A second one, where received bytes and bytes of the disk meet.
    pub other: Buffer,
    pub window: Option<Arc<Window>>,
}

impl Session {
    /// Checks that the manager granted `need` on the request's file to whoever asks.
    pub fn check(&mut self, shared: &Shared, header: &Header, need: Rights) -> Result<(), Refusal> {
        let file = header.file.get();
        let rights = Rights::claimed(header.flags());
        let claim = (file, rights, header.token.get());
        if self.checked != Some(claim) {
            if shared.token_key.token(file, rights).0 != header.token.get() {
                return Err(Refusal::new(
                    errno::EACCES,
                    format!("the grant for file {file} is not signed by this cluster's manager"),
                ));
            }
            self.checked = Some(claim);
        }
        if rights.allow(need) {
            Ok(())
        } else {
            Err(Refusal::new(
                errno::EACCES,
                format!("the grant for file {file} does not allow this: open it for that"),
            ))
        }
    }

    /// The subfile, if it exists.
    pub fn find(&mut self, shared: &Shared, file: u64) -> Result<Option<Arc<Subfile>>, Refusal> {
        if let Some((last, subfile)) = &self.last
            && *last == file
            && let Some(subfile) = subfile.upgrade()
            && subfile.is_linked()
        {
            return Ok(Some(subfile));
        }
        let found = shared.store.find(file).map_err(refusal)?;
        self.last = found
            .as_ref()
            .map(|subfile| (file, Arc::downgrade(subfile)));
        Ok(found)
    }

    /// The subfile, made if need be.
    pub fn find_or_make(&mut self, shared: &Shared, file: u64) -> Result<Arc<Subfile>, Refusal> {
        if let Some(subfile) = self.find(shared, file)? {
            return Ok(subfile);
        }
        let made = shared.store.find_or_make(file).map_err(refusal)?;
        self.last = Some((file, Arc::downgrade(&made)));
        Ok(made)
    }
}
