//! Between the model and a manager: steps as requests, and the manager's tree as the model prints its own.

use super::model::Step;
use super::root;
use trireme_meta::Manager;
use trireme_proto::message::meta::{
    DirEntry, Kind, LayoutWish, Node, Place, ROOT, Request, Response, SetAttr,
};

/// A step of the model as a request.
pub fn request(step: &Step) -> Request {
    let place = |path: &Vec<u8>| Place::path(path.clone());
    match step {
        Step::Create(path) => Request::Create {
            place: place(path),
            mode: 0o644,
            node: Node::File(LayoutWish::default()),
        },
        Step::Mkdir(path) => Request::Create {
            place: place(path),
            mode: 0o755,
            node: Node::Directory,
        },
        Step::Symlink(target, path) => Request::Create {
            place: place(path),
            mode: 0o777,
            node: Node::Symlink(target.clone()),
        },
        Step::Link(from, to) => Request::Link {
            from: place(from),
            to: place(to),
        },
        Step::Unlink(path) => Request::Unlink { place: place(path) },
        Step::Rmdir(path) => Request::Rmdir { place: place(path) },
        Step::Rename(from, to, mode) => Request::Rename {
            from: place(from),
            to: place(to),
            mode: *mode,
        },
        Step::Chmod(path, mode) => Request::SetAttr {
            place: place(path),
            follow: true,
            set: SetAttr {
                mode: Some(*mode),
                ..SetAttr::default()
            },
        },
    }
}

fn list(manager: &Manager, inode: u64, prefix: &str, lines: &mut Vec<String>) {
    let call = |request| manager.call(&root(), request).unwrap();
    let Response::Attr(attr) = call(Request::GetAttr { inode }) else {
        panic!()
    };
    lines.push(format!(
        "{prefix}/ dir nlink {} entries {} mode {:o}",
        attr.nlink, attr.size, attr.mode
    ));
    let mut after = 0;
    loop {
        // Small pages, so that cookies are exercised.
        let place = Place::inode(inode);
        let request = Request::ReadDir {
            place,
            after,
            limit: 2,
            plus: true,
        };
        let Response::Directory { entries, end, .. } = call(request) else {
            panic!()
        };
        for DirEntry {
            cookie,
            name,
            inode,
            kind,
            attr,
        } in entries
        {
            after = cookie;
            let attr = attr.unwrap();
            assert_eq!((attr.inode, attr.kind), (inode, kind));
            let path = format!("{prefix}/{}", String::from_utf8_lossy(&name));
            match kind {
                Kind::Directory => list(manager, inode, &path, lines),
                Kind::Symlink => {
                    let place = Place::inode(inode);
                    let Response::Bytes(target) = call(Request::ReadLink { place }) else {
                        panic!()
                    };
                    lines.push(format!("{path} -> {}", String::from_utf8_lossy(&target)));
                }
                _ => lines.push(format!(
                    "{path} file nlink {} mode {:o}",
                    attr.nlink, attr.mode
                )),
            }
        }
        if end {
            return;
        }
    }
}

/// The whole tree, a line for each name.
pub fn listing(manager: &Manager) -> Vec<String> {
    let mut lines = Vec::new();
    list(manager, ROOT, "", &mut lines);
    lines.sort();
    lines
}

/// What fsck finds.
pub fn problems(manager: &Manager) -> Vec<String> {
    let report = manager.call(&root(), Request::Check { repair: false });
    let Ok(Response::Check(report)) = report else {
        panic!("{report:?}")
    };
    report
        .problems
        .iter()
        .map(|problem| format!("{problem:?}"))
        .collect()
}
