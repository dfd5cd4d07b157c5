"""The fold of own events: DESIGN §3, operation by operation, and replay equal to live bit for bit."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.node import events, evidence
from loremesh.node.clock import ActiveClock
from loremesh.node.columns import Status
from loremesh.node.errors import Conflict, UnknownThing
from loremesh.node.events import Connect, FrameName, Incarnation, Outcome, RecallHit
from loremesh.node.fold import apply, apply_home
from loremesh.node.ownstate import MAX_EPISODES, FoldError, OwnState
from loremesh.node.rulebook import RULE_SETS, get_rules
from loremesh.node.rules import FSRS5, RuleSet
from loremesh.node.snapshot import differences, export_state, load_state
from loremesh.sync.fixed import MAX_FX, ONE
from loremesh.sync.registers import Held
from loremesh.sync.rows import Contexts
from tests.node.agents import ORIGIN, Agent, Deed, deeds, fold, signals, weights

NAMES = [*RULE_SETS, "beta-decay", "bkt", "actr+beta-decay:0.9"]
every_set = pytest.mark.parametrize("rules", [get_rules(name) for name in NAMES], ids=NAMES)


@pytest.fixture
def agent() -> Agent:
    return Agent()


def evidence_of(state: OwnState, row: int) -> tuple[float, float]:
    """Own α and β of a row, as plain numbers."""
    seen = state.columns.views(max(row + 1, state.columns.length))
    return float(seen.alpha_fx()[row]) / ONE, float(seen.beta_fx()[row]) / ONE


def moving_parts(state: OwnState, row: int) -> tuple[float, ...]:
    """Everything of a row that recall reads."""
    c = state.columns
    alpha, beta = evidence_of(state, row)
    return (alpha, beta, c.stability_h[row], c.difficulty[row], c.t_last_h[row], c.importance[row])


def registers_of(state: OwnState) -> Held:
    registers = state.registers
    return registers.held(registers.live())


def test_learning_gives_the_prior_and_the_starting_values(agent: Agent) -> None:
    """w_init·0.5 each, S = 24 h, D = 5, importance 0.5, t_last now; held and waiting to be rated."""
    agent.wait(10)
    agent.learn(3, "ops", w_init=0.3)
    columns = agent.state.columns
    assert evidence_of(agent.state, 3) == (round(0.15 * ONE) / ONE,) * 2
    assert moving_parts(agent.state, 3)[2:] == (24.0, 5.0, agent.clock.hour, 0.5)
    assert (columns.held[3], columns.rated[3], columns.status[3]) == (1, 0, Status.PENDING)
    assert agent.state.tags[3] == ("ops",)


def test_learning_again_moves_nothing_and_adds_tags_and_spaces(agent: Agent) -> None:
    """A block already held: a no-op that says so, but for tags and spaces."""
    space = b"s" * 32
    agent.learn(0, "ops")
    agent.outcome(0, signal=0.2)
    before = moving_parts(agent.state, 0)
    agent.wait(25)
    agent.learn(0, "ops", "db")
    agent.share(0, (space,))
    assert moving_parts(agent.state, 0) == before
    assert agent.state.tags[0] == ("ops", "db")
    assert agent.state.shared[0] == {space}
    rows = len(agent.log)
    agent.learn(0, "db")
    agent.share(0, (space,))
    assert len(agent.log) == rows


def test_even_a_second_learn_in_the_log_adds_no_evidence(agent: Agent) -> None:
    """The fold itself holds to it, whatever wrote the log."""
    agent.learn(0)
    before = moving_parts(agent.state, 0)
    agent.wait(25)
    agent.tell(0, evidence.learn(agent.clock, 5.0, ["late"]))
    assert moving_parts(agent.state, 0) == before
    assert agent.state.tags[0] == ("late",)


def test_an_outcome_on_a_block_known_only_from_peers_starts_without_a_prior(agent: Agent) -> None:
    """Own prior 0, S from 24 h, D from 5; it is still not held here."""
    agent.wait(10)
    agent.outcome(2, signal=0.0)
    assert evidence_of(agent.state, 2) == (0.0, 1.0)
    assert moving_parts(agent.state, 2)[2:4] == FSRS5.step(24.0, 5.0, 0.0, 1.0, 0.0)
    assert agent.state.columns.t_last_h[2] == agent.clock.hour
    assert (agent.state.columns.held[2], agent.state.columns.status[2]) == (0, Status.NONE)


@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_learning_what_outcomes_came_before_never_lowers_stability(agent: Agent, signal: float) -> None:
    """A block first known from peers, then learned: the prior is added, S and t_last are not lowered."""
    agent.outcome(0, signal=signal)
    agent.wait(29)
    agent.outcome(0, signal=signal)
    agent.rate(0, 0.9)
    stability_h, difficulty = agent.state.columns.stability_h[0], agent.state.columns.difficulty[0]
    own = evidence_of(agent.state, 0)
    agent.wait(29)
    agent.learn(0)
    columns = agent.state.columns
    assert columns.stability_h[0] == max(stability_h, 24.0)
    assert (columns.difficulty[0], columns.t_last_h[0]) == (difficulty, agent.clock.hour)
    assert evidence_of(agent.state, 0) == (own[0] + 0.5, own[1] + 0.5)
    assert (columns.held[0], columns.status[0], columns.importance[0]) == (1, Status.ACTIVE, 0.9)


def test_ratings_add_evidence_set_importance_and_leave_stability(agent: Agent) -> None:
    """consolidate, then rescore: importance is the last rating, evidence adds up, S and D stay."""
    agent.learn(0)
    agent.wait(6)
    agent.rate(0, 0.75, weight=2.0)
    agent.wait(6)
    agent.rate(0, 0.25, weight=4.0)
    columns = agent.state.columns
    assert evidence_of(agent.state, 0) == (0.5 + 1.5 + 1.0, 0.5 + 0.5 + 3.0)
    assert (columns.importance[0], columns.t_last_h[0]) == (0.25, agent.clock.hour)
    assert (columns.stability_h[0], columns.difficulty[0]) == (24.0, 5.0)
    assert columns.status[0] == Status.ACTIVE
    assert [events.kind_of(events.decode_own(p)) for row, p in agent.log if row == 0] == [
        "learn",
        "consolidate",
        "rescore",
    ]
    assert len(agent.state.registers) == 0, "a rating is not first-hand evidence"


def test_an_outcome_moves_evidence_stability_difficulty_and_freshness(agent: Agent) -> None:
    """α += s·w·v, β += (1-s)·w·v; S and D by the whole step when w·v is 1 or more."""
    agent.learn(0)
    agent.wait(20)
    agent.outcome(0, signal=0.75, weight=2.0)
    columns = agent.state.columns
    assert evidence_of(agent.state, 0) == (0.5 + 1.5, 0.5 + 0.5)
    assert (columns.stability_h[0], columns.difficulty[0]) == FSRS5.step(
        24.0, 5.0, 0.75, 1.0, agent.clock.hour
    )
    assert columns.t_last_h[0] == agent.clock.hour
    assert (columns.positives[0], columns.negatives[0], columns.importance[0]) == (1, 0, 0.5)


def test_weights_below_one_move_stability_by_their_fraction(agent: Agent) -> None:
    """The fraction is w·v with the retrieval weight the episode had: score over best score."""
    for row in (0, 1):
        agent.learn(row)
    agent.wait(20)
    episode = agent.recall((0, 0.8), (1, 0.4), uniform=False)
    agent.wait(5)
    agent.finish(episode, 0.0, weight=0.5)
    columns = agent.state.columns
    for row, share in ((0, 1.0), (1, 0.5)):
        assert evidence_of(agent.state, row) == (0.5, 0.5 + 0.5 * share)
        assert (columns.stability_h[row], columns.difficulty[row]) == FSRS5.step(
            24.0, 5.0, 0.0, 0.5 * share, agent.clock.hour
        )


def test_recall_moves_nothing(agent: Agent) -> None:
    """Twenty identical reads: no evidence, no freshness, no register (reading is not evidence)."""
    agent.learn(0)
    agent.outcome(0)
    before, registers = moving_parts(agent.state, 0), registers_of(agent.state)
    for _ in range(20):
        agent.wait(20)
        agent.recall((0, 0.9), (7, 0.3), context="deploy")
    assert moving_parts(agent.state, 0) == before
    assert agent.state.columns.views(8).stability_h[7] == 0.0
    assert registers_of(agent.state).version.tolist() == registers.version.tolist() == [1]


def test_a_confirm_is_an_outcome_that_is_not_counted_as_explicit(agent: Agent) -> None:
    """Evidence of its small weight, first-hand; positives and negatives count what was said outright."""
    agent.learn(0)
    agent.outcome(0, signal=1.0, weight=0.125, implicit=True)
    assert evidence_of(agent.state, 0) == (0.625, 0.5)
    assert agent.state.columns.positives[0] == 0
    assert registers_of(agent.state).alpha.tolist() == [ONE // 8]
    assert events.kind_of(events.decode_own(agent.log[-1][1])) == "confirm"


def test_own_registers_hold_first_hand_outcomes_by_context(agent: Agent) -> None:
    """Plain sums per (block, context), S by fsrs5, versions from one counter; no prior, no rating."""
    agent.learn(0)
    agent.rate(0, 0.9)
    agent.outcome(0, context="deploy")
    agent.outcome(0, 1, signal=0.0, context="deploy")
    agent.wait(12)
    agent.outcome(0, signal=0.5, weight=3.0)
    held, label = registers_of(agent.state), agent.state.contexts.label
    found = {
        (row, label(context)): (alpha / ONE, beta / ONE, version)
        for row, context, alpha, beta, version in zip(
            held.row.tolist(),
            held.context.tolist(),
            held.alpha.tolist(),
            held.beta.tolist(),
            held.version.tolist(),
            strict=True,
        )
    }
    assert found == {(0, "deploy"): (1.0, 1.0, 2), (1, "deploy"): (0.0, 1.0, 3), (0, ""): (1.5, 1.5, 4)}
    total = sum(held.alpha[held.row == 0].tolist()), sum(held.beta[held.row == 0].tolist())
    assert total == (agent.state.columns.self_a[0], agent.state.columns.self_b[0])
    newest = held.version == 4
    assert held.stamp_h[newest].tolist() == [agent.clock.hour]
    assert held.stability_h[newest].tolist() == [agent.state.columns.published_stability_h[0]]


def test_what_is_published_does_not_depend_on_the_rules(agent: Agent) -> None:
    """Replayed under other rules own S differs, the registers do not."""
    agent.learn(0)
    for signal in (1.0, 0.0, 1.0):
        agent.wait(29)
        agent.outcome(0, signal=signal)
    for rules in RULE_SETS.values():
        other = fold(agent.log, rules)
        assert registers_of(other).stability_h.tolist() == registers_of(agent.state).stability_h.tolist()
        if rules is not FSRS5:
            assert other.columns.stability_h[0] != agent.state.columns.stability_h[0]


def test_a_new_incarnation_counts_from_zero_and_keeps_the_old_registers(agent: Agent) -> None:
    """Incarnations add up: own sums go on, registers and versions start again."""
    agent.outcome(0, context="deploy")
    agent.outcome(0, context="deploy")
    agent.note(evidence.incarnation(agent.clock, agent.fresh(), "restored"))
    agent.outcome(0, signal=0.0, context="deploy")
    held = registers_of(agent.state)
    assert sorted(zip(held.alpha.tolist(), held.beta.tolist(), held.version.tolist(), strict=True)) == [
        (0, ONE, 1),
        (2 * ONE, 0, 2),
    ]
    assert evidence_of(agent.state, 0) == (2.0, 1.0)


def test_evidence_that_rounds_to_nothing_states_no_register(agent: Agent) -> None:
    """A weight of zero refreshes, and neither counts a version nor opens a register."""
    agent.learn(0)
    agent.wait(20)
    agent.outcome(0, weight=0.0)
    assert agent.state.columns.t_last_h[0] == agent.clock.hour
    assert agent.state.columns.stability_h[0] == pytest.approx(24.0, rel=1e-15)
    assert len(agent.state.registers) == 0
    assert agent.state.firsthand.version == 0


@every_set
@settings(deadline=None, max_examples=60)
@given(st.lists(deeds, max_size=40))
def test_replay_equals_live_bit_for_bit(rules: RuleSet, work: list[Deed]) -> None:
    """Any work, forgetting and restarts included, folded live or from its bytes, gives one state."""
    agent = Agent(rules)
    for deed in work:
        agent.do(deed)
    assert differences(agent.state, fold(agent.log, rules)) == []


@every_set
@settings(deadline=None, max_examples=40)
@given(st.lists(deeds, max_size=30), st.lists(deeds, max_size=10))
def test_a_state_taken_up_from_its_export_goes_on_as_if_nothing_had_happened(
    rules: RuleSet, before: list[Deed], after: list[Deed]
) -> None:
    """Export, load into a home whose contexts are numbered otherwise, work on: as without."""
    agent = Agent(rules)
    for deed in before:
        agent.do(deed)
    contexts = Contexts.load(["", "from a peer", "légal"])
    loaded = load_state(export_state(agent.state), contexts, rules)
    assert differences(agent.state, loaded) == []
    assert list(loaded.episodes) == list(agent.state.episodes)
    agent.state = loaded
    for deed in after:
        agent.do(deed)
    assert differences(agent.state, fold(agent.log, rules)) == []


@settings(deadline=None, max_examples=60)
@given(st.lists(deeds, max_size=40))
def test_evidence_is_the_plain_sum_of_what_the_events_say(work: list[Deed]) -> None:
    """A slow oracle over the log: every column of evidence is a sum of its events' integers."""
    agent = Agent()
    for deed in work:
        agent.do(deed)
    sums: dict[int, list[int]] = {}
    learned: set[int] = set()
    weight_fx = ONE
    for row, payload in agent.log:
        if row is None:
            home = events.decode_home(payload)
            weight_fx = home.multiplier_fx if isinstance(home, events.Recalibrated) else weight_fx
            continue
        total = sums.setdefault(row, [0] * 6)
        match events.decode_own(payload):
            case events.Learn(prior_fx=prior) if row not in learned:
                learned.add(row)
                total[0] += prior
                total[1] += prior
            case events.Consolidate() | events.Rescore() as rated:
                total[2] += rated.alpha_fx
                total[3] += rated.beta_fx
            case events.Outcome() as outcome:
                total[4] += outcome.alpha_fx
                total[5] += outcome.beta_fx
            case events.Revise() as revised:
                total[0] += revised.alpha_fx
                total[1] += revised.beta_fx
            case _:
                pass
    for total in sums.values():  # all by one rater, whose weight holds for the whole log
        total[2:4] = ((stated * weight_fx + ONE // 2) // ONE for stated in total[2:4])
    c = agent.state.columns.views(6)
    for row in range(6):
        columns = (c.prior_a, c.prior_b, c.rated_a, c.rated_b, c.self_a, c.self_b)
        assert [int(column[row]) for column in columns] == sums.get(row, [0] * 6)


@given(signals, weights, st.floats(0.0, 1.0))
def test_evidence_is_rounded_once(signal: float, weight: float, score: float) -> None:
    """The event's integers are s·w·v and (1-s)·w·v to the nearest 2^-16, v as the episode holds it."""
    agent = Agent()
    episode = agent.recall((0, 1.0), (1, score), uniform=False)
    v = Fraction(round(score * ONE), ONE)
    outcome = evidence.outcome_of_episode(agent.state, agent.clock, episode, signal, weight)[1][1]
    for got, exact in (
        (outcome.alpha_fx, Fraction(signal) * Fraction(weight) * v),
        (outcome.beta_fx, Fraction(1.0 - signal) * Fraction(weight) * v),
    ):
        assert abs(got - exact * ONE) <= Fraction(1, 2) + Fraction(1, 10**6)


@settings(deadline=None, max_examples=60)
@given(st.lists(deeds, max_size=40))
def test_forgetting_leaves_nothing_of_the_block(work: list[Deed]) -> None:
    """Columns, registers, tags, spaces, links and episodes are as if the block had never been."""
    agent = Agent()
    for deed in work:
        agent.do(deed)
    version = agent.state.firsthand.version
    agent.forget(0)
    state = agent.state
    assert moving_parts(state, 0) == (0.0, 0.0, 0.0, 5.0, 0.0, 0.5)
    assert 0 not in registers_of(state).row.tolist()
    assert 0 not in state.tags.keys() | state.shared.keys() | set(state.links.rows())
    assert 0 not in state.links.edges().other
    assert not state.links.looked(1)[0]
    assert all(0 not in episode.rows and episode.rows for episode in state.episodes.values())
    assert state.firsthand.version == version


def test_versions_are_not_given_twice_after_the_newest_evidence_was_forgotten(agent: Agent) -> None:
    """A replay of what is left goes on counting where the forgotten block's evidence stopped."""
    agent.outcome(0)
    agent.outcome(1)
    agent.forget(1)
    agent.state = fold(agent.log)
    agent.outcome(2)
    held = registers_of(agent.state)
    assert dict(zip(held.row.tolist(), held.version.tolist(), strict=True)) == {0: 1, 2: 3}


def test_an_episode_takes_one_outcome(agent: Agent) -> None:
    """The same again is a no-op, a different one an error; nothing is counted twice."""
    episode = agent.recall((0, 0.9), (1, 0.5), context="deploy")
    assert agent.finish(episode, 1.0) == 2
    after = evidence_of(agent.state, 0)
    assert agent.finish(episode, 1.0) == 0
    assert agent.finish(episode, 1.0, context="deploy") == 0
    for signal, weight, context in ((0.0, 1.0, None), (1.0, 2.0, None), (1.0, 1.0, "legal")):
        with pytest.raises(Conflict, match="already took the outcome"):
            agent.finish(episode, signal, weight, context)
    assert evidence_of(agent.state, 0) == after == (1.0, 0.0)
    assert registers_of(agent.state).context.tolist() == [1, 1]


def test_the_table_of_episodes_is_bounded(agent: Agent) -> None:
    """The oldest episode goes first, and says that it is gone."""
    first = agent.recall((0, 1.0))
    second = agent.recall((0, 1.0))
    for _ in range(MAX_EPISODES - 1):
        agent.recall((0, 1.0))
    assert len(agent.state.episodes) == MAX_EPISODES
    with pytest.raises(UnknownThing, match=first.hex()):
        agent.finish(first, 1.0)
    assert agent.finish(second, 1.0) == 1


def test_time_that_runs_backwards_in_the_log_counts_as_none(agent: Agent) -> None:
    """An earlier hour is folded as no time passed; t_last and the clock stay."""
    agent.wait(20)
    agent.learn(0)
    hour = agent.state.hour
    past = ActiveClock(0.0, 5)
    apply(agent.state, 0, evidence.outcome_of_blocks(agent.state, past, [0], 1.0)[0][1])
    assert agent.state.columns.stability_h[0] == pytest.approx(24.0)
    assert agent.state.columns.t_last_h[0] == agent.state.hour == hour


def outcome(version: int, mass_fx: int = ONE, context: str = "", episode: bytes = b"") -> Outcome:
    return Outcome(0.0, 0, 1.0, ONE, ONE, mass_fx, 0, version, context, episode)


def test_impossible_events_are_refused_and_change_nothing(agent: Agent) -> None:
    """A counter that stands still, too much mass, a second outcome, rows and ids that are none."""
    episode = agent.recall((0, 1.0))
    agent.finish(episode, 0.5)
    blank = OwnState(ORIGIN, Contexts())
    with pytest.raises(FoldError, match="before the home's first incarnation"):
        apply(blank, 0, outcome(1))
    late = evidence.recall_hits(agent.clock, episode, [(1, 1.0)], FrameName.SELF)[0][1]
    impossible: list[tuple[int, Outcome | RecallHit | Connect, str]] = [
        (0, outcome(1), "does not follow"),
        (0, outcome(2, MAX_FX), "more evidence"),
        (0, outcome(2, context="new", episode=episode), "already took another outcome"),
        (-1, outcome(2), "row -1"),
        (1, late, "cannot have handed out"),
        (0, Connect(0.0, 0, 0, ONE), "cannot be linked"),
    ]
    for row, event, why in impossible:
        with pytest.raises(FoldError, match=why):
            apply(agent.state, row, event)
    for fresh in (b"short", agent.state.firsthand.incarnation):
        with pytest.raises(FoldError, match="incarnation"):
            apply_home(agent.state, Incarnation(0.0, 0, fresh))
    assert differences(agent.state, fold(agent.log)) == []
    assert agent.state.contexts.labels() == ("",)
