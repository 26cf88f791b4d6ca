"""A day of whoever did not build what they run, typed from the guides by an ordinary user.

/opt/day.json says what to type.  Each result is one line of JSON on standard output.  What is huge is read from smaps
here, not by hugealign.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

WINDOW = 2 << 20
SECONDS = 1500  # until a program has started, emulated
READY = Path("ready")


def look(pid: int) -> dict[str, dict[str, int]]:
    """Return, for each file with text in process *pid*, the KiB of its text, and of that on huge pages once touched."""
    found: dict[str, dict[str, int]] = {}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
            if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) r-x. [0-9a-f]+ \S+ [1-9]\d* +(.*)", line):
                start, end = int(match[1], 16), int(match[2], 16)
                for address in range(-(-start // WINDOW) * WINDOW, end - WINDOW + 1, WINDOW):
                    os.pread(memory.fileno(), 1, address)
    name = None
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            name = os.path.basename(words[5]) if len(words) > 5 and words[1] == "r-xp" and words[4] != "0" else None
        elif name and words[0] in ("Size:", "FilePmdMapped:", "ShmemPmdMapped:"):
            one = found.setdefault(name, {"text_kib": 0, "huge_kib": 0})
            one["text_kib" if words[0] == "Size:" else "huge_kib"] += int(words[1])
    return found


def typed(commands: str) -> dict[str, Any]:
    """Type *commands*, whose program says in a file that it is ready, and look at it; end it."""
    READY.unlink(missing_ok=True)
    began = time.monotonic()
    with subprocess.Popen(
        ["sh", "-ec", commands], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        try:
            while not READY.exists() and child.poll() is None and time.monotonic() < began + SECONDS:
                time.sleep(0.2)
            started = time.monotonic() - began
            pids = READY.read_text(encoding="ascii").split() if READY.exists() else []
            files = {name: one for pid in pids for name, one in look(int(pid)).items()}
            ps = subprocess.run(["hugealign", "ps", "--all", *pids], check=False, capture_output=True, text=True)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
        out, err = child.communicate()
    if not files:
        raise RuntimeError(out + err)
    return {"seconds": round(started), "files": files, "ps": ps.stdout, "said": out + err}


def main() -> None:
    """Type each day."""
    try:
        for day in json.loads(Path("/opt/day.json").read_text(encoding="utf-8")):
            os.chdir(day["in"])
            print(json.dumps({"day": day["name"], "when": "before", **typed(day["plain"])}), flush=True)
            print(json.dumps({"day": day["name"], "when": "after", **typed(day["typed"])}), flush=True)
            undone = subprocess.run(["sh", "-ec", day["undo"]], check=False, capture_output=True, text=True)
            print(json.dumps({"day": day["name"], "when": "undone", "said": undone.stdout + undone.stderr}), flush=True)
        print(json.dumps({"done": True}), flush=True)
    except BaseException:  # noqa: BLE001
        # Whatever it is, the host must see it.
        print(json.dumps({"error": traceback.format_exc()}), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
