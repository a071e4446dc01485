//! How answers are written.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ValueEnum};
use std::ffi::OsString;

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// One object.
    Json,
    /// One object per line.
    Ndjson,
    // Only where there are findings is it offered, by `with_sarif`.
    /// SARIF 2.1.0, for answers that are findings.
    #[value(hide = true)]
    Sarif,
}

impl Format {
    /// What a command line asks for that cannot be read as a whole; text where it does not say.
    pub(super) fn asked_for(arguments: &[OsString]) -> Format {
        let words = arguments.iter().take_while(|word| *word != "--");
        let mut words = words.filter_map(|word| word.to_str());
        let mut asked = Format::Text;
        while let Some(word) = words.next() {
            let value = match word {
                "--format" => words.next(),
                _ => word.strip_prefix("--format="),
            };
            let format = value.and_then(|value| Format::from_str(value, false).ok());
            asked = format.unwrap_or(asked);
        }
        asked
    }
}

/// `--format` of a command that answers findings, in the place of everybody's.
pub(super) fn with_sarif() -> Arg {
    let formats = Format::value_variants().iter();
    let values = formats.filter_map(|format| Some(format.to_possible_value()?.hide(false)));
    Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .value_parser(
            PossibleValuesParser::new(values).try_map(|word| Format::from_str(&word, false)),
        )
        .default_value("text")
        .help("How the answer is written: for people, as one JSON object, one JSON object per line, or SARIF")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_found_in_a_command_line_that_makes_no_sense() {
        let check = |line: &str, expected: Format| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(Format::asked_for(&words), expected, "{line}");
        };
        check("git-agent bogus", Format::Text);
        check("git-agent --format json bogus", Format::Json);
        check("git-agent merge --format=ndjson --bogus", Format::Ndjson);
        check("git-agent merge --format xml", Format::Text);
        check("git-agent merge --format", Format::Text);
        check("git-agent run x --bogus -- y --format json", Format::Text);
    }
}
