#compdef git-agent
# Completion of `git agent` and `git-agent` for zsh. Written by git agent install-shell.

local line tab=$'\t'
local -a plain open
for line in "${(@f)$(git-agent complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    case ${line%%$tab*} in
        '') ;;
        *[/=]) open+=("${line%%$tab*}") ;;
        *) plain+=("${${line%%$tab*}//:/\\:}:${line#*$tab}") ;;
    esac
done
(( $#open )) && compadd -Q -S '' -- $open
(( $#plain )) && _describe 'git agent' plain
