/* Bring your own: a file on the roofline, and the gap card of the kernel that is chosen. The server remembers what it read under a random
   token for a while; the page holds the file and sends it again where the server has forgotten it. */
import { Refused, ask, upload } from "../api.js";
import { catalog, choice } from "../controls.js";
import { announce, failure, h, replace, table } from "../dom.js";
import { draw } from "../draw.js";
import { write } from "../state.js";

const EXAMPLES = {
  kernels: ["h200_kernels.csv", "14 kernels under Nsight Compute"],
  faults: ["h200_faults.csv", "two kernels with planted faults"],
  training: ["h200_resnet.json.gz", "a training step under torch.profiler"],
};
const MAX_LISTED = 20; // kernels outside of the table that a search lists
const POLL = 500; // milliseconds between questions how far the server is

export async function mount(place, params) {
  const { machines } = await catalog();
  const state = { file: null, example: null, machine: params.get("machine") ?? "", kernel: params.get("kernel"), result: null, cards: new Map(), asked: 0, token: "" };
  const results = h("div", { class: "results" });
  const machine = choice({
    label: "Machine", value: state.machine, choices: [["", "as the file says"], ...machines.map(({ name }) => [name, name])],
    onchange(name) { state.machine = name; state.file && open(state.file, { keep: true }); },
  });
  const open = async (file, { example = state.example, keep = false } = {}) => {
    if (!keep) Object.assign(state, { kernel: null });
    Object.assign(state, { token: file === state.file ? state.token : newToken(), file, example, result: null, cards: new Map() });
    const asked = (state.asked += 1);
    const waiting = progressOf(state);
    replace(results, waiting.element);
    announce("reading the file", { quiet: true });
    try {
      const result = await question(state, "profile", {}, waiting.sent).finally(waiting.end);
      if (asked !== state.asked) return;
      state.result = result;
      result.cards?.forEach((card, index) => state.cards.set(index, card));
      remember(state);
      await show(results, state, machine);
      announce(result.answer[0] ?? "", { quiet: true });
    } catch (error) {
      if (asked === state.asked) replace(results, failure(error));
    }
  };
  place.append(intake(open, machine), results);
  const example = params.get("example");
  if (example in EXAMPLES) await openExample(example, (file, options) => open(file, { ...options, keep: true }), results);
  return () => { state.asked += 1; };
}

const address = (path, state, more = {}) => {
  const query = new URLSearchParams({ name: state.file.name ?? "", token: state.token, ...(state.machine ? { machine: state.machine } : {}), ...more });
  return `${path}?${query}`;
};

const newToken = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/* Asks about the file by its token, and sends it where the server does not have it. */
async function question(state, path, more, sent) {
  const to = address(path, state, more), { file, token } = state;
  if (state.held === token) {
    try {
      return await upload(to, null);
    } catch (error) {
      if (error.status !== 410) throw error;
    }
  }
  const answer = await upload(to, file, sent);
  state.held = token;
  return answer;
}

/* What happens to a file until it is answered: how much of it is sent, then how many of its kernels are placed. */
function progressOf(state) {
  const { file, token } = state, words = h("span"), bar = h("progress", { max: 1, "aria-label": "Progress" });
  const name = file.name || "the pasted text", size = file.size >= 1e6 ? ` (${(file.size / 1e6).toFixed(1)} MB)` : "";
  const say = (text, share) => {
    words.textContent = `${text} ${name}${size} ... `;
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
  };
  say("reading", null);
  const timer = setInterval(async () => {
    const { done, total } = await ask(`profile/progress?${new URLSearchParams({ token })}`).catch(() => ({}));
    if (total) say(`${done.toLocaleString("en")} of ${total.toLocaleString("en")} kernels of`, done / total);
  }, POLL);
  return {
    element: h("p", { class: "muted", role: "status" }, words, bar),
    sent: (share) => say(share < 1 ? `${Math.round(100 * share)} % sent of` : "reading", share < 1 ? share : null),
    end: () => clearInterval(timer),
  };
}

/* A file cannot be in an address: only what is chosen about it, and which example it is. */
const remember = (state) => write("/profile", { example: state.example, machine: state.machine, kernel: state.example && state.kernel });

