// What the page adds to its static content: sorting and filtering of tables, a card for every dot, dots and rows that point at each other.
"use strict";
(() => {
  const dots = JSON.parse(document.getElementById("dots").textContent);
  const rows = new Map(); // key -> rows of tables
  const groups = new Map(); // key -> elements of charts
  const make = (tag, text = "", attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const add = (map, key, value) => map.set(key, [...(map.get(key) || []), value]);

  // ---- colours ----
  const root = document.documentElement;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const toggle = make("button", "", { type: "button", id: "theme" });
  const named = () => { toggle.textContent = dark() ? "Light" : "Dark"; toggle.title = `Show the page in ${dark() ? "light" : "dark"} colours`; };
  toggle.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; named(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", named);
  named();
  document.querySelector("header").append(toggle);

  // ---- tables ----
  const MIN_FILTERED_ROWS = 9;
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim().toLowerCase() : Number(cell.dataset.value);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  const unknown = (entry) => entry === "" || entry === "-";

  function sort(table, column, direction) {
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      if (index === column && direction) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    const entries = [...table.tBodies[0].rows].map((row) => ({ row, at: Number(row.dataset.place), by: value(row, column) }));
    entries.sort((a, b) => {
      const last = Number(unknown(a.by)) - Number(unknown(b.by)); // what is not known stays at the end
      return (direction && (last || direction * compare(a.by, b.by))) || a.at - b.at;
    });
    table.tBodies[0].append(...entries.map((entry) => entry.row));
  }

  function filter(table, words, count) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...table.tBodies[0].rows];
    for (const row of all) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
    }
    const shown = all.filter((row) => !row.hidden).length;
    count.textContent = wanted.length ? `${shown} of ${all.length} rows` : "";
  }

  for (const table of document.querySelectorAll("main table")) {
    const body = [...table.tBodies[0].rows];
    body.forEach((row, place) => {
      row.dataset.place = place;
      if (row.dataset.key) add(rows, row.dataset.key, row);
    });
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", head.textContent, { type: "button" });
      head.replaceChildren(button);
      const first = head.classList.contains("n") ? -1 : 1; // of numbers the largest first
      button.addEventListener("click", () => {
        const now = { ascending: 1, descending: -1 }[head.getAttribute("aria-sort")] || 0;
        sort(table, column, now === 0 ? first : now === first ? -first : 0);
      });
    });
    if (body.length >= MIN_FILTERED_ROWS) {
      const box = make("div", "", { class: "filter" });
      const input = make("input", "", { type: "search", placeholder: `Filter ${body.length} rows`, "aria-label": "Filter the rows of this table" });
      const count = make("span", "", { "aria-live": "polite" });
      input.addEventListener("input", () => filter(table, input.value, count));
      box.append(input, count);
      table.closest(".scroll").before(box);
    }
  }

  // ---- highlights ----
  let lit = [];
  let pinned = ""; // the key that was clicked: it stays lit while nothing else is
  function unlight() {
    if (pinned) return light(pinned);
    lit.forEach((undo) => undo());
    lit = [];
  }
  function light(key, only) {
    lit.forEach((undo) => undo());
    lit = [];
    for (const row of rows.get(key) || []) {
      row.classList.add("hot");
      lit.push(() => row.classList.remove("hot"));
    }
    for (const dot of only ? [only] : groups.get(key) || []) {
      const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      const { x, y, width, height } = dot.getBBox();
      for (const [name, amount] of Object.entries({ cx: x + width / 2, cy: y + height / 2, r: Math.max(width, height) / 2 + 4 })) ring.setAttribute(name, amount);
      ring.setAttribute("class", "ring");
      dot.append(ring);
      lit.push(() => ring.remove());
    }
  }
  function show(key) { // the row of a dot, wherever it hides
    const row = (rows.get(key) || [])[0];
    pinned = row ? key : "";
    if (!row) return;
    for (let outer = row.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
    const input = row.closest(".scroll").previousElementSibling?.querySelector("input");
    if (row.hidden && input) {
      input.value = "";
      input.dispatchEvent(new Event("input"));
    }
    row.scrollIntoView({ block: "nearest" });
  }

  // ---- the card ----
  const card = make("div", "", { id: "card", role: "status" });
  card.hidden = true;
  document.body.append(card);
  const MAX_CELL = 48; // characters; longer cells stay in the table
  function facts(dot) {
    const row = (rows.get(dot.key) || [])[0];
    if (!row || dot.facts.length) return [...dot.at, ...dot.facts];
    const heads = [...row.closest("table").tHead.rows[0].cells].map((head) => head.textContent.trim());
    const cells = [...row.cells].map((cell, index) => [heads[index], cell.textContent.trim()]).slice(1);
    const listed = new Set(dot.at.map(([, text]) => text));
    return [...dot.at, ...cells.filter(([, text]) => !unknown(text) && text.length <= MAX_CELL && !listed.has(text))];
  }
  function open(group) {
    const dot = dots[group.id];
    const list = make("dl");
    for (const [label, text] of facts(dot)) list.append(make("dt", label), make("dd", text));
    card.replaceChildren(make("b", dot.name), list);
    card.hidden = false;
    const at = group.getBoundingClientRect();
    const { width, height } = card.getBoundingClientRect();
    const right = at.right + 10, left = at.left - 10 - width, below = at.bottom + 10;
    const beside = right + width < innerWidth || left > 0;
    const x = right + width < innerWidth ? right : left;
    const y = beside ? at.top + at.height / 2 - height / 2 : below + height < innerHeight ? below : at.top - 10 - height;
    card.style.left = `${Math.max(8, Math.min(x, innerWidth - width - 8))}px`;
    card.style.top = `${Math.max(8, Math.min(y, innerHeight - height - 8))}px`;
    light(dot.key, rows.has(dot.key) ? null : group);
  }
  function close() {
    card.hidden = true;
    unlight();
  }

  // ---- charts ----
  const REACH = 18; // pixels from a dot at which the pointer takes it
  function nearest(members, event) {
    let best = null, distance = Infinity;
    for (const group of members) {
      const box = group.getBoundingClientRect();
      const away = Math.hypot(event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2);
      if (away < distance && away < Math.max(REACH, box.width / 2)) [best, distance] = [group, away];
    }
    return best;
  }
  for (const svg of document.querySelectorAll("figure svg")) {
    const members = [...svg.querySelectorAll("g[id]")].filter((group) => Object.hasOwn(dots, group.id));
    if (!members.length) continue;
    svg.setAttribute("role", "group");
    for (const group of members) {
      const dot = dots[group.id];
      group.querySelector("title")?.remove(); // the card says more
      group.classList.add("dot");
      group.setAttribute("role", "img");
      group.setAttribute("tabindex", group === members[0] ? "0" : "-1"); // one stop of the Tab key, arrows go on from there
      group.setAttribute("aria-label", [dot.name, ...facts(dot).map((fact) => fact.join(" "))].join(", "));
      add(groups, dot.key, group);
      group.addEventListener("focus", () => open(group));
      group.addEventListener("blur", close);
      group.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step) {
          const next = members[(members.indexOf(group) + step + members.length) % members.length];
          group.setAttribute("tabindex", "-1");
          next.setAttribute("tabindex", "0");
          next.focus();
          event.preventDefault();
        }
        if (event.key === "Enter") show(dot.key);
        if (event.key === "Escape") {
          pinned = "";
          close();
        }
      });
    }
    let current = null;
    svg.addEventListener("pointermove", (event) => {
      const group = nearest(members, event);
      if (group === current) return;
      current = group;
      if (group) open(group);
      else close();
    });
    svg.addEventListener("pointerleave", () => { current = null; close(); });
    svg.addEventListener("click", (event) => {
      const group = nearest(members, event);
      pinned = "";
      if (group) {
        open(group);
        show(dots[group.id].key);
      } else close();
    });
  }
  for (const [key, list] of rows) {
    if (!groups.has(key)) continue;
    for (const row of list) {
      row.dataset.linked = "";
      row.addEventListener("pointerenter", () => light(key));
      row.addEventListener("pointerleave", unlight);
    }
  }

  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
})();
