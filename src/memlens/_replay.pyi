from typing_extensions import Buffer

class _State: ...

def start(*columns: Buffer) -> _State: ...
def run(state: _State, operations: int, /) -> tuple[int, int, int]: ...
def changes(state: _State, at: Buffer, kind: Buffer, addr: Buffer, size: Buffer, /) -> None: ...
def result(state: _State, /) -> tuple[int, ...]: ...
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
