//! How many tests passed, read from what a check command prints.
//!
//! Each test runner ends with a line of its own; [`TestCount`] knows those of cargo test, nextest, pytest, unittest, jest, vitest, mocha,
//! node, go test (`-v` or `-json`), ctest, RSpec and PHPUnit. A command that starts several runners, or one runner several times, has
//! passed the sum.
//!
//! The count says what a program of the agent's work printed. It tells an honest agent that it has lost tests; it proves nothing
//! about one that prints such lines by itself.

/// The longest line that is looked at. Summaries are short, and a stream without line ends must not fill the memory.
const LONGEST_LINE: usize = 4096;

/// Reads a stream and counts.
#[derive(Debug, Default)]
pub struct TestCount {
    line: Vec<u8>,
    is_too_long: bool,
    passed: Option<u64>,
    /// What unittest says that it ran, until its next line says how many of them passed.
    ran: Option<u64>,
}

impl TestCount {
    /// The count of a file of JUnit's format (<https://github.com/testmoapp/junitxml>): each `testcase` that has no failure, no error and
    /// was not skipped. `None` where the text is of no such file.
    pub fn of_junit(text: &str) -> Option<u64> {
        let (_, cases) = text.split_once("<testsuite")?;
        let cases = cases.split("<testcase").skip(1);
        let has_passed = |case: &&str| {
            let inside = case.split_once("</testcase").map_or(*case, |(inside, _)| inside);
            !["<failure", "<error", "<skipped"].iter().any(|mark| inside.contains(mark))
        };
        Some(cases.filter(has_passed).count() as u64)
    }

    /// Takes in what was printed next.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > LONGEST_LINE {
                // No line of a runner is as long, and a program may print without a line end for
                // ever.
                self.is_too_long = true;
                self.line.clear();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// How many tests passed; `None` where no runner said so.
    pub fn passed(&mut self) -> Option<u64> {
        self.end_line();
        self.passed
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            return;
        }
        let line = without_colours(&String::from_utf8_lossy(&line));
        let line = line.trim();
        if let Some(ran) = unittest_ran(line) {
            // unittest says in a later line how many of these did not pass.
            self.ran = Some(ran);
            return;
        }
        let count = match self.ran.filter(|_| !line.is_empty()) {
            Some(ran) => {
                self.ran = None;
                unittest_passed(ran, line).or_else(|| passed_of(line))
            }
            None => passed_of(line),
        };
        if let Some(count) = count {
            self.passed = Some(self.passed.unwrap_or(0).saturating_add(count));
        }
    }
}

/// A line without the escape sequences of colours.
fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // An escape sequence of a terminal ends in a letter.
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        plain.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    plain
}

/// `Ran 3 tests in 0.001s`
fn unittest_ran(line: &str) -> Option<u64> {
    let (count, rest) = line.strip_prefix("Ran ")?.split_once(' ')?;
    let is_it = rest.starts_with("test in ") || rest.starts_with("tests in ");
    count.parse().ok().filter(|_| is_it)
}

/// `OK`, `OK (skipped=1)` or `FAILED (failures=1, errors=2)`, after so many tests.
fn unittest_passed(ran: u64, line: &str) -> Option<u64> {
    let rest = line.strip_prefix("OK").or_else(|| line.strip_prefix("FAILED"))?;
    let others = rest.trim().trim_matches(['(', ')']).split(", ");
    let others = others.filter_map(|part| part.split_once('=')?.1.parse::<u64>().ok());
    Some(ran.saturating_sub(others.sum()))
}

/// How many tests passed, if the line is the summary of a runner.
fn passed_of(line: &str) -> Option<u64> {
    const RUNNERS: [fn(&str) -> Option<u64>; 11] =
        [cargo, nextest, pytest, jest, vitest, mocha, node, go, ctest, rspec, phpunit];
    RUNNERS.iter().find_map(|runner| runner(line))
}

/// The number before a word, as in `3 passed`; a list of such parts ends each with one of these characters.
fn number_before(text: &str, word: &str) -> Option<u64> {
    let parts = text.split([',', ';', '|', '(']);
    let mut counts = parts.filter_map(|part| {
        let (count, what) = part.trim().split_once(' ')?;
        let what = what.split([' ', ')']).next()?;
        (what == word).then(|| count.parse().ok()).flatten()
    });
    counts.next()
}

