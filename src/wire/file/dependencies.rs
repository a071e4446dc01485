//! Which dependencies a manifest or a lock file names, and in which versions.
//!
//! | files | format |
//! |---|---|
//! | `Cargo.toml`, `Cargo.lock` | <https://doc.rust-lang.org/cargo/reference/manifest.html> |
//! | `package.json`, `package-lock.json`, `npm-shrinkwrap.json` | <https://docs.npmjs.com/cli/configuring-npm/package-lock-json> |
//! | `pnpm-lock.yaml`, `yarn.lock`, `bun.lock` | as their programs write them, line by line |
//! | `pyproject.toml`, `requirements*.txt`, `uv.lock`, `poetry.lock` | PEP 508, 621 and 735, and the tables of Poetry and uv |
//! | `go.mod`, `go.sum` | <https://go.dev/ref/mod> |
//!
//! Of `bun.lockb` only the bytes can be compared. Packages of the repository itself, which a lock file lists too, are no dependencies of it.
//!
//! What is read is an agent's: any bytes give an answer or `None`, and a file of which nothing can be read counts as changed.

use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value as Toml};

/// The most characters of a version that are told.
const TOLD: usize = 60;

/// The versions of each dependency, by its name.
type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// How a file is read.
type Reader = fn(&str) -> Option<Dependencies>;

/// The reader of a file by its path; `None` for one that names no dependencies.
fn reader(path: &[u8]) -> Option<Reader> {
    let path = std::str::from_utf8(path).ok()?;
    let name = path.rsplit('/').next()?;
    let reader: Reader = match name {
        "Cargo.toml" => cargo_toml,
        "Cargo.lock" | "uv.lock" | "poetry.lock" => toml_lock,
        "package.json" => package_json,
        "package-lock.json" | "npm-shrinkwrap.json" => package_lock,
        "pnpm-lock.yaml" => pnpm_lock,
        "pnpm-workspace.yaml" => pnpm_workspace,
        "yarn.lock" => yarn_lock,
        "bun.lock" => bun_lock,
        "bun.lockb" => |_| None,
        "pyproject.toml" => pyproject,
        "go.mod" | "go.work" => go_mod,
        "go.sum" => go_sum,
        _ if (name.ends_with(".txt") || name.ends_with(".in"))
            && (name.contains("requirements")
                || name.contains("constraints")
                || path.contains("requirements/")) =>
        {
            requirements
        }
        _ => return None,
    };
    Some(reader)
}

/// Whether a file of this path names dependencies.
pub fn is_manifest(path: &[u8]) -> bool {
    reader(path).is_some()
}

