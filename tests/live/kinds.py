"""Kinds of systemd services, for tests/live/test_service_kinds.py: what they start, how, from where, in which sandbox.

Data only.  ``{d}`` is a directory of the row's own with the programs ``server`` and, in ``v1`` and ``v2``, two versions
of it; ``{n}`` is the row's name.
"""

from dataclasses import dataclass

#: The files of a root directory that the program needs.
ROOT_FILES = ("lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6")


@dataclass(frozen=True)
class Kind:
    """A kind of service: the lines of its *unit*, behind ``[Service]`` unless they have sections of their own.

    *program* is the file that it runs, which the acts upgrade, and *mapped* is the end of that mapping's name.  *links*
    are made first, and *turned* ones later.  *words* are options of `enable`; *refused* is the code with which it
    refuses, and *stopped*: it does not run then.  *rooted* and *library* say what else lies in its directory.
    """

    name: str
    unit: str
    program: str = "{d}/server"
    mapped: str = "server"
    links: tuple[tuple[str, str], ...] = ()
    turned: tuple[str, str] | None = None
    words: tuple[str, ...] = ()
    refused: str = ""
    stopped: bool = False
    rooted: bool = False
    library: bool = False
    loops: bool = False
    instance: str = ""
    needs_helper: bool = False
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def service(self) -> str:
        """The name of the unit."""
        return f"kind-{self.name}{f'@{self.instance}' if self.instance else ''}.service"

    @property
    def file(self) -> str:
        """The name of the unit's file."""
        return f"kind-{self.name}{'@' if self.instance else ''}.service"


_SCRIPT = "#!/bin/sh\nexec {d}/server\n"
_SUPERVISOR = "#!/bin/sh\n{d}/server &\nexec /usr/bin/python3 -c 'import os; os.wait()'\n"

