"""The catalogue: one row for each code of a diagnosis, one sentence for each kind of remedy.

In a sentence, ``{name}`` is a fact, ``{name:size}`` a number of bytes and ``{name:noun}`` a number of things.  A part
in brackets is left out unless all its facts are there, and neither 0 nor empty.
"""

from hugealign.records import Record

#: How severe: windows are lost, or nothing is to be done about it.
ERROR, NOTE = "error", "note"


class Row(Record):
    """A code's *severity*, its *title*, and the *sentence* that its facts complete.

    The long text is ``pages.page(code)``.
    """

    severity: str
    title: str
    sentence: str


CODES = {
    "cache.dirty": Row(
        ERROR,
        "pages of the file are not on disk yet",
        "its pages are still being written to disk ({dirty:page} left)",
    ),
    "cache.held": Row(
        ERROR,
        "something unseen keeps the file's pages in the page cache",
        "its pages stay in the page cache: locked by mlock, or mapped by a process that is not visible from here",
    ),
    "cache.in-use": Row(
        ERROR,
        "a process maps the file, so its pages stay as they are",
        "in use by process {process}[ ({name})][ and {others} more]",
    ),
    "cache.not-warmed": Row(ERROR, "the file was only measured", "not warmed"),
    "cache.open-for-writing": Row(
        ERROR,
        "a process has the file open for writing",
        "open for writing[ by process {process}][ ({name})]",
    ),
    "cache.replaced": Row(
        NOTE,
        "a process still maps the file that was replaced",
        "process {process}[ ({name})][ and {others} more] keeps the old file until it is started again",
    ),
    "file-system.keeps-pages": Row(
        ERROR,
        "the file is in memory only, so its pages stay as they are",
        "{file_system} keeps its pages as they are",
    ),
    "file-system.no-huge-pages": Row(
        ERROR,
        "the file system reads the file in small pages",
        "the file system[ ({file_system})] gives this file no huge folios",
    ),
    "memory.fragmented": Row(
        ERROR,
        "free memory is in small pieces",
        "memory is fragmented: no free block of {page_size:size}",
    ),
    "memory.limit": Row(
        ERROR,
        "the memory limit of the control group was reached",
        "the memory limit of this control group, {limit:size}, is too small",
    ),
    "text.no-window": Row(
        ERROR,
        "no window lies within the text",
        "no whole {page_size:size} window of text",
    ),
    "text.other-processor": Row(
        NOTE,
        "no window lies within the text, and hugealign lays out no programs for this processor",
        "no whole {page_size:size} window of text; hugealign lays out programs for x86-64 and aarch64 only",
    ),
    "text.small": Row(
        NOTE,
        "the text is too small for huge pages",
        "{text:size} of text: too little to benefit from huge pages",
    ),
    "thp.no-collapse": Row(
        ERROR,
        "the kernel has no MADV_COLLAPSE",
        "this kernel cannot collapse files in memory",
    ),
    "thp.partial": Row(
        ERROR,
        "some windows are huge and others are not, for no visible reason",
        "the kernel made only {huge} of {windows:window} huge",
    ),
    "thp.refused": Row(
        ERROR,
        "MADV_COLLAPSE failed, for no visible reason",
        "the kernel refused to collapse it ({error})",
    ),
    "thp.shmem-denied": Row(
        ERROR,
        "files in memory may have no huge pages",
        "this system denies huge pages to all files in memory (shmem_enabled is deny)",
    ),
}

#: The sentence for each kind of remedy: ``{command}`` is its command, ``{effect}`` its windows before and after.
REMEDIES = {
    "copy-elsewhere": "copy it to another file system",
    "find-holder": "look for the process as root[, or replace the file: {command}]",
    "fix": "{command} ({effect})",
    "look": "see: {command}",
    "newer-kernel": "Linux 6.1 can",
    "prepare": "run: {command}; then try again",
    "raise-limit": "raise the limit, then try again",
    "relink": 'relink with CC="hugealign gcc" (or hugealign clang, …)',
    "retry": "try again",
    "run": "run: {command}[ ({effect})]",
    "stop": "stop it and try again[, or replace the file: {command}]",
    "wait": "wait until it closes the file, then try again",
}
