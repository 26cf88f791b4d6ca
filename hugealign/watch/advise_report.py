"""Show the advice of `hugealign advise`: for people, and as JSON.  Pure functions."""

from hugealign.diagnosis import render
from hugealign.io.units import printable
from hugealign.watch.advise import Advice
from hugealign.watch.advise_verdict import Answer
from hugealign.watch.heat import SHARES

_ANSWERS = {
    Answer.YES: "Yes",
    Answer.MAYBE: "Measure it",
    Answer.NO: "No",
    Answer.DONE: "Done",
    Answer.UNKNOWN: "Unknown",
}


def lines(advice: Advice, *, verbose: bool = False) -> list[str]:
    """Return the answer, its number and the command to run next; with *verbose*, also the evidence."""
    judged = advice.judged
    word = render.painted(_ANSWERS[judged.answer], "ok" if judged.answer == Answer.YES else "")
    result = [f"{advice.what}: {word}: {render.sentence(judged.diagnosis)}"]
    if verbose:
        result += _details(advice)
    more = [*render.lines(judged.diagnosis)[1:], *(render.lines(judged.cause) if judged.cause else ())]
    return result + [f"  {line}" for line in more]


def _details(advice: Advice) -> list[str]:
    heat, judged = advice.heat, advice.judged
    shares = ", ".join(f"{100 * share:.0f}" for share in SHARES)
    parts = {"saved in all": judged.saving, "by page faults": judged.starts}
    result = [
        *(f"  {name}: {100 * part.low:.1f} to {100 * part.high:.1f} %" for name, part in parts.items() if part),
        f"  beyond the entries: {judged.small} of {heat.samples:,} samples",
        f"  {shares} % of the samples are on {_several(heat.pages)} pages of 4 KiB ({advice.entries.small} entries)",
        f"  and in {_several(heat.windows)} windows of 2 MiB ({advice.entries.huge} entries); beyond: {judged.huge}",
        f"  not seen yet, of what runs: {heat.unseen}",
        f"  in huge pages already: {100 * advice.in_huge:.1f} %",
        f"  hottest part: {printable(advice.hottest) or 'code without a file'}",
        f"  entries: {advice.entries.why}",
    ]
    if advice.counted:
        result.append(f"  counters: {', '.join(advice.counted.events)} ({advice.counted.source})")
    if advice.lost:
        result.append(f"  lost: {advice.lost} samples")
    return result


def _several(numbers: tuple[int, ...]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)
