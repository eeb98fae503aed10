from typing_extensions import Buffer

def latest(key: Buffer, role: Buffer, found: Buffer, doubled: Buffer, seed: Buffer, /) -> None: ...
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
    keys: Buffer,
    partner: Buffer,
    saved: Buffer,
    /,
) -> None: ...
def chain(at: Buffer, places: Buffer, numbers: Buffer, chosen: Buffer, /) -> None: ...
