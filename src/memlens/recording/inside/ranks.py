"""In a rank of a distributed run: give its output to the recorder as a stream of its own, so that it gets a log of its own.

Loaded by ``startup/sitecustomize.py`` in every Python process of a recorded program.  The launcher and single programs keep their streams:
a rank is a process that was told another rank than the recorder was.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # what is imported here is paid by every Python process of the program
if TYPE_CHECKING:
    from typing import Any

#: Variables that launchers set for each rank, the rank itself in all but the last: torchrun, paddle.distributed.launch, Open MPI, other MPIs, Slurm.
MARKS = ("RANK", "PADDLE_TRAINER_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK")
_SECONDS = 10.0


def marks() -> dict[str, str]:
    """Those of the variables that are set."""
    return {name: os.environ[name] for name in MARKS if name in os.environ}


def start(request: dict[str, Any], _: object) -> None:
    """Move stdout and stderr of a rank into a pipe that the recorder reads.

    Args:
        request: ``path`` of the recorder's socket, and the ``marks`` of the recorder itself.
    """
    own = marks()
    if own == request["marks"]:
        return
    import json
    import socket
    import struct

    # Processes that this one starts write into its streams, and so into its log.
    del os.environ["MEMLENS_RECORD"]
    # torchrun may itself run where RANK is that of the machine, and then its rank 0 has the same: what differs goes first.
    ordered = sorted(MARKS[:-1], key=lambda name: own.get(name) == request["marks"].get(name))
    rank = next((own[name] for name in ordered if name in own), own.get("LOCAL_RANK", ""))
    reading, writing = os.pipe()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(request["path"])
        # The old stdout goes along: what is passed on goes where it would have gone, to the console or to the launcher's own file.
        handed = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("ii", reading, 1))
        connection.sendmsg([json.dumps({"rank": rank}).encode()], [handed])
        answer = connection.recv(1)
    os.close(reading)
    if answer != b"+":
        os.close(writing)
        raise OSError("the recorder did not take the output of this rank")
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(writing)
