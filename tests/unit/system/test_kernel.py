"""Facts about the kernel, where it does not tell them."""

import os
from pathlib import Path

from hugealign.system import kernel


def test_huge_page_size(tmp_path: Path) -> None:
    output = tmp_path / "hpage_pmd_size"
    assert kernel.huge_page_size(str(output)) == 2 << 20
    output.write_text("33554432\n", encoding="ascii")
    assert kernel.huge_page_size(f"{tmp_path}//hpage_pmd_size") == 32 << 20
    (tmp_path / "odd").write_text("?", encoding="ascii")
    assert kernel.huge_page_size(str(tmp_path / "odd")) == 2 << 20


def test_file_system() -> None:
    assert kernel.file_system(os.stat("/proc").st_dev) == "proc"
    assert kernel.file_system(os.makedev(4000, 4000)) is None


def test_available_memory() -> None:
    available = kernel.available_memory()
    assert available
    assert 1 << 20 < available < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
