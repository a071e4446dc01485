#!/bin/sh
# What linters of history say of what lands: tests/history_tools.sh <git-agent> <cache directory> <tool>
#
# Installs one tool from its registry into the cache, lands work by --squash and by --no-ff in a repository whose settings ask
# for conventional commits, and lets the tool read every commit that this brought. Status 77 when the registry is out of reach.
set -eu
agent=$1 cache=$2 tool=$3

fail() { echo "$tool: $*" >&2; cat "$work/log" >&2 || true; exit 1; }
skip() { echo "skipped: $tool: $* is out of reach"; exit 77; }
# Runs a command that must succeed; what it says is kept.
yes() { "$@" >"$work/log" 2>&1 || fail "failed: $*"; }

mkdir -p "$cache"
work=$(mktemp -d)
trap '{ chmod -R u+w "$work"; rm -rf "$work"; } 2>/dev/null || true' EXIT

case $tool in
commitlint)
    [ -x "$cache/commitlint/node_modules/.bin/commitlint" ] || npm install --ignore-scripts --silent --no-audit --no-fund \
        --prefix "$cache/commitlint" @commitlint/cli@20.1.0 @commitlint/config-conventional@20.0.0 >/dev/null 2>&1 || skip "the npm registry"
    ;;
git-cliff)
    [ -x "$cache/git-cliff/node_modules/.bin/git-cliff" ] || npm install --ignore-scripts --silent --no-audit --no-fund \
        --prefix "$cache/git-cliff" git-cliff@2.10.1 >/dev/null 2>&1 || skip "the npm registry"
    ;;
gitlint)
    [ -x "$cache/gitlint/bin/gitlint" ] || { python3 -m venv "$cache/gitlint" \
        && "$cache/gitlint/bin/pip" install --quiet --disable-pip-version-check gitlint-core==0.19.1 >/dev/null 2>&1; } || skip "PyPI"
    ;;
*) echo "unknown tool $tool" >&2; exit 2 ;;
esac

# shellcheck disable=SC2046 # It is a list of names.
unset $(git rev-parse --local-env-vars)
export HOME="$work" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.com
repo=$work/repo
git init --quiet --initial-branch=main "$repo"
cd "$repo"
mkdir -p src .config
echo one >src/lib.rs
echo '[merge]
subject = "{type}: {summary}"' >.config/git-agent.toml
git add --all
yes git commit --quiet --message 'chore: begin'
base=$(git rev-parse HEAD)

# A task as people type it: capitals, a full stop, and more words than a subject has room for.
land() {
    name=$1 task=$2 summary=$3 method=$4
    yes "$agent" spawn "$task" --name "$name"
    echo "$name" >"$("$agent" path "$name")/src/$name.rs"
    [ -z "$summary" ] || yes "$agent" done "$name" --summary "$summary"
    yes "$agent" merge "$name" "$method"
}
long='Fix the reader of numbers, which takes a leading zero for an octal base and fails for eights and nines. It should read every base that its prefix names.'
land first 'Fix the README typo.' '' --squash
land second "$long" '' --squash
land third 'Add a list command' "docs: Explain how numbers are read

The page has one table, with a line for each prefix, and says what happens to a number that begins with a zero and goes on with an eight." --squash
land fourth "$long" '' --no-ff
land fifth 'Rename the list command' '' --no-ff

if git log --format=%s "$base..main" | grep -q '^agent: spawn'; then fail "a spawn commit landed"; fi
git log --format='%h %s%n%b' "$base..main" >"$work/history"
case $tool in
commitlint)
    echo "export default { extends: ['@commitlint/config-conventional'] };" >"$cache/commitlint/commitlint.config.mjs"
    yes "$cache/commitlint/node_modules/.bin/commitlint" --config "$cache/commitlint/commitlint.config.mjs" --from "$base" --to main
    # The linter is at work at all.
    if echo 'agent: spawn x' | "$cache/commitlint/node_modules/.bin/commitlint" --config "$cache/commitlint/commitlint.config.mjs" >"$work/log" 2>&1; then
        fail "accepts what is not conventional"
    fi
    ;;
gitlint)
    yes "$cache/gitlint/bin/gitlint" --commits "$base..main"
    ;;
git-cliff)
    yes "$cache/git-cliff/node_modules/.bin/git-cliff" --no-exec --strip all "$base..main"
    for line in 'README typo' 'Explain how numbers are read' 'Rename the list command'; do
        grep -qi "$line" "$work/log" || fail "its changelog lacks: $line"
    done
    ;;
esac
