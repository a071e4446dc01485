// Starts real agent hosts with `git agent run --host` against a scripted model, and checks what they do.
//
//   node main.mjs [--git-agent FILE] [--cached] [--table FILE] [--keep] [--sandbox MODE] [HOST...]
//
// Modes: auto, off, answer, session, worktrees, lead, user, cost; and on request alone mcp (needs git-agent-mcp beside git-agent) and pairs (measures).
//
// Hosts are installed from their registries at the versions of hosts.mjs, without their install scripts, into
// $GIT_AGENT_HOSTS_CACHE, else ~/.cache/git-agent-hosts. `--cached` skips a host that is not there already. `--table` writes
// the results into a page, between two marks. Ends with status 1 if a check does not hold.
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { calls, isolatedCalls, PROMPT } from "./called.mjs";
import { FOREIGN, HOSTS } from "./hosts.mjs";
import { LEAD, leads, strays } from "./lead.mjs";
import { startModel } from "./model.mjs";
import { busy, orders } from "./orders.mjs";
import { together, perCall } from "./pairs.mjs";
import { ANSWER, answers, READING, TASK, tour } from "./tour.mjs";

const LIMIT_SECONDS = 60;
const HEAD = "| host | package and version | our sandbox | checks | tried |\n|---|---|---|---|---|\n";
const MARKS = ["<!-- tried: written by .ci/hosts -->\n", "<!-- end of tried -->\n"];

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    "git-agent": { type: "string", default: "target/debug/git-agent" },
    cached: { type: "boolean" },
    table: { type: "string" },
    keep: { type: "boolean" },
    sandbox: { type: "string" },
  },
});
// Hosts are started in other directories.
options["git-agent"] = path.resolve(options["git-agent"]);
const cache = process.env.GIT_AGENT_HOSTS_CACHE ?? path.join(os.homedir(), ".cache/git-agent-hosts");
const names = positionals.length > 0 ? positionals : Object.keys(HOSTS);
const rows = [];
for (const name of names) {
  const host = HOSTS[name];
  if (!host) throw new Error(`no host ${name}; there are ${Object.keys(HOSTS).join(", ")}`);
  const program = install(name, host);
  if (!program) continue;
  for (const sandbox of options.sandbox ? [options.sandbox] : ["auto", "off", "answer", "session", "worktrees", "lead", "user", "cost"]) {
    if (["auto", "off"].includes(sandbox)) rows.push(await attempt(name, host, program, sandbox));
    else if (sandbox === "answer" && host.answers) rows.push(await answer(name, host, program));
    else if (sandbox === "lead" && host.leads) rows.push(await leading(name, host, program));
    else if (sandbox === "user" && host.alone) rows.push(await below(name, host, program));
    else if (sandbox === "cost" && (host.cost || !host.tellsCost)) rows.push(await cost(name, host, program));
    else if (sandbox === "mcp" && host.mcp) rows.push(await ordering(name, host, program));
    else if (sandbox === "pairs" && host.session) await pairs(name, host, program);
    else if (["session", "worktrees"].includes(sandbox) && host.session) {
      rows.push(await session(name, host, program, sandbox === "worktrees"));
    }
  }
}
const today = new Date().toISOString().slice(0, 10);
const table = rows.map((row) => [row.name, line(row)]);
console.log(HEAD + table.map(([, text]) => text).join(""));
if (options.table) writeTable(options.table);
const failed = rows.flatMap((row) => row.findings).filter((finding) => !finding.holds).length;
const passed = rows.flatMap((row) => row.findings).length - failed;
if (rows.length > 0) console.log(`hosts: ${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);

/// The directory with a host's program, installed if need be.
function install(name, host) {
  const home = path.join(cache, `${name}-${host.version}`);
  const programs = path.join(home, "bin");
  if (fs.existsSync(path.join(programs, name))) return programs;
  if (options.cached) {
    console.log(`${name}: skipped, ${host.version} is not in the cache; .ci/hosts ${name} installs it`);
    return null;
  }
  // Finished aside and then renamed: a half-made installation is never found.
  fs.mkdirSync(cache, { recursive: true });
  const made = fs.mkdtempSync(path.join(cache, `.new-${name}-`));
  fs.mkdirSync(path.join(made, "bin"));
  const link = path.join(made, "bin", name);
  const run = (program, ...words) => execFileSync(program, words, { stdio: ["ignore", "ignore", "inherit"], timeout: 600_000 });
  if (host.python) {
    run("python3", "-m", "venv", `${made}/venv`);
    run(`${made}/venv/bin/python`, "-m", "pip", "install", "-q", "--disable-pip-version-check", `${host.package}==${host.version}`);
    fs.writeFileSync(link, `#!/bin/sh\nexec "${home}/venv/bin/python" -m ${name} "$@"\n`, { mode: 0o755 });
  } else {
    run("npm", "install", "--prefix", made, "--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", `${host.package}@${host.version}`);
    const own = host.program && find(made, host.program);
    fs.symlinkSync(path.join("..", own ?? `node_modules/.bin/${name}`), link);
  }
  fs.renameSync(made, home);
  return programs;
}