async function openExample(name, open, results) {
  try {
    const reply = await fetch(`/static/examples/${EXAMPLES[name][0]}`);
    if (!reply.ok) throw new Refused("the example is not there; is `ridgeline serve` still running?");
    await open(new File([await reply.blob()], EXAMPLES[name][0]), { example: name });
  } catch (error) {
    replace(results, failure(error));
  }
}

/* -- choosing, dropping or pasting a file -------------------------------------------------------------------------- */

function intake(open, machine) {
  const picker = h("input", { type: "file", id: "profile-file", class: "visually-hidden", onchange: () => picker.files.length && open(picker.files[0], { example: null }) });
  const text = h("textarea", { id: "profile-text", rows: "5", spellcheck: "false", placeholder: "name,time_us,flops,bytes\n..." });
  const paste = h("button", { type: "button", class: "primary", onclick: () => open(new File([text.value], ""), { example: null }) }, "Read the text");
  const zone = h("section", { class: "panel drop", "aria-label": "Your file" },
    h("h1", { class: "question" }, "Why is my kernel slow?"),
    h("p", {}, "Drop a file here: an Nsight Compute CSV, a torch.profiler or JAX trace, a table of cases, or JSON that ridgeline wrote."),
    h("div", { class: "row" },
      h("label", { for: "profile-file", class: "button primary" }, "Choose a file"), picker, machine.element),
    h("details", {}, h("summary", {}, "Paste text"), h("label", { for: "profile-text" }, "Text of the file"), text, h("div", { class: "row" }, paste)),
    h("p", { class: "row" }, "Or try an example recorded on an H200:", Object.entries(EXAMPLES).map(([name, [, words]]) =>
      h("button", { type: "button", class: "example", onclick: () => openExample(name, open, zone.nextElementSibling) }, words))),
    h("p", { class: "muted" }, "The file is read as data on the machine that serves this page and is not stored; what was read of it stays in that machine's memory for ten minutes. A link does not contain it: save the report to share what you see."),
  );
  for (const kind of ["dragenter", "dragover"]) zone.addEventListener(kind, (event) => { event.preventDefault(); zone.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) zone.addEventListener(kind, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    const [file] = event.dataTransfer.files, dropped = event.dataTransfer.getData("text/plain");
    if (file) open(file, { example: null });
    else if (dropped) open(new File([dropped], ""), { example: null });
  });
  return zone;
}

/* -- what the file says ----------------------------------------------------------------------------------------- */

async function show(results, state, machine) {
  const { result } = state;
  const chart = h("div"), phases = h("div"), card = h("section", { class: "panel gap-card", "aria-label": "Gap card", "aria-live": "polite" });
  const choose = (index, focus = true) => openCard(card, chart, state, index, focus);
  const rows = result.table ? kernelTable(result, choose) : null;
  replace(results,
    h("div", { class: "answer" }, result.answer.map((line) => h("p", {}, line))),
    result.question ? h("p", { class: "verdict", role: "alert" }, result.question, " ", h("button", { type: "button", class: "primary", onclick: () => machine.select.focus() }, "Choose the machine")) : null,
    origin(result),
    result.warnings?.map((text) => h("p", { class: "error" }, text)),
    result.machine || result.kind === "chart" ? downloads(state) : null,
    result.chart ? chart : result.no_chart ? h("p", { class: "note" }, result.no_chart) : null,
    result.table && result.kind !== "unplaced" ? card : null,
    result.steps ? stepCards(result.steps) : null,
    rows,
    result.phases ? h("section", {}, h("h2", {}, "Device time by phase"), phases) : null,
    result.next?.length ? h("details", {}, h("summary", {}, "Collect next"), result.next.map((text) => h("pre", {}, text))) : null,
    result.tables?.map((each) => h("details", {}, h("summary", {}, each.title), table({ ...each, title: "" }))),
  );
  replace(card, h("p", { class: "muted" }, "Choose a dot or a row of the table: both gaps, where the microseconds go, and what closing them would bring."));
  const selected = (point) => state.kernel !== null && point.key !== "" && point.role !== "ridge" && Number(point.key) === Number(state.kernel);
  if (result.chart) await draw(chart, result.chart, { selected, onPoint: (point) => point.key !== "" && Number.isInteger(Number(point.key)) && choose(Number(point.key)) });
  if (result.phases) await draw(phases, result.phases, { titles: false });
  if (state.kernel !== null && result.table && Number(state.kernel) >= 0) await choose(Number(state.kernel), false);
}

