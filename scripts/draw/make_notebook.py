"""The first tutorial as a notebook.

    python scripts/draw/make_notebook.py         # writes docs/tutorials/cluster_my_csv.ipynb from cluster_my_csv.md

Text becomes cells of text, blocks of Python and of the shell become cells of code; outputs are left out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
PAGE, NOTEBOOK = TUTORIALS / "cluster_my_csv.md", TUTORIALS / "cluster_my_csv.ipynb"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", flags=re.DOTALL | re.MULTILINE)


def notebook(page: str) -> dict[str, Any]:
    """Return the cells of a page in Markdown, in the format of Jupyter (version 4.5)."""
    cells: list[dict[str, Any]] = []

    def add(kind: str, source: str) -> None:
        if source.strip():
            more: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
            cell = {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}, "source": source.strip()}
            cells.append(cell | more)

    add("markdown", "This notebook is made from `cluster_my_csv.md`. Its commands run at the top of the checkout.")
    add("code", "%cd -q ../..")
    end = 0
    for fence in FENCE.finditer(page):
        language, code = fence.groups()
        add("markdown", page[end:fence.start()])
        if language != "text":                                          # the output: the notebook shows its own
            add("code", code if language == "python" else re.sub(r"^(?=\w)", "!", code, flags=re.MULTILINE))
        end = fence.end()
    add("markdown", page[end:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    NOTEBOOK.write_text(json.dumps(notebook(PAGE.read_text()), indent=1, ensure_ascii=False) + "\n")
    print(NOTEBOOK.name)


if __name__ == "__main__":
    main()
