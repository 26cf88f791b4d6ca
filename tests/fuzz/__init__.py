"""Generated input for whole commands and for readers, the laboratory's among them."""

import lab  # noqa: F401 - makes hugealign_lab importable
