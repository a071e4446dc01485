#!/usr/bin/env bash
# Give each command an agent, run it, land what is accepted; one line says what became of each.
#
#     orchestrate.sh SCOPE SECONDS COMMAND...
set -u
scope=$1 seconds=$2
shift 2

rejected() { # What the findings of the agent $1 say.
    local codes
    codes=$(git agent verify "$1" --format=ndjson | grep -o '"code":"[^"]*"')
    case $codes in
        *'"merge.conflict"'*) echo conflict ;;
        *'"scope.'*) echo violation ;;
        *) echo rejected ;;
    esac
}

run() { # Nothing, or why the work of the agent $1 does not land.
    git agent run "$1" --quiet --timeout="${seconds}s" -- sh -c "$2" >/dev/null 2>&1
    case $? in
        0) ;;
        1) rejected "$1" ;;
        124) echo timeout ;;
        12[89] | 1[3-9]?) echo crash ;;
        *) echo failed ;;
    esac
}

ids=() fates=()
for command; do
    id=$(git agent spawn -m "Run the command that the orchestrator gives you: $command" \
        --scope "$scope" --no-bundle --format=json 2>/dev/null | grep -o '"agent_id":"[^"]*"' | cut -d'"' -f4)
    ids+=("$id")
done
for command; do fates+=("$(run "${ids[${#fates[@]}]}" "$command")"); done
for at in "${!ids[@]}"; do
    fate=${fates[$at]}
    [ -n "$fate" ] || { git agent merge "${ids[$at]}" --squash >/dev/null 2>&1 && fate=landed; }
    printf '%s\t%s\n' "${fate:-$(rejected "${ids[$at]}")}" "${*:at+1:1}"
done
