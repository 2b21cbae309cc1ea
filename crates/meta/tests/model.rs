//! Random sequences of namespace operations against the model, on every engine: the same answers,
//! the same errors, the same tree, and nothing for fsck to find.

mod support;

use proptest::prelude::*;
use support::model::{Model, Step};
use support::tree::{listing, problems, request};
use support::{manager, on_every_engine, root};
use trireme_meta::Manager;
use trireme_meta::failure::Failure;
use trireme_proto::message::meta::RenameMode;

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()])
}

fn any_path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(name(), 1..4).prop_map(|parts| {
        parts
            .iter()
            .flat_map(|part| [b"/".as_slice(), part].concat())
            .collect()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop::sample::select(vec![
        RenameMode::Replace,
        RenameMode::Replace,
        RenameMode::NoReplace,
        RenameMode::Exchange,
    ]);
    prop_oneof![
        3 => any_path().prop_map(Step::Create),
        4 => any_path().prop_map(Step::Mkdir),
        1 => (any_path(), any_path()).prop_map(|(target, path)| Step::Symlink(target, path)),
        1 => (name(), any_path()).prop_map(|(target, path)| Step::Symlink(target, path)),
        2 => (any_path(), any_path()).prop_map(|(from, to)| Step::Link(from, to)),
        2 => any_path().prop_map(Step::Unlink),
        2 => any_path().prop_map(Step::Rmdir),
        5 => (any_path(), any_path(), mode).prop_map(|(from, to, m)| Step::Rename(from, to, m)),
        1 => (any_path(), 0o400..0o1000u32).prop_map(|(path, mode)| Step::Chmod(path, mode | 0o700)),
    ]
}

/// A hard link to a symbolic link is legal but not in the model.
fn in_model(model: &Model, step: &Step) -> bool {
    let Step::Link(from, _) = step else {
        return true;
    };
    let Ok(node) = model.lookup(from, false) else {
        return true;
    };
    !matches!(model.nodes[node], Some(support::model::Node::Symlink(_)))
}

fn agree(engine: &str, manager: &Manager, steps: &[Step]) {
    let mut model = Model::default();
    for (number, step) in steps.iter().enumerate() {
        if !in_model(&model, step) {
            continue;
        }
        let expected = model.apply(step);
        let got = manager
            .call(&root(), request(step))
            .map(|_| ())
            .map_err(|f: Failure| f.errno);
        assert_eq!(got, expected, "{engine}: step {number} of {steps:#?}");
    }
    assert_eq!(
        listing(manager),
        model.listing(),
        "{engine}: after {steps:#?}"
    );
    assert_eq!(
        problems(manager),
        Vec::<String>::new(),
        "{engine}: after {steps:#?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 400, ..Default::default() })]
    #[test]
    fn the_namespace_agrees_with_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let engine = std::sync::Arc::new(trireme_meta::kv::Memory::default());
        let (manager, _) = manager(engine);
        agree("memory", &manager, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 30, ..Default::default() })]
    #[test]
    fn and_so_it_does_on_the_engines_that_last(steps in prop::collection::vec(step(), 30..80)) {
        on_every_engine(|engine, manager, _| agree(engine, &manager, &steps));
    }
}
