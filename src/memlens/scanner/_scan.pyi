from typing import Any

from numpy.typing import NDArray

#: The packed searches that this machine can run, the fastest first.
SEARCHES: list[int]

def scan(
    block: NDArray[Any],
    tables: NDArray[Any],
    state: NDArray[Any],
    rows: NDArray[Any],
    begin: int,
    end: int,
    search: int,
) -> bool: ...
def last_header(
    block: NDArray[Any], tables: NDArray[Any], state: NDArray[Any], rows: NDArray[Any], begin: int, end: int
) -> int: ...
def lines_that_begin(block: NDArray[Any], chosen: NDArray[Any], rows: NDArray[Any]) -> tuple[int, int]: ...
