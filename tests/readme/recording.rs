//! The tour as a picture of a terminal: what the program printed, in the colours in which it did, with the ids, times
//! and places that the README shows, so that the same program gives the same bytes.

use super::{Step, words};
use std::fmt::Write;

/// The height of a line, the width of a column and the space around the text, in pixels.
const LINE: usize = 19;
const COLUMN: usize = 8;
const MARGIN: usize = 16;
/// Seconds between one command and the next.
const PAUSE: f32 = 1.4;

const STYLE: &str = "\
text{font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#d0d7de}\
.b{font-weight:bold}.d{fill:#8b949e}.p{fill:#79c0ff}\
.c31{fill:#ff7b72}.c32{fill:#7ee787}.c33{fill:#e3b341}.c34{fill:#79c0ff}.c36{fill:#76e3ea}\
@keyframes show{from{opacity:0}}.s{animation:show .2s backwards}\
@media(prefers-reduced-motion:reduce){.s{animation:none}}";

/// A piece of text and the classes that it is drawn with.
type Span = (String, String);

/// The picture.
pub fn svg(steps: &[Step]) -> String {
    let mut body = String::new();
    let (mut line, mut columns) = (0, 0);
    for (index, step) in steps.iter().enumerate() {
        let delay = PAUSE * index as f32;
        writeln!(body, "<g class=\"s\" style=\"animation-delay:{delay:.1}s\">").expect("a string");
        let prompt = ("$ ".to_owned(), "p".to_owned());
        let command = vec![prompt, (step.command.clone(), "b".to_owned())];
        for spans in [command].into_iter().chain(lines(step)) {
            line += 1;
            columns = columns.max(spans.iter().map(|(text, _)| text.chars().count()).sum());
            draw(&mut body, line, &spans);
        }
        body.push_str("</g>\n");
    }
    page(
        "A task becomes an agent, its work is verified and merged, and its worktree is removed",
        (columns, line),
        &body,
    )
}

/// A picture of a screen, below the command that shows it.
pub fn of_screen(title: &str, command: &str, screen: &[String]) -> String {
    let mut body = String::new();
    let prompt = ("$ ".to_owned(), "p".to_owned());
    draw(&mut body, 1, &[prompt, (command.to_owned(), "b".to_owned())]);
    let mut columns = 0;
    for (index, line) in screen.iter().enumerate() {
        let (plain, classes) = coloured(line);
        let mut spans: Vec<Span> = Vec::new();
        for (at, c) in plain.char_indices() {
            match spans.last_mut() {
                Some((text, last)) if *last == classes[at] => text.push(c),
                _ => spans.push((c.to_string(), classes[at].clone())),
            }
        }
        columns = columns.max(plain.chars().count());
        draw(&mut body, index + 2, &spans);
    }
    page(title, (columns, screen.len() + 1), &body)
}

fn page(title: &str, (columns, lines): (usize, usize), body: &str) -> String {
    let (width, height) = (columns * COLUMN + 2 * MARGIN, lines * LINE + 2 * MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" xml:space=\"preserve\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#161b22\"/>\n{body}</svg>\n"
    )
}

fn draw(body: &mut String, line: usize, spans: &[Span]) {
    let y = MARGIN + line * LINE - LINE / 3;
    write!(body, "<text x=\"{MARGIN}\" y=\"{y}\">").expect("a string");
    for (text, class) in spans {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        if class.is_empty() {
            body.push_str(&text);
        } else {
            write!(body, "<tspan class=\"{class}\">{text}</tspan>").expect("a string");
        }
    }
    body.push_str("</text>\n");
}

/// What a step printed: the words of the README in the colours of the program.
fn lines(step: &Step) -> Vec<Vec<Span>> {
    let (plain, classes) = coloured(&step.printed);
    let mut lines = vec![Vec::new()];
    let mut start = 0;
    for (real, shown) in words(plain.trim_end()).zip(words(&step.expected)) {
        let class = &classes[start];
        start += real.len();
        if shown == "\n" {
            lines.push(Vec::new());
            continue;
        }
        let line: &mut Vec<Span> = lines.last_mut().expect("a line");
        match line.last_mut() {
            Some((text, last)) if last == class => text.push_str(shown),
            _ => line.push((shown.to_owned(), class.clone())),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// A text without its escape sequences, and for each byte of it the classes of what came before.
pub fn coloured(text: &str) -> (String, Vec<String>) {
    let (mut plain, mut classes) = (String::new(), Vec::new());
    let mut now: Vec<&str> = Vec::new();
    for (index, piece) in text.split("\u{1b}[").enumerate() {
        let shown = match piece.split_once('m') {
            Some((codes, rest)) if index > 0 => {
                for code in codes.split(';') {
                    match code {
                        "0" | "" => now.clear(),
                        "1" => now.push("b"),
                        "2" => now.push("d"),
                        "31" => now.push("c31"),
                        "32" => now.push("c32"),
                        "33" => now.push("c33"),
                        "34" => now.push("c34"),
                        "36" => now.push("c36"),
                        other => panic!("the recording knows no style {other}"),
                    }
                }
                rest
            }
            _ => piece,
        };
        plain.push_str(shown);
        classes.extend(std::iter::repeat_n(now.join(" "), shown.len()));
    }
    (plain, classes)
}
