#!/usr/bin/env node
// Starts the program of the package for this system, which npm chose by "os" and "cpu".
const { spawnSync } = require("node:child_process");
const platform = `${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`git-agent-worktree-${platform}/bin/git-agent`);
} catch {
  console.error(`error[unsupported]: git-agent-worktree has no program for ${platform}`);
  console.error("hint: to build it, run cargo install git-agent-worktree");
  process.exit(4);
}
const { status, signal, error } = spawnSync(program, process.argv.slice(2), { stdio: "inherit" });
if (error) {
  console.error(`error[io]: could not run ${program}: ${error.message}`);
  process.exit(4);
}
if (signal) process.kill(process.pid, signal);
process.exit(status ?? 70);
