# `agent-cd <agent>` for bash: goes to an agent's worktree. Written by git agent install-shell.

agent-cd() {
    local place
    place=$(git agent path "$@") && cd -- "$place"
}

_agent_cd() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <(git agent complete -- path "${COMP_WORDS[COMP_CWORD]}" 2>/dev/null)
}

complete -F _agent_cd agent-cd
