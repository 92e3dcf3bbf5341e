//! Layers over layers, without a registry.

use super::*;

fn file(path: &str, entry: usize) -> Change {
    Change::File { path: path.into(), entry, bytes: 1 }
}

fn symlink(path: &str, target: &str) -> Change {
    Change::Symlink { path: path.into(), target: target.into() }
}

fn hardlink(path: &str, target: &str) -> Change {
    Change::Hardlink { path: path.into(), target: target.into() }
}

fn tree(layers: Vec<Vec<Change>>) -> Tree {
    let mut tree = Tree::default();
    for (layer, changes) in layers.into_iter().enumerate() {
        tree.apply(layer, changes);
    }
    tree
}

/// The path, layer and entry of the firmware.
fn firmware(layers: Vec<Vec<Change>>) -> Result<(String, usize, usize), String> {
    tree(layers).firmware(None).map(|(path, content)| (path, content.layer, content.entry))
}

fn is(path: &str, layer: usize, entry: usize) -> Result<(String, usize, usize), String> {
    Ok((path.into(), layer, entry))
}

#[test]
fn a_later_layer_wins_and_so_does_a_later_entry() {
    let layers =
        || vec![vec![file("firmware/a", 0)], vec![file("firmware/a", 3), file("firmware/a", 4)]];
    assert_eq!(firmware(layers()), is("firmware/a", 1, 4));
    let mut replaced = layers();
    replaced.push(vec![file("firmware/a/b", 0)]);
    assert_eq!(firmware(replaced), is("firmware/a/b", 2, 0));
    let mut replaced = layers();
    replaced.push(vec![Change::Other { path: "firmware".into() }]);
    firmware(replaced).unwrap_err();
}

#[test]
fn what_a_layer_removes_is_removed_below_and_not_in_itself() {
    let below = || vec![file("firmware/a", 0), file("firmware/b", 1), file("firmwarex", 2)];
    let remove = |path: &str| Change::Remove { path: path.into() };
    assert_eq!(firmware(vec![below(), vec![remove("firmware/a")]]), is("firmware/b", 0, 1));
    let empty = Change::Empty { path: "firmware".into() };
    assert_eq!(firmware(vec![below(), vec![file("firmware/c", 5), empty]]), is("firmware/c", 1, 5));
    let layers =
        vec![below(), vec![file("firmware/c", 5), remove("firmware/c"), remove("firmware")]];
    assert_eq!(firmware(layers), is("firmware/c", 1, 5));
    let nothing = firmware(vec![below(), vec![remove("firmware")]]).unwrap_err();
    assert!(nothing.contains("no file"), "{nothing}");
}

#[test]
fn links_lead_to_files_inside_the_image() {
    let target = || file("build/out.bin", 7);
    for link in [
        symlink("firmware/a", "/build/out.bin"),
        symlink("firmware/a", "../build/./out.bin"),
        symlink("firmware", "build"),
        hardlink("firmware/a", "build/out.bin"),
    ] {
        let (_, layer, entry) = firmware(vec![vec![target()], vec![link]]).unwrap();
        assert_eq!((layer, entry), (0, 7));
    }
    // A link and its file in one folder are one file, under the file's own name.
    let latest = vec![symlink("firmware/latest", "v2.bin"), file("firmware/v2.bin", 1)];
    assert_eq!(firmware(vec![latest]), is("firmware/v2.bin", 0, 1));
}

#[test]
fn links_that_lead_out_nowhere_or_to_themselves_are_refused() {
    for (target, why) in [
        ("../../etc/passwd", "out of the image"),
        ("/etc/passwd", "nothing"),
        ("a", "itself"),
        ("/firmware/../../x", "out of the image"),
    ] {
        let error = firmware(vec![vec![symlink("firmware/a", target)]]).unwrap_err();
        assert!(error.contains(why), "{target}: {error}");
    }
    let swap = vec![symlink("firmware/a", "b"), symlink("firmware/b", "a")];
    assert!(firmware(vec![swap]).unwrap_err().contains("itself"));
    let dead = firmware(vec![vec![hardlink("firmware/a", "gone")]]).unwrap_err();
    assert!(dead.contains("no file"), "{dead}");
}

#[test]
fn of_several_files_the_label_names_one() {
    let tree = tree(vec![vec![file("firmware/a", 0), file("firmware/b", 1), file("other", 2)]]);
    let error = tree.firmware(None).unwrap_err();
    assert!(error.contains("/firmware/a, /firmware/b"), "{error}");
    assert_eq!(tree.firmware(Some("/firmware/b")).unwrap().0, "firmware/b");
    assert_eq!(tree.firmware(Some("other")).unwrap().0, "other");
    for (label, why) in [("/firmware", "not a file"), ("/x", "nothing"), ("../../b", "out of")] {
        let error = tree.firmware(Some(label)).unwrap_err();
        assert!(error.contains(why), "{label}: {error}");
    }
}
