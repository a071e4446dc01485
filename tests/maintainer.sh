#!/bin/sh
# One day in the life of a maintainer of a real project: tests/maintainer.sh <git-agent> <cache directory> <project> [<repository>]
#
# Fetches the project once: from <repository> where one is named, else from GitHub, else its source distribution from PyPI. Its own
# settings for ruff, mypy and pytest bind, as hooks and as checks, and gitlint asks for conventional headers. Three agents work on it: one
# begins with a bad message, one leaves its scope, one breaks the build. Status 77 when nothing is reachable.
set -eu
agent=$1 cache=$2 project=$3 from=${4-}
[ "$project" = itsdangerous ] || { echo "unknown project $project" >&2; exit 2; }

fail() { echo "$project: $*" >&2; cat "$work/log" >&2 || true; exit 1; }
skip() { echo "skipped: $project: $*"; exit 77; }
yes() { "$@" >"$work/log" 2>&1 || fail "failed: $*"; }
no() {
    expected=$1 && shift
    code=0 && "$@" >"$work/log" 2>&1 || code=$?
    [ "$code" = "$expected" ] || fail "ended with $code, not with $expected: $*"
}
says() { grep -q "$1" "$work/log" || fail "does not say: $1"; }

mkdir -p "$cache"
work=$(mktemp -d)
trap '{ chmod -R u+w "$work"; rm -rf "$work"; } 2>/dev/null || true' EXIT
# shellcheck disable=SC2046 # It is a list of names.
unset $(git rev-parse --local-env-vars)
export HOME="$work" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.com

# The tools, with versions of the time of that release.
[ -f "$cache/tools/whole" ] || { python3 -m venv "$cache/tools" && "$cache/tools/bin/pip" install --quiet --disable-pip-version-check \
    ruff==0.3.7 mypy==1.9.0 pytest==8.1.1 freezegun==1.4.0 gitlint-core==0.19.1 >/dev/null 2>&1 && touch "$cache/tools/whole"; } \
    || skip "there is no venv, or PyPI is out of reach"
PATH=$cache/tools/bin:$PATH

# The project.
github=https://github.com/pallets/itsdangerous repo=$work/repo
if [ -n "$from" ]; then
    yes git clone --quiet --no-hardlinks "$from" "$repo"
else
    if [ ! -d "$cache/$project" ]; then
        new=$work/new
        git -c http.lowSpeedLimit=1000 -c http.lowSpeedTime=20 clone --quiet --depth=1 --branch=2.2.0 "$github" "$new" >/dev/null 2>&1 || {
            "$cache/tools/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$work/sdist" \
                itsdangerous==2.2.0 >/dev/null 2>&1 || skip "neither GitHub nor PyPI can be reached"
            mkdir "$new" && tar -xzf "$work/sdist/itsdangerous-2.2.0.tar.gz" --strip-components=1 -C "$new"
            git init --quiet "$new"
            git -C "$new" add --all && git -C "$new" commit --quiet --message 'chore: import release 2.2.0'
        }
        mv "$new" "$cache/$project"
    fi
    yes git clone --quiet --no-hardlinks "$cache/$project" "$repo"
fi
cd "$repo"
yes git remote remove origin
yes git checkout --quiet -B main
for branch in $(git branch --format='%(refname:short)'); do [ "$branch" = main ] || yes git branch --quiet -D "$branch"; done
mkdir -p .config
# As the tox environments `style`, `typing` and `py` of the project run them, but without repairs: a check changes nothing.
cat >.config/git-agent.toml <<'END'
[defaults]
role = "edit-local"

[checks]
commands = ["ruff check --no-fix .", "ruff format --check .", "mypy", "PYTHONPATH=src python -m pytest -q -p no:cacheprovider"]
min_tests = 100

[merge]
method = "squash"
END
printf '__pycache__/\n.mypy_cache/\n.ruff_cache/\n' >>.gitignore
yes git add --all
yes git commit --quiet --message 'chore: let agents work here'
cat >.git/hooks/pre-commit <<'END'
#!/bin/sh
ruff check --no-fix --quiet . && exec ruff format --check --quiet .
END
cat >.git/hooks/commit-msg <<'END'
#!/bin/sh
exec gitlint --contrib contrib-title-conventional-commits --ignore body-is-missing --msg-filename "$1"
END
chmod +x .git/hooks/pre-commit .git/hooks/commit-msg
# The checks as a person runs them, on whatever is checked out.
checks() {
    ruff check --no-fix . && ruff format --check . && mypy && PYTHONPATH=src python -m pytest -q -p no:cacheprovider
}
yes checks
base=$(git rev-parse main)

