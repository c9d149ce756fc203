import pytest


@pytest.fixture
def problems():
    """A hundred with columns: the difficulty falls with the place, and every fourth has three times the weight."""
    from isentropic.task import Problem

    return [
        Problem(f"{i}+1=", i + 1, columns={"difficulty": 100 - i, "weight": 3 if i % 4 == 0 else 1, "kind": "sum"})
        for i in range(100)
    ]
