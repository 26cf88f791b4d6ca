"""What the guest of tests/kernels/services.py does at each boot, as a user would; each result is a line of JSON.

First boot: enable each service, restart it, look; upgrade MariaDB by apt.  Second boot: look, undo, look again.
Or, for the whole machine, first boot: install the package, type README's commands.  Second boot: look, upgrade, undo.
"""

import glob
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

MARK = Path("/var/lib/guest-was-here")
#: Files, mounts and units, as far as no service changes them while it runs.
STATE = r"""
find /boot /etc /opt /usr /run/systemd/system /run/systemd/generator /run/hugealign /var/lib/hugealign \
  -type f -printf '%p %m %U:%G %s\n' -o -printf '%p %y %m %U:%G %l\n' 2>/dev/null | sort
cut -d' ' -f4- /proc/self/mountinfo | sed 's/ shared:[0-9]*//' | sort
systemctl --root=/ list-unit-files --no-legend
"""
UPGRADED = ("mariadb-server", "mariadb-server-core")


def units() -> list[str]:
    """Return the services that are enabled."""
    (postgres,) = glob.glob("/etc/postgresql/*")
    return ["mariadb", f"postgresql@{os.path.basename(postgres)}-main", "nginx", "redis-server", "jvm"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may fail."""
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(words, check=False, capture_output=True, text=True, env=env)


def look(unit: str) -> dict[str, Any]:
    """Return what `ps` says of the files of the main process of *unit*, libraries as well."""
    run("systemctl", "start", unit)
    pid = run("systemctl", "show", "-p", "MainPID", "--value", unit).stdout.strip()
    done = run("hugealign", "ps", "--all", "--json", pid)
    values = json.loads(done.stdout)["processes"] if done.stdout else []
    if not values:
        return {"pid": pid, "error": done.stderr}
    (process,) = values
    # Code without a file does not count: whether what HotSpot compiles has a window depends on where it lies, and
    # Debian's kernels make that one huge by themselves.
    files = [mapping for mapping in process["mappings"] if mapping["path"]]
    sums = {key: sum(mapping[key] for mapping in files) for key in ("windows_huge", "windows_possible")}
    return {"pid": pid, "answers": answers(unit), "diagnoses": process["diagnoses"]} | sums


def answers(unit: str) -> bool:
    """Whether the service does its work."""
    asked = {
        "mariadb": ("mariadb", "-N", "-e", "select 6 * 7"),
        "postgres": ("runuser", "-u", "postgres", "--", "psql", "-Atc", "select 6 * 7"),
        "nginx": (
            "python3",
            "-c",
            "import urllib.request as r; r.urlopen('http://localhost'); print(42)",
        ),
        "redis": ("redis-cli", "eval", "return 6 * 7", "0"),
        "jvm": ("sh", "-c", "ss -ltn | grep -q :1099 && echo 42"),
    }
    words = next(words for name, words in asked.items() if unit.startswith(name))
    for _ in range(120):
        if "42" in run(*words).stdout:
            return True
        run("sleep", "1")
    return False


def first(send: Any) -> None:
    """Enable, restart, look; upgrade."""
    for unit in units():
        before = look(unit)
        enabled = run("hugealign", "enable", "--fix", "--libs", unit)
        run("systemctl", "restart", unit)
        send(
            {"unit": unit, "before": before, "status": enabled.returncode, "said": enabled.stderr, "after": look(unit)}
        )
    old = run("systemctl", "show", "-p", "MainPID", "--value", "mariadb").stdout
    done = run("apt-get", "-qy", "--no-download", "install", "--reinstall", *UPGRADED)
    new = run("systemctl", "show", "-p", "MainPID", "--value", "mariadb").stdout
    complaint = done.stderr[-500:] if done.returncode else ""
    send({"upgraded": done.returncode == 0, "restarted": old != new, "said": complaint, "after": look("mariadb")})
    send({"verify": run("dpkg", "--verify", "mariadb-server-core", "nginx", "redis-server").stdout})


def second(send: Any) -> None:
    """Look, undo, look."""
    for unit in units():
        booted = look(unit)
        undone = run("hugealign", "disable", unit)
        run("systemctl", "restart", unit)
        output = {"status": undone.returncode, "said": undone.stderr}
        send({"unit": unit, "booted": booted, "undone": look(unit)} | output)
    left = [name for name in os.listdir("/etc/systemd/system") if "hugealign" in name]
    left += glob.glob("/etc/systemd/system/*.d/hugealign*")
    send({"left": left, "verify": run("dpkg", "--verify", "mariadb-server-core", "nginx", "redis-server").stdout})


def machine_first(send: Any) -> None:
    """Install, type the commands of README."""
    installed = run("sh", "-c", "dpkg -i /opt/hugealign_*.deb")
    send({"installed": installed.returncode, "said": installed.stderr[-500:]})
    (postgres, mariadb) = servers()
    answers(postgres)
    run("runuser", "-u", "postgres", "--", "pgbench", "-i", "-q", "postgres")
    run("systemctl", "start", "client")
    run("sleep", "10")
    MARK.write_text(state())
    before = {unit: text(unit) for unit in (postgres, mariadb)}
    typed = run("sh", "-ec", Path("/opt/typed").read_text())
    held = json.loads(run("hugealign", "status", "--json").stdout)
    send({"before": before, "status": typed.returncode, "printed": typed.stdout, "said": typed.stderr, "held": held})


def machine_second(send: Any) -> None:
    """Look, upgrade, undo, look."""
    send({"booted": {unit: look(unit) | text(unit) for unit in servers()}})
    done = run("apt-get", "-qy", "--no-download", "install", "--reinstall", *UPGRADED)
    send({"upgraded": done.returncode, "said": done.stderr[-500:], "after": look("mariadb") | text("mariadb")})
    send({"shown": run("hugealign", "status").stdout, "verify": run("dpkg", "--verify").stdout})
    undone = run("hugealign", "disable", "--all")
    for unit in servers():
        run("systemctl", "restart", unit)
    send({"status": undone.returncode, "said": undone.stderr, "undone": {unit: text(unit) for unit in servers()}})
    before, now = MARK.read_text().splitlines(), state().splitlines()
    send({"added": sorted(set(now) - set(before)), "gone": sorted(set(before) - set(now))})


def servers() -> list[str]:
    """Return what gains by itself, a process for each connection, and what the policy includes."""
    return [unit for unit in units() if unit.startswith(("postgresql", "mariadb"))][::-1]


def state() -> str:
    """Return the files, mounts and units of the machine."""
    return run("sh", "-c", STATE).stdout


def text(unit: str) -> dict[str, int]:
    """Return the KiB of the text of the main process of *unit* that smaps shows on huge pages."""
    pid = run("systemctl", "show", "-p", "MainPID", "--value", unit).stdout.strip()
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps").read_text().splitlines()]
    return {"kib": sum(int(line[1]) for line in lines if line[0] in ("FilePmdMapped:", "ShmemPmdMapped:"))}


ACTS = {"services": (first, second), "machine": (machine_first, machine_second)}


def main() -> None:
    """Do the boot's part, send what came of it, and boot again."""
    act = sys.argv[1]
    with open("/dev/ttyS1", "w", encoding="utf-8") as port:

        def send(result: dict[str, Any]) -> None:
            print(json.dumps(result), file=port, flush=True)

        try:
            again = MARK.exists()
            MARK.touch()
            ACTS[act][again](send)
            send({"done": True})
        except Exception:  # noqa: BLE001  # whatever it is, the host must hear of it
            send({"error": traceback.format_exc()})
    run("systemctl", "reboot", "--no-block")  # which ends QEMU


if __name__ == "__main__":
    main()
