"""Which runtime compiled code without a file."""

import pytest

from hugealign.watch.runtimes import runtime


@pytest.mark.parametrize(
    ("exe", "files", "name"),
    [
        ("/opt/jdk/bin/java", ("/opt/jdk/lib/server/libjvm.so",), "HotSpot"),
        ("/usr/sbin/tomcat", ("/usr/lib/x/libjvm.so", "/lib/libc.so.6"), "HotSpot"),
        ("/usr/bin/node", (), "V8"),
        ("/usr/bin/php8.2", (), "PHP"),
        ("/usr/sbin/php-fpm8.2", (), "PHP"),
        ("/usr/sbin/apache2", ("/usr/lib/apache2/modules/libphp8.2.so",), "PHP"),
        ("/usr/bin/luajit-2.1.0-beta3", (), "LuaJIT"),
        ("/usr/sbin/nginx", ("/usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2.1.0",), "LuaJIT"),
        ("/srv/app", ("/usr/share/dotnet/shared/8/libclrjit.so",), ".NET"),
        ("/usr/lib/erlang/erts-13/bin/beam.smp", (), "Erlang"),
        ("/usr/lib/postgresql/15/bin/postgres", ("/usr/lib/postgresql/15/lib/llvmjit.so",), "PostgreSQL's LLVM"),
        ("/usr/lib/postgresql/15/bin/postgres", (), None),
        ("/tmp/notnode", ("/tmp/notlibjvm.so", "/tmp/libjvm.so.txt"), None),
        ("/tmp/node\x1b[2J", (), None),
    ],
)
def test_runtimes_are_known_by_whole_names(exe: str, files: tuple[str, ...], name: str | None) -> None:
    result = runtime(exe, files)
    assert (result.name if result else None) == name
