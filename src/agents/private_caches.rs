//! Caches of package managers for what runs behind a sandbox, so that they work there and cannot change the user's own.

use crate::agents::ctx::Ctx;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Variables that move the cache of a package manager, and where that cache is in the home directory unless they do. Behind the fence the
/// user's own caches cannot be written, and these programs fail without one that can.
const CACHES: [(&str, &str); 10] = [
    ("npm_config_cache", ".npm"),
    ("npm_config_store_dir", ".local/share/pnpm/store"),
    ("YARN_CACHE_FOLDER", ".cache/yarn"),
    ("YARN_GLOBAL_FOLDER", ".yarn/berry"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("POETRY_CACHE_DIR", ".cache/pypoetry"),
    ("GOCACHE", ".cache/go-build"),
    ("COMPOSER_CACHE_DIR", ".cache/composer"),
    ("GRADLE_USER_HOME", ".gradle"),
];

/// As [`CACHES`], of programs that can read a cache that they cannot write. The user's own serves where there is one: it holds what was
/// downloaded before.
const READABLE_CACHES: [(&str, &str, &str); 2] = [
    ("CARGO_HOME", ".cargo", ".cargo/registry"),
    ("GOMODCACHE", "go/pkg/mod", "go/pkg/mod"),
];

/// A variable and its value.
pub(crate) type Variable = (Cow<'static, str>, OsString);

/// Variables that lead package managers to caches below `place`, but for those whose usual cache is open.
pub(crate) fn private_caches(ctx: &Ctx, open: &[PathBuf], place: &Path) -> Vec<Variable> {
    let home = ctx.env.home.as_deref().unwrap_or(Path::new("/"));
    let readable = READABLE_CACHES.iter();
    // Without a filled cache of the user's a private one loses nothing.
    let absent = readable.filter(|(_, _, holds)| !home.join(holds).exists());
    let absent = absent.map(|(name, usual, _)| (*name, *usual));
    let is_closed = |usual: &str| {
        let usual = home.join(usual);
        !open.iter().any(|open| usual.starts_with(open))
    };
    let closed = CACHES.into_iter().chain(absent);
    let closed = closed.filter(|(_, usual)| is_closed(usual));
    let moved = closed.map(|(name, _)| (name.into(), place.join(name).into()));
    moved.collect()
}
