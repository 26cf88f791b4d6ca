"""The manual as a site: what Sphinx is to read, and in what form.  `make manual` builds it."""

project = "hugealign"
author = "the hugealign authors"
html_title = "hugealign"

extensions = ["myst_parser", "sphinx_copybutton"]
copybutton_prompt_text = "$ "
# The documents stay where people find them in the checkout; the site uses the links between them.
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
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["manual.css"]
templates_path = ["templates"]
html_extra_path = ["site"]  # index.html at the root, which leads to docs/index.html
