"""The manual as a site: what Sphinx is to read, and in what form.  `make manual` builds it."""

project = "hugealign"
author = "the hugealign authors"
html_title = "hugealign"

extensions = ["myst_parser"]
# The documents stay where people find them in the checkout; the links between them are the site's, too.
include_patterns = [
    "docs/**.md",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
    "examples/*/README.md",
    "lld-plugin/README.md",
    "tests/README.md",
    "lab/README.md",
]
exclude_patterns = ["build", ".venv"]
root_doc = "docs/index"
myst_heading_anchors = 4  # as GitHub makes them
nitpicky = True
html_theme = "furo"
