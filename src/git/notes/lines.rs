//! Note bodies as sets of lines: sorted by byte, unique, each ended by a line feed. This is what `git
//! notes merge -s cat_sort_uniq` makes of two bodies; empty lines, which `git notes append` puts
//! between paragraphs, carry nothing and vanish as they do there.

/// The union of several bodies.
pub fn union<'a>(bodies: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bodies.into_iter().flat_map(split).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut body = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        body.extend_from_slice(line);
        body.push(b'\n');
    }
    body
}

/// The lines of a body, without empty ones.
pub fn split(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|&b| b == b'\n').filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bodies_become_sorted_sets_of_lines() {
        let body = union([b"b\n\na".as_slice(), b"c\nb\n", b""]);
        assert_eq!(body, b"a\nb\nc\n");
        assert_eq!(union([b"\n\n".as_slice()]), b"");
    }

    proptest! {
        #[test]
        fn union_is_commutative_associative_and_idempotent(a: Vec<u8>, b: Vec<u8>, c: Vec<u8>) {
            let two = |x: &[u8], y: &[u8]| union([x, y]);
            prop_assert_eq!(two(&a, &b), two(&b, &a));
            prop_assert_eq!(two(&two(&a, &b), &c), two(&a, &two(&b, &c)));
            prop_assert_eq!(two(&two(&a, &b), &b), two(&a, &b));
        }
    }
}
