//! Users files.

use std::path::Path;

use acl::Acl;
use anyhow::Context;
use platform::private_file;

/// Replaces the users of `acl` by those of a file.
///
/// # Errors
/// It cannot be read, or a line is invalid; no user has changed.
pub(crate) fn load(acl: &Acl, file: &Path) -> anyhow::Result<()> {
    let shown = || format!("users file {}", file.display());
    let text = private_file::read_rights(file).with_context(|| {
        format!(
            "cannot read the {}; create it if there are no users yet: (umask 077; touch FILE)",
            shown()
        )
    })?;
    acl.load(&text).with_context(shown)
}
