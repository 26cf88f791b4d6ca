"""hugealign: put a program's text on huge pages, from the link to the running process."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.doctor.probes import diagnose
    from hugealign.fixing.fix import FixOptions, fix
    from hugealign.measuring.measure import MeasureOptions, measure
    from hugealign.ordering.order import OrderOptions, order
    from hugealign.pagecache.warm import WarmOptions, cool, warm
    from hugealign.profile.merge import MergeOptions, merge_counts
    from hugealign.profile.reduce import ReduceOptions, reduce_profiles
    from hugealign.system.budget import budget_of
    from hugealign.verification.rules import Policy
    from hugealign.verification.selection import Selection
    from hugealign.verification.verify import VerifyOptions, compare, verify
    from hugealign.version import __version__
    from hugealign.watch.adapt import AdaptOptions, adapt
    from hugealign.watch.advise import AdviseOptions, advise, advise_process
    from hugealign.watch.ps import PsOptions, processes
    from hugealign.watch.top import TopOptions, top

#: The public API: each name and its module, which is imported on first use.
_API = {
    "AdaptOptions": "hugealign.watch.adapt",
    "AdviseOptions": "hugealign.watch.advise",
    "FixOptions": "hugealign.fixing.fix",
    "MeasureOptions": "hugealign.measuring.measure",
    "MergeOptions": "hugealign.profile.merge",
    "OrderOptions": "hugealign.ordering.order",
    "Policy": "hugealign.verification.rules",
    "PsOptions": "hugealign.watch.ps",
    "ReduceOptions": "hugealign.profile.reduce",
    "Selection": "hugealign.verification.selection",
    "TopOptions": "hugealign.watch.top",
    "VerifyOptions": "hugealign.verification.verify",
    "WarmOptions": "hugealign.pagecache.warm",
    "__version__": "hugealign.version",
    "adapt": "hugealign.watch.adapt",
    "advise": "hugealign.watch.advise",
    "advise_process": "hugealign.watch.advise",
    "budget_of": "hugealign.system.budget",
    "compare": "hugealign.verification.verify",
    "cool": "hugealign.pagecache.warm",
    "diagnose": "hugealign.doctor.probes",
    "fix": "hugealign.fixing.fix",
    "measure": "hugealign.measuring.measure",
    "merge_counts": "hugealign.profile.merge",
    "order": "hugealign.ordering.order",
    "processes": "hugealign.watch.ps",
    "reduce_profiles": "hugealign.profile.reduce",
    "top": "hugealign.watch.top",
    "verify": "hugealign.verification.verify",
    "warm": "hugealign.pagecache.warm",
}
__all__ = [
    "AdaptOptions", "AdviseOptions", "FixOptions", "MeasureOptions", "MergeOptions", "OrderOptions", "Policy",
    "PsOptions", "ReduceOptions", "Selection", "TopOptions", "VerifyOptions", "WarmOptions", "__version__", "adapt",
    "advise", "advise_process", "budget_of", "compare", "cool", "diagnose", "fix", "measure", "merge_counts",
    "order", "processes", "reduce_profiles", "top", "verify", "warm",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_API[name]), name)
