from typing_extensions import Buffer

class _State: ...

def start(*columns: Buffer) -> _State: ...
def run(state: _State, operations: int, until: int, /) -> tuple[int, int, bytes]: ...
def fork(state: _State, limit: int, /) -> _State: ...
def result(state: _State, /) -> bytes: ...
def effects(
    kind: Buffer,
    size: Buffer,
    addr: Buffer,
    free: Buffer,
    until: Buffer,
    late: Buffer,
    emptying: Buffer,
    preallocated: Buffer,
    found: Buffer,
    /,
) -> None: ...