function find(directory, pattern) {
  const all = fs.readdirSync(directory, { recursive: true });
  return all.find((name) => pattern.test(name) && fs.statSync(path.join(directory, name)).mode & 0o111);
}

/// Makes a repository and a home for one try, and starts the model that plays with the host there.
async function stage(host, programs, fenced, play) {
  // Not in the temporary directory: Gemini skips settings below a directory that others can write.
  const scratch = fs.mkdtempSync(path.join(cache, "try-"));
  const [root, home] = ["repo", "home"].map((part) => path.join(scratch, part));
  [root, home].forEach((directory) => fs.mkdirSync(directory));
  const findings = [];
  const place = { root, home, program: fs.realpathSync(options["git-agent"]), fenced, transcript: [] };
  const model = await startModel(play(host, place, findings));
  const kept = Object.entries(process.env).filter(([variable]) => !FOREIGN.test(variable));
  const environment = {
    ...Object.fromEntries(kept), HOME: home, PATH: `${programs}:${process.env.PATH}`, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1",
    GIT_CONFIG_NOSYSTEM: "1", ...host.point(model.url, home),
  };
  const git = (...words) => execFileSync("git", words, { cwd: root, env: environment, encoding: "utf8" });
  repository(root, git);
  const check = (what, holds, detail = "") => findings.push({ check: what, holds: Boolean(holds), detail });
  return { scratch, root, home, place, model, environment, git, check, findings };
}

/// Keeps or removes what a try left.
function strike({ scratch, place }, output) {
  if (options.keep) {
    fs.writeFileSync(path.join(scratch, "transcript"), place.transcript.join("\n"));
    fs.writeFileSync(path.join(scratch, "output"), output);
    console.log(`  kept: ${scratch}`);
  } else {
    fs.rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
  }
}