/// `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn cargo(line: &str) -> Option<u64> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    number_before(counts, "passed")
}

/// `Summary [   0.012s] 5 tests run: 5 passed (1 slow), 0 skipped`
fn nextest(line: &str) -> Option<u64> {
    let (_, counts) = line.strip_prefix("Summary [")?.split_once(" run: ")?;
    Some(number_before(counts, "passed").unwrap_or(0))
}

/// `===== 3 passed, 1 skipped in 0.02s =====`, or the same without its frame; `no tests ran in 0.01s`.
fn pytest(line: &str) -> Option<u64> {
    const WORDS: [&str; 12] = [
        "passed",
        "failed",
        "skipped",
        "error",
        "errors",
        "xfailed",
        "xpassed",
        "warning",
        "warnings",
        "deselected",
        "rerun",
        "subtests",
    ];
    let (counts, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    time.split(' ').next()?.strip_suffix('s')?.parse::<f64>().ok()?;
    if counts == "no tests ran" {
        return Some(0);
    }
    let is_count = |part: &str| {
        let mut words = part.trim().split(' ');
        let number = words.next().is_some_and(|word| word.parse::<u64>().is_ok());
        number && words.next().is_some_and(|word| WORDS.contains(&word))
    };
    let is_summary = counts.split(',').all(is_count);
    is_summary.then(|| number_before(counts, "passed").unwrap_or(0))
}

/// `Tests:       1 failed, 2 skipped, 5 passed, 8 total`
fn jest(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("Tests:")?;
    number_before(counts, "total")?;
    Some(number_before(counts, "passed").unwrap_or(0))
}

/// `Tests  1 failed | 4 passed (5)`
fn vitest(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("Tests  ")?.trim();
    if counts == "no tests" {
        return Some(0);
    }
    let total = counts.rsplit_once('(')?.1.strip_suffix(')')?;
    total.parse::<u64>().ok()?;
    Some(number_before(counts, "passed").unwrap_or(0))
}

/// `5 passing (12ms)`
fn mocha(line: &str) -> Option<u64> {
    let (count, rest) = line.split_once(" passing")?;
    let is_summary = rest.is_empty() || rest.starts_with(" (");
    count.parse().ok().filter(|_| is_summary)
}

/// `# pass 5`, or with the sign that it has on a terminal.
fn node(line: &str) -> Option<u64> {
    let count = line.strip_prefix("# pass ").or_else(|| line.strip_prefix("ℹ pass "))?;
    count.parse().ok()
}

/// `--- PASS: TestOne (0.00s)` for each test, or its line of JSON. Without `-v` go tells of packages alone, and there is no count.
fn go(line: &str) -> Option<u64> {
    let is_json = line.starts_with('{')
        && line.contains("\"Action\":\"pass\"")
        && line.contains("\"Test\":\"");
    (is_json || line.starts_with("--- PASS: ")).then_some(1)
}

/// `90% tests passed, 1 tests failed out of 10`
fn ctest(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("% tests passed, ")?;
    let (failed, total) = rest.split_once(" tests failed out of ")?;
    Some(total.trim().parse::<u64>().ok()?.saturating_sub(failed.parse().ok()?))
}

/// `12 examples, 1 failure, 2 pending`
fn rspec(line: &str) -> Option<u64> {
    let count = |words: [&str; 2]| words.iter().find_map(|word| number_before(line, word));
    let examples = count(["examples", "example"])?;
    let failed = count(["failures", "failure"])?;
    Some(examples.saturating_sub(failed + count(["pending", "pending"]).unwrap_or(0)))
}

/// `OK (5 tests, 9 assertions)`, or `Tests: 5, Assertions: 9, Failures: 1, Skipped: 2.`
fn phpunit(line: &str) -> Option<u64> {
    if let Some(counts) = line.strip_prefix("OK (") {
        number_before(counts, "assertions").or(number_before(counts, "assertion"))?;
        return number_before(counts, "tests").or(number_before(counts, "test"));
    }
    let counts = line.strip_prefix("Tests: ")?.strip_suffix('.')?;
    let named = |name: &str| {
        let mut parts = counts.split(", ").filter_map(|part| part.split_once(": "));
        parts.find(|(found, _)| *found == name)?.1.parse::<u64>().ok()
    };
    named("Assertions")?;
    let all = counts.split(',').next()?.trim().parse::<u64>().ok()?;
    let others = ["Failures", "Errors", "Skipped", "Incomplete"];
    let others: u64 = others.iter().filter_map(|name| named(name)).sum();
    Some(all.saturating_sub(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Option<u64> {
        let mut count = TestCount::default();
        // In pieces, as a pipe gives it.
        text.as_bytes().chunks(7).for_each(|piece| count.push(piece));
        count.passed()
    }

    #[test]
    fn each_runner_s_own_words_are_read() {
        for (printed, passed) in [
            (
                "running 2 tests\ntest a ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
                Some(2),
            ),
            (
                "test result: ok. 2 passed; 0 failed\n\ntest result: FAILED. 3 passed; 1 failed\n",
                Some(5),
            ),
            (
                "     Summary [   0.012s] 5 tests run: 4 passed (1 slow), 1 failed, 0 skipped\n",
                Some(4),
            ),
            ("============ 3 passed, 1 skipped in 0.02s ============\n", Some(3)),
            ("1 failed, 2 warnings in 65.10s (0:01:05)\n", Some(0)),
            ("3 passed in 0.01s", Some(3)),
            ("no tests ran in 0.00s\n", Some(0)),
            (
                "...\n----------------------------------------------------------------------\nRan 3 tests in 0.001s\n\nOK (skipped=1)\n",
                Some(2),
            ),
            ("Ran 1 test in 0.000s\n\nFAILED (failures=1)\n", Some(0)),
            (
                "Test Suites: 1 passed, 1 total\nTests:       1 failed, 2 skipped, 5 passed, 8 total\nSnapshots:   0 total\n",
                Some(5),
            ),
            (
                "\u{1b}[2m Test Files \u{1b}[22m \u{1b}[1m\u{1b}[32m1 passed\u{1b}[39m\u{1b}[22m\u{1b}[90m (1)\u{1b}[39m\n\u{1b}[2m      Tests \u{1b}[22m \u{1b}[1m\u{1b}[32m4 passed\u{1b}[39m\u{1b}[22m\u{1b}[90m (4)\u{1b}[39m\n",
                Some(4),
            ),
            ("      Tests  1 failed | 4 passed (5)\n", Some(4)),
            ("\n  5 passing (12ms)\n  1 failing\n", Some(5)),
            ("# tests 6\n# pass 5\n# fail 1\n", Some(5)),
            (
                "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/one (0.00s)\nPASS\nok  \tm\t0.001s\n",
                Some(2),
            ),
            (
                "{\"Action\":\"pass\",\"Package\":\"m\",\"Test\":\"TestA\",\"Elapsed\":0}\n{\"Action\":\"pass\",\"Package\":\"m\",\"Elapsed\":0}\n",
                Some(1),
            ),
            ("ok  \tm\t0.001s\n", None),
            ("90% tests passed, 1 tests failed out of 10\n", Some(9)),
            ("12 examples, 1 failure, 2 pending\n", Some(9)),
            ("OK (5 tests, 9 assertions)\n", Some(5)),
            ("Tests: 5, Assertions: 9, Failures: 1, Skipped: 2.\n", Some(2)),
            ("compiled in 3s\nall good\nTests: see below\n", None),
            ("", None),
        ] {
            assert_eq!(count(printed), passed, "{printed}");
        }
    }

    #[test]
    fn a_stream_without_line_ends_is_not_kept() {
        let mut count = TestCount::default();
        for _ in 0..10_000 {
            count.push(&[b'x'; 1000]);
        }
        assert!(count.line.len() <= LONGEST_LINE);
        count.push(b"\n3 passed in 0.01s\n");
        assert_eq!(count.passed(), Some(3));
    }

    #[test]
    fn a_report_in_xml_counts_what_passed() {
        let report = "<?xml version=\"1.0\"?><testsuites><testsuite tests=\"3\"><testcase name=\"a\"/>\
                      <testcase name=\"b\"><failure/></testcase><testcase name=\"c\"></testcase>\
                      <testcase name=\"d\"><skipped/></testcase></testsuite></testsuites>";
        assert_eq!(TestCount::of_junit(report), Some(2));
        assert_eq!(TestCount::of_junit("<project></project>"), None);
    }
}
