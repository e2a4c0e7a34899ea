"""The program of the jobs in ``live_jobs``: a hash chain of so many steps.

Each rank of a job has a chain of its own, which begins with the job's name and the rank. After each step the
chain is kept in SPOTFED_JOB_DIR, whole or not at all, and it goes on from there. Between two steps it sleeps,
so that dozens of them have room on a small machine and take as long as they say.
"""

from __future__ import annotations

import hashlib

STEP_S = 0.25
HASHES = 400  # in a step: some tenths of a millisecond

SOURCE = f"""
import hashlib, json, os, signal, sys, time

name, steps = sys.argv[1], int(sys.argv[2])
rank = os.environ["SPOTFED_JOB_RANK"]
path = os.path.join(os.environ["SPOTFED_JOB_DIR"], "chain.json")
done, chain = 0, f"{{name}}:{{rank}}".encode()
if os.path.exists(path):
    with open(path) as file:
        kept = json.load(file)
    done, chain = kept["done"], bytes.fromhex(kept["chain"])
print("begins at", done, "restored", os.environ["SPOTFED_JOB_RESTORED"], flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))  # what is kept is never older than a step
began, first = time.monotonic(), done
while done < steps:
    for _ in range({HASHES}):
        chain = hashlib.sha256(chain).digest()
    done += 1
    with open(path + ".new", "w") as file:
        json.dump({{"done": done, "chain": chain.hex()}}, file)
    os.replace(path + ".new", path)
    time.sleep({STEP_S})
print("pace", (done - first) / (time.monotonic() - began))
print("result", chain.hex(), flush=True)
"""


def command(name: str, steps: int, token: str) -> tuple[str, ...]:
    """What a job is told to run. token: only shown, by which its processes are found."""
    return ("python3", "-c", SOURCE, name, str(steps), token)


def result(name: str, rank: int, steps: int) -> str:
    """What a rank must print at its end."""
    chain = f"{name}:{rank}".encode()
    for _ in range(steps * HASHES):
        chain = hashlib.sha256(chain).digest()
    return chain.hex()