/// What is different between two states of a manifest or lock file, each as the end of a sentence that begins with its path. `None` stands for
/// a file that is not there.
pub fn changes(path: &[u8], before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<String> {
    let Some(reader) = reader(path).filter(|_| before != after) else {
        return Vec::new();
    };
    let read = |bytes: Option<&[u8]>| match bytes {
        // A file that is made or deleted adds or removes all that it names.
        None => Some(Dependencies::new()),
        Some(bytes) => reader(std::str::from_utf8(bytes).ok()?),
    };
    let (Some(before), Some(after)) = (read(before), read(after)) else {
        return vec!["is another, and cannot be read".to_owned()];
    };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let told = |name: &String| {
        let [was, is] = [&before, &after].map(|all| all.get(name));
        let list = |versions: &BTreeSet<String>| {
            let all: Vec<&str> = versions.iter().map(String::as_str).collect();
            let all = all.join(", ");
            match all.char_indices().nth(TOLD) {
                Some((end, _)) => format!("{}…", &all[..end]),
                None => all,
            }
        };
        match (was, is) {
            (None, Some(is)) => Some(format!("adds {name} {}", list(is))),
            (Some(was), None) => Some(format!("removes {name} {}", list(was))),
            (Some(was), Some(is)) if was != is => {
                // A lock file may hold several versions of one package; only those that come or go
                // are told.
                let [gone, new] = [(was, is), (is, was)].map(|(one, other)| list(&(one - other)));
                Some(match (gone.is_empty(), new.is_empty()) {
                    (true, _) => format!("adds {name} {new}"),
                    (_, true) => format!("removes {name} {gone}"),
                    _ => format!("changes {name} from {gone} to {new}"),
                })
            }
            _ => None,
        }
    };
    // Not every requirement names a version.
    let told = names.into_iter().filter_map(told);
    told.map(|what| what.trim_end().to_owned()).collect()
}

fn add(all: &mut Dependencies, name: impl Into<String>, version: impl Into<String>) {
    all.entry(name.into()).or_default().insert(version.into());
}

/// The tables of a manifest of cargo's that name dependencies, also below `target.*` and `workspace`, and what replaces them.
fn cargo_toml(text: &str) -> Option<Dependencies> {
    fn tables(table: &Table, all: &mut Dependencies) {
        for (key, value) in table {
            let Toml::Table(inner) = value else { continue };
            match key.as_str() {
                "dependencies" | "dev-dependencies" | "build-dependencies" | "dev_dependencies"
                | "build_dependencies" | "replace" => {
                    inner.iter().for_each(|(name, value)| add(all, name, cargo_version(value)));
                }
                "patch" => {
                    for (name, value) in inner.values().filter_map(Toml::as_table).flatten() {
                        add(all, name, cargo_version(value));
                    }
                }
                "workspace" => tables(inner, all),
                "target" => {
                    inner.values().filter_map(Toml::as_table).for_each(|target| tables(target, all))
                }
                _ => {}
            }
        }
    }
    let mut all = Dependencies::new();
    tables(&text.parse().ok()?, &mut all);
    Some(all)
}

/// What decides which package a dependency is. Its features do not.
fn cargo_version(value: &Toml) -> String {
    const KEYS: [&str; 10] = [
        "version",
        "package",
        "path",
        "git",
        "branch",
        "tag",
        "rev",
        "registry",
        "registry-index",
        "workspace",
    ];
    match value {
        // `serde = "1"` and `serde = { version = "1" }` are one dependency, so both give the same
        // text.
        Toml::String(version) => version.clone(),
        Toml::Table(table) => {
            let parts = KEYS.iter().filter_map(|key| Some((*key, text_of(table.get(*key)?)))).map(
                |(key, text)| match key {
                    "version" => text,
                    _ => format!("{key} {text}"),
                },
            );
            parts.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

fn text_of(value: &Toml) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The packages of a lock file of cargo, uv or Poetry, less those of the repository itself.
fn toml_lock(text: &str) -> Option<Dependencies> {
    let table: Table = text.parse().ok()?;
    let mut all = Dependencies::new();
    let packages = table.get("package").and_then(Toml::as_array);
    // Up to its version 1.2 Poetry kept the hashes of all packages in one table.
    let apart = table.get("metadata").and_then(|all| all.get("files"));
    for package in packages.into_iter().flatten() {
        let text = |key| package.get(key).and_then(Toml::as_str);
        let (name, version) = (text("name")?, text("version").unwrap_or_default());
        let files = package.get("files").or_else(|| apart?.get(name));
        // The same version from another registry is another package.
        let source = match package.get("source") {
            Some(Toml::String(source)) => source.clone(),
            Some(Toml::Table(source))
                if ["editable", "virtual"].iter().any(|own| source.contains_key(*own)) =>
            {
                continue;
            }
            Some(source) => source.to_string(),
            // Poetry names no source for what comes from the index; what is in cargo's workspace has none, and no files.
            None if files.is_some() => String::new(),
            None => continue,
        };
        let hashes = ["checksum", "sdist", "wheels"].iter().filter_map(|key| package.get(*key));
        let pinned: String = hashes.chain(files).map(Toml::to_string).collect();
        add(&mut all, name, pin(version, &[&source, &pinned]));
    }
    Some(all)
}

/// A version, and a mark of what else pins it: the same version from another place, or with other content, is another.
fn pin(version: &str, rest: &[&str]) -> String {
    use sha2::{Digest, Sha256};
    if rest.iter().all(|part| part.is_empty()) {
        return version.to_owned();
    }
    let digest = Sha256::digest(rest.join("\0").as_bytes());
    // It is read by people who compare two lines, and the whole line is only told where versions
    // differ.
    format!("{version} ({})", &crate::domain::value::named::hex(&digest)[..8])
}

/// The objects of a manifest of npm's that name dependencies.
fn package_json(text: &str) -> Option<Dependencies> {
    const KEYS: [&str; 6] = [
        "dependencies",
        "devDependencies",
        "peerDependencies",
        "optionalDependencies",
        "overrides",
        "resolutions",
    ];
    let manifest: Json = serde_json::from_str(text).ok()?;
    let mut all = Dependencies::new();
    let tables = KEYS.iter().filter_map(|key| manifest.get(key));
    let pnpm = manifest.get("pnpm").and_then(|pnpm| pnpm.get("overrides"));
    // Versions that the packages of a workspace share, as bun reads them.
    let places = [Some(&manifest), manifest.get("workspaces")].into_iter().flatten();
    let catalogs = places.flat_map(|place| {
        let named = place.get("catalogs").and_then(Json::as_object);
        place.get("catalog").into_iter().chain(named.into_iter().flat_map(serde_json::Map::values))
    });
    let tables = tables.chain(pnpm).chain(catalogs);
    for (name, version) in tables.filter_map(Json::as_object).flatten() {
        add(&mut all, name, json_text(version));
    }
    Some(all)
}

fn json_text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The packages of npm's lock file, of its second and third format or of its first.
fn package_lock(text: &str) -> Option<Dependencies> {
    fn first_format(packages: Option<&Json>, all: &mut Dependencies) {
        for (name, package) in packages.and_then(Json::as_object).into_iter().flatten() {
            add(all, name, npm_version(package));
            first_format(package.get("dependencies"), all);
        }
    }
    let lock: Json = serde_json::from_str(text).ok()?;
    let mut all = Dependencies::new();
    // The second format has both tables, and the first one is there for older programs only.
    let Some(packages) = lock.get("packages").and_then(Json::as_object) else {
        first_format(lock.get("dependencies"), &mut all);
        return Some(all);
    };
    for (place, package) in packages {
        // The repository's own packages are where no `node_modules` is in the path, and are linked to from there.
        let is_link = package.get("link").is_some_and(|link| *link == true);
        if let Some((_, name)) = place.rsplit_once("node_modules/").filter(|_| !is_link) {
            add(&mut all, name, npm_version(package));
        }
    }
    Some(all)
}

fn npm_version(package: &Json) -> String {
    let text = |key| package.get(key).and_then(Json::as_str).unwrap_or_default();
    pin(text("version"), &[text("resolved"), text("integrity")])
}

/// The entries of `packages`, of which each key has the version in it, and what pins each.
fn pnpm_lock(text: &str) -> Option<Dependencies> {
    text.lines()
        // Any text would give no packages; a file without this line is not taken for an empty one.
        .find(|line| line.starts_with("lockfileVersion:"))?;
    let mut all = Dependencies::new();
    let (mut section, mut package) = ("", None);
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        match (indent, line.trim()) {
            (_, "") => {}
            (0, name) => (section, package) = (name, None),
            (2, key) if section == "packages:" => {
                let key = key
                    .trim_end_matches(':')
                    .trim_matches(['\'', '"'])
                    // Before format 9 a key begins with a slash, and up to format 5 a slash stands
                    // for the `@` before the version.
                    .trim_start_matches('/');
                let at = key
                    .rfind('@')
                    // The first `@` of a scoped name belongs to the name.
                    .filter(|at| *at > 0)
                    .or_else(|| key.rfind('/'))?;
                package = Some((key[..at].to_owned(), key[at + 1..].to_owned()));
            }
            (4, line) if line.starts_with("resolution:") => {
                if let Some((name, version)) = package.take() {
                    add(&mut all, name, pin(&version, &[line]));
                }
            }
            _ => {}
        }
    }
    Some(all)
}

/// The versions that the packages of pnpm's workspace share or have to take.
fn pnpm_workspace(text: &str) -> Option<Dependencies> {
    let mut all = Dependencies::new();
    let mut section = "";
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or_default().trim_end();
        let table = || line.strip_suffix(':').map(|name| (name, ""));
        let Some((name, version)) = line.split_once(": ").or_else(table) else {
            continue;
        };
        if !line.starts_with([' ', '\t', '-']) {
            section = name;
        }
        let is_table = matches!(section, "catalog" | "catalogs" | "overrides");
        if is_table && !version.trim().is_empty() {
            let [name, version] = [name, version].map(|it| it.trim().trim_matches(['\'', '"']));
            add(&mut all, name, version);
        }
    }
    Some(all)
}

/// The blocks of yarn's lock file, of the classic or the newer form.
fn yarn_lock(text: &str) -> Option<Dependencies> {
    let mut all = Dependencies::new();
    // A clone on Windows may have checked it out with carriage returns.
    let text = text.replace("\r\n", "\n");
    for block in text.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let Some(head) = lines.next().filter(|line| !line.starts_with("__metadata")) else {
            continue;
        };
        let head = head.trim_matches(['"', ':']);
        // The first character may be the `@` of a scope.
        let name = &head[..1 + head.get(1..)?.find('@')?];
        let mut values = BTreeMap::new();
        // What is deeper are the requirements of the package, which have their own blocks.
        for line in lines.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            if let Some((key, value)) = line.trim().split_once(' ') {
                values.insert(key.trim_end_matches(':'), value.trim_matches('"'));
            }
        }
        let value = |key| values.get(key).copied().unwrap_or_default();
        // The mark that yarn gives the packages of a workspace.
        if value("version") != "0.0.0-use.local" {
            let pins = ["resolved", "integrity", "resolution", "checksum"].map(value);
            add(&mut all, name, pin(value("version"), &pins));
        }
    }
    Some(all)
}

