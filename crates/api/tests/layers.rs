//! Layers are crates and systems are folders: no system knows another, and nothing that is shared knows a system.

use std::fs;
use std::path::{Path, PathBuf};

const SYSTEMS: [&str; 3] = ["flashjob", "edge", "flux"];
/// Crates that are one system's alone.
const PROGRAMS: [(&str, &str); 3] = [("flasher", "flashjob"), ("agent", "edge"), ("entry", "flux")];
/// Right below `src`, these put the systems together.
const COMPOSERS: [&str; 3] = ["main.rs", "lib.rs", "args.rs"];

/// The system that a file belongs to; `None` for one that is shared. The path is below `crates`.
fn system_of(path: &Path) -> Option<&'static str> {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let (name, folder) = (parts.next()?, parts.nth(1)?);
    let program = PROGRAMS.iter().find(|(program, _)| *program == name).map(|(_, system)| *system);
    program.or_else(|| SYSTEMS.into_iter().find(|system| *system == folder))
}

/// The systems that a line of code speaks of by their paths.
fn named(line: &str) -> Vec<&'static str> {
    let code = line.split("//").next().unwrap_or_default();
    let names = |system: &&str| {
        let path = format!("::{system}");
        code.match_indices(&path).any(|(at, _)| {
            let before = code[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
            let root = before
                .is_some_and(|b| ["crate", "super"].contains(&b) || b.starts_with("flashjob_"));
            let after = code[at + path.len()..].chars().next();
            root && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    };
    SYSTEMS.into_iter().filter(names).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_system_knows_another_and_nothing_shared_knows_a_system() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        files(&entry.unwrap().path().join("src"), &mut sources);
    }
    assert!(sources.len() > 200, "{} files", sources.len());
    let mut wrong = Vec::new();
    for source in &sources {
        let path = source.strip_prefix(&crates).unwrap();
        let composes = path.iter().count() == 3
            && COMPOSERS.iter().any(|name| path.file_name().is_some_and(|n| n == *name));
        if composes {
            continue;
        }
        let own = system_of(path);
        for (number, line) in fs::read_to_string(source).unwrap().lines().enumerate() {
            for other in named(line).into_iter().filter(|system| Some(*system) != own) {
                wrong.push(format!("{}:{}: {other}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn paths_are_told_apart() {
    let of = |path: &str| system_of(Path::new(path));
    assert_eq!(of("plan/src/edge/decide.rs"), Some("edge"));
    assert_eq!(of("operator/src/engine/watch.rs"), None);
    assert_eq!(of("flasher/src/run.rs"), Some("flashjob"));
    assert_eq!(of("cli/src/table.rs"), None);
    assert_eq!(named("use crate::flashjob::names;"), ["flashjob"]);
    assert_eq!(
        named("fn a(b: flashjob_plan::edge::Device, c: super::flux::Flux) {}"),
        ["edge", "flux"]
    );
    assert_eq!(named("use crate::flashjobs; // crate::edge"), Vec::<&str>::new());
    assert_eq!(named("use other::flux::thing;"), Vec::<&str>::new());
}
