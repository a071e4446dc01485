# `agent-cd <agent>` for zsh: goes to an agent's worktree. Written by git agent install-shell.

agent-cd() {
    local place
    place=$(git agent path "$@") && cd -- "$place"
}

_agent-cd() {
    local line tab=$'\t'
    local -a agents
    for line in "${(@f)$(git agent complete -- path "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] && agents+=("${${line%%$tab*}//:/\\:}:${line#*$tab}")
    done
    _describe agent agents
}

# Completion begins with compinit, which may not have run.
(( $+functions[compdef] )) && compdef _agent-cd agent-cd
