#!/bin/sh
# Real hook managers beside an agent's fence: tests/hook_managers.sh <git-agent> <cache directory> <manager>
#
# Installs one manager from its registry into the cache, sets it up in a repository of its own, spawns an agent
# there and shows that the manager's hook runs in the agent's worktree, can refuse there, and that the
# fence holds. Status 77 when the registry is out of reach.
set -eu
agent=$1 cache=$2 manager=$3
here=$(cd "$(dirname "$0")" && pwd)

fail() { echo "$manager: $*" >&2; [ -f "$work/log" ] && cat "$work/log" >&2; exit 1; }
skip() { echo "skipped: $manager: $* is out of reach"; exit 77; }
# Runs a command that must succeed, or must not; what it says is kept.
yes() { "$@" >"$work/log" 2>&1 || fail "failed: $*"; }
no() { if "$@" >"$work/log" 2>&1; then fail "was let through: $*"; fi; }
says() { grep -q -- "$1" "$work/log" || fail "does not say: $1"; }

mkdir -p "$cache"
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

from_npm() {
    [ -d "$cache/$1-$2/node_modules/$1" ] || npm install --ignore-scripts --silent --no-audit --no-fund --prefix "$cache/$1-$2" "$1@$2" \
        >/dev/null 2>&1 || skip "the npm registry"
    PATH=$cache/$1-$2/node_modules/.bin:$PATH
}
from_pypi() {
    [ -x "$cache/$1-$2/bin/$1" ] || { python3 -m venv "$cache/$1-$2" \
        && "$cache/$1-$2/bin/pip" install --quiet --disable-pip-version-check "$1==$2" >/dev/null 2>&1; } || skip "PyPI"
    PATH=$cache/$1-$2/bin:$PATH
}
from_debian() {
    command -v "$1" >/dev/null && return
    [ -x "$cache/$1/usr/bin/$1" ] || (
        mkdir -p "$cache/$1" && cd "$cache/$1" && apt-get download "$1" >/dev/null 2>&1 && dpkg -x ./*.deb .
    ) || skip "the Debian archive"
    PATH=$cache/$1/usr/bin:$PATH
}

case $manager in
husky) from_npm husky 9.1.7 ;;
lefthook) from_npm lefthook 2.2.2 ;;
pre-commit) from_pypi pre-commit 4.7.0 ;;
prek) from_pypi prek 0.5.11 ;;
git-lfs) from_debian git-lfs ;;
*) echo "unknown manager $manager" >&2; exit 2 ;;
esac

# shellcheck disable=SC2046 # It is a list of names.
unset $(git rev-parse --local-env-vars)
export HOME="$work" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 PRE_COMMIT_HOME="$cache/pre-commit-home" PREK_HOME="$cache/prek-home"
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.com
repo=$work/repo
git init --quiet --initial-branch=main "$repo"
cd "$repo"
mkdir src
echo 'pub fn one() {}' >src/lib.rs
echo '# Test' >README.md

# Each manager has one hook: it refuses a file that says FORBIDDEN, and says that it ran.
echo 'echo "$1 ran" >&2; ! git grep --cached -q FORBIDDEN -- src' >judge.sh
case $manager in
husky)
    echo '{}' >package.json
    yes husky
    echo 'sh judge.sh husky' >.husky/pre-commit
    ;;
lefthook)
    printf 'pre-commit:\n  commands:\n    judge:\n      run: sh judge.sh lefthook\n' >lefthook.yml
    yes lefthook install
    ;;
pre-commit | prek)
    cat >.pre-commit-config.yaml <<-EOF
	repos:
	  - repo: local
	    hooks:
	      - {id: judge, name: judge, entry: sh judge.sh $manager, language: system, always_run: true, pass_filenames: false, verbose: true}
	EOF
    yes "$manager" install
    ;;
git-lfs)
    yes git lfs install --local
    echo '*.bin filter=lfs diff=lfs merge=lfs -text lockable' >.gitattributes
    ;;
esac
git add --all
yes git commit --quiet --message first
config=$(cat .git/config)

printf 'role = "edit-local"\ntask = "Add a second function to the library."\n[scope]\nwhitelist = ["src/**"]\n' >"$work/task.toml"
yes "$agent" spawn "$work/task.toml"
worktree=$(echo "$repo"/.claude/worktrees/agent-*)
[ "$(git config --file .git/config --get-all core.hooksPath)" = "$(echo "$config" | sed -n 's/.*hooksPath = //p')" ] ||
    fail "the repository's core.hooksPath was changed"
cd "$worktree"

# Behind the fence of `run`, where a manager cannot write its own places.
inside() { (cd "$repo" && "$agent" run "$worktree" --no-verify -- sh -ec "$1"); }

if [ "$manager" = git-lfs ]; then
    yes inside 'echo inside >src/inside.bin; git add src; git commit --quiet --message inside; ! ls -l src/inside.bin | grep -q ^-rw'
    object=$(git cat-file -p HEAD:src/inside.bin | sed -n 's/^oid sha256://p')
    [ -n "$(find "$repo/.git/lfs/objects" -name "$object")" ] || fail "what was stored behind the fence is lost"
    echo data >src/data.bin
    git add src
    yes git commit --quiet --message "a large file"
    git cat-file -p HEAD:src/data.bin | grep -q git-lfs || fail "the file was not stored by git-lfs"
    # The post-commit hook of git-lfs makes lockable files read-only.
    case $(stat -c %A src/data.bin) in *w*) fail "its post-commit hook did not run" ;; esac
else
    # What husky puts into .husky/_ is ignored by git; a fresh clone is set up by its install step.
    [ "$manager" != husky ] || yes husky
    echo 'pub fn two() {}' >>src/lib.rs
    git add src
    yes git commit --message second
    says "$manager ran"
    echo '// FORBIDDEN' >>src/lib.rs
    git add src
    no git commit --message third
    says "$manager ran"
    git reset --quiet --hard
    yes inside 'echo "pub fn three() {}" >>src/lib.rs; git commit --quiet --all --message inside'
    says "$manager ran"
    no inside 'echo "// FORBIDDEN" >>src/lib.rs; git commit --quiet --all --message inside'
    says "$manager ran"
    git reset --quiet --hard
fi

echo more >>README.md
git add README.md
no git commit --message fourth
says hook-refused
no git commit --no-verify --message fourth
says hook-refused
yes "$agent" hooks status

# The check as the managers' own kind of hook, from the manifest that people name in their configuration.
case $manager in
pre-commit | prek)
    git init --quiet "$work/manifest"
    cp "$here/../.pre-commit-hooks.yaml" "$work/manifest"
    git -C "$work/manifest" add --all
    git -C "$work/manifest" commit --quiet --message manifest
    PATH=$(dirname "$agent"):$PATH
    no "$manager" try-repo "$work/manifest" git-agent-scope-system
    says README.md
    (cd "$repo" && yes "$manager" try-repo "$work/manifest" git-agent-scope-system)
    ;;
esac

# Where an install step runs in the agent's worktree, the fence stays, whether the manager may write or not.
case $manager in
husky | lefthook | pre-commit | prek)
    case $manager in husky) install=husky ;; *) install="$manager install" ;; esac
    $install >"$work/log" 2>&1 || true
    [ "$(id -u)" = 0 ] || "$agent" hooks status >/dev/null || fail "the fence was taken away"
    "$agent" hooks repair >/dev/null || fail "the fence cannot be repaired"
    no git commit --message fourth
    says hook-refused
    ;;
esac
echo "$manager: ok"
