#!/usr/bin/env python3
"""Give each command an agent, run it, land what is accepted; one line says what became of each.

    orchestrate.py SCOPE SECONDS COMMAND...
"""
import json
import subprocess
import sys


def agent(*words):
    """The exit status and the answer of a git-agent command; on failure the error."""
    done = subprocess.run(["git", "agent", "--format=json", *words], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout or done.stderr)


def rejected(answer):
    codes = [finding["code"] for finding in answer["findings"]]
    if "merge.conflict" in codes:
        return "conflict"
    return "violation" if any(code.startswith("scope.") for code in codes) else "rejected"


def run(short_id, seconds, command):
    _, ran = agent("run", short_id, f"--timeout={seconds}s", "--", "sh", "-c", command)
    if "error" in ran:
        return ran["error"]["code"]
    if ran["status"] == "failed":
        return {"timeout": "timeout", "signal": "crash"}.get(ran["ended"], "failed")
    return rejected(ran["verify"]) if ran["status"] == "rejected" else None


def land(short_id):
    status, landed = agent("merge", short_id, "--squash")
    if status != 0 and landed["error"]["code"] == "not-accepted":
        return rejected(agent("verify", short_id)[1])
    return "landed" if status == 0 else landed["error"]["code"]


scope, seconds, commands = sys.argv[1], sys.argv[2], sys.argv[3:]
task = "Run the command that the orchestrator gives you: "
made = [agent("spawn", "-m", task + command, "--scope", scope, "--no-bundle") for command in commands]
ids = [answer["agent_id"][:8] if status == 0 else None for status, answer in made]
fates = [run(one, seconds, command) if one else "not-spawned" for one, command in zip(ids, commands)]
for one, fate, command in zip(ids, fates, commands):
    print(fate or land(one), command, sep="\t")
