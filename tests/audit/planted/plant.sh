#!/bin/sh
# Plants a program in every known place. Started in an agent's worktree, by the agent.
#   EVIL   the program: it leaves a marker with the name of its first argument
# What is refused here, as in a sandbox, stays unplanted.
git_() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@"; }

# Programs that a configuration file names: settings <file> <prefix>
settings() {
	printf '[filter "included"]\n\tclean = %s\n' "$EVIL $2-included" >"$hooks-included"
	cat >>"$1" <<-end || true
		[filter "planted"]
			clean = $EVIL $2-clean
			smudge = $EVIL $2-smudge
		[filter "running"]
			process = $EVIL $2-process
		[core]
			fsmonitor = $EVIL $2-fsmonitor
			editor = $EVIL $2-editor
			pager = $EVIL $2-pager
			askPass = $EVIL-askpass
			sshCommand = $EVIL $2-ssh
			gitProxy = $EVIL-proxy
			alternateRefsCommand = $EVIL $2-alternate
		[pager]
			diff = $EVIL $2-pager-diff
		[sequence]
			editor = $EVIL $2-sequence
		[diff]
			external = $EVIL $2-external
		[diff "planted"]
			textconv = $EVIL $2-textconv
		[diff "driven"]
			command = $EVIL $2-driver
		[merge]
			default = planted
		[merge "planted"]
			driver = $EVIL $2-merge
		[credential]
			helper = "!$EVIL $2-credential"
		[gpg]
			program = $EVIL-gpg
		[commit]
			gpgSign = true
		[user]
			signingKey = planted
		[interactive]
			diffFilter = $EVIL $2-interactive
		[trailer "agent-id"]
			key = Agent-Id
			cmd = $EVIL $2-trailer
		[alias]
			planted = "!$EVIL $2-alias"
			agent = "!$EVIL $2-alias-agent"
		[remote "origin"]
			uploadpack = $EVIL $2-uploadpack
			receivepack = $EVIL $2-receivepack
		[protocol "ext"]
			allow = always
		[url "ext::$EVIL $2-ext "]
			insteadOf = planted:
		[submodule "src/linked"]
			update = "!$EVIL $2-submodule"
			url = ./src/linked
			active = true
		[hook "planted"]
			command = $EVIL $2-config-hook
			event = pre-commit
			event = post-index-change
		[include]
			path = $hooks-included
	end
}

# Hooks that leave markers: hooks <directory> <prefix>
plant_hooks() {
	mkdir -p "$1" || return 0
	for hook in applypatch-msg commit-msg post-checkout post-commit post-index-change post-merge post-rewrite \
		pre-auto-gc pre-commit pre-merge-commit pre-push pre-rebase prepare-commit-msg reference-transaction; do
		# Several of ours may be one file.
		rm -f "$1/$hook"
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
	clone)
		attributes
		hooks=$top/.agent/planted
		settings .git/config clone
		plant_hooks "$hooks" clone-hook
		plant_hooks .git/hooks clone-hook
		git config --file .git/config core.hooksPath "$hooks"
		echo '* filter=planted diff=planted merge=planted' >.git/info/attributes
		git_ init -q --bare .agent/other.git
		echo "$top/.agent/other.git/objects" >.git/objects/info/alternates
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
