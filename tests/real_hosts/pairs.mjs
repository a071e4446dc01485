// What our hooks take of a tool call, and what our runs take of a dozen hosts at once: each measured as a pair, the two sides in turn.
import fs from "node:fs";
import path from "node:path";
import { busy } from "./orders.mjs";

const CALLS = 40;
const ROUNDS = 7;
const AT_ONCE = 12;

const median = (values) => values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)];

/// Milliseconds of one tool call of a session in an agent's worktree, with the hooks that `init` registers and without.
export async function perCall(stage, { start, program, name, host }) {
  const set = await stage(busy(CALLS));
  const environment = { ...set.environment, PATH: `${path.dirname(program)}:${set.environment.PATH}` };
  const spawned = async () => {
    const words = ["spawn", "-m", "Work.", "--scope", "src/**", "--no-bundle", "--format", "json"];
    return JSON.parse((await start(program, words, { cwd: set.root, env: environment })).out).worktree_abspath;
  };
  const bare = await spawned();
  await start(program, ["init", "--host", name], { cwd: set.root, env: environment });
  set.git("add", "-A");
  set.git("commit", "-qm", "hooks");
  const hooked = await spawned();
  const times = new Map([[bare, []], [hooked, []]]);
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [cwd, taken] of times) {
      const began = performance.now();
      const ran = await start(name, host.session("Work."), { cwd, env: environment });
      if (ran.status !== 0) throw new Error(ran.out + ran.err);
      // The first round warms up.
      if (round > 0) taken.push(performance.now() - began);
    }
  }
  await set.model.close();
  fs.rmSync(set.scratch, { recursive: true, force: true, maxRetries: 5 });
  const [without, having] = [bare, hooked].map((cwd) => median(times.get(cwd)) / CALLS);
  return `${name} ${host.version}, a shell command (${CALLS} a session, median of ${ROUNDS}): ${without.toFixed(1)} ms, with hooks ${having.toFixed(1)} ms: ${(having - without).toFixed(1)} ms a call`;
}

/// Seconds that a dozen sessions at once take, by our runs and bare.
export async function together(stage, { start, program, name, host }) {
  const set = await stage(busy(10, 300));
  const { root, environment } = set;
  const taken = { runs: [], bare: [] };
  const all = (one) => Promise.all(Array.from({ length: AT_ONCE }, (_, number) => one(number)));
  for (let round = 0; round < 3; round++) {
    const places = await all(async (number) => {
      const place = path.join(set.scratch, `bare-${round}-${number}`);
      set.git("worktree", "add", "-q", "--detach", place);
      return place;
    });
    const agents = [];
    for (let number = 0; number < AT_ONCE; number++) {
      const words = ["spawn", "-m", "Work.", "--scope", "src/**", "--no-bundle", "--format", "json"];
      agents.push(JSON.parse((await start(program, words, { cwd: root, env: environment })).out).agent_id);
    }
    const sides = {
      bare: (number) => start(name, host.session("Work."), { cwd: places[number], env: environment }),
      runs: (number) => start(program, ["run", agents[number], "--host", name, "--format", "json"], { cwd: root, env: environment }),
    };
    for (const [side, one] of Object.entries(sides)) {
      const began = performance.now();
      const ran = await all(one);
      const failed = ran.find((one) => one.status !== 0);
      if (failed) throw new Error(failed.out + failed.err);
      taken[side].push((performance.now() - began) / 1000);
    }
  }
  await set.model.close();
  fs.rmSync(set.scratch, { recursive: true, force: true, maxRetries: 5 });
  const [bare, runs] = [median(taken.bare), median(taken.runs)];
  return `${name} ${host.version}, ${AT_ONCE} at once (median of 3): bare ${bare.toFixed(1)} s, with git agent run ${runs.toFixed(1)} s: ${(runs / bare).toFixed(2)} x`;
}
