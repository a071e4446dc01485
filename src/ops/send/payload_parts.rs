//! The payload of a message, put together from the parts that were given.

use crate::agents::ctx::Ctx;
use crate::domain::message::PAYLOAD_LIMIT;
use crate::error::{IoContext, Result};
use crate::wire::message::payload::{self, Part};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The file that is standard input.
const INPUT: &str = "-";

/// Puts the payload together; the inner result tells what is wrong with it.
pub(super) fn assemble(
    ctx: &Ctx,
    parts: &[String],
) -> Result<std::result::Result<payload::Addressed, Vec<String>>> {
    let mut texts = Vec::new();
    let input = |part: &&String| Part::of(part) == Part::File(INPUT);
    if parts.iter().filter(input).count() > 1 {
        let problem = format!("`@{INPUT}` stands twice, and standard input can be read once");
        return Ok(Err(vec![problem]));
    }
    for part in parts {
        match Part::of(part) {
            Part::Field(key, value) => texts.push((Some(key), value.to_owned())),
            Part::Json(text) => texts.push((None, text.to_owned())),
            Part::File(path) => match read_payload(ctx, path)? {
                Ok(text) => texts.push((None, text)),
                Err(problem) => return Ok(Err(vec![problem])),
            },
        }
    }
    let parts: Vec<_> = texts
        .iter()
        .map(|(key, text)| (*key, text.as_str()))
        .collect();
    Ok(payload::assemble(&parts))
}

fn read_payload(ctx: &Ctx, path: &str) -> Result<std::result::Result<String, String>> {
    let what = "could not read the payload";
    let (source, path): (Box<dyn Read>, _) = match path {
        INPUT => (Box::new(std::io::stdin()), PathBuf::from("<stdin>")),
        _ => {
            let path = ctx.absolute(Path::new(path));
            (Box::new(File::open(&path).at(what, &path)?), path)
        }
    };
    let mut bytes = Vec::new();
    // One byte more than is allowed tells that it is too long.
    let read = source
        .take(PAYLOAD_LIMIT as u64 + 1)
        .read_to_end(&mut bytes);
    read.at(what, &path)?;
    if bytes.len() > PAYLOAD_LIMIT {
        let path = path.display();
        return Ok(Err(format!("{path} holds more than {PAYLOAD_LIMIT} bytes")));
    }
    Ok(String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display())))
}
