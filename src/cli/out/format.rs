//! How answers are written.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// For people.
    Text,
    /// One object.
    Json,
    /// One object per line.
    Ndjson,
    // Only where there are findings are these offered, by `with_findings`.
    /// SARIF 2.1.0, for answers that are findings.
    #[value(hide = true)]
    Sarif,
    /// Markdown, for the summary of a build.
    #[value(hide = true)]
    Markdown,
    // Only `log` offers these.
    /// A record of Agent Trace.
    #[value(hide = true)]
    AgentTrace,
    /// OpenTelemetry spans, as OTLP/HTTP JSON.
    #[value(hide = true)]
    Otlp,
}

/// The formats that every command has.
const COMMON: [Format; 3] = [Format::Text, Format::Json, Format::Ndjson];

/// A file that an answer is written to as well.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Copy {
    /// How the answer is written there.
    pub format: Format,
    /// The file.
    pub path: PathBuf,
}

impl Copy {
    /// Reads `FORMAT=FILE`.
    fn parse(text: &str) -> Result<Copy, String> {
        let Some((word, path)) = text.split_once('=') else {
            return Err("write it as FORMAT=FILE".to_owned());
        };
        // Refused here: what has no such form would be found once all of it is judged.
        let format = Format::from_str(word, false)
            .ok()
            .filter(|format| !matches!(format, Format::AgentTrace | Format::Otlp));
        let format = format.ok_or_else(|| {
            format!("there is no format `{word}`; write text, json, ndjson, sarif or markdown")
        })?;
        Ok(Copy { format, path: path.into() })
    }
}

/// Where an answer that is findings goes besides standard output.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CopyArgs {
    /// Also write the answer to a file, in the format given, such as sarif=findings.sarif; repeatable
    #[arg(long, value_name = "FORMAT=FILE", value_parser = Copy::parse)]
    pub also: Vec<Copy>,
}

impl Format {
    /// What a command line asks for that cannot be read as a whole; text where it does not say.
    pub(in crate::cli) fn asked_for(arguments: &[OsString]) -> Format {
        // What follows is the command of a run, with options of its own.
        let mut words =
            arguments.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
        let mut asked = Format::Text;
        while let Some(word) = words.next() {
            let value = match word {
                "--format" => words.next(),
                _ => word.strip_prefix("--format="),
            };
            let format = value.and_then(|value| Format::from_str(value, false).ok());
            // The word that is no format may be what the error is about.
            asked = format.unwrap_or(asked);
        }
        asked
    }
}

/// `--format` of a command that answers findings, in the place of everybody's.
pub(in crate::cli) fn with_findings() -> Arg {
    with(
        &[Format::Sarif, Format::Markdown],
        "Output format: text for people, one JSON object, one JSON object per line, SARIF, or Markdown",
    )
}

/// `--format` of `log`, in the place of everybody's.
pub(in crate::cli) fn with_traces() -> Arg {
    with(
        &[Format::AgentTrace, Format::Otlp],
        "Output format: text for people, one JSON object, one JSON object per line, a record of Agent Trace \
         (the lines that the agent wrote), or spans of OpenTelemetry",
    )
}

fn with(more: &[Format], help: &'static str) -> Arg {
    let formats = COMMON.iter().chain(more);
    let values = formats.filter_map(|format| Some(format.to_possible_value()?.hide(false)));
    Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .value_parser(
            PossibleValuesParser::new(values).try_map(|word| Format::from_str(&word, false)),
        )
        .default_value("text")
        .help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_a_format_that_findings_have() {
        for word in ["text", "json", "ndjson", "sarif", "markdown"] {
            let copy = Copy::parse(&format!("{word}=file")).expect(word);
            assert_eq!(copy.path, PathBuf::from("file"));
        }
        for word in ["agent-trace", "otlp", "xml", ""] {
            Copy::parse(&format!("{word}=file")).expect_err(word);
        }
    }

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
