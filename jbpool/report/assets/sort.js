// Tables are sorted by a click on the name of a column; a second click reverses the order.
(() => {
  "use strict";
  const value = (row, column) => row.cells[column]?.textContent.trim() ?? "";
  const asNumber = (text) => Number.parseFloat(text.replaceAll(",", ""));
  function sort(table, column, down) {
    const body = table.tBodies[0], rows = [...body.rows];
    const given = rows.map((row) => value(row, column)).filter((text) => text && text !== "-");
    const numeric = given.every((text) => !Number.isNaN(asNumber(text)));
    const sign = down ? -1 : 1;
    rows.sort((a, b) => {
      const [one, other] = [a, b].map((row) => value(row, column));
      const [no, none] = [one, other].map((text) => !text || text === "-");
      if (no || none) return no - none;                             // what is missing comes last
      return sign * (numeric ? asNumber(one) - asNumber(other) : one.localeCompare(other, "en", {numeric: true}));
    });
    body.append(...rows);
  }
  for (const table of document.querySelectorAll("table")) {
    if ((table.tBodies[0]?.rows.length ?? 0) < 3) continue;
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down);
      });
    });
  }
})();
