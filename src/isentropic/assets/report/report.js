"use strict";
(() => {
  // Tables are sorted by a button in each column's head, by number where a cell begins with one.
  const key = (row, column) => row.cells[column].textContent.trim();
  const value = (text) => { const found = text.replace("−", "-").match(/^[▼+]?\s*(-?\d+(\.\d+)?)/); return found ? Number(found[1]) : null; };
  function compare(one, two) {
    const [a, b] = [value(one), value(two)];
    if (a !== null && b !== null) return a - b || one.localeCompare(two, "en", { numeric: true });
    return a !== null ? -1 : b !== null ? 1 : one.localeCompare(two, "en", { numeric: true });
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.hasAttribute("data-fixed")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1, rows = [...table.tBodies[0].rows];
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
        table.tBodies[0].append(...rows.sort((a, b) => way * compare(key(a, column), key(b, column))));
      });
    });
  }
  // Paper cannot be unfolded: tables are opened for it, and folded again.
  const tables = document.querySelectorAll("#scores > details, #entropy > details, #runs > details");
  const folded = new Set();
  addEventListener("beforeprint", () => { for (const one of tables) if (!one.open) { folded.add(one); one.open = true; } });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; folded.clear(); });
  const command = document.getElementById("rp-command"), copied = document.getElementById("rp-copied");
  document.getElementById("rp-copy").addEventListener("click", async (event) => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      copied.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(command);
      copied.textContent = "Selected; copy with the keyboard";
    }
    event.target.textContent = copied.textContent.split(";")[0];
    setTimeout(() => { event.target.textContent = "Copy"; }, 2000);
  });
})();
