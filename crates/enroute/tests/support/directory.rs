//! Temporary directories, and the paths of the repository and its installed tools.

use std::mem::ManuallyDrop;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use super::origins::absent;

/// A directory of one test, removed when dropped.
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    pub fn create() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("enroute-test-{}-{number}", process::id()));
        // Left by a killed process that had the same ID.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its path; it is not removed.
    pub fn keep(self) -> PathBuf {
        ManuallyDrop::new(self).0.clone()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a file with these permissions, of secrets for example.
pub fn write_with_mode(file: &Path, text: &str, mode: u32) {
    fs::write(file, text).expect("a writable directory");
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("its owner");
}

/// A path under `.deps/`, where `deps.sh` installs tools.
pub fn installed(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps").join(relative)
}

/// A Python with the clients of all databases.
pub fn python() -> Option<PathBuf> {
    let python = installed("python/bin/python");
    if python.is_file() { Some(python) } else { absent("the Python clients are not installed") }
}

/// The program of this name on PATH.
pub fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|at| at.join(program)).find(|path| path.is_file())
}
