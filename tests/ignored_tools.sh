#!/bin/sh
# What real tools leave in an agent's worktree: tests/ignored_tools.sh <git-agent> <cache directory> <tool>
#
# Installs one tool from its registry into the cache, runs it in the worktree of an agent, and shows that what it left
# is neither judged nor merged, and is named when the agent is discarded. Status 77 when the registry is out of reach.
set -eu
agent=$1 cache=$2 tool=$3

fail() { echo "$tool: $*" >&2; [ -f "$work/log" ] && cat "$work/log" >&2; exit 1; }
skip() { echo "skipped: $tool: $* is out of reach"; exit 77; }
# Runs a command that must succeed; what it says is kept.
yes() { "$@" >"$work/log" 2>&1 || fail "failed: $*"; }
says() { grep -q -- "$1" "$work/log" || fail "does not say: $1"; }

mkdir -p "$cache"
work=$(mktemp -d)
# The discarded worktree may still be on its way out of the trash.
trap '{ chmod -R u+w "$work"; rm -rf "$work"; } 2>/dev/null || true' EXIT

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

# What each tool leaves, and the commands of [setup] that it needs.
setup=
case $tool in
husky) from_npm husky 9.1.7; left=.husky/_/ setup='"husky"' ;;
pytest) from_pypi pytest 8.4.2; left=.pytest_cache/ ;;
ruff) from_pypi ruff 0.14.6; left=.ruff_cache/ ;;
mypy) from_pypi mypy 1.18.2; left=.mypy_cache/ ;;
virtualenv) from_pypi virtualenv 20.35.4; left=src/.venv/ ;;
*) echo "unknown tool $tool" >&2; exit 2 ;;
esac

# shellcheck disable=SC2046 # It is a list of names.
unset $(git rev-parse --local-env-vars)
export HOME="$work" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 PYTHONDONTWRITEBYTECODE=1
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.com
repo=$work/repo
git init --quiet --initial-branch=main "$repo"
cd "$repo"
mkdir -p src .husky
echo 'def one() -> int:
    return 1


def test_one() -> None:
    assert one() == 1' >src/test_one.py
echo '{}' >package.json
echo 'exit 0' >.husky/pre-commit
git add --all
yes git commit --quiet --message first

# Not a rule in the repository, and not one of these places in the scope.
printf 'role = "edit-local"\ntask = "Add a second function to the library."\n[scope]\nwhitelist = ["src/*.py"]\n[bundle]\nrequired = false\n' >"$work/task.toml"
[ -z "$setup" ] || printf '[setup]\nrun = [%s]\n' "$setup" >>"$work/task.toml"
yes "$agent" spawn "$work/task.toml" --format=json
id=$(sed 's/.*"agent_id": *"\([^"]*\)".*/\1/; q' "$work/log" | head -c 36)
worktree=$(echo "$repo"/.claude/worktrees/agent-*)
cd "$worktree"
echo 'def two() -> int:
    return 2' >src/two.py
case $tool in
pytest) yes pytest --quiet src ;;
ruff) yes ruff check --quiet src ;;
mypy) yes mypy src/two.py ;;
# Its update of what it carries goes on in the background, at work in the worktree.
virtualenv) yes virtualenv --quiet --no-download --no-periodic-update src/.venv ;;
esac
[ -e "$left" ] || fail "left no $left"

cd "$repo"
yes "$agent" verify "$id"
says "1 file not yet committed"
says "1 ignored path"
yes "$agent" merge "$id"
[ "$(git ls-tree -r --name-only HEAD^2 | tr '\n' ' ')" = ".husky/pre-commit package.json src/test_one.py src/two.py " ] ||
    fail "more was merged: $(git ls-tree -r --name-only HEAD)"
yes "$agent" discard "$id"
says "not kept, because ignored: $left "
echo "$tool: ok"
