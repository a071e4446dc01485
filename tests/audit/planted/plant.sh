#!/bin/sh
# Plants a program in every known place. Started in an agent's worktree, by the agent.
#   EVIL   the program: it leaves a marker with the name of its first argument
# What is refused here, as in a sandbox, stays unplanted.
git_() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@"; }

# Programs that a configuration file names: settings <file> <prefix>
settings() {
	set_() { git config --file "$file" "$@" || true; }
	file=$1 prefix=$2
	set_ filter.planted.clean "$EVIL $prefix-clean"
	set_ filter.planted.smudge "$EVIL $prefix-smudge"
	set_ filter.running.process "$EVIL $prefix-process"
	set_ core.fsmonitor "$EVIL $prefix-fsmonitor"
	set_ core.editor "$EVIL $prefix-editor"
	set_ core.pager "$EVIL $prefix-pager"
	set_ pager.diff "$EVIL $prefix-pager-diff"
	set_ core.askPass "$EVIL-askpass"
	set_ core.sshCommand "$EVIL $prefix-ssh"
	set_ core.gitProxy "$EVIL-proxy"
	set_ core.alternateRefsCommand "$EVIL $prefix-alternate"
	set_ sequence.editor "$EVIL $prefix-sequence"
	set_ diff.external "$EVIL $prefix-external"
	set_ diff.planted.textconv "$EVIL $prefix-textconv"
	set_ diff.driven.command "$EVIL $prefix-driver"
	set_ merge.planted.driver "$EVIL $prefix-merge"
	set_ merge.default planted
	set_ credential.helper "!$EVIL $prefix-credential"
	set_ gpg.program "$EVIL-gpg"
	set_ commit.gpgSign true
	set_ user.signingKey planted
	set_ interactive.diffFilter "$EVIL $prefix-interactive"
	set_ trailer.agent-id.key Agent-Id
	set_ trailer.agent-id.cmd "$EVIL $prefix-trailer"
	set_ alias.planted "!$EVIL $prefix-alias"
	set_ alias.agent "!$EVIL $prefix-alias-agent"
	set_ remote.origin.uploadpack "$EVIL $prefix-uploadpack"
	set_ remote.origin.receivepack "$EVIL $prefix-receivepack"
	set_ protocol.ext.allow always
	set_ "url.ext::$EVIL $prefix-ext .insteadOf" planted:
	set_ submodule.src/linked.update "!$EVIL $prefix-submodule"
	set_ submodule.src/linked.url ./src/linked
	set_ submodule.src/linked.active true
	set_ hook.planted.command "$EVIL $prefix-config-hook"
	set_ hook.planted.event pre-commit
	set_ --add hook.planted.event post-index-change
	set_ filter.included.clean cat
	printf '[filter "included"]\n\tclean = %s\n' "$EVIL $prefix-included" >"$hooks-included"
	set_ --unset filter.included.clean
	set_ include.path "$hooks-included"
}

# Hooks that leave markers: hooks <directory> <prefix>
plant_hooks() {
	mkdir -p "$1" || return 0
	for hook in applypatch-msg commit-msg post-checkout post-commit post-index-change post-merge post-rewrite \
		pre-auto-gc pre-commit pre-merge-commit pre-push pre-rebase prepare-commit-msg reference-transaction; do
		printf '#!/bin/sh\nexec %s %s-%s </dev/null\n' "$EVIL" "$2" "$hook" >"$1/$hook" && chmod +x "$1/$hook"
	done
}

# A repository inside the worktree whose own settings name programs: nested <directory> <prefix>
nested() {
	git_ init -q "$1"
	(
		cd "$1" || exit
		echo first >file.rs
		git_ add file.rs
		git_ -c commit.gpgSign=false commit -q -m first
	)
}
arm() {
	hooks=$PWD/$1/.git/planted-hooks
	settings "$1/.git/config" "$2"
	plant_hooks "$1/.git/hooks" "$2"
	mkdir -p "$1/.git/info"
	echo '* filter=planted diff=planted merge=planted' >"$1/.git/info/attributes"
	# Of the same length, so that only the content can tell.
	echo other >"$1/file.rs"
	echo new >"$1/new.rs"
}

top=$PWD
attributes() {
	cat >src/.gitattributes <<-end
		*.rs filter=planted diff=planted merge=planted
		*.run filter=running
		*.inc filter=included
		*.drv diff=driven
	end
	echo 'pub fn planted() {}' >>src/lib.rs
	for ending in rs run inc drv txt; do echo new >"src/new.$ending"; done
}

own_settings() {
	admin=$(git_ rev-parse --git-dir)
	hooks=$top/.agent/planted
	mkdir -p .agent
	settings "$admin/config.worktree" own
	plant_hooks "$hooks" own-hook
	git config --file "$admin/config.worktree" core.hooksPath "$hooks"
	plant_hooks "$admin/hooks" admin-hook
	mkdir -p "$admin/info" && echo '* filter=planted diff=planted' >"$admin/info/attributes"
}

for what in "$@"; do
	case $what in
	settings)
		attributes
		own_settings
		;;
	nested)
		nested src/linked
		nested src/loose
		git_ -c advice.addEmbeddedRepo=false add src/linked
		arm src/linked linked
		arm src/loose loose
		printf '[submodule "src/linked"]\n\tpath = src/linked\n\turl = ./src/linked\n' >.gitmodules
		;;
	husky)
		plant_hooks .husky/_ husky
		plant_hooks .husky husky
		;;
	shims)
		admin=$(git_ rev-parse --git-dir)
		id=${admin##*-}
		shims=$(git_ rev-parse --git-common-dir)/agents/$id/hooks
		chmod u+w "$shims" && plant_hooks "$shims" shim
		;;
	pointer)
		attributes
		nested .agent/other
		rm -rf .git && mv .agent/other/.git .git && rm -rf .agent/other
		hooks=$top/.agent/planted
		settings .git/config pointer
		plant_hooks .git/hooks pointer-hook
		;;
	common)
		attributes
		admin=$(git_ rev-parse --git-dir)
		common=$(git_ rev-parse --git-common-dir)
		cp -r "$common" .agent/common
		hooks=$top/.agent/planted
		settings .agent/common/config common
		plant_hooks .agent/common/hooks common-hook
		echo "$top/.agent/common" >"$admin/commondir"
		;;
	esac
done
:
