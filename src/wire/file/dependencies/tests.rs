//! Each format, before and after a change.

use super::*;

/// What is said of a change from one text to another.
fn told(path: &str, before: &str, after: &str) -> String {
    changes(path.as_bytes(), Some(before.as_bytes()), Some(after.as_bytes())).join("; ")
}

#[test]
fn each_format_tells_versions_and_nothing_else() {
    let cargo = "[package]\nname = \"a\"\nversion = \"1.0.0\"\n[dependencies]\nserde = \"1.0\"\n[target.'cfg(unix)'.dependencies]\nlibc = { version = \"0.2\" }\n";
    let npm = "{\"name\":\"a\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"x\"},\"dependencies\":{\"left-pad\":\"^1.0.0\"}}";
    let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n[[package]]\nname = \"serde\"\nversion = \"1.0.1\"\nsource = \"registry\"\nchecksum = \"aa\"\n";
    let npm_lock = "{\"packages\":{\"\":{\"version\":\"1.0.0\"},\"node_modules/left-pad\":{\"version\":\"1.0.1\",\"integrity\":\"sha1-a\"},\"node_modules/own\":{\"link\":true}}}";
    let pnpm = "lockfileVersion: '9.0'\n\nimporters:\n\n  .:\n    dependencies:\n\npackages:\n\n  '@a/b@1.2.3':\n    resolution: {integrity: sha512-a}\n    engines: {node: '>=6'}\n\nsnapshots:\n\n  '@a/b@1.2.3': {}\n";
    let yarn = "# yarn lockfile v1\n\n\n\"@a/b@^1.0.0\":\n  version \"1.2.3\"\n  resolved \"https://x/b.tgz#aa\"\n  dependencies:\n    c \"^1.0.0\"\n";
    let berry = "__metadata:\n  version: 8\n\n\"a@workspace:.\":\n  version: 0.0.0-use.local\n  resolution: \"a@workspace:.\"\n\n\"b@npm:^1.0.0\":\n  version: 1.2.3\n  resolution: \"b@npm:1.2.3\"\n  checksum: aa\n";
    let bun = "{\n  \"lockfileVersion\": 1,\n  \"packages\": {\n    \"b\": [\"b@1.2.3\", \"\", {}, \"sha512-a\"],\n  },\n}\n";
    let python = "[project]\nname = \"a\"\nversion = \"1.0\"\ndependencies = [\"Requests>=2.0\"]\n[dependency-groups]\ndev = [\"pytest\"]\n[tool.poetry.dependencies]\npython = \"^3.9\"\n";
    let uv = "[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = { editable = \".\" }\n[[package]]\nname = \"requests\"\nversion = \"2.0\"\nsource = { registry = \"https://pypi.org/simple\" }\n";
    let poetry = "[[package]]\nname = \"requests\"\nversion = \"2.0\"\nfiles = [{file = \"r\", hash = \"sha256:aa\"}]\n";
    let old_poetry = "[[package]]\nname = \"requests\"\nversion = \"2.0\"\n[metadata]\ncontent-hash = \"cc\"\n[metadata.files]\nrequests = [{file = \"r\", hash = \"sha256:aa\"}]\n";
    let windows = format!("{yarn}\nd@^1.0.0:\n  version \"1.0.0\"\n").replace('\n', "\r\n");
    let unspaced = "module m\n\nrequire(\n\texample.com/a v1.0.0\n)\n";
    let requirements = "# what it needs\nrequests==2.0 \\\n    --hash=sha256:aa\n-r more.txt\n";
    let go = "module m\n\ngo 1.22\n\nrequire (\n\texample.com/a v1.0.0 // indirect\n)\nrequire example.com/b v1.0.0\n";
    let sum = "example.com/a v1.0.0 h1:aa=\nexample.com/a v1.0.0/go.mod h1:bb=\n";
    for (path, before, edit, wanted) in [
        ("Cargo.toml", cargo, ("1.0.0", "2.0.0"), ""),
        (
            "Cargo.toml",
            cargo,
            ("serde = \"1.0\"", "serde = { version = \"1.0\", features = [\"derive\"] }"),
            "",
        ),
        (
            "Cargo.toml",
            cargo,
            ("serde = \"1.0\"", "serde = \"2.0\""),
            "changes serde from 1.0 to 2.0",
        ),
        ("crates/b/Cargo.toml", cargo, ("libc = { version = \"0.2\" }", ""), "removes libc 0.2"),
        ("Cargo.lock", lock, ("1.0.0", "2.0.0"), ""),
        ("Cargo.lock", lock, ("1.0.1", "1.0.2"), "changes serde"),
        ("Cargo.lock", lock, ("\"aa\"", "\"bb\""), "changes serde"),
        ("package.json", npm, ("\"x\"", "\"y\""), ""),
        ("package.json", npm, ("^1.0.0", "^2.0.0"), "changes left-pad from ^1.0.0 to ^2.0.0"),
        ("package-lock.json", npm_lock, ("{\"version\":\"1.0.0\"}", "{\"version\":\"1.1.0\"}"), ""),
        ("package-lock.json", npm_lock, ("sha1-a", "sha1-b"), "changes left-pad"),
        ("pnpm-lock.yaml", pnpm, (">=6", ">=8"), ""),
        ("pnpm-lock.yaml", pnpm, ("b@1.2.3", "b@1.2.4"), "changes @a/b"),
        ("yarn.lock", yarn, ("c \"^1.0.0\"", "c \"^1.1.0\""), ""),
        ("yarn.lock", yarn, ("1.2.3", "1.2.4"), "changes @a/b"),
        ("yarn.lock", berry, ("version: 8", "version: 9"), ""),
        ("yarn.lock", berry, ("version: 1.2.3", "version: 1.2.4"), "changes b"),
        ("bun.lock", bun, ("b@1.2.3", "b@1.2.4"), "changes b"),
        ("pyproject.toml", python, ("version = \"1.0\"", "version = \"1.1\""), ""),
        ("pyproject.toml", python, ("Requests>=2.0", "requests >= 2.0"), ""),
        ("pyproject.toml", python, ("[\"pytest\"]", "[\"pytest\", \"ruff==1\"]"), "adds ruff ==1"),
        ("uv.lock", uv, ("\"1.0\"", "\"1.1\""), ""),
        ("uv.lock", uv, ("\"2.0\"", "\"2.1\""), "changes requests"),
        ("poetry.lock", poetry, ("sha256:aa", "sha256:bb"), "changes requests"),
        ("poetry.lock", old_poetry, ("2.0", "2.1"), "changes requests"),
        ("poetry.lock", old_poetry, ("sha256:aa", "sha256:bb"), "changes requests"),
        ("yarn.lock", &windows, ("1.2.3", "1.2.4"), "changes @a/b"),
        (
            "package-lock.json",
            npm_lock,
            ("{\"link\":true}", "{\"link\":false,\"version\":\"1.0.0\"}"),
            "adds own 1.0.0",
        ),
        (
            "go.mod",
            unspaced,
            ("a v1.0.0", "a v1.1.0"),
            "changes example.com/a from v1.0.0 to v1.1.0",
        ),
        ("requirements-dev.txt", requirements, ("what it", "all that it"), ""),
        ("requirements/dev.txt", requirements, ("2.0", "2.1"), "changes requests"),
        (
            "requirements.txt",
            requirements,
            ("-r more.txt", "-r other.txt"),
            "changes -r from more.txt to other.txt",
        ),
        ("go.mod", go, ("1.22", "1.23"), ""),
        ("go.mod", go, ("b v1.0.0", "b v1.1.0"), "changes example.com/b from v1.0.0 to v1.1.0"),
        ("go.sum", sum, ("aa=", "cc="), "changes example.com/a"),
        ("go.work", "replace y => z v1.0.0\n", ("v1.0.0", "v2.0.0"), "changes y from replace"),
        ("constraints.txt", "a==1\n", ("1", "2"), "changes a from ==1 to ==2"),
        ("requirements.in", "a>=1\n", ("1", "2"), "changes a from >=1 to >=2"),
        (
            "package.json",
            r#"{"workspaces": {"packages": ["x"], "catalog": {"react": "18.0.0"}}}"#,
            ("18", "19"),
            "changes react from 18.0.0 to 19.0.0",
        ),
        (
            "package.json",
            r#"{"catalogs": {"old": {"vue": "2"}}}"#,
            ("2", "3"),
            "changes vue from 2 to 3",
        ),
        (
            "pnpm-workspace.yaml",
            "packages:\n  - 'a: 1'\ncatalog:\n  '@a/b': ^1.0.0 # why\n",
            ("1.0.0", "2.0.0"),
            "changes @a/b from ^1.0.0 to ^2.0.0",
        ),
        (
            "pnpm-workspace.yaml",
            "catalogs:\n  old:\n    vue: npm:x@2\noverrides: { left: 1 }\n",
            ("left: 1", "left: 2"),
            "changes overrides from { left: 1 } to { left: 2 }",
        ),
        ("pnpm-workspace.yaml", "packages:\n  a: 1\n", ("1", "2"), ""),
        ("bun.lockb", "\u{1}", ("\u{1}", "\u{2}"), "is another, and cannot be read"),
        ("Cargo.lock", lock, ("[[package]]", "[[package"), "is another, and cannot be read"),
    ] {
        let after = before.replacen(edit.0, edit.1, 1);
        assert_ne!(before, after, "{path}: {edit:?}");
        let told = told(path, before, &after);
        assert!(told.starts_with(wanted) && told.is_empty() == wanted.is_empty(), "{path}: {told}");
    }
}

#[test]
fn rubbish_is_unreadable_or_empty_and_never_a_panic() {
    let paths = [
        "Cargo.toml",
        "Cargo.lock",
        "package.json",
        "package-lock.json",
        "pnpm-lock.yaml",
        "pnpm-workspace.yaml",
        "yarn.lock",
        "bun.lock",
        "pyproject.toml",
        "requirements.txt",
        "uv.lock",
        "go.mod",
        "go.sum",
    ];
    let rubbish: [&[u8]; 9] = [
        b"",
        b"\n\n\n",
        b"@",
        b"\"",
        b"[[[[",
        b"{\"packages\":[[]]}",
        "é:\n  é".as_bytes(),
        b"lockfileVersion:\npackages:\n  x",
        b"\xff\xfe",
    ];
    for path in paths {
        assert!(is_manifest(path.as_bytes()), "{path}");
        for bytes in rubbish {
            let _ = changes(path.as_bytes(), Some(b"a"), Some(bytes));
        }
    }
    assert!(
        !is_manifest(b"src/main.rs")
            && !is_manifest(b"notes.txt")
            && !is_manifest(b"\xff/Cargo.toml")
    );
}