/// Starts a host in the main worktree, as its user does, and lets its model call an agent of ours. With `isolated`, the host
/// asks us for a worktree for each agent that it calls.
async function session(name, host, programs, isolated) {
  const set = await stage(host, programs, false, isolated ? isolatedCalls : calls);
  const { root, place, git, check, findings } = set;
  const environment = { ...set.environment, PATH: `${path.dirname(place.program)}:${set.environment.PATH}` };
  const ours = (...words) => execFileSync(place.program, words, { cwd: root, env: environment, encoding: "utf8" });
  ours("init", "--host", name, ...(isolated ? ["--worktrees"] : []));
  fs.mkdirSync(path.join(root, ".config"));
  fs.writeFileSync(path.join(root, ".config/git-agent.toml"), '[defaults]\nscope = ["src/**"]\n');
  git("add", "-A");
  git("commit", "-qm", "hooks");
  const agent = JSON.parse(ours("spawn", "-m", "Add a greeting module.", "--scope", "src/**", "--no-bundle", "--format", "json"));
  place.worktree = agent.worktree_abspath;
  place.invocation = JSON.parse(ours("show", agent.agent_id, "--invocation"));
  const started = Date.now();
  const ran = await start(name, host.session(PROMPT), { cwd: root, env: environment });
  const seconds = (Date.now() - started) / 1000;
  await set.model.close();
  check("the session ends by itself with status 0", ran.status === 0, ran.out.slice(-400) + ran.err.slice(-400));
  check("there is no second worktree", git("worktree", "list", "--porcelain").match(/^worktree /gm).length === 2, git("worktree", "list"));
  const status = git("status", "--porcelain");
  check("the main worktree is as it was", status === "", status);
  const landing = await start(place.program, ["merge", agent.agent_id, "--squash", "-m", "Add a greeting"], { cwd: root, env: environment });
  const landed = landing.status === 0 ? git("show", "--name-only", "--format=", "HEAD") : "";
  check("the work lands, and nothing else", landed === "src/greeting.rs\n", landed + landing.err);
  const how = isolated ? "a session that calls agents in worktrees" : "a session that calls an agent";
  tell(name, host, how, seconds, findings);
  strike(set, ran.out);
  return { name, host, sandbox: `off, ${how}`, seconds, findings };
}

/// Runs a host for an agent that leads three others of the same host to one train on its own branch.
async function leading(name, host, programs) {
  const set = await stage(host, programs, true, (...all) => { all[1].name = name; return leads(...all); });
  const { root, git, check, findings } = set;
  fs.mkdirSync(path.join(root, "roles"));
  fs.writeFileSync(path.join(root, "roles/lead.toml"), 'extends = "edit-local"\nmay_spawn = true\nrelaxes = ["may_spawn"]\n');
  fs.mkdirSync(path.join(root, ".config"));
  fs.writeFileSync(path.join(root, ".config/git-agent.toml"), '[checks]\ncommands = ["test -f src/main.rs"]\n');
  git("add", "-A");
  git("commit", "-qm", "a role that leads");
  const main = git("rev-parse", "main");
  const started = Date.now();
  const words = ["run", LEAD, "--name", "lead", "--role", "lead", "--scope", "src/**", "--host", name, "--timeout", `${2 * LIMIT_SECONDS}s`, "--format", "json"];
  const ran = await start(options["git-agent"], words, { cwd: root, env: set.environment });
  const seconds = (Date.now() - started) / 1000;
  await set.model.close();
  const report = parsed(ran.out);
  check("the host ends by itself with status 0", report.exit_code === 0, `status ${report.exit_code}, ${ran.err.slice(-800)}`);
  check("the work of all four is accepted", report.verdict === "accept", JSON.stringify(report.verify?.findings ?? report.error));
  const log = report.spawn ? git("log", "--format=%s", `main..${report.spawn.branch}`) : "";
  check("three agents landed on its branch", log.match(/^Write part (one|two|three)$/gm)?.length === 3, log);
  check("nothing landed elsewhere", git("rev-parse", "main") === main && git("status", "--porcelain") === "", git("status", "--porcelain"));
  const landing = await start(options["git-agent"], ["merge", "lead", "--squash", "-m", "Add three parts"], { cwd: root, env: set.environment });
  const landed = landing.status === 0 ? git("show", "--name-only", "--format=", "HEAD") : "";
  check("its branch lands", landed === "src/one.txt\nsrc/three.txt\nsrc/two.txt\n", landed + landing.err);
  const how = "on, an agent that leads three others";
  tell(name, host, how, seconds, findings);
  strike(set, ran.out);
  return { name, host, sandbox: how, seconds, findings };
}