function origin(result) {
  if (!result.machine) return null;
  const how = result.guessed ? "named by the file" : "chosen above";
  return h("p", { class: "muted" }, `${result.title}, on ${result.machine} (${how})`);
}

const stepCards = (cards) => h("section", {}, h("h2", {}, "What to change"), cards.length
  ? h("ol", { class: "cards" }, cards.map((card) => h("li", {}, h("h3", {}, card.title, card.label ? h("span", { class: "label" }, card.label) : null), h("b", {}, card.value), card.lines.map((line) => h("p", {}, line)))))
  : h("p", {}, "No change that the timeline shows is worth half a percent of the step."));

function downloads(state) {
  const save = async (form, button) => {
    button.disabled = true;
    try {
      const post = (body) => fetch(`/api/${address("profile/report", state, { form })}`, { method: "POST", headers: { "content-type": "application/octet-stream" }, body });
      let reply = await post(null);
      if (reply.status === 410) reply = await post(state.file);
      if (!reply.ok) throw new Refused((await reply.json().catch(() => ({}))).error ?? `the server answered ${reply.status}`);
      const link = h("a", { href: URL.createObjectURL(await reply.blob()), download: `ridgeline-report.${form}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      announce("saved");
    } catch (error) {
      announce(`not saved: ${error.message}`);
    } finally {
      button.disabled = false;
    }
  };
  return h("div", { class: "row", role: "group", "aria-label": "Save" },
    h("button", { type: "button", title: "one file that opens offline: answer, charts, tables and data", onclick: (event) => save("html", event.currentTarget) }, "Save the report (HTML)"),
    h("button", { type: "button", title: "all data, as the command line writes them", onclick: (event) => save("json", event.currentTarget) }, "Save the data (JSON)"));
}

/* -- the table ---------------------------------------------------------------------------------------------------- */

/* Rows are chosen with a click, Enter or the space bar; one of them takes the focus, arrows move it. */
function kernelTable(result, choose) {
  const rows = [];
  const made = table({ ...result.table, title: "" }, { row(element, index) { rows.push(element); if (result.kind !== "unplaced") interactive(element, index, rows, choose); } });
  if (rows.length && result.kind !== "unplaced") rows[0].tabIndex = 0;
  const more = result.count > rows.length ? h("p", { class: "note" }, `The table has the ${rows.length.toLocaleString("en")} longest of ${result.count.toLocaleString("en")}; search finds the others, the report has all.`) : null;
  const title = { steps: "Operators", cases: "Cases" }[result.kind] ?? "Kernels";
  return h("section", {}, h("h2", {}, title), rows.length > 12 ? search(result, rows, choose) : null, made, more);
}

function interactive(row, index, rows, choose) {
  row.tabIndex = -1;
  row.dataset.linked = "";
  row.setAttribute("aria-label", `${row.cells[0].textContent}: open its gap card`);
  row.addEventListener("click", () => { focusRow(rows, row, false); choose(index); });
  row.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(index); }
    else if (step) { event.preventDefault(); const visible = rows.filter((each) => !each.hidden); const next = visible[visible.indexOf(row) + step]; next && focusRow(rows, next, true); }
  });
}

function focusRow(rows, row, focus) {
  rows.forEach((each) => { each.tabIndex = each === row ? 0 : -1; });
  if (focus) row.focus();
}

/* Hides rows that lack the words; kernels that only the chart has are listed below the field. */
function search(result, rows, choose) {
  const others = h("ul", { class: "chips", "aria-label": "Kernels outside of the table" });
  const beyond = (result.chart?.points ?? []).filter((point) => point.role === "observed" && Number(point.key) >= rows.length);
  const field = h("input", { type: "search", id: "kernel-search", oninput: () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (text) => words.every((word) => text.includes(word));
    rows.forEach((row) => { row.hidden = !fits(row.textContent.toLowerCase()); });
    const first = rows.find((row) => !row.hidden);
    if (first) focusRow(rows, first, false);
    const listed = words.length ? beyond.filter((point) => fits(point.name.toLowerCase())) : [];
    replace(others, listed.slice(0, MAX_LISTED).map((point) => h("li", {}, h("button", { type: "button", onclick: () => choose(Number(point.key)) }, shortened(point.name)))), listed.length > MAX_LISTED ? h("li", {}, `and ${listed.length - MAX_LISTED} more`) : null);
  } });
  return h("div", {}, h("div", { class: "filter" }, h("label", { for: "kernel-search" }, "Search"), field), others);
}

const shortened = (text) => (text.length > 90 ? `${text.slice(0, 89)}…` : text);

/* -- the gap card -------------------------------------------------------------------------------------------------- */

async function openCard(place, chart, state, index, focus) {
  state.kernel = index;
  remember(state);
  const asked = (state.card = Symbol(String(index)));
  if (!state.cards.has(index)) {
    replace(place, h("p", { class: "muted" }, "asking ..."));
    try {
      state.cards.set(index, await question(state, "profile/card", { place: index }));
    } catch (error) {
      if (asked === state.card) replace(place, failure(error));
      return;
    }
  }
  if (asked !== state.card) return;
  const card = state.cards.get(index);
  const waterfall = h("div"), plane = h("div");
  replace(place, card.explore ? caseCard(card) : gapCard(card, waterfall, plane));
  if (focus) {
    place.querySelector("h2").focus();
    place.scrollIntoView({ block: "nearest" });
  }
  if (card.waterfall) await draw(waterfall, card.waterfall);
  if (card.chart) await draw(plane, card.chart);
  const picture = state.result.chart;
  // the moves of the chosen kernel take the place of the arrows of the largest gaps
  if (picture) await draw(chart, card.arrows?.length ? { ...picture, arrows: card.arrows } : picture, chart.ridgeline.options);
}

const heading = (card) => h("h2", { tabindex: "-1", title: card.name.length > 160 ? card.name.slice(0, 2000) : null }, card.name.length > 160 ? `${card.name.slice(0, 159)}…` : card.name);

function gapCard(card, waterfall, plane) {
  return [
    heading(card),
    h("p", { class: "verdict" }, sentence(card)),
    h("dl", { class: "figures" }, card.facts.map(([label, text]) => h("div", {}, h("dt", {}, label), h("dd", {}, shortened(text))))),
    h("div", { class: "two-gaps" }, card.gaps.map((gap) => h("div", { class: "gap" },
      h("h3", {}, gap.title, " ", h("b", {}, gap.value)), h("p", {}, gap.words),
      gap.factors.length ? h("dl", {}, gap.factors.map(([label, text]) => [h("dt", {}, label), h("dd", {}, text)])) : null))),
    h("div", { class: "charts" }, card.waterfall ? waterfall : null, card.chart ? plane : null),
    h("h3", {}, "What would close the gap"),
    card.moves.length ? h("ol", { class: "cards moves" }, card.moves.map(moveCard)) : h("p", {}, "No rule promises a gain from what was recorded."),
    card.findings.length ? h("details", {}, h("summary", {}, "What the counts show"), card.findings.map((text) => h("p", {}, text))) : null,
  ];
}

/* The sentence begins with the name, which is the heading. */
const sentence = (card) => (card.sentence.startsWith(`${card.name}: `) ? card.sentence.slice(card.name.length + 2) : card.sentence);

const moveCard = (move) => h("li", {},
  h("h3", {}, move.number ? `${move.number}. ` : "", move.move, move.status && move.status !== "shown" ? h("span", { class: "label" }, move.status) : null),
  h("b", {}, move.gain), h("p", {}, move.cause),
  move.evidence.length ? h("p", {}, move.evidence.join("; ")) : null,
  move.missing.length ? h("p", { class: "muted" }, `not recorded: ${move.missing.join(", ")}`) : null,
  move.limit ? h("p", { class: "muted" }, move.limit) : null);

function caseCard(card) {
  const cases = JSON.stringify([{ op: card.explore.op, values: card.explore.values }]);
  const query = new URLSearchParams({ machines: card.explore.machines.join(","), cases });
  return [heading(card), h("p", { class: "verdict" }, card.sentence), card.lines.map((line) => h("p", {}, line)), h("p", {}, h("a", { href: `#/explore?${query}` }, "Open it with sliders"))];
}
