//! The page as a browser lays it out: on a wide screen, on a phone, in the dark.

use crate::shell::find;
use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a browser is asked of each frame: whether it is wider than its screen, its colours, in how many rows the cells of each
/// agent stand, and which life a link opens.
const FACTS: &str = r##"
const of = frame => {
  const { document: page, location } = frame.contentWindow, style = frame.contentWindow.getComputedStyle(page.body);
  const tops = row => new Set([...row.children].map(cell => cell.getBoundingClientRect())
    .filter(box => box.height > 0).map(box => Math.round(box.bottom / 8))).size;
  return {
    room: page.documentElement.clientWidth, width: page.documentElement.scrollWidth,
    ground: style.backgroundColor, ink: style.color,
    rows: [...page.querySelectorAll("#needs tbody tr, #work tbody tr")].map(tops),
    titles: page.querySelector("#work thead").getBoundingClientRect().height,
  };
};
document.getElementById("facts").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(of));
"##;

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find_map(find)
}

/// What a browser says of the page on screens of these widths.
fn facts(browser: &Path, page: &str, widths: &[u32], is_dark: bool) -> Vec<Value> {
    let home = tempfile::tempdir().expect("temporary directory");
    let source = page.replace('&', "&amp;").replace('"', "&quot;");
    // Where a page is wanted narrower than any window may be, a frame is.
    let frame =
        |width: &u32| format!("<iframe width={width} height=900 srcdoc=\"{source}\"></iframe>");
    let frames: String = widths.iter().map(frame).collect();
    let wrapper = format!(
        "<!doctype html><style>:root {{ color-scheme: light dark }} iframe {{ border: 0 }}</style>{frames}<pre id=facts></pre>\
         <script>onload = () => {{ {FACTS} }}</script>"
    );
    let file = home.path().join("frames.html");
    fs::write(&file, wrapper).expect("written");
    let scheme = u8::from(!is_dark);
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            "--window-size=1400,1000",
        ])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
        .arg(&file)
        .env("HOME", home.path())
        .output()
        .expect("starts");
    let shown = String::from_utf8_lossy(&output.stdout);
    let facts =
        shown.split_once("<pre id=\"facts\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let facts = facts.unwrap_or_else(|| panic!("{}", describe(&output))).0;
    serde_json::from_str(facts).expect("JSON")
}

/// How bright a colour is that a browser tells of as `rgb(1, 2, 3)`.
fn brightness(colour: &Value) -> u32 {
    let colour = colour.as_str().expect("a colour");
    let digits = colour.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    digits.take(3).map(|part| part.parse::<u32>().expect("a number")).sum()
}

#[test]
fn a_page_fits_a_wide_screen_a_phone_and_the_dark() {
    let Some(browser) = browser() else { return };
    let repo = TestRepo::with_commit();
    let long = "an-agent-whose-name-takes-more-room-than-a-phone-has";
    repo.spawn_task(TASK, &["--name", long]);
    let word = "without_any_place_to_break_".repeat(5);
    let answer = repo.agent_json(&["spawn", &format!("Write {word}"), "--no-bundle", "--name=two"]);
    let worktree = answer["worktree_abspath"].as_str().expect("a path");
    fs::write(format!("{worktree}/src/lib.rs"), "// two\n").expect("written");
    fs::write(format!("{worktree}/{word}.rs"), "// far out\n").expect("written");
    repo.agent_json(&["done", "two"]);
    let failed = repo.agent(&["run", long, "--", "sh", "-c", "echo three > src/lib.rs; exit 3"]);
    assert_eq!(failed.status.code(), Some(3), "{}", describe(&failed));
    let page = super::html(&repo);
    let light = facts(&browser, &page, &[1280, 390], false);
    let dark = facts(&browser, &page, &[390], true);
    for facts in light.iter().chain(&dark) {
        assert_eq!(facts["room"], facts["width"], "nothing is wider than the screen: {facts:#}");
    }
    let [wide, phone] = &light[..] else { panic!("{light:#?}") };
    // A table with titles, and without them two rows an agent at the most.
    assert!(
        wide["titles"].as_f64() > Some(10.0) && phone["titles"].as_f64() < Some(2.0),
        "{light:#?}"
    );
    let rows = phone["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4, "{phone:#}");
    assert!(rows.iter().all(|rows| rows.as_u64() <= Some(2)), "{phone:#}");
    assert!(brightness(&phone["ground"]) > 700 && brightness(&phone["ink"]) < 150, "{phone:#}");
    assert!(brightness(&dark[0]["ground"]) < 100 && brightness(&dark[0]["ink"]) > 600, "{dark:#?}");
}
