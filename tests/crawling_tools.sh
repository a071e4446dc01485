#!/bin/sh
# Tools that look through the whole root, beside live agents: tests/crawling_tools.sh <git-agent> <cache directory> <tool>
#
# Installs one tool from its registry into the cache and runs it at the root of a repository: without an agent, with one whose
# worktree is beside the root, and with one inside of it and the line of docs/trouble.md. What it says is the same each time.
# Status 77 when the registry is out of reach.
set -eu
agent=$1 cache=$2 tool=$3

fail() { echo "$tool: $*" >&2; cat "$work"/*.said >&2 || true; exit 1; }
skip() { echo "skipped: $tool: $* is out of reach"; exit 77; }
yes() { "$@" >"$work/log.said" 2>&1 || fail "failed: $*"; }

mkdir -p "$cache"
work=$(mktemp -d)
trap '{ chmod -R u+w "$work"; rm -rf "$work"; } 2>/dev/null || true' EXIT

from_npm() {
    [ -f "$cache/$1-$2/whole" ] || { npm install --ignore-scripts --silent --no-audit --no-fund --prefix "$cache/$1-$2" "$1@$2" \
        >/dev/null 2>&1 && touch "$cache/$1-$2/whole"; } || skip "the npm registry"
    modules=$cache/$1-$2/node_modules
    PATH=$modules/.bin:$PATH
}
from_pypi() {
    [ -f "$cache/$1-$2/whole" ] || { python3 -m venv "$cache/$1-$2" \
        && "$cache/$1-$2/bin/pip" install --quiet --disable-pip-version-check "$1==$2" >/dev/null 2>&1 \
        && touch "$cache/$1-$2/whole"; } || skip "PyPI"
    PATH=$cache/$1-$2/bin:$PATH
}

# How the tool is called at the root; `crawls` if it sees worktrees there, and then the line that keeps it out.
crawls=true modules=
case $tool in
vitest) from_npm vitest 3.2.4; call='vitest run --globals --reporter=json'
    line() { echo "export default { test: { exclude: ['**/node_modules/**', '.claude/**'] } };" >vitest.config.mjs; } ;;
jest) from_npm jest 30.2.0; call='jest --json --silent'
    line() { echo '{"testPathIgnorePatterns": ["/node_modules/", "<rootDir>/.claude/"], "modulePathIgnorePatterns": ["<rootDir>/.claude/"]}' >jest.config.json; } ;;
eslint) from_npm eslint 9.39.1; call='eslint .'
    line() { echo "export default [{ ignores: ['.claude/'] }, { rules: { 'no-undef': 2 } }];" >eslint.config.mjs; } ;;
prettier) from_npm prettier 3.6.2; call='prettier --check .'
    line() { echo '.claude/' >.prettierignore; } ;;
tsc) from_npm typescript 5.9.3; call='tsc --noEmit --listFilesOnly' crawls=false ;;
pytest) from_pypi pytest 8.4.2; call='pytest -q -p no:cacheprovider --collect-only' crawls=false ;;
ruff) from_pypi ruff 0.14.6; call='ruff check --no-cache --output-format=concise' crawls=false ;;
*) echo "unknown tool $tool" >&2; exit 2 ;;
esac

# shellcheck disable=SC2046 # It is a list of names.
unset $(git rev-parse --local-env-vars)
export HOME="$work" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 PYTHONDONTWRITEBYTECODE=1 NO_COLOR=1 CI=true
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.com
# What `git agent init` writes where it finds such a tool: {root}.agents is beside the root.
repo=$work/repo
git init --quiet --initial-branch=main "$repo"
cd "$repo"
mkdir src
echo '{"name": "it", "private": true}' >package.json
echo '{"compilerOptions": {"types": []}}' >tsconfig.json
echo "test('one', () => { expect(1).toBe(1); });" >src/one.test.js
echo 'export const one = 1;' >src/one.ts
printf 'import os\n\n\ndef test_one():\n    assert 1 == 1\n' >src/test_one.py
echo "export default [{ rules: { 'no-undef': 2 } }];" >eslint.config.mjs
printf '/node_modules/\n' >.gitignore
[ -z "$modules" ] || ln -s "$modules" node_modules
git add --all
yes git commit --quiet --message first

# The tool's answer without times and places.
run() {
    # shellcheck disable=SC2086 # The call is words.
    $call >"$work/$1.said" 2>/dev/null || true
    sed -e 's/"[a-zA-Z]*[tT]ime":[^,}]*//g; s/"start[a-zA-Z]*":[^,}]*//g; s/"end":[^,}]*//g; s/"duration":[^,}]*//g; s/in [0-9.]*m*s//' "$work/$1.said" >"$work/$1"
    [ -s "$work/$1" ] || fail "said nothing"
}
same() { cmp -s "$work/alone" "$work/$1" || fail "says something else with an agent $1"; }
spawn() {
    yes "$agent" spawn 'Add a second test' --name "$1"
    # Work that the tool would complain of, or count.
    place=$("$agent" path "$1")
    for suffix in test.js ts; do echo 'undefined_name(' >"$place/src/two.$suffix"; done
    printf 'import sys\n\n\ndef test_two():\n    assert 0\n' >"$place/src/test_two.py"
}

run alone
# 1. Beside the root, as the tool is.
git config agent.worktreeDir '../{repo}.agents/{id}'
spawn beside
run beside
same beside
# 2. Inside the root, with the line.
git config --unset agent.worktreeDir
spawn inside
case $("$agent" path inside) in "$repo"/.claude/*) ;; *) fail "not inside the root" ;; esac
if [ "$crawls" = true ]; then
    # The line is needed, or the page would not have it.
    run without
    if cmp -s "$work/alone" "$work/without"; then fail "sees no agent without the line"; fi
    line
fi
run inside
same inside
