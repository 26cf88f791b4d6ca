"""Policies of AppArmor and SELinux for tests/kernels/denied_guest.py, compiled here.

Those of SELinux have few classes and permissions: the kernel allows what they do not know.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.kernels.debian import Unavailable

#: The rules that Debian's kernels have had since 5.10; the kernel of this machine does not count.
_FEATURES = "/etc/apparmor.d/abi/3.0"
_APPARMOR = """\
abi <abi/3.0>,
profile no-mount { /{,**} mrwlkix, capability, network, unix, signal, ptrace, }
profile no-copy { /{,**} mrwlkix, deny /tmp/** w, mount, umount, capability, network, unix, signal, ptrace, }
profile confined /mnt/ext4/confined { /{,**} mrwlkix, network, unix, signal, }
"""
#: SECINITSID_ of security/selinux/include/initial_sid_to_string.h, in that order.
_SIDS = """\
kernel security unlabeled fs file file_labels init any_socket port netif netmsg node igmp_packet icmp_socket tcp_socket
sysctl_modprobe sysctl sysctl_fs sysctl_kernel sysctl_net sysctl_net_unix sysctl_vm sysctl_dev kmod policy scmp_packet
devnull""".split()
_SELINUX = f"""\
(handleunknown allow)
(mls false)
(sensitivity s0) (sensitivityorder (s0)) (level low (s0)) (levelrange all (low low))
(user u) (userlevel u low) (userrange u all)
(role r) (userrole u r)
(type t) (roletype r t) (type server) (roletype r server)
(class process (transition dyntransition)) (class file (relabelto)) (class filesystem (mount))
(classorder (process file filesystem))
(context everything (u r t all))
{"".join(f"(sid {sid}) (sidcontext {sid} everything)" for sid in _SIDS)}
(sidorder ({" ".join(_SIDS)}))
(fsuse xattr ext4 everything) (fsuse trans tmpfs everything)
(allow t self (process (transition dyntransition)))
(allow t t (file (relabelto))) (allow t server (file (relabelto)))
"""
_MOUNT = "(allow t t (filesystem (mount)))\n"


def policies() -> dict[str, bytes]:
    """Return the policies by the names that the guest knows.  Raises Unavailable."""
    if missing := [tool for tool in ("apparmor_parser", "secilc") if not shutil.which(tool)]:
        raise Unavailable(f"not installed: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as name:
        made = Path(name, "apparmor")
        words = ["apparmor_parser", "-QK", "-M", _FEATURES, "-o", str(made)]
        subprocess.run(words, input=_APPARMOR, text=True, check=True)
        result = {"apparmor.policy": made.read_bytes()}
        for policy, more in (("labels", _MOUNT), ("no-mount", "")):
            source, made = Path(name, f"{policy}.cil"), Path(name, policy)
            source.write_text(_SELINUX + more, encoding="ascii")
            subprocess.run(["secilc", "-o", made, "-f", Path(name, "contexts"), source], check=True)
            result[f"selinux-{policy}.policy"] = made.read_bytes()
    return result