spawn() { yes "$agent" spawn "$2" --name "$1" --scope "$3"; "$agent" path "$1"; }
length=$(spawn length 'Add a function that says how long an integer is in bytes, with a test' '{src,tests}/**')
readme=$(spawn readme 'Show in the README how a token that expires is made' README.md)
strict=$(spawn strict 'Refuse negative integers in int_to_bytes with a ValueError' '{src,tests}/**')
encoding=src/itsdangerous/encoding.py tests=tests/test_itsdangerous/test_encoding.py

# The first writes good work in bad form: the project's formatter refuses it, then its rule for messages does.
( cd "$length"
printf '\n\ndef int_length(num: int) -> int:\n    """Say how many bytes :func:`int_to_bytes` makes of a number."""\n    return len( int_to_bytes(num) )\n' >>"$encoding"
printf '\n\n@pytest.mark.parametrize(("value", "expect"), ((0, 0), (192, 1), (256, 2)))\ndef test_int_length(value, expect):\n    assert int_length(value) == expect\n' >>"$tests"
sed -i.bak 's/^from itsdangerous.encoding import int_to_bytes/from itsdangerous.encoding import int_length\n&/' "$tests" && rm "$tests.bak"
no 1 git commit --quiet --all --message 'feat: add int_length'
yes ruff format .
no 1 git commit --quiet --all --message 'Did the thing.'
says 'Conventional'
yes git commit --quiet --all --message 'feat: add int_length' ) || exit 1

# The second leaves its scope on the way.
( cd "$readme"
sed -i.bak 's/^## Donate/A token of a `URLSafeTimedSerializer` expires: `loads(token, max_age=60)`.\n\n\n&/' README.md && rm README.md.bak
echo '# checked' >>"$encoding" ) || exit 1
no 3 "$agent" merge readme -m 'docs: show a token that expires'
says 'scope.not-in-whitelist'
yes git -C "$readme" restore "$encoding"

# The third breaks the build: a test of the project fails, and mypy has something to say, too.
( cd "$strict"
sed -i.bak 's/^    return _int_to_bytes(num).lstrip.*/    if num <= 0:\n        raise ValueError(num, 1) or 1\n    return str(num)/' "$encoding" && rm "$encoding.bak" ) || exit 1
no 1 "$agent" verify strict
says 'commands.failed'
no 3 "$agent" merge strict -m 'fix: refuse negative integers'
[ "$(git rev-parse main)" = "$base" ] || fail "something has landed"

# What is right lands, under the messages that the maintainer gives it; the third is mended on top of it.
yes "$agent" merge readme -m 'docs: show a token that expires'
yes "$agent" merge length -m 'feat: add int_length'
yes git -C "$strict" restore .
yes "$agent" update strict
( cd "$strict"
sed -i.bak 's/^    return _int_to_bytes(num).lstrip.*/    if num < 0:\n        raise ValueError("A negative integer has no bytes.")\n\n&/' "$encoding" && rm "$encoding.bak"
printf '\n\ndef test_int_bytes_negative():\n    with pytest.raises(ValueError):\n        int_to_bytes(-1)\n' >>"$tests" ) || exit 1
yes "$agent" merge strict -m 'fix: refuse negative integers'

# The history is the one of a careful person: one commit for each change, each of which passes everything.
landed=$(git log --format=%s "$base..main")
[ "$landed" = 'fix: refuse negative integers
feat: add int_length
docs: show a token that expires' ] || fail "landed: $landed"
[ -z "$(git rev-list --merges "$base..main")" ] || fail "a merge commit landed"
yes gitlint --contrib contrib-title-conventional-commits --ignore body-is-missing --commits "$base..main"
for commit in $(git rev-list "$base..main"); do
    yes git diff --check "$commit^" "$commit"
    [ "$(git log -1 --format='%an %cn' "$commit")" = 'A A' ] || fail "$commit is by another person"
    if git diff --name-only "$commit^" "$commit" | grep -Ev '^(README.md|src/|tests/)'; then fail "$commit has more than the change"; fi
    yes git checkout --quiet "$commit"
    yes checks
done
yes git checkout --quiet main
for name in length readme strict; do yes "$agent" discard "$name"; done
[ "$(git branch --format='%(refname:short)')" = main ] || fail "branches are left"
[ "$(git worktree list | wc -l)" -eq 1 ] || fail "worktrees are left"
[ -z "$(git status --porcelain)" ] || fail "the worktree is not clean"
[ -z "$(git fsck --strict --no-progress --no-dangling 2>&1)" ] || fail "git fsck finds something"
echo "$project: $(git rev-list --count "$base..main") commits landed in $(git ls-files | wc -l) files, $(git rev-list --count "$base") commits of the project below"
