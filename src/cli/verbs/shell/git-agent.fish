# Completion of `git agent` and `git-agent` for fish. Written by git agent install-shell.

# What could stand at the end of the line, which begins with the program or with git.
function __git_agent_candidates
    set -l words (commandline -opc)
    if test "$words[1]" = git
        set -l at (contains -i -- agent $words); or return
        set words $words[$at..-1]
    end
    git-agent complete -- $words[2..-1] (commandline -ct) 2>/dev/null
end

complete -c git-agent -f -a '(__git_agent_candidates)'
# The completion of git that comes with fish 3.6 does not ask us by itself.
complete -c git -f -n '__fish_git_using_command agent' -a '(__git_agent_candidates)'
