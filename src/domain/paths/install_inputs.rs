//! Files that decide what an install step installs: manifests, lock files, and settings of package managers.

/// Names of such files, in any directory.
const NAMES: &[&str] = &[
    // JavaScript
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    ".pnpmfile.cjs",
    "yarn.lock",
    ".yarnrc",
    ".yarnrc.yml",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    "deno.json",
    "deno.lock",
    ".npmrc",
    ".nvmrc",
    ".node-version",
    // Python
    "pyproject.toml",
    "uv.lock",
    "uv.toml",
    "poetry.lock",
    "pdm.lock",
    "Pipfile",
    "Pipfile.lock",
    "setup.py",
    "setup.cfg",
    "environment.yml",
    "tox.ini",
    ".python-version",
    // Rust
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain",
    "rust-toolchain.toml",
    // Go
    "go.mod",
    "go.sum",
    "go.work",
    "go.work.sum",
    // Ruby, PHP, Elixir, Dart, Swift
    "Gemfile",
    "Gemfile.lock",
    ".ruby-version",
    "mix.exs",
    "mix.lock",
    "pubspec.yaml",
    "pubspec.lock",
    "Package.swift",
    "Package.resolved",
    // The Java virtual machine
    "pom.xml",
    "gradle.lockfile",
    "gradle.properties",
    "libs.versions.toml",
    // Any language
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    "flake.nix",
    "flake.lock",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    "Taskfile.yml",
    ".worktreeinclude",
    ".gitmodules",
    ".gitattributes",
];

/// Whether an install step may read this file. A name that is not known here counts as none, so a repository whose set-up reads other
/// files names them in the commands of `[setup]`.
pub fn is_install_input(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let between = |start: &str, end: &str| name.starts_with(start) && name.ends_with(end);
    NAMES.contains(&name)
        || between("requirements", ".txt")
        || between("constraints", ".txt")
        || between("", ".gemspec")
        || between("", ".patch")
        || between("composer.", "")
        || between("build.gradle", "")
        || between("settings.gradle", "")
        || path.starts_with("requirements/")
        || path.contains("/requirements/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_and_lock_files_count_wherever_they_are_and_sources_do_not() {
        for path in [
            "package.json",
            "packages/a/package.json",
            "pnpm-lock.yaml",
            "requirements-dev.txt",
            "requirements/base.txt",
            "a/setup.cfg",
            "composer.lock",
            "patches/left-pad.patch",
            "app/build.gradle.kts",
        ] {
            assert!(is_install_input(path), "{path}");
        }
        for path in ["src/main.rs", "package.json.md", "my-package.json", "docs/requirements.md"] {
            assert!(!is_install_input(path), "{path}");
        }
    }
}
