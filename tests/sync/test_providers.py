"""Who gave which content: once, at its first hour, gone when it is forgotten."""

import numpy as np
import pytest

from loremesh.sync.providers import Providers


def test_content_that_comes_again_keeps_its_first_hour() -> None:
    providers = Providers()
    assert providers.add(np.array([0, 1]), source=3, hour=2.0) == 2
    assert providers.add(np.array([1, 2]), source=3, hour=9.0) == 1
    assert providers.add(np.array([1]), source=4, hour=5.0) == 1
    assert providers.of(1) == {3: 2.0, 4: 5.0}
    assert providers.of(7) == {}


def test_a_forgotten_row_has_no_provider_and_can_get_one_again() -> None:
    providers = Providers()
    providers.add(np.array([0, 1]), 3, 2.0)
    providers.drop(0)
    assert (providers.of(0), providers.of(1), len(providers)) == ({}, {3: 2.0}, 1)
    assert providers.add(np.array([0]), 3, 8.0) == 1
    assert providers.of(0) == {3: 8.0}


def test_an_export_is_the_same_again() -> None:
    providers = Providers()
    providers.add(np.array([5, 1]), 3, 2.0)
    providers.add(np.array([1]), 0, 4.0)
    again = Providers.load(providers.export())
    assert [again.of(row) for row in range(6)] == [providers.of(row) for row in range(6)]
    assert again.add(np.array([5, 6]), 3, 9.0) == 1


@pytest.mark.parametrize(
    "damage", [{"hour": np.array([1.0])}, {"row": np.array([-1, 1])}, {"row": np.array([1, 0])}]
)
def test_a_damaged_export_is_refused(damage: dict[str, np.ndarray]) -> None:
    providers = Providers()
    providers.add(np.array([0, 1]), 3, 2.0)
    with pytest.raises(ValueError, match="provider"):
        Providers.load({**providers.export(), **damage})
