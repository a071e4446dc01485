//! Whether a few files of a worktree that is checked out already are their blobs' bytes.

use crate::domain::change::Content;
use crate::git::Repo;
use crate::git::populate::attributes::{self, Form, forms, has_converting_word};
use crate::git::populate::listing::{Listing, canonical_mode, require_safe_name};
use crate::git::populate::open;
use crate::git::tree::{FILE, GITLINK, SYMLINK};
use gix::bstr::{BStr, ByteSlice};
use gix::index::entry::Mode;
use gix::validate::path::component;
use gix::worktree::stack::state::attributes::Source;
use std::collections::BTreeMap;
use std::path::Path;

/// Whether git would write each of these files with the bytes of its blob, or as a symlink. `attributes` are the files of
/// attributes that the same tree has in the directories above them. `false` in any doubt.
pub(in crate::git) fn are_plain(
    repo: &Repo,
    worktree: &Path,
    attributes: &BTreeMap<Vec<u8>, Content>,
    files: &BTreeMap<&[u8], Content>,
) -> bool {
    let Some(gix) = open(worktree, Vec::new()).filter(|gix| !attributes::is_needed(gix)) else {
        return false;
    };
    let Ok(options) = gix.checkout_options(Source::IdMapping) else {
        return false;
    };
    if files.values().any(|(mode, _)| *mode == GITLINK) {
        return false;
    }
    let mut all = files.clone();
    for (path, content) in attributes {
        // Git and gitoxide differ about all others.
        if content.0 != FILE {
            return false;
        }
        all.insert(path, *content);
    }
    let Some(listing) = listing(&all, options.validate) else {
        return false;
    };
    // Most repositories ask for nothing, and the objects are open here.
    let may_ask = |(_, blob): &Content| {
        let content = repo.read_blob(*blob);
        content.map_or(true, |content| has_converting_word(&content))
    };
    if attributes::may_convert_outside(&gix, &listing).is_ok_and(|may| !may)
        && (options.fs.symlink || !files.values().any(|(mode, _)| *mode == SYMLINK))
        && !attributes.values().any(may_ask)
    {
        return true;
    }
    let is_plain = |(form, (mode, _)): (Form, &Content)| match canonical_mode(*mode) {
        Some(Mode::SYMLINK) => form == Form::Symlink,
        _ => form == Form::Plain,
    };
    // One thread: there are few files, and starting others costs more than matching them.
    let forms = forms(&gix.into_sync(), &listing, options.fs.symlink, 1);
    forms.is_ok_and(|forms| forms.into_iter().zip(all.values()).all(is_plain))
}

/// Whether the settings of a git dir, or a file of attributes in no worktree, may ask for a conversion of some file.
pub(in crate::git) fn may_convert_outside(git_dir: &Path) -> bool {
    let Some(gix) = open(git_dir, Vec::new()) else {
        return true;
    };
    attributes::has_other_attributes(&gix)
        || attributes::may_convert_outside(&gix, &Listing::new()).unwrap_or(true)
}

/// Whether every git, on any system, takes a file of this mode at this path.
pub(in crate::git) fn is_safe_name(path: &[u8], mode: u32) -> bool {
    // By default all systems are thought of.
    let every = component::Options::default();
    let (shown, mode) = (path.as_bstr(), canonical_mode(mode));
    path.split(|&byte| byte == b'/').all(|name| require_safe_name(name, mode, shown, every).is_ok())
}

/// `None` where a name is not safe to write.
fn listing(files: &BTreeMap<&[u8], Content>, validate: component::Options) -> Option<Listing> {
    let mut listing = Listing::new();
    for (path, (mode, oid)) in files {
        let mode = canonical_mode(*mode)?;
        let shown: &BStr = path.as_bstr();
        let mut names = path.split(|&byte| byte == b'/').rev();
        require_safe_name(names.next()?, Some(mode), shown, validate).ok()?;
        for name in names {
            require_safe_name(name, None, shown, validate).ok()?;
        }
        listing.push(mode, *oid, shown).ok()?;
    }
    Some(listing)
}