/// Starts a host by hand in a directory below the top of an agent's worktree, with our hooks in the user's own settings.
async function below(name, host, programs) {
  const set = await stage(host, programs, false, strays);
  const { root, place, check, findings } = set;
  const environment = { ...set.environment, PATH: `${path.dirname(place.program)}:${set.environment.PATH}` };
  const ours = (...words) => execFileSync(place.program, words, { cwd: root, env: environment, encoding: "utf8" });
  ours("init", "--user", "--host", name);
  const agent = JSON.parse(ours("spawn", "-m", "Add a greeting module.", "--scope", "src/**", "--no-bundle", "--format", "json"));
  place.worktree = agent.worktree_abspath;
  const started = Date.now();
  const cwd = path.join(place.worktree, "src");
  // opencode believes it before it asks the system where it is.
  const ran = await start(name, host.alone("Do the task."), { cwd, env: { ...environment, PWD: cwd } });
  const seconds = (Date.now() - started) / 1000;
  await set.model.close();
  check("the session ends by itself with status 0", ran.status === 0, ran.out.slice(-400) + ran.err.slice(-400));
  const how = "off, a session below the top, `init --user`";
  tell(name, host, how, seconds, findings);
  strike(set, ran.out);
  return { name, host, sandbox: how, seconds, findings };
}

/// Runs a host for an agent that may cost next to nothing: it is ended in time, or refused where nothing tells in time what it costs.
async function cost(name, host, programs) {
  const set = await stage(host, programs, true, busy(100, 300));
  const { root, place, git, check, findings } = set;
  if (host.cost?.price) git("config", `agent.host.${name}.price`, host.cost.price);
  const started = Date.now();
  const words = ["run", "Go on and on.", "--host", name, "--max-cost", host.cost?.usd ?? "1", "--timeout", `${LIMIT_SECONDS}s`, "--format", "json"];
  const ran = await start(options["git-agent"], words, { cwd: root, env: set.environment });
  const seconds = (Date.now() - started) / 1000;
  await set.model.close();
  const report = parsed(ran.out);
  if (host.cost) {
    const isEnded = ran.status === 125 && report.ended === "limit-cost";
    check("it is ended when it has cost more than it may", isEnded && place.asked < 50, `${ran.out.slice(-600)} asked ${place.asked} times`);
    check("what it cost is known", report.cost_usd > Number(host.cost.usd), JSON.stringify(report.cost_usd));
  } else {
    check("a limit of its cost is refused before it starts", ran.status === 2 && !place.asked, ran.out + ran.err);
  }
  const how = "on, a session that costs more than it may";
  tell(name, host, how, seconds, findings);
  strike(set, ran.out);
  return { name, host, sandbox: how, seconds, findings };
}

/// Starts a host in the main worktree as a client of our MCP server, added as the documentation says.
async function ordering(name, host, programs) {
  const set = await stage(host, programs, false, orders);
  const { root, place, git, check, findings } = set;
  const environment = { ...set.environment, PATH: `${path.dirname(place.program)}:${set.environment.PATH}` };
  const started = Date.now();
  host.mcp.trust?.(set.home, root);
  const added = await start(name, ["mcp", "add", "git-agent", ...host.mcp.add, "git-agent", "mcp"], { cwd: root, env: environment });
  check("the server is added", added.status === 0, added.out + added.err);
  const ran = await start(name, host.mcp.session("Make an agent and judge its work."), { cwd: root, env: environment });
  const seconds = (Date.now() - started) / 1000;
  await set.model.close();
  check("the session ends by itself with status 0", ran.status === 0, ran.out.slice(-400) + ran.err.slice(-400));
  const branches = git("for-each-ref", "--format=%(refname:short)", "refs/heads/agent");
  check("the agent is there", branches.trim().split("\n").length === 1 && branches.includes("agent/"), branches);
  const how = "off, a client of the MCP server";
  tell(name, host, how, seconds, findings);
  strike(set, ran.out);
  return { name, host, sandbox: how, seconds, findings };
}

/// Measures what our hooks and our runs take, each as a pair with the bare host.
async function pairs(name, host, programs) {
  const made = (play) => stage(host, programs, false, play);
  const tools = { start, program: fs.realpathSync(options["git-agent"]), name, host };
  console.log(await perCall(made, tools));
  console.log(await together(made, tools));
}

