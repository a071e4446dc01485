//! What a message is to say, put together from the parts that were given.

use crate::domain::message::PAYLOAD_LIMIT;
use crate::error::{IoContext, Result};
use crate::ops::Ctx;
use crate::wire::message::payload::{self, Part};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Puts the payload together; the inner result tells what is wrong with it.
pub(super) fn said(
    ctx: &Ctx,
    parts: &[String],
) -> Result<std::result::Result<payload::Addressed, Vec<String>>> {
    let mut texts = Vec::new();
    for part in parts {
        match Part::of(part) {
            Part::Field(key, value) => texts.push((Some(key), value.to_owned())),
            Part::Json(text) => texts.push((None, text.to_owned())),
            Part::File(path) => match read_payload(&ctx.absolute(Path::new(path)))? {
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

fn read_payload(path: &Path) -> Result<std::result::Result<String, String>> {
    let what = "could not read the payload";
    let mut bytes = Vec::new();
    let file = File::open(path).at(what, path)?;
    let read = file.take(PAYLOAD_LIMIT as u64 + 1).read_to_end(&mut bytes);
    read.at(what, path)?;
    if bytes.len() > PAYLOAD_LIMIT {
        let path = path.display();
        return Ok(Err(format!("{path} holds more than {PAYLOAD_LIMIT} bytes")));
    }
    Ok(String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display())))
}
