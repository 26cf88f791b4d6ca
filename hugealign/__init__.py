"""hugealign: put a program's text on huge pages, from the link to the running process."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.doctor.diagnosis import diagnose
    from hugealign.fixing.fix import FixOptions, fix
    from hugealign.live.adapt import AdaptOptions, adapt
    from hugealign.live.advise import AdviseOptions, advise, advise_process
    from hugealign.live.top import TopOptions, top
    from hugealign.ordering.budget import budget_of
    from hugealign.ordering.order import order
    from hugealign.pagecache.text import WarmOptions, cool, warm
    from hugealign.profile.merge import MergeOptions, merge_counts
    from hugealign.profile.reduce import ReduceOptions, reduce_profiles
    from hugealign.ps.looking import PsOptions, processes
    from hugealign.verification.rules import Policy
    from hugealign.verification.selection import Selection
    from hugealign.verification.verify import compare, verify
    from hugealign.version import __version__

#: The public API: each name and its module, which is imported on first use.
_API = {
    "AdaptOptions": "hugealign.live.adapt",
    "AdviseOptions": "hugealign.live.advise",
    "FixOptions": "hugealign.fixing.fix",
    "MergeOptions": "hugealign.profile.merge",
    "Policy": "hugealign.verification.rules",
    "PsOptions": "hugealign.ps.looking",
    "ReduceOptions": "hugealign.profile.reduce",
    "Selection": "hugealign.verification.selection",
    "TopOptions": "hugealign.live.top",
    "WarmOptions": "hugealign.pagecache.text",
    "__version__": "hugealign.version",
    "adapt": "hugealign.live.adapt",
    "advise": "hugealign.live.advise",
    "advise_process": "hugealign.live.advise",
    "budget_of": "hugealign.ordering.budget",
    "compare": "hugealign.verification.verify",
    "cool": "hugealign.pagecache.text",
    "diagnose": "hugealign.doctor.diagnosis",
    "fix": "hugealign.fixing.fix",
    "merge_counts": "hugealign.profile.merge",
    "order": "hugealign.ordering.order",
    "processes": "hugealign.ps.looking",
    "reduce_profiles": "hugealign.profile.reduce",
    "top": "hugealign.live.top",
    "verify": "hugealign.verification.verify",
    "warm": "hugealign.pagecache.text",
}
__all__ = [
    "AdaptOptions", "AdviseOptions", "FixOptions", "MergeOptions", "Policy", "PsOptions", "ReduceOptions", "Selection",
    "TopOptions", "WarmOptions", "__version__", "adapt", "advise", "advise_process", "budget_of", "compare", "cool",
    "diagnose", "fix", "merge_counts", "order", "processes", "reduce_profiles", "top", "verify", "warm",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_API[name]), name)
