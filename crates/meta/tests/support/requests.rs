//! Requests that many tests of the manager make.

use trireme_meta::Manager;
use trireme_meta::kv::Memory;
use trireme_meta::manager::Who;
use trireme_proto::message::meta::{
    Attr, Entry, LayoutWish, Node, OpenMode, Opened, Place, Request, Response,
};

use super::{manager, root};

pub const READ: OpenMode = OpenMode {
    read: true,
    write: false,
};
pub const WRITE: OpenMode = OpenMode {
    read: true,
    write: true,
};

pub fn fresh() -> Manager {
    manager(std::sync::Arc::new(Memory::default())).0
}

pub fn create(path: impl Into<Vec<u8>>, mode: u32, node: Node) -> Request {
    Request::Create {
        place: Place::path(path),
        mode,
        node,
    }
}

pub fn file() -> Node {
    Node::File(LayoutWish::default())
}

pub fn stat(manager: &Manager, path: &str) -> Attr {
    let place = Place::path(path);
    match manager
        .call(
            &root(),
            Request::Lookup {
                place,
                follow: false,
            },
        )
        .unwrap()
    {
        Response::Entry(Entry { attr, .. }) => attr,
        other => panic!("{other:?}"),
    }
}

pub fn open(manager: &Manager, who: &Who, number: u64, path: &str, access: OpenMode) -> Opened {
    let create = access.write.then(|| (0o644, LayoutWish::default()));
    let place = Place::path(path);
    let request = Request::Open {
        open: number,
        place,
        access,
        create,
        exclusive: false,
    };
    match manager.call(who, request).unwrap() {
        Response::Opened(opened) => opened,
        other => panic!("{other:?}"),
    }
}
