from typing_extensions import Buffer

def pair(kind: Buffer, addr: Buffer, partner: Buffer, doubled: Buffer, wide: bool, seed: int, /) -> None: ...
def last_by_key(key: Buffer, role: Buffer, found: Buffer, seed: int, /) -> None: ...
def align(
    row_key: Buffer,
    row_held: Buffer,
    row_weight: Buffer,
    row_marks: Buffer,
    row_starts: Buffer,
    column_key: Buffer,
    column_held: Buffer,
    column_marks: Buffer,
    column_starts: Buffer,
    worth: Buffer,
    scale: Buffer,
    first: Buffer,
    last: Buffer,
    before: Buffer,
    partner: Buffer,
    saved: Buffer,
    keys: int,
    /,
) -> None: ...
def chain(at: Buffer, places: Buffer, chosen: Buffer, gram: int, back: int, last_offset: int, /) -> None: ...
