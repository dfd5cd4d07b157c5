"""The rule sets there are, by name.

A name is a forgetting model, a utility model, or both: `fsrs5`, `bkt`, `actr+beta-decay:0.95`. What is not
named is the default: fsrs5, and beta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

import msgspec

from loremesh.node.actr import base_level
from loremesh.node.errors import UsageError
from loremesh.node.hlr import half_life_regression
from loremesh.node.rules import EXPONENTIAL, FSRS5, FSRS6, SURVEY, RuleSet
from loremesh.node.sm2 import sm2
from loremesh.node.utility import BETA, DECAY, Knowledge, Utility, beta_decay, knowledge_tracing

HLR: Final = half_life_regression()
SM2: Final = sm2()
ACTR: Final = base_level()

RULE_SETS: Final = {rules.name: rules for rules in (FSRS5, SURVEY, FSRS6, EXPONENTIAL, HLR, SM2, ACTR)}
"""The forgetting models, each with the utility model that is the default."""

PLAIN: Final = {model.name: model for model in (BETA, knowledge_tracing(Knowledge()))}
TUNED: Final[dict[str, tuple[Callable[[float], Utility], float]]] = {"beta-decay": (beta_decay, DECAY)}
"""Utility models with a parameter that may follow after a colon, and its default."""

MAX_NAME_CHARACTERS: Final = 100

NO_FITS: Final[Mapping[str, tuple[float, ...]]] = MappingProxyType({})


def get_rules(name: str, fits: Mapping[str, tuple[float, ...]] = NO_FITS) -> RuleSet:
    """The rule set called `name`, with the weights that `fits` has for its forgetting model.

    Raises UsageError listing the names there are.
    """
    forgetting, utility = _named(name)
    weights = fits.get(forgetting.name)
    if weights is not None:
        forgetting = with_weights(forgetting, weights)
    return with_utility(forgetting, utility)


def model_named(name: str) -> RuleSet:
    """The forgetting model in the name of a rule set, as published. Raises UsageError."""
    return _named(name)[0]


def remembered_hours(forgetting: str) -> tuple[bool, ...]:
    """Of each number that the forgetting model of this name (weights' digest included) remembers, whether it
    is an hour, and else a count or a weight, never negative. Nothing for a model that there is not.
    """
    model = RULE_SETS.get(forgetting.partition("@")[0])
    return () if model is None else tuple("h" in name.split("_") for name, _ in model.history)


def _named(name: str) -> tuple[RuleSet, Utility]:
    forgetting: RuleSet | None = None
    utility: Utility | None = None
    for part in name[:MAX_NAME_CHARACTERS].split("+"):
        found = RULE_SETS.get(part)
        if found is not None and forgetting is None:
            forgetting = found
            continue
        model = _utility(part)
        if model is None or utility is not None:
            raise UsageError(
                f"there are no rules named {name[:MAX_NAME_CHARACTERS]!r}",
                hint=f"choose one of: {', '.join(sorted(RULE_SETS))}; for utility one of: "
                f"{', '.join(sorted((*PLAIN, *TUNED)))}; or one of each joined by +",
            )
        utility = model
    return forgetting or FSRS5, utility or BETA


def with_utility(rules: RuleSet, utility: Utility) -> RuleSet:
    """The rule set with another utility model; named after both, the default left out."""
    if utility is rules.utility:
        return rules
    return msgspec.structs.replace(rules, name=f"{rules.name}+{utility.name}", utility=utility)


def with_weights(rules: RuleSet, weights: tuple[float, ...]) -> RuleSet:
    """The rule set with other weights for its forgetting model; its name tells them by a digest.

    Raises UsageError for a set without weights, ValueError for another number of them.
    """
    if rules.reweighted is None:
        raise UsageError(f"the rules {rules.name} have no weights", "choose others")
    if len(weights) != len(rules.weights):
        raise ValueError(f"{rules.name} has {len(rules.weights)} weights, not {len(weights)}")
    digest = sha256(msgspec.msgpack.encode(weights)).hexdigest()[:8]
    model = rules.reweighted(weights)
    return msgspec.structs.replace(model, name=f"{rules.name}@{digest}", utility=rules.utility)


def _utility(part: str) -> Utility | None:
    """The utility model that a part of a name means, None for none."""
    head, colon, tail = part.partition(":")
    if not colon:
        if head in TUNED:
            make, default = TUNED[head]
            return make(default)
        return PLAIN.get(head)
    if head not in TUNED:
        return None
    try:
        return TUNED[head][0](float(tail))
    except ValueError:
        return None
