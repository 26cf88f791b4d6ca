"""The forms of a report; a form is imported when it is requested, since some load heavy modules."""

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.verification.compare import Comparison
    from hugealign.verification.formats.text import Style
    from hugealign.verification.result import Verification

#: The forms of the report for people and for programs, and the modules that have them.
FORMS = {"text": "text", "sarif": "tools", "github": "tools", "junit": "tools", "gcc": "tools"}
WITH_BASE = ("sarif", "github")


def render(form: str, verification: "Verification", style: "Style", base: str) -> str:
    """Return *verification* in the *form* of that name; *style* is for text, *base* for forms WITH_BASE.

    Paths below *base* become relative to it, as repository services want them.
    """
    if form == "json":
        from hugealign.diagnosis import documents

        return documents.text(verification)
    module = importlib.import_module(f"hugealign.verification.formats.{FORMS[form]}")
    extra = (style,) if form == "text" else (base,) if form in WITH_BASE else ()
    report: str = getattr(module, f"render_{form}")(verification, *extra)
    return report


def render_comparison(form: str, compared: "Comparison", style: "Style") -> str:
    """Return what was *compared* as text or JSON."""
    from hugealign.diagnosis import documents
    from hugealign.verification.formats import comparison

    return documents.text(compared) if form == "json" else comparison.render_text(compared, style)