/// Runs a host for an agent that may change no files, which writes its answer where it is told.
async function answer(name, host, programs) {
  const set = await stage(host, programs, true, answers);
  const { root, git, check, findings } = set;
  fs.writeFileSync(path.join(root, "task.toml"), READING);
  git("commit", "-qam", "another task");
  const started = Date.now();
  const words = ["run", "task.toml", "--host", name, "--output", "report.md", "--timeout", `${LIMIT_SECONDS}s`, "--format", "json"];
  const ran = await start(options["git-agent"], words, { cwd: root, env: set.environment });
  const seconds = (Date.now() - started) / 1000;
  await set.model.close();
  const report = parsed(ran.out);
  const text = report.output_file && fs.existsSync(report.output_file) ? fs.readFileSync(report.output_file, "utf8") : "";
  check("the host ends by itself with status 0", report.exit_code === 0, `status ${report.exit_code}, ${ran.err.slice(-800)}`);
  check("its answer is in the output file", text === ANSWER, `${report.output_file} ${text} ${report.summary}`);
  const status = git("status", "--porcelain");
  check("the main worktree is as it was", status === "", status);
  const how = "on, an agent that may change no files";
  tell(name, host, how, seconds, findings);
  strike(set, ran.out);
  return { name, host, sandbox: how, seconds, findings };
}

/// Runs one host once, in a repository and a home of its own.
async function attempt(name, host, programs, sandbox) {
  const set = await stage(host, programs, sandbox !== "off", tour);
  const { root, home, place, model, environment, git, check, findings } = set;
  const before = listing(home);
  const started = Date.now();
  const words = ["run", "task.toml", "--host", name, "--sandbox", sandbox, "--timeout", `${LIMIT_SECONDS}s`, "--format", "json"];
  if (!place.fenced && host.unfenced) words.push("--", ...host.unfenced);
  const ran = await start(options["git-agent"], words, { cwd: root, env: environment });
  const seconds = (Date.now() - started) / 1000;
  const report = parsed(ran.out);
  check("the host ends by itself with status 0", report.exit_code === 0, `status ${report.exit_code}, ${ran.err.slice(-800)}`);
  check(`it takes at most ${LIMIT_SECONDS} s`, seconds <= LIMIT_SECONDS);
  if (place.fenced) {
    check("the fence is on", report.sandbox?.enforced === "full", JSON.stringify(report.sandbox));
    check("the home is as it was", listing(home) === before, changesOf(before, listing(home)));
  }
  const status = git("status", "--porcelain");
  check("the main worktree is as it was", status === "", status);
  if (host.write) {
    const agent = report.agent_id ?? "?";
    const ours = (...words) => start(options["git-agent"], words, { cwd: root, env: environment });
    const resume = () => ours("run", agent, ...words.slice(2, 6), "--resume", ...words.slice(6));
    const again = await resume();
    check("a later run goes on with the session", place.wentOn && again.status === 0, again.out.slice(-600) + again.err.slice(-600));
    place.wentOn = undefined;
    const back = [await ours("discard", agent), await ours("rescue", agent, "--reopen"), await resume()];
    const texts = back.map((one) => one.out.slice(-400) + one.err.slice(-400)).join("\n");
    check("so does one after a discard", place.wentOn && back.every((one) => one.status === 0), texts);
  }
  if (host.write) {
    check("the work is accepted", report.verdict === "accept", JSON.stringify(report.verify?.findings ?? report.error));
    const landing = await start(options["git-agent"], ["merge", report.agent_id ?? "?", "--squash", "-m", "Add a greeting"], { cwd: root, env: environment });
    const landed = landing.status === 0 ? git("show", "--name-only", "--format=", "HEAD") : "";
    check("the work lands, and nothing else", landed === "src/greeting.rs\n", landed + landing.err);
    check("the session is known", report.session_id, JSON.stringify(report).slice(0, 400));
  } else {
    const codes = (report.verify?.findings ?? []).map((finding) => finding.path);
    check("verify rejects what was written out of scope", report.verdict === "reject" && codes.includes("docs/tool.md"), JSON.stringify(report.verify?.findings));
  }
  await model.close();
  tell(name, host, `--sandbox ${sandbox}`, seconds, findings);
  strike(set, ran.out);
  return { name, host, sandbox, seconds, findings };
}