/// The entries of `packages`, each a list that begins with name and version. The file is JSON with commas at the ends of lists.
fn bun_lock(text: &str) -> Option<Dependencies> {
    let mut plain = String::with_capacity(text.len());
    let (mut is_text, mut is_escaped) = (false, false);
    for c in text.chars() {
        // A trailing comma in a text is no such comma, which is why texts are followed.
        if !is_text && matches!(c, ']' | '}') && plain.trim_end().ends_with(',') {
            let end = plain.trim_end().len() - 1;
            plain.truncate(end);
        }
        is_text ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        plain.push(c);
    }
    let lock: Json = serde_json::from_str(&plain).ok()?;
    let mut all = Dependencies::new();
    for (name, package) in lock.get("packages").and_then(Json::as_object).into_iter().flatten() {
        let first = package.get(0).and_then(Json::as_str).unwrap_or_default();
        if !first.contains("@workspace:") {
            add(&mut all, name, pin(first, &[&package.to_string()]));
        }
    }
    Some(all)
}

/// Everything in a `pyproject.toml` that names requirements.
fn pyproject(text: &str) -> Option<Dependencies> {
    let table: Table = text.parse().ok()?;
    let at = |path: &[&str]| {
        let mut keys = path.iter();
        let first = table.get(*keys.next()?)?;
        keys.try_fold(first, |value, key| value.get(key))
    };
    let mut all = Dependencies::new();
    let lists: [&[&str]; 5] = [
        &["project", "dependencies"],
        &["build-system", "requires"],
        &["tool", "uv", "dev-dependencies"],
        &["tool", "uv", "constraint-dependencies"],
        &["tool", "uv", "override-dependencies"],
    ];
    let groups: [&[&str]; 2] = [&["project", "optional-dependencies"], &["dependency-groups"]];
    let in_groups =
        groups.into_iter().filter_map(|path| at(path)?.as_table()).flat_map(Table::values);
    for list in lists.into_iter().filter_map(at).chain(in_groups) {
        let requirements = list.as_array().into_iter().flatten().filter_map(Toml::as_str);
        requirements.for_each(|line| requirement(&mut all, line));
    }
    let tables: [&[&str]; 3] = [
        &["tool", "poetry", "dependencies"],
        &["tool", "poetry", "dev-dependencies"],
        &["tool", "uv", "sources"],
    ];
    let groups = at(&["tool", "poetry", "group"]).and_then(Toml::as_table);
    let groups =
        groups.into_iter().flat_map(Table::values).filter_map(|group| group.get("dependencies"));
    for (name, value) in
        tables.into_iter().filter_map(at).chain(groups).filter_map(Toml::as_table).flatten()
    {
        add(&mut all, name, text_of(value));
    }
    Some(all)
}

