"""The page: one HTML file that says in plain words what happened, with pictures and without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from loremesh.node.demo.results import DemoResult, Phase, Score
from loremesh.node.demo.style import STYLE
from loremesh.node.demo.svg import Band, Bar, bars, curve, lengths, scatter
from loremesh.sync.trust import influence_bound

CURVE_POINTS: Final = 60
KINDS: Final = ("a", "b", "c")
"""Classes of the agents' colours, in their order."""
BAND_LABELS: Final = {
    "alone": "alone",
    "shared": "sharing",
    "attacked": "under\nattack",
    "after": "re-\nvoked",
}
GROUP_LABELS: Final = {
    "alone": "each\nalone",
    "shared": "sharing",
    "attacked": "hostile peer\ntrusted",
    "revoked": "after its\nrevocation",
}


def render(result: DemoResult) -> str:
    """The whole page."""
    parts = (
        _head(result),
        _accuracy(result),
        _over_time(result),
        _funnel(result),
        _influence(result),
        _twins(result),
        _crash(result),
        _checks(result),
        _about(result),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        "<title>loremesh: what sharing is worth, and what revocation takes back</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )


def _head(result: DemoResult) -> str:
    by_key = {phase.key: phase.together for phase in result.phases}
    failed = [check for check in result.checks if not check.holds]
    verdict = (
        f"All {len(result.checks)} checks hold."
        if not failed
        else f"{len(failed)} of {len(result.checks)} checks fail: "
        + "; ".join(check.name for check in failed)
    )
    tiles = "".join(
        f"<li><b>{by_key[key].share:.0%}</b>{escape(text)}</li>"
        for key, text in (
            ("alone", "first answers that work, each agent alone"),
            ("shared", "when they share"),
            ("attacked", "with a hostile peer trusted"),
            ("revoked", "after its revocation"),
        )
        if key in by_key
    )
    return f"""
<h1>What sharing is worth, and what revocation takes back</h1>
<p>Three agents, each with an encrypted memory and a node of its own, answer questions about Python's standard
library. Each begins with a third of {result.blocks} notes, taken from the documentation inside the Python
that ran this page. A fourth member of their team turns out to be hostile. All four nodes are real processes
on one real message bus; nothing here is simulated.</p>
<p class="verdict{" failed" if failed else ""}">{escape(verdict)}</p>
<ul class="tiles">{tiles}</ul>
"""


def _accuracy(result: DemoResult) -> str:
    groups = [
        (
            GROUP_LABELS.get(phase.key, phase.title),
            [
                Bar(score.agent[0].upper(), kind, score.share, score.low, score.high)
                for score, kind in zip(phase.scores, KINDS, strict=False)
            ],
        )
        for phase in result.phases
    ]
    said = "; ".join(f"{phase.title}: {phase.together.share:.0%}" for phase in result.phases)
    picture = bars(groups, "Share of questions whose first answer works, by phase and agent", said)
    legend = "".join(
        f'<li><span class="swatch {kind}"></span>{escape(score.agent[0].upper())}: {escape(score.agent)}</li>'
        for score, kind in zip(result.phases[0].scores, KINDS, strict=False)
    )
    return f"""
<h2>How often the first answer works</h2>
<p>The same {result.questions} questions are put to every agent in every phase; nobody works on them, so
nobody learns from them. A question says in a few words what is wanted, and what kind of data it is for. The
agent takes the first note its memory hands out, calls the function that the note names on the question's
data, and the program compares the result with the truth. Many functions are namesakes with nearly the same
description (<code>str.split</code>, <code>bytes.split</code>, <code>bytearray.split</code>): words alone
cannot tell them apart, experience can.</p>
<figure>{picture}<ul class="legend">{legend}</ul>
<figcaption>Bars: share of questions whose first answer worked. Thin lines: 95 % intervals
(Wilson).</figcaption> </figure>
{_score_table(result)}
{_remark(result)}
"""


def _score_table(result: DemoResult) -> str:
    """All agents together, and each of them for whoever wants to know."""
    together = _score_rows(result.phases, lambda phase: [phase.together])
    each = _score_rows(result.phases, lambda phase: phase.scores)
    return f"{together}<details><summary>Each agent's figures</summary>{each}</details>"


def _score_rows(phases: Sequence[Phase], scores: Callable[[Phase], Sequence[Score]]) -> str:
    rows = "".join(
        f"<tr><th>{escape(phase.title)}</th><td>{escape(score.agent)}</td>"
        f'<td class="number">{score.right}/{score.asked}</td>'
        f'<td class="number">{score.share:.0%} ({score.low:.0%} – {score.high:.0%})</td>'
        f'<td class="number">{score.within}</td>'
        f'<td class="number">{score.known}</td><td class="number">{score.misled}</td></tr>'
        for phase in phases
        for score in scores(phase)
    )
    return (
        '<div class="table"><table><thead><tr><th>phase</th><th>agent</th>'
        '<th class="number">first answer works</th><th class="number">share, 95 % interval</th>'
        '<th class="number">one of three works</th><th class="number">some note at hand works</th>'
        '<th class="number">first note made up</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _remark(result: DemoResult) -> str:
    """What the figures say of attack and revocation, whichever way they point."""
    by_key = {phase.key: phase.together for phase in result.phases}
    before, during, after = by_key["shared"], by_key["attacked"], by_key["revoked"]
    if after.right < before.right:
        word = f"below the sharing phase ({after.right} right answers against {before.right})"
    elif after.right > before.right:
        word = f"above the sharing phase ({after.right} right answers against {before.right})"
    else:
        word = f"where it was in the sharing phase ({after.right} right answers)"
    return f"""
<p>While the hostile peer was trusted, {during.misled} of {during.asked} first notes were of its making.
Notes that only one other member vouches for can take at most half of what a recall hands out, so that others
stay in sight: one of the first three worked in {during.within} cases.</p>
<p>After the revocation the team is {word}. It need not be the same to the answer: the agents went on working
while they were under attack, and what they found out then is their own and stays. That the hostile peer
itself left no trace is proved below, number by number.</p>
"""


def _over_time(result: DemoResult) -> str:
    work = result.work
    points = [((one.first + one.last) / 2, one.share) for one in work]
    bands = []
    for phase in dict.fromkeys(one.phase for one in work):
        mine = [one for one in work if one.phase == phase]
        bands.append(Band(BAND_LABELS.get(phase, phase), mine[0].first - 1, mine[-1].last))
    said = ", ".join(f"{one.phase} up to task {one.last}: {one.share:.0%}" for one in work)
    picture = curve(points, bands, "Share of tasks whose first try works, over time", said)
    return f"""
<h2>Learning on the job</h2>
<p>Between examinations the agents work: other questions on the same functions, in other words and on other
data. When a note's function does not work they try the next, up to three, and tell their memory of each how
it went. These outcomes are all that the memories learn from, and all that they tell one another about
quality.</p> <figure>{picture}
<figcaption>Share of tasks in which the first try worked, against tasks done per agent.</figcaption></figure>
"""


def _funnel(result: DemoResult) -> str:
    hostile = result.hostile
    agent = next(iter(hostile.outcomes))
    rows = [(label, "hostile", float(n)) for label, n in hostile.outcomes[agent].items()]
    rows += [
        (f"{label} (nobody blamed)", "hostile", float(n)) for label, n in hostile.unsigned[agent].items()
    ]
    alike = all(one == hostile.outcomes[agent] for one in hostile.outcomes.values())
    others = (
        "The other nodes counted the same." if alike else "Each node counts for itself; they differ a little."
    )
    picture = lengths(
        rows, f"What became of the hostile peer's frames at {agent}", str(hostile.outcomes[agent])
    )
    return f"""
<h2>What the hostile peer sent, and what was let in</h2>
<p>It was a member like the others, trusted at {hostile.trust:g}, the default between members. It made up
{hostile.blocks_made_up} notes with the very words of the questions and the names of functions that do
something else. It stated the evidence of everybody the wrong way round, {hostile.registers_claimed:,}
claims of up to {hostile.largest_claim:,.0f} outcomes each, and repeated them in {hostile.frames_sent:,}
frames, some of them forged in another's name, broken, or beyond what a claim may be.</p>
<figure>{picture}
<figcaption>Frames by outcome at {escape(agent)}. {others} <b>Applied</b>: taken in, first statements are
free of the limit. <b>Deferred</b>: over the hourly limit on changes, so not taken now (each look counts).
<b>Rejected</b>: refused for good.</figcaption></figure>
"""


def _influence(result: DemoResult) -> str:
    influence = result.influence
    most = max((point.mass for point in influence.blocks), default=1.0)
    masses = [most * (place / CURVE_POINTS) for place in range(CURVE_POINTS + 1)]
    limit = [(mass, influence_bound(influence.trust, influence.cap, mass)) for mass in masses]
    points = [(point.mass, point.moved) for point in influence.blocks]
    picture = scatter(
        points,
        limit,
        ("outcomes that everyone else has on the note", "the stated bound"),
        "How far the hostile peer moved each note's quality, and how far it could at most",
        f"{len(points)} notes, {influence.over} above the bound",
    )
    return f"""
<h2>How far one peer can push</h2>
<p>A note's quality is the share of good outcomes. However much a peer claims, it counts for at most its trust
times a cap: here {influence.trust:g} × {influence.cap:g} = {influence.trust * influence.cap:g} outcomes a
note. So it can move a quality by no more than the dashed line. That is a bound, not a cure: on notes about
which the team knows little, {influence.trust * influence.cap:g} outcomes decide, and that is what the drop
above shows.</p> <figure>{picture}
<figcaption>Each dot is one note at one agent: how far its quality moved under attack. {influence.over} of
{len(points)} are above the line; the largest reached {influence.nearest:.0%} of its
bound.</figcaption></figure>
"""


def _twins(result: DemoResult) -> str:
    rows = "".join(
        f'<tr><th>{escape(twin.agent)}</th><td class="number">{twin.numbers:,}</td>'
        f'<td class="number">{twin.numbers_while_trusted:,}</td>'
        f'<td class="number">{twin.registers:,}</td><td class="number">{twin.answers}</td>'
        f'<td class="number">{twin.frames_left_out}</td>'
        f'<td class="number {"held" if twin.equal else "fail"}">'
        f"{twin.numbers_different + twin.registers_different + twin.answers_different}</td></tr>"
        for twin in result.twins
    )
    return f"""
<h2>Revoked means: as if it had never been</h2>
<p>After the revocation each node was stopped and compared with a twin: a memory made from the same log of own
events and from the honest peers' frames, without one frame of the hostile peer. Compared are every effective
number of every note (evidence for and against, stability, time of last evidence, difficulty, importance),
every register of the honest peers, and every answer that the running node gave in the last examination: the
same notes, in the same order, with the same scores to the last bit, the statistics of the word index
included.</p> <div class="table"><table><thead><tr><th>node</th><th class="number">numbers</th>
<th class="number">of them others while it was trusted</th><th class="number">registers</th>
<th class="number">answers</th><th class="number">frames the twin lacks</th>
<th class="number">different now</th></tr></thead><tbody>{rows}</tbody></table></div>
"""


def _crash(result: DemoResult) -> str:
    crash = result.crash
    digests = "".join(
        f"<tr><th>{escape(agent)}</th><td><code>{escape(digest)}</code></td></tr>"
        for agent, digest in crash.digests.items()
    )
    return f"""
<h2>Killed in the middle of publishing</h2>
<p>{escape(crash.agent)} was killed with SIGKILL while it learned, used and published new notes:
{crash.published_when_killed} frames were out, {crash.acknowledged} notes with their outcomes had been
acknowledged. It was started again, and {crash.restart_s:.1f} s later all held the same. Of what had been
acknowledged, {crash.lost} were lost. All {crash.feeds} chains of the honest nodes' frames have the same
number and the same hash at every honest node ({crash.feeds_different} different),
and the registers have the same digest:</p>
<div class="table"><table><thead><tr><th>node</th><th>digest of all honest registers</th></tr></thead>
<tbody>{digests}</tbody></table></div>
"""


def _checks(result: DemoResult) -> str:
    rows = "".join(
        f'<tr><td class="{"held" if check.holds else "fail"}">{"holds" if check.holds else "fails"}</td>'
        f'<td>{escape(check.name)}<br/><span class="soft">{escape(check.found)}</span></td></tr>'
        for check in result.checks
    )
    return f"""
<h2>What must hold</h2>
<div class="table"><table><tbody>{rows}</tbody></table></div>
"""


def _about(result: DemoResult) -> str:
    return f"""
<h2>How this was made</h2>
<p class="soft">Python {escape(result.python)}, seed {result.seed}, size {escape(result.size)}, embedder
{escape(result.embedder)}, {result.seconds:.0f} s; {result.functions} functions with their kin,
{result.questions} questions. The seed fixes texts, questions, data and who holds what; what the nodes hear
from one another first depends on timing, so figures differ a little from run to run. Make your own with
<code>loremesh demo --seed {result.seed}</code>.</p>
"""
