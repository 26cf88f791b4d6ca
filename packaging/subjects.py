"""``make check``: each new commit's subject is an imperative of at most 60 characters, as CONTRIBUTING.md says."""

import re
import subprocess
import sys

_SINCE = "ca2cdbb6"  # older subjects stay as they are
_MOST = 60
#: A capital, no full stop, and as the first word a plain one that is not an article or pronoun.
_SUBJECT = re.compile(r"(?!(?:An?|It|No|That|The|These|This) )[A-Z][a-z-]+ .*[^.]")


def wrong(subject: str) -> bool:
    """Return whether *subject* is too long, or does not begin as an imperative does."""
    return len(subject) > _MOST or not _SUBJECT.fullmatch(subject)


def main() -> int:
    """Print the subjects that are wrong; return 1 if there are any."""
    words = ["git", "log", "--no-merges", "--format=%h %s", f"{_SINCE}..HEAD"]
    listed = subprocess.run(words, capture_output=True, text=True, check=False)
    if listed.returncode:
        print(f"check: commit subjects are not checked: {listed.stderr.strip()}")
        return 0
    lines = [line for line in listed.stdout.splitlines() if wrong(line.partition(" ")[2])]
    for line in lines:
        print(f"{line}: write an imperative of at most {_MOST} characters, such as: Pass the threshold to verify")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
