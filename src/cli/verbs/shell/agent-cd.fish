# `agent-cd <agent>` for fish: goes to an agent's worktree. Written by git agent install-shell.

function agent-cd --description "Go to an agent's worktree"
    set -l place (git agent path $argv); and cd $place
end

complete -c agent-cd -f -a '(git agent complete -- path (commandline -ct) 2>/dev/null)'