/// One requirement as in PEP 508: a name, and whatever narrows it down. Names are compared as PEP 503 has it.
fn requirement(all: &mut Dependencies, line: &str) {
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '-'));
    let (name, rest) = line.trim().split_at(end.unwrap_or(line.len()).min(line.trim().len()));
    // Blanks in a requirement mean nothing, and a change of them is no change of it.
    let rest: String = rest.split_whitespace().collect();
    add(all, name.to_ascii_lowercase().replace(['_', '.'], "-"), rest);
}

fn requirements(text: &str) -> Option<Dependencies> {
    let mut all = Dependencies::new();
    // Hashes are commonly written on continued lines.
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in joined.lines() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        match line.chars().next() {
            None | Some('#') => {}
            // Options such as another index or a further file decide what is installed as much as a
            // version does.
            Some('-') => {
                let (option, value) = line.split_once([' ', '=']).unwrap_or((line, ""));
                add(&mut all, option, value.trim());
            }
            Some(_) => requirement(&mut all, line),
        }
    }
    Some(all)
}

/// The lines of `require`, `replace` and `exclude`, alone or in brackets.
fn go_mod(text: &str) -> Option<Dependencies> {
    let mut all = Dependencies::new();
    let mut block = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // No blank has to stand before the bracket.
        if let Some(word) = line.strip_suffix('(') {
            block = word.trim().to_owned();
        } else if line == ")" {
            block.clear();
        } else {
            let (word, rest) = if block.is_empty() { (word, rest) } else { (block.as_str(), line) };
            let (name, version) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest, ""));
            match word {
                "require" => add(&mut all, name, version.trim()),
                "replace" | "exclude" => add(&mut all, name, format!("{word} {}", version.trim())),
                _ => {}
            }
        }
    }
    Some(all)
}

/// A line for each module: its name, its version and a hash.
fn go_sum(text: &str) -> Option<Dependencies> {
    let mut all = Dependencies::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, version) = line.split_once(' ')?;
        let (version, hash) = version.split_once(' ')?;
        add(&mut all, name, pin(version, &[hash]));
    }
    Some(all)
}

#[cfg(test)]
mod tests;