KINDS = (
    # What they start, and how.
    Kind("simple", "ExecStart={d}/server\n"),
    Kind("exec", "Type=exec\nExecStart={d}/server\n"),
    Kind("idle", "Type=idle\nExecStart={d}/server\n"),
    Kind("notify", "Type=notify\nExecStart={d}/server notify\n"),
    Kind("forking", "Type=forking\nPIDFile=/run/kind-forking.pid\nExecStart={d}/server fork /run/kind-forking.pid\n"),
    Kind(
        "oneshot",
        "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStart={d}/server fork /run/kind-oneshot.pid\n",
    ),
    Kind("around", "ExecStartPre=/bin/true\nExecStart={d}/server\nExecStartPost=/bin/true\nExecReload=/bin/true\n"),
    Kind("renamed", "ExecStart=@{d}/server another-name word\n"),
    Kind("failing", "ExecStart=-{d}/server\n"),
    Kind("substituted", 'Environment=WORD=5 "MORE=a b"\nExecStart={d}/server ${{WORD}} $MORE $NONE\n'),
    Kind("spaces", 'ExecStart="{d}/a b/100%% server"\n', "{d}/a b/100% server"),
    Kind("instance", "ExecStart={d}/server %I\n", instance="a\\x2db-c"),
    Kind("searched", "ExecSearchPath={d}/v1\nExecStart=server\n", "{d}/v1/server"),
    Kind(
        "socket",
        "[Unit]\nRequires=kind-socket.socket\nAfter=kind-socket.socket\n[Service]\nExecStart={d}/server\n",
        extra=(("kind-socket.socket", "[Socket]\nListenStream=/run/kind.socket\n"),),
    ),
    # How often.
    Kind("limitless", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart={d}/server\n", loops=True),
    Kind(
        "crashing",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=0\nExecStart={d}/server\n",
        loops=True,
    ),
    # As whom, and in which sandbox.
    Kind("user", "User=nobody\nExecStart={d}/server\n"),
    Kind("dynamic", "DynamicUser=yes\nStateDirectory=kind\nExecStart={d}/server\n"),
    Kind("privileged", "User=nobody\nExecStart=+{d}/server\n"),
    Kind("ambient", "User=nobody\nExecStart=!{d}/server\n"),
    Kind("strict", "ProtectSystem=strict\nProtectHome=yes\nExecStart={d}/server\n"),
    Kind("temporary", "PrivateTmp=yes\nNoNewPrivileges=yes\nExecStart={d}/server\n"),
    Kind("read-only", "ReadOnlyPaths=/\nInaccessiblePaths=-/etc/shadow\nExecStart={d}/server\n"),
    Kind("no-exec", "NoExecPaths=/\nExecPaths={d}/server /usr/lib /lib /lib64\nExecStart={d}/server\n"),
    Kind("capless", "CapabilityBoundingSet=\nSystemCallFilter=@system-service\nExecStart={d}/server\n"),
    # From where.
    Kind("root", "RootDirectory={d}/root\nExecStart=/bin/server\n", "{d}/root/bin/server", rooted=True),
    Kind(
        "root-link",
        "RootDirectory={d}/root\nExecStart=/current/server\n",
        "{d}/root/v1/server",
        links=(("/v1", "{d}/root/current"),),
        turned=("/v2", "{d}/root/current"),
        rooted=True,
    ),
    Kind(
        "root-library",
        "RootDirectory={d}/root\nEnvironment=LD_LIBRARY_PATH=/own\nExecStart=/bin/linked\n",
        "{d}/root/own/libown.so.1.1",
        "libown.so.1.1",
        links=(("libown.so.1.1", "{d}/root/own/libown.so.1"),),
        words=("--libs",),
        rooted=True,
        library=True,
    ),
    Kind("bound", "BindPaths={d}/v1:/opt/kind-bound\nExecStart=/opt/kind-bound/server\n", "{d}/v1/server"),
    Kind(
        "bound-link",  # what it binds is another file then, so the manager is reloaded during the start
        "Type=notify\nBindPaths={d}/current:/opt/kind-bound-link\nExecStart=/opt/kind-bound-link/server notify\n",
        "{d}/v1/server",
        links=(("v1", "{d}/current"),),
        turned=("v2", "{d}/current"),
        needs_helper=True,
    ),
    Kind(
        "bound-in-hidden",
        "TemporaryFileSystem=/opt:ro\nBindReadOnlyPaths={d}/v1:/opt/hidden\nExecStart=/opt/hidden/server\n",
        "{d}/v1/server",
    ),
    Kind(
        "link",
        "ExecStart={d}/current/server\n",
        "{d}/v1/server",
        links=(("v1", "{d}/current"),),
        turned=("v2", "{d}/current"),
    ),
    Kind(
        "alternatives",
        "ExecStart=/usr/bin/kind-alternative\n",
        "{d}/v1/server",
        links=(("{d}/v1/server", "/etc/kind-alternative"), ("/etc/kind-alternative", "/usr/bin/kind-alternative")),
        turned=("{d}/v2/server", "/etc/kind-alternative"),
    ),
    Kind(
        "library",
        "Environment=LD_LIBRARY_PATH={d}/own\nExecStart={d}/linked\n",
        "{d}/own/libown.so.1.1",
        "libown.so.1.[12]",
        links=(("libown.so.1.1", "{d}/own/libown.so.1"),),
        turned=("libown.so.1.2", "{d}/own/libown.so.1"),
        words=("--libs",),
        library=True,
    ),
    # What starts something else.
    Kind("shell", "ExecStart=/bin/sh -c 'exec {d}/server'\n"),
    Kind("script", "ExecStart={d}/script\n", extra=(("{d}/script", _SCRIPT),)),
    Kind(
        "supervisor",
        "ExecStart={d}/script\n",
        words=("--file={d}/server",),
        extra=(("{d}/script", _SUPERVISOR),),
    ),
    # What cannot be covered.
    # Where a shell names its program by a path, that is enough: tests/live/test_enable.py, and README's first way.
    Kind("shell-stopped", "ExecStart=/bin/sh -c 'cd {d}; exec ./server'\n", refused="service.starter", stopped=True),
    Kind(
        "script-stopped",
        "ExecStart={d}/script\n",
        refused="service.script",
        stopped=True,
        extra=(("{d}/script", _SCRIPT),),
    ),
    Kind(
        "mounting", "ExecStart={d}/server attach {d}/mnt\nExecStopPost=/bin/umount {d}/mnt\n", refused="service.mounts"
    ),
    Kind(
        "mounting-before",
        "ExecStartPre=/bin/mount -t tmpfs kind {d}/v2\nExecStart={d}/server\nExecStopPost=/bin/umount {d}/v2\n",
        refused="service.mounts",
    ),
    Kind(
        "shared",
        "MountFlags=shared\nExecStart={d}/server attach {d}/mnt\nExecStopPost=/bin/umount {d}/mnt\n",
        refused="service.mounts",
    ),
    Kind("early", "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart={d}/server\n", refused="service.starts-early"),
    Kind(
        "over-itself",
        "BindReadOnlyPaths={d}/v1/server:{d}/server\nExecStart={d}/server\n",
        "{d}/v1/server",
        refused="service.own-mount",
    ),
    Kind("image", "RootImage={d}/image\nExecStart=/bin/server\n", refused="service.image", stopped=True),
)
#: Rows for every run of the tests: a place, a link, a root, a refusal.
SAMPLE = ("simple", "crashing", "root-link", "link", "mounting", "mounting-before")