/// A repository with a source file, a page and the task, committed.
function repository(root, git) {
  for (const [name, text] of Object.entries({ "src/main.rs": "fn main() {}\n", "docs/page.md": "# Page\n", "task.toml": TASK })) {
    const file = path.join(root, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  }
  git("init", "-q", "-b", "main");
  git("config", "user.name", "dev");
  git("config", "user.email", "dev@example.com");
  git("add", "-A");
  git("commit", "-qm", "base");
}

/// A program's status and output. What does not end is ended, by its process id.
function start(program, words, { cwd, env }) {
  return new Promise((done) => {
    const child = spawn(program, words, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    const texts = { out: "", err: "" };
    child.stdout.on("data", (data) => (texts.out += data));
    child.stderr.on("data", (data) => (texts.err += data));
    const late = setTimeout(() => child.kill("SIGTERM"), (LIMIT_SECONDS + 20) * 1000);
    child.on("error", (error) => done({ status: null, out: "", err: String(error) }));
    child.on("close", (status) => {
      clearTimeout(late);
      done({ status, ...texts });
    });
  });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/// Every file below a directory, with its size and time.
function listing(directory) {
  const lines = fs.readdirSync(directory, { recursive: true }).map((name) => {
    const status = fs.lstatSync(path.join(directory, name));
    return status.isDirectory() ? name : `${name} ${status.size} ${status.mtimeMs}`;
  });
  return lines.sort().join("\n");
}

function changesOf(before, after) {
  const known = new Set(before.split("\n"));
  return after.split("\n").filter((line) => !known.has(line)).slice(0, 20).join("\n");
}

function tell(name, host, how, seconds, findings) {
  const bad = findings.filter((finding) => !finding.holds);
  console.log(`${name} ${host.version}, ${how}: ${findings.length - bad.length} of ${findings.length} hold, ${seconds.toFixed(0)} s`);
  for (const { check, detail } of bad) console.log(`  FAILED: ${check}\n    ${detail.trim().replaceAll("\n", "\n    ")}`);
}

/// Writes the table in a page. Rows of hosts that were not tried now stay.
function writeTable(page) {
  const text = fs.readFileSync(page, "utf8");
  const [start, end] = [text.indexOf(MARKS[0]), text.indexOf(MARKS[1])];
  if (start < 0 || end < start) throw new Error(`${page} has no place for the table`);
  const lines = table.map(([, text]) => text);
  const tried = new Set(rows.map((row) => row.name));
  const known = text.slice(start, end).split("\n").filter((line) => line.startsWith("| `"));
  const kept = known.filter((line) => !tried.has(line.split("`")[1])).map((line) => `${line}\n`);
  const order = (line) => Object.keys(HOSTS).indexOf(line.split("`")[1]);
  lines.push(...kept);
  lines.sort((one, other) => order(one) - order(other));
  fs.writeFileSync(page, `${text.slice(0, start)}${MARKS[0]}\n${HEAD}${lines.join("")}\n${text.slice(end)}`);
}

/// A try as a row of the table.
function line({ name, host, sandbox, findings }) {
  const bad = findings.filter((finding) => !finding.holds).map((finding) => finding.check);
  const result = bad.length === 0 ? `all ${findings.length} hold` : `not: ${bad.join("; ")}`;
  return `| \`${name}\` | ${host.package} ${host.version} | ${{ auto: "on" }[sandbox] ?? sandbox} | ${result} | ${today} |\n`;
}
