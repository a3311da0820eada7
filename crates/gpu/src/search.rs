//! Where CUDA's libraries may be, besides where the loader looks.

use std::path::{Path, PathBuf};

/// Folders in which CUDA's libraries may be where the loader does not look: of the CUDA toolkit, and of the Python packages of the
/// active environments, of those whose `bin` is on the `PATH`, and of the user. Not all of them exist.
pub fn library_folders() -> Vec<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut toolkits: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(set).collect();
    toolkits.push("/usr/local/cuda".into());
    toolkits.extend(children(Path::new("/usr/local"), "cuda-"));
    toolkits.push("/opt/cuda".into());
    let parts = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "bin", "bin/x64"];
    let mut all: Vec<PathBuf> =
        toolkits.iter().flat_map(|toolkit| parts.map(|part| toolkit.join(part))).collect();

    // Environments of Python: the active ones, those whose `bin` is searched for programs, the user's own.
    let mut roots: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(set).collect();
    for folder in set("PATH").iter().flat_map(std::env::split_paths) {
        roots.extend(folder.parent().map(Path::to_path_buf));
    }
    roots.extend(set("HOME").map(|home| home.join(".local")));
    let mut seen = std::collections::HashSet::new();
    for root in roots.into_iter().filter(|root| seen.insert(root.clone())) {
        all.push(root.join("lib"));
        let mut packages = vec![root.join("Lib/site-packages")];
        for python in children(&root.join("lib"), "python3") {
            packages.extend(["site-packages", "dist-packages"].map(|part| python.join(part)));
        }
        for folder in packages.iter().flat_map(|packages| children(&packages.join("nvidia"), "")) {
            all.extend(["lib", "bin", "bin/x86_64"].map(|part| folder.join(part)));
        }
    }
    all
}

/// The folders within one whose names begin like this, last ones first: newer versions before older ones.
fn children(folder: &Path, start: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut all: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
        .collect();
    all.sort();
    all.reverse();
    all
}
