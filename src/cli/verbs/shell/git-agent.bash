# Completion of `git agent` and `git-agent` for bash. Written by git agent install-shell.

# Replies with what a command says, without what the word has before its `=`, which bash takes for a word.
_git_agent_reply() {
    local line before=${cur%"${cur##*=}"}
    COMPREPLY=()
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$before"}")
    done < <("$@" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

# `git agent`: git's own completion calls this.
_git_agent() {
    local at=${__git_cmd_idx:-1}
    _git_agent_reply __git agent complete -- "${words[@]:at + 1:cword - at}"
}

# `git-agent`
_git_agent_itself() {
    local cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n = cur words cword
    fi
    _git_agent_reply git-agent complete -- "${words[@]:1:cword}"
}

complete -F _git_agent_itself git-agent
