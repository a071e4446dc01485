#!/bin/sh
# Package managers in the sandbox of a run, with no option: tests/package_managers.sh <git-agent> <cache directory> <manager>
#
# Each works with caches of its own behind the sandbox and leaves the user's alone. Status 77 when the registry is out of reach.
set -eu
agent=$1 cache=$2 manager=$3

fail() { echo "$manager: $*" >&2; cat "$work/log" >&2 || true; exit 1; }
skip() { echo "skipped: $manager: $*"; exit 77; }
yes() { "$@" >"$work/log" 2>&1 || fail "failed: $*"; }

mkdir -p "$cache"
work=$(mktemp -d)
trap '{ chmod -R u+w "$work"; rm -rf "$work"; } 2>/dev/null || true' EXIT

from_npm() {
    [ -f "$cache/$1-$2/whole" ] || { npm install --ignore-scripts --silent --no-audit --no-fund --prefix "$cache/$1-$2" "$1@$2" \
        >/dev/null 2>&1 && touch "$cache/$1-$2/whole"; } || skip "the npm registry is out of reach"
    PATH=$cache/$1-$2/node_modules/.bin:$PATH
}
has() { command -v "$1" >/dev/null || skip "there is no $1 here"; }

lock='{ "name": "it", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
  "": { "name": "it", "version": "1.0.0", "dependencies": { "is-odd": "3.0.1" } },
  "node_modules/is-odd": { "version": "3.0.1", "dependencies": { "is-number": "^6.0.0" } },
  "node_modules/is-number": { "version": "6.0.0" } } }'
case $manager in
npm) has npm
    npm view is-odd@3.0.1 version >/dev/null 2>&1 || skip "the npm registry is out of reach"
    command='npm ci --no-audit --no-fund' made=node_modules/is-odd use='node -e "require(String.fromCharCode(105,115,45,111,100,100))" && npm ls' ;;
pnpm | pnpm-12) version=9.15.9
    [ "$manager" = pnpm ] || version=12.21.0
    from_npm pnpm "$version"
    # Where the repository is on another file system than the user's store, set-up and a run have different stores, and pnpm 9 asks before
    # it installs anew. Without a terminal it gives up, but for this.
    export CI=true
    # A script of pnpm installs first what is missing.
    command='pnpm install --no-frozen-lockfile && pnpm add is-number@6.0.0 && rm -r node_modules && pnpm install && pnpm test && pnpm dlx semver@7.6.0 1.2.3'
    setup='pnpm install --no-frozen-lockfile' made=node_modules/is-odd use='pnpm ls' ;;
corepack) has corepack
    # A mirror of the registry has no signatures.
    export COREPACK_INTEGRITY_KEYS=0 COREPACK_ENABLE_DOWNLOAD_PROMPT=0
    npm view pnpm@9.15.9 version >/dev/null 2>&1 || skip "the npm registry is out of reach"
    command='corepack pnpm@9.15.9 install --no-frozen-lockfile && corepack pnpm@9.15.9 test' made=node_modules/is-odd use='corepack pnpm@9.15.9 ls' ;;
yarn) from_npm yarn 1.22.22
    command='yarn install --no-lockfile --non-interactive' made=node_modules/is-odd use='yarn check --verify-tree' ;;
pip) has python3
    pip download --quiet --no-deps --dest "$work/reached" iniconfig==2.1.0 >/dev/null 2>&1 || skip "PyPI is out of reach"
    command='python3 -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check iniconfig==2.1.0' made=.venv/lib use='.venv/bin/python -m iniconfig 2>&1 | grep -q iniconfig; .venv/bin/pip show -q iniconfig' ;;
uv) python3 -m venv "$cache/uv" && { [ -x "$cache/uv/bin/uv" ] || "$cache/uv/bin/pip" install --quiet --disable-pip-version-check uv==0.9.8 >/dev/null 2>&1; } \
        || skip "PyPI is out of reach"
    PATH=$cache/uv/bin:$PATH
    command='uv sync --quiet && uv pip install --quiet iniconfig==2.1.0' made=.venv/lib use='uv run --offline --no-sync python -c "import packaging, iniconfig"' ;;
cargo) has cargo
    command='cargo build --quiet' made=target/debug use='cargo build --offline -v 2>&1 | grep -q Fresh' ;;
go) has go
    command='go build -o made ./...' made=made use=./made ;;
# What people run beside a package manager: what set-up made is as new in a layer as it was.
make) has make
    command=make made=made use='make -q' ;;
