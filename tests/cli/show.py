# SPDX-License-Identifier: Apache-2.0
"""Shows a part of a JSON answer on standard input, for transcripts: `show.py "rows[0]['ids']" "list(rows[0])"`.

Each argument is a Python expression over the object's keys; `answer` is the object. `show.py --padding FILE V` shows
which tokens of an .npy of f32 logits with V columns are NaN.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from pathlib import Path


def padding(file: str, vocab: int) -> str:
    data = Path(file).read_bytes()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    values = struct.unpack(f"<{(len(data) - start) // 4}f", data[start:])
    marks = ["nan" if math.isnan(values[i]) else "ok" for i in range(0, len(values), vocab)]
    return " ".join(marks)


def main() -> None:
    if sys.argv[1] == "--padding":
        print(padding(sys.argv[2], int(sys.argv[3])))
        return
    answer = json.load(sys.stdin)
    for expression in sys.argv[1:]:
        print(eval(expression, {"answer": answer, **answer}))


if __name__ == "__main__":
    main()
