//! The rendering, case by case: whole blocks, so that a misplaced caret is seen.

use super::*;

fn check(text: &str, needle: &str, expected: &str) {
    let start = text.find(needle).expect("the needle is in the text");
    let problem = Problem::at(start..start + needle.len(), "wrong").help("do it right");
    let block = Source::new("f", text).render(&problem);
    assert_eq!(block, expected, "\n{block}\n");
}

#[test]
fn the_caret_stands_below_the_bytes() {
    check("a = 1\nbad = 2\n", "bad", "f:2:1: wrong\n  |\n2 | bad = 2\n  | ^^^ do it right");
    check("a = bad\r\n", "bad", "f:1:5: wrong\n  |\n1 | a = bad\n  |     ^^^ do it right");
}

#[test]
fn tabs_wide_and_combining_characters_keep_it_aligned() {
    check("\tbad", "bad", "f:1:2: wrong\n  |\n1 |     bad\n  |     ^^^ do it right");
    check("修复 bad", "bad", "f:1:4: wrong\n  |\n1 | 修复 bad\n  |      ^^^ do it right");
    check("x 修", "修", "f:1:3: wrong\n  |\n1 | x 修\n  |   ^^ do it right");
    check("a\u{301} bad", "bad", "f:1:4: wrong\n  |\n1 | a\u{301} bad\n  |   ^^^ do it right");
}

#[test]
fn a_span_over_lines_shows_the_first() {
    check(
        "t = '''\nx\n'''\n",
        "'''\nx\n'''",
        "f:1:5: wrong\n  |\n1 | t = '''\n  |     ^^^ do it right",
    );
}

#[test]
fn the_gutter_grows_with_the_line_number() {
    let text = format!("{}bad", "\n".repeat(11));
    check(&text, "bad", "f:12:1: wrong\n   |\n12 | bad\n   | ^^^ do it right");
}

#[test]
fn the_end_of_the_text_is_its_last_line() {
    let block = Source::new("f", "a\n\n").render(&Problem::at(3..3, "wrong"));
    assert_eq!(block, "f:1:2: wrong\n  |\n1 | a\n  |  ^");
    let block = Source::new("f", "").render(&Problem::at(0..0, "wrong"));
    assert_eq!(block, "f:1:1: wrong\n  |\n1 |\n  | ^");
}

#[test]
fn what_is_missing_has_no_excerpt() {
    let problem = Problem::of_file("missing").help("add it");
    assert_eq!(Source::new("f", "a").render(&problem), "f: missing\n  = add it");
}

#[test]
fn long_lines_are_cut_around_the_caret() {
    let text = format!("{}bad{}", "a".repeat(500), "b".repeat(500));
    let block = Source::new("f", &text).render(&Problem::at(500..503, "wrong"));
    let lines: Vec<&str> = block.lines().collect();
    assert_eq!(lines[2], format!("1 | …{}bad{}…", "a".repeat(40), "b".repeat(77)));
    assert_eq!(lines[3], format!("  | {}^^^", " ".repeat(41)));
}

#[test]
fn lines_with_secrets_are_never_shown() {
    let text = "a = 'sk-abc123', bad\nkey = '-----BEGIN X\nMII bad2\n-----END X'\nfine bad3\n";
    check(
        text,
        "bad",
        "f:1:18: wrong\n  |\n1 | (not shown, because this line may hold a secret)\n  = do it right",
    );
    assert!(!Source::new("f", text).render(&Problem::at(45..49, "x")).contains("MII"));
    check(text, "fine", "f:5:1: wrong\n  |\n5 | fine bad3\n  | ^^^^ do it right");
}

#[test]
fn messages_lose_secrets_control_characters_and_length() {
    let source = Source::new("\u{1b}[2Jf", "a");
    let headline = source.headline(&Problem::of_file("no `sk-abc123`\nand \u{202e}so"));
    assert_eq!(headline, "\u{fffd}[2Jf: no `[secret]`\u{fffd}and \u{fffd}so");
    let long = source.headline(&Problem::of_file("x".repeat(1000)));
    assert!(long.ends_with("x…") && long.chars().count() < 320);
}

proptest::proptest! {
    #[test]
    fn any_span_of_any_text_renders(text: String, start in 0usize..80, end in 0usize..80) {
        let source = Source::new("f", text);
        let problem = Problem::at(start..end, "wrong");
        source.fact(&problem);
        let block = source.render(&problem);
        proptest::prop_assert!(block.starts_with("f:"));
    }
}

#[test]
fn a_program_gets_the_key_of_a_value() {
    let text = "plain = \"x\"\nwhitelst = 1\n[scope]\nwhitelist = [\n  \"src\", \"/a=b\",\n  \"../c\",\n]\n\
                deny = [\"a\", \"/b=c\"]\nat = { one = 1, two.three = \"y\" }\nplain text\n";
    let source = Source::new("f", text);
    for (needle, key) in [
        ("\"x\"", "plain"),
        ("whitelst", "whitelst"),
        ("[scope]", "[scope]"),
        ("\"/a=b\"", "whitelist"),
        ("\"../c\"", "whitelist"),
        ("\"/b=c\"", "deny"),
        ("\"y\"", "two.three"),
        ("plain text", "plain text"),
    ] {
        let start = text.find(needle).expect(needle);
        let problem = Problem::at(start..start + needle.len(), "wrong");
        assert_eq!(source.fact(&problem).key.as_deref(), Some(key), "{needle}");
    }
}

#[test]
fn a_program_gets_no_key_from_a_line_with_a_secret() {
    let text = "name = \"x\"\ntoken = \"ghp_0123456789abcdefghijABCDEFGHIJ012345\"\n";
    let source = Source::new("f", text);
    let key_at = |needle: &str| {
        let start = text.find(needle).expect("the needle is in the text");
        let problem = Problem::at(start..start + needle.len(), "wrong");
        source.fact(&problem).key
    };
    assert_eq!(key_at("name").as_deref(), Some("name"));
    // What ends where the secret begins is none of it, though the line is.
    let secret = text.find("ghp_").expect("in the text");
    assert!(!source.hides(&(secret - 2..secret)) && source.hides(&(secret - 2..secret + 1)));
    assert_eq!(key_at("token"), None);
    assert_eq!(key_at("ghp_0123456789abcdefghijABCDEFGHIJ012345"), None);
}

#[test]
fn what_touches_a_hidden_span_is_not_hidden() {
    let mut source = Source::new("f", "abcd");
    source.hide(1..3);
    let hides = [0..1, 0..2, 1..3, 2..4, 3..4].map(|span| source.hides(&span));
    assert_eq!(hides, [false, true, true, true, false]);
}