pytest) has python3
    pip download --quiet --no-deps --dest "$work/reached" iniconfig==2.1.0 >/dev/null 2>&1 || skip "PyPI is out of reach"
    command='python3 -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check pytest==8.3.4' made=.venv/lib
    use='PYTHONDONTWRITEBYTECODE=1 .venv/bin/pytest -q -p no:cacheprovider src' ;;
vitest) has npm
    npm view vitest@3.2.4 version >/dev/null 2>&1 || skip "the npm registry is out of reach"
    command='npm install --no-package-lock --no-audit --no-fund' made=node_modules/vitest use='npx --no-install vitest run' ;;
sqlite) has python3
    command='python3 src/database.py' made=made use='python3 src/database.py && python3 src/database.py' ;;
*) echo "unknown manager $manager" >&2; exit 2 ;;
esac

# shellcheck disable=SC2046 # It is a list of names.
unset $(git rev-parse --local-env-vars)
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.com
repo=$work/repo
git init --quiet --initial-branch=main "$repo"
cd "$repo"
mkdir src
echo '{ "name": "it", "version": "1.0.0", "private": true, "scripts": { "test": "node -e 0" }, "dependencies": { "is-odd": "3.0.1" } }' >package.json
[ "$manager" != vitest ] || echo '{ "name": "it", "private": true, "devDependencies": { "vitest": "3.2.4" } }' >package.json
[ "$manager" != npm ] || echo "$lock" >package-lock.json
[ "$manager" != uv ] || printf '[project]\nname = "it"\nversion = "1.0.0"\nrequires-python = ">=3.8"\ndependencies = ["packaging==24.2"]\n' >pyproject.toml
printf '[package]\nname = "it"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\n' >Cargo.toml
echo 'fn main() {}' >src/main.rs
printf 'module it\n\ngo 1.20\n' >go.mod
printf 'package main\n\nfunc main() {}\n' >main.go
printf 'made: src/main.rs\n\tcp src/main.rs made\n' >Makefile
printf 'def test_it():\n    assert 1 + 1 == 2\n' >src/test_it.py
printf 'import { expect, test } from "vitest";\ntest("it", () => expect(1 + 1).toBe(2));\n' >src/it.test.js
printf 'import sqlite3\nwith sqlite3.connect("made") as it:\n    it.execute("pragma journal_mode = wal")\n    it.execute("create table if not exists t (n)")\n    it.execute("insert into t values (1)")\n    assert it.execute("select count(*) from t").fetchone()[0] > 0\n' >src/database.py
printf '/node_modules/\n/.venv/\n/target/\n/made*\n/.pnpm-store/\n/Cargo.lock\n/yarn.lock\n/pnpm-lock.yaml\n/uv.lock\n' >.gitignore
git add --all
yes git commit --quiet --message first
yes "$agent" spawn 'Install what is needed' --name it
place=$("$agent" path it)
# The caches of the user, as they were; other processes of theirs may write there, so only one mark is compared.
yes "$agent" run it --no-verify --format json -- sh -c "$command"
grep -Eq '"enforced": *"(full|landlock)"' "$work/log" || skip "there is no sandbox here"
[ -e "$place/$made" ] || fail "made no $made"
# Nothing of it shares its content with a file outside: a change there would change every other copy.
linked=$(find "$place/$made" -type f -links +1 | head -n 1)
if [ -n "$linked" ]; then
    inside=$(find "$place" -samefile "$linked" | wc -l)
    [ "$inside" = "$(stat -c %h "$linked")" ] || fail "$linked is linked with a file outside"
fi
# Set up once in the base that layered agents share: the first use needs no install, adds nothing that git sees, and changes nothing of the base.
mkdir -p .config
setup=${setup:-$command}
printf "[bundle]\nrequired = false\n[setup]\nrun = ['''%s''']\n" "$setup" >.config/git-agent.toml
git add --all
yes git commit --quiet --message 'set-up'
now() { date +%s%3N; }
before=$(now)
"$agent" spawn --layered=on 'Use what is there' --name layered --scope '**' >"$work/log" 2>&1 || {
    grep -q 'no layered worktree can be had here' "$work/log" && { echo "$manager: no layered worktrees here"; exit 0; }
    fail "a layered worktree failed"
}
base=$(now)
yes "$agent" run layered --no-verify -- sh -c "$use"
used=$(now)
yes "$agent" run layered --no-verify -- sh -c "$setup"
again=$(now)
yes "$agent" run layered --no-verify -- sh -c 'test -z "$(git status --porcelain)" || { git status --porcelain; exit 1; }'
"$agent" pool status --format json | grep -q '"state": *"damaged"' && fail "the base was changed"
echo "$manager: base with its set-up $((base - before)) ms, first use in a layer $((used - base)) ms, the install again $((again - used)) ms"
