"""The commands about others: spaces, peers, and how far each is trusted."""

from __future__ import annotations

from typing import Annotated

import typer

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli import render
from loremesh.node.cli.arguments import (
    PEER,
    LimitOption,
    PageBudgetOption,
    SkipOption,
    UsesOption,
    WhyOption,
    invocation,
    number,
)
from loremesh.node.cli.console import answer
from loremesh.node.cli.inputs import text_given
from loremesh.node.cli.session import ask

SPACE_NAME = Annotated[str, typer.Argument(metavar="NAME", help="The space's name (or its id).")]


def space_create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="1 to 64 printable characters.")],
    member_trust: Annotated[
        float,
        typer.Option(
            parser=number, metavar="T", help="What members give one another until told otherwise, 0 to 1."
        ),
    ] = 0.5,
    uses: UsesOption = 1,
) -> None:
    """Make a space, and a token to join it.

    The token admits one principal: with --uses N, up to N keys that count as one. It is a secret.

    \b
    loremesh space create team --member-trust 0.5
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.SPACE_CREATE, p.SpaceCreate(name, member_trust, uses))
    answer(run, result, lambda out: render.invited(out, result))


def space_invite(ctx: typer.Context, name: SPACE_NAME, uses: UsesOption = 1) -> None:
    """Print another token for a space that this node administers.

    \b
    loremesh space invite team
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.SPACE_INVITE, p.SpaceInvite(name, uses))
    answer(run, result, lambda out: render.invited(out, result))


def space_join(
    ctx: typer.Context,
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="The token, from lmt1_ on; - reads standard input.")
    ],
) -> None:
    """Join a space by a token. No administrator has to be there.

    Other users of the machine can see a command's arguments: through standard input the token stays secret.

    \b
    loremesh space join lmt1_…
    loremesh space join - < token
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.SPACE_JOIN, p.SpaceJoin(text_given(token)))
    answer(run, result, lambda out: render.space(out, result))


def space_list(
    ctx: typer.Context,
    limit: LimitOption = p.MAX_PAGE,
    skip: SkipOption = 0,
    budget: PageBudgetOption = p.PAGE_TOKENS,
) -> None:
    """List the spaces this node is in.

    \b
    loremesh space list
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.SPACE_LIST, p.Page(limit, skip, budget))
    answer(run, result, lambda out: render.spaces(out, result))


def peers(
    ctx: typer.Context,
    limit: LimitOption = p.MAX_PAGE,
    skip: SkipOption = 0,
    budget: PageBudgetOption = p.PAGE_TOKENS,
) -> None:
    """List the peers known here.

    Trust is from 0 to 1; `behind` counts frames of theirs that are not here yet.

    \b
    loremesh peers
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.PEERS, p.Page(limit, skip, budget))
    answer(run, result, lambda out: render.peers(out, result))


def trust_set(
    ctx: typer.Context,
    peer: PEER,
    value: Annotated[
        float, typer.Argument(parser=number, metavar="VALUE", help="0 (counts for nothing) to 1.")
    ],
    why: WhyOption = "",
) -> None:
    """Set how far a peer's evidence counts here.

    From now on, and for all it ever sent.

    \b
    loremesh trust set PEER 0.8 --why "same team"
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.TRUST_SET, p.TrustSet(peer, value, why))
    answer(run, result, lambda out: render.trust_change(out, result))


def trust_revoke(ctx: typer.Context, peer: PEER, why: WhyOption = "") -> None:
    """Take a peer's influence out.

    Every number is then as if it had never been trusted.

    \b
    loremesh trust revoke PEER --why "sends junk"
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.TRUST_REVOKE, p.TrustRevoke(peer, why))
    answer(run, result, lambda out: render.trust_change(out, result))


def trust_log(
    ctx: typer.Context,
    limit: LimitOption = p.MAX_PAGE,
    skip: SkipOption = 0,
    budget: PageBudgetOption = p.PAGE_TOKENS,
) -> None:
    """List who was trusted with what, when, by whom and why. Times are UTC.

    \b
    loremesh trust log
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.TRUST_LOG, p.Page(limit, skip, budget))
    answer(run, result, lambda out: render.trust_log(out, result))
