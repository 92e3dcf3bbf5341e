//! The documentation against the tree: every reason is explained, every test it names is there, every link leads somewhere.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

use std::fs;
use std::path::{Path, PathBuf};

use flashjob_api::edge::EdgeReason;
use flashjob_api::flashjob::Reason;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn every_reason_is_explained_once_and_what_is_final_is_not_said_to_be_retried() {
    let page = page("docs/failures.md");
    for reason in Reason::ALL {
        let cells = cells_of(&page, reason.as_str(), 3);
        assert!(reason.is_retried() || cells[1].starts_with("no"), "{reason}");
    }
}

#[test]
fn every_reason_of_edge_is_explained_once() {
    let page = page("docs/edge-workloads.md");
    for reason in EdgeReason::ALL {
        cells_of(&page, reason.as_str(), 2);
    }
}

/// What the one row of a reason says of it, in so many cells.
fn cells_of<'a>(page: &'a str, reason: &str, count: usize) -> Vec<&'a str> {
    let start = format!("| `{reason}` |");
    let rows: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(&start)).collect();
    let [row] = rows.as_slice() else { panic!("{reason} has {} rows", rows.len()) };
    let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
    assert_eq!(cells.len(), count, "{reason}: {row}");
    assert!(cells.iter().all(|cell| !cell.is_empty()), "{reason}: {row}");
    cells
}

#[test]
fn every_bug_of_the_original_has_a_row_and_every_test_named_there_is_in_the_tree() {
    let page = page("docs/original-bugs.md");
    for number in 1..=32 {
        let start = format!("| {number} |");
        assert_eq!(page.lines().filter(|line| line.starts_with(&start)).count(), 1, "{start}");
    }
    let mut named = 0;
    for (label, target) in links(&page) {
        let Some(path) = target.strip_prefix("../").filter(|path| path.ends_with(".rs")) else {
            continue;
        };
        let source = fs::read_to_string(root().join(path)).unwrap();
        let name = label.trim_matches('`');
        let found = source.split_once(&format!("fn {name}(")).and_then(|(before, _)| {
            before.lines().map(str::trim).rfind(|line| !["", "async"].contains(line))
        });
        let is_test = |line: &str| line.starts_with("#[") && line.contains("test");
        assert!(found.is_some_and(is_test), "{path} has no test {name}");
        named += 1;
    }
    assert!(named > 30, "only {named} tests are named");
}

#[test]
fn every_link_leads_somewhere() {
    let mut pages = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        pages.push(format!("docs/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    for from in pages {
        for (_, target) in links(&page(&from)).filter(|(_, target)| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let folder = Path::new(&from).parent().unwrap();
            let to = if file.is_empty() { PathBuf::from(&from) } else { folder.join(file) };
            assert!(root().join(&to).exists(), "{from}: {target} is not there");
            if !anchor.is_empty() {
                let found = headings(&page(&to.to_string_lossy())).any(|h| h == anchor);
                assert!(found, "{from}: {target} has no such heading");
            }
        }
    }
}

/// The links of a page as label and target; a label may be broken over two lines.
fn links(page: &str) -> impl Iterator<Item = (String, String)> {
    page.split("](").zip(page.split("](").skip(1)).map(|(before, after)| {
        let label = before.rsplit('[').next().unwrap_or_default();
        let target = after.split(')').next().unwrap_or_default();
        (label.to_owned(), target.to_owned())
    })
}

/// The anchors that headings get: small letters, dashes for spaces, nothing else.
fn headings(page: &str) -> impl Iterator<Item = String> {
    page.lines().filter(|line| line.starts_with('#')).map(|line| {
        let text = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        text.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    })
}
