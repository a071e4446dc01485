//! `git agent list --watch`: the list, redrawn in place when it changed.

use super::screen::{Screen, Wake};
use super::terminal::height;
use super::ui::{Answer, Format, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::list::{ListOptions, Watch};
use std::time::Duration;

pub(super) fn run(
    ctx: &Ctx,
    ui: &mut Ui,
    options: ListOptions,
    interval: Duration,
) -> Result<Exit> {
    if ui.format() != Format::Text || !Screen::is_there() {
        return Err(
            Error::new(Code::Usage, "--watch draws on a terminal, and this is none")
                .hint("to read the list by machine, run git agent list --format ndjson"),
        );
    }
    let mut watch = Watch::new(ctx, options);
    // Before the screen is taken, so that an error is seen where errors are.
    watch.look()?;
    let screen = Screen::take(ui)?;
    let outcome = keep_drawing(&mut watch, &screen, ui, interval);
    screen.leave(ui)?;
    outcome.map(|()| Exit::Yes)
}

fn keep_drawing(
    watch: &mut Watch<'_>,
    screen: &Screen,
    ui: &mut Ui,
    interval: Duration,
) -> Result<()> {
    let mut drawn = String::new();
    loop {
        let frame = frame(&watch.look()?.text());
        if frame != drawn {
            screen.draw(ui, &frame)?;
            drawn = frame;
        }
        match screen.wait(interval)? {
            Wake::Time => {}
            Wake::Resized => drawn.clear(),
            Wake::Ended => return Ok(()),
        }
    }
}

/// As much of a text as fits on the screen.
fn frame(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = height().saturating_sub(1).max(2);
    if lines.len() <= room {
        return text.to_owned();
    }
    let more = lines.len() - (room - 1);
    format!("{}\n… and {more} more\n", lines[..room - 1].join("\n"))
}
