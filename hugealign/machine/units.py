"""The units by which the whole machine keeps itself.  Pure: returns texts.

A timer looks again; a path unit does so after packages have changed, whatever changed them, since each package manager
ends by writing its database.  Another service holds the text that is huge in place, from early in the boot on: the
kernel takes back text that no process maps, and cannot make huge what is mapped in small pages already.
"""

from collections.abc import Sequence

from hugealign.services.dropins import PLACE

MARK = "# Written by `hugealign enable --all`; `hugealign disable --all` removes it."
#: The databases of dpkg and rpm (rpm's lies in one of two places).
DATABASES = ("/var/lib/dpkg/status", "/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite")
LOOK, TIMER, PACKAGES, HOLD = NAMES = (
    "hugealign-all.service",
    "hugealign-all.timer",
    "hugealign-all.path",
    "hugealign-hold.service",
)
#: Which of them start by themselves, and with what: the names of directories of links (systemd.unit(5), WantedBy=).
WANTED = {TIMER: "timers.target.wants", PACKAGES: "paths.target.wants", HOLD: "basic.target.wants"}


def link(name: str) -> str:
    """Return the path of the link by which the unit *name* starts at boot."""
    return f"{PLACE}/{WANTED[name]}/{name}"


def texts(command: str, words: Sequence[str], databases: Sequence[str], state: str) -> dict[str, str]:
    """Return the texts of the units, by path.

    *command* is the path of hugealign, *words* are options of `hugealign enable --all`; *databases* are those that are
    there, and *state* is the directory where what is in force is kept.
    """
    there = f"ConditionPathExists={command}"  # nothing fails once the package is removed
    again = " ".join((command, "enable", "--all", "--renew", *words))
    result = {
        LOOK: [
            "[Unit]",
            "Description=Huge text for the whole machine",
            there,
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=oneshot",
            "Nice=10",
            "IOSchedulingClass=idle",
            "TimeoutStartSec=30min",
            f"ExecStart={again}",
        ],
        TIMER: [
            "[Unit]",
            "Description=A look at what gains from huge text",
            "",
            "[Timer]",
            "OnBootSec=5min",
            "OnUnitActiveSec=1h",
            "RandomizedDelaySec=5min",
            "",
            "[Install]",
            "WantedBy=timers.target",
        ],
        HOLD: [
            "[Unit]",
            "Description=Text that stays huge",
            there,
            "DefaultDependencies=no",
            "After=local-fs.target",
            "Before=basic.target shutdown.target",
            "Conflicts=shutdown.target",
            f"RequiresMountsFor={state}",
            "",
            "[Service]",
            "Type=notify",
            f"ExecStart={command} enable --all --hold",
            "TimeoutStartSec=60",
            "LimitMEMLOCK=infinity",
            "",
            "[Install]",
            "WantedBy=basic.target",
        ],
    }
    if databases:
        result[PACKAGES] = [
            "[Unit]",
            "Description=Changes of packages",
            "",
            "[Path]",
            *(f"PathChanged={path}" for path in databases),
            f"Unit={LOOK}",
            "",
            "[Install]",
            "WantedBy=paths.target",
        ]
    return {f"{PLACE}/{name}": "\n".join([MARK, *lines, ""]) for name, lines in result.items()}
