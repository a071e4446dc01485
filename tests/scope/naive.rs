//! A glob matcher that is too simple to be wrong: braces spelled out by recursion, then names one by
//! one, then bytes one by one.

/// Whether the glob matches, as a whitelist reads it.
pub(super) fn matches(glob: &str, path: &[u8]) -> bool {
    alternatives(glob).iter().any(|glob| {
        let glob = parts(glob.as_bytes());
        names(&glob, &parts(path))
    })
}

/// As a denylist reads the glob: the directories on its way whose names have no wildcards are denied themselves.
pub(super) fn denies(glob: &str, path: &[u8]) -> bool {
    alternatives(glob).iter().any(|glob| {
        let (glob, path) = (parts(glob.as_bytes()), parts(path));
        let is_plain = |name: &&[u8]| !name.iter().any(|byte| b"*?[".contains(byte));
        let mut above = (1..glob.len()).map(|end| &glob[..end]);
        above.any(|above| above.last().is_some_and(is_plain) && names(above, &path))
            || names(&glob, &path)
    })
}

fn parts(text: &[u8]) -> Vec<&[u8]> {
    let mut parts: Vec<&[u8]> =
        text.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if text.ends_with(b"/") {
        parts.push(b"**");
    }
    parts.dedup_by(|two, one| two == b"**" && one == b"**");
    parts
}

fn names(glob: &[&[u8]], path: &[&[u8]]) -> bool {
    match glob {
        [] => path.is_empty(),
        [b"**"] => !path.is_empty(),
        [b"**", rest @ ..] => (0..=path.len()).any(|skip| names(rest, &path[skip..])),
        [name, rest @ ..] => path
            .split_first()
            .is_some_and(|(first, others)| bytes(name, first) && names(rest, others)),
    }
}

fn bytes(glob: &[u8], name: &[u8]) -> bool {
    match glob {
        [] => name.is_empty(),
        [b'*', rest @ ..] => (0..=name.len()).any(|skip| bytes(rest, &name[skip..])),
        [b'?', rest @ ..] => !name.is_empty() && bytes(rest, &name[1..]),
        [b'[', class @ ..] => {
            let end = class.iter().position(|&byte| byte == b']').expect("closed");
            let (members, negated) = match &class[..end] {
                [b'!', members @ ..] => (members, true),
                members => (members, false),
            };
            name.split_first().is_some_and(|(first, others)| {
                member(members, *first) != negated && bytes(&class[end + 1..], others)
            })
        }
        [literal, rest @ ..] => name.first() == Some(literal) && bytes(rest, &name[1..]),
    }
}

fn member(members: &[u8], byte: u8) -> bool {
    match members {
        [] => false,
        [low, b'-', high, rest @ ..] => (low..=high).contains(&&byte) || member(rest, byte),
        [one, rest @ ..] => *one == byte || member(rest, byte),
    }
}

/// The globs without braces that the glob stands for.
pub(super) fn alternatives(glob: &str) -> Vec<String> {
    let Some(open) = glob.find('{') else {
        return vec![glob.to_owned()];
    };
    let mut depth = 0;
    let mut cuts = vec![open];
    for (index, byte) in glob.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 1 => cuts.push(index),
            _ => {}
        }
        if depth == 0 {
            cuts.push(index);
            break;
        }
    }
    let close = *cuts.last().expect("closed");
    cuts.windows(2)
        .flat_map(|cut| {
            let branch = &glob[cut[0] + 1..cut[1]];
            alternatives(&format!("{}{branch}{}", &glob[..open], &glob[close + 1..]))
        })
        .collect()
}
