/* The list of lessons with what was read and scored, and one lesson with its widgets. */
import { ask } from "../api.js";
import { announce, failure, h, replace } from "../dom.js";
import { redraw } from "../draw.js";
import { forget, markRead, markScore, progress, saveDepth, savedDepth } from "../progress.js";
import { write } from "../state.js";

const ROOT = "/lessons";
/* The name in the address, the mark of the blocks that are shown, and what the choice is called. */
const DEPTHS = [["intuition", "short", "Intuition"], ["reference", "detail", "Reference"]];
const NAME = /^[a-z]+$/, NAMES = /^[a-z]+([.][a-z]+)?$/; // of a widget; of a choice in the address

export async function mount(place, params, path) {
  const slug = decodeURIComponent(path.slice(ROOT.length + 1));
  return slug ? showLesson(place, params, slug) : showIndex(place);
}

/* -- the list ---------------------------------------------------------------------------------------------------- */

async function showIndex(place) {
  const { lessons } = await ask("lessons");
  const summary = h("p", { class: "lesson-summary" }), list = h("ol", { class: "lessons" });
  const again = h("button", { type: "button", onclick: () => { forget(); fill(); announce("Progress cleared."); } }, "Clear progress");
  function fill() {
    const states = lessons.map(({ slug }) => progress(slug));
    const read = states.filter((state) => state.read).length;
    const right = states.reduce((sum, state) => sum + state.right, 0), total = states.reduce((sum, state) => sum + state.total, 0);
    const first = lessons.find((lesson, index) => !states[index].read);
    replace(summary, `${read} of ${lessons.length} lessons read`, total ? `, ${right} of ${total} answers right. ` : ". ",
      first ? h("a", { href: address(first.slug) }, read ? `Continue with ${first.title}` : "Start with the first") : "All done.");
    again.hidden = read === 0 && total === 0;
    replace(list, lessons.map((lesson, index) => listed(lesson, states[index])));
  }
  fill();
  place.append(
    h("h1", {}, "Lessons"),
    h("p", {}, "The roofline in order: each lesson is a few minutes, with something to try. Choose in a lesson how deep you want to go."),
    summary, list, again,
  );
}

const address = (slug) => `#${ROOT}/${encodeURIComponent(slug)}`;

function listed({ slug, title, summary, minutes }, { read, right, total }) {
  const facts = [`${minutes} min`, total ? `${right} of ${total} right` : null, read ? "read" : null].filter(Boolean);
  return h("li", { class: read ? "read" : null }, h("a", { href: address(slug) }, h("b", {}, title), h("span", {}, summary), h("small", {}, facts.join(" · "))));
}

/* -- one lesson -------------------------------------------------------------------------------------------------- */

async function showLesson(place, params, slug) {
  const lesson = await ask(`lessons/${encodeURIComponent(slug)}`);
  const body = h("article", { class: "lesson" });
  body.innerHTML = lesson.html; // rendered by the server from files of this package
  const score = h("p", { class: "lesson-score" });
  const tell = () => {
    const { right, total } = progress(slug);
    score.textContent = total ? `${right} of ${total} answers right in this lesson.` : "";
  };
  const kept = keeper(slug, params);
  const title = h("h1", { tabindex: "-1" }, lesson.title);
  const end = h("nav", { class: "lesson-turn", "aria-label": "Lessons" }, turn(lesson.previous, "previous"), turn(lesson.next, "next"));
  place.append(h("div", { class: "lesson-page" },
    h("p", { class: "lesson-place" }, h("a", { href: `#${ROOT}` }, "All lessons"), ` · ${lesson.order} of ${lesson.of} · ${lesson.minutes} min`),
    title, h("p", { class: "lesson-summary" }, lesson.summary), depthSwitch(body, params, kept), body, score, end));
  tell();
  const page = { announce, slug, setting: kept.setting, score: (id, right, total) => { markScore(slug, id, right, total); tell(); } };
  const leaves = mountAll(body, page);
  title.focus({ preventScroll: true });
  scrollTo(0, 0);
  const seen = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) markRead(slug); });
  Promise.allSettled(leaves).then(() => seen.observe(end)); // the end is near only until widgets have grown to their size
  return () => {
    seen.disconnect();
    leaves.forEach((mounted) => mounted.then((leave) => typeof leave === "function" && leave(), () => {}));
  };
}

function turn(link, rel) {
  return link ? h("a", { href: address(link.slug), rel: rel === "next" ? "next" : "prev", class: rel }, h("small", {}, rel === "next" ? "Next" : "Previous"), link.title) : null;
}

/* What is chosen in a lesson is in its address: `?depth=reference&roof.compute=2`, what is as at first left out. */
function keeper(slug, params) {
  const kept = Object.fromEntries([...params].filter(([name]) => NAMES.test(name)));
  const keep = (values) => write(`${ROOT}/${encodeURIComponent(slug)}`, Object.assign(kept, values));
  /* fields: {name: [values it may have, the one at first]}. Returns {values, keep(values)}: what the address says, where it is one of those. */
  function setting(widget, fields) {
    const given = (name, allowed, first) => allowed.find((value) => String(value) === kept[`${widget}.${name}`]) ?? first;
    return {
      values: Object.fromEntries(Object.entries(fields).map(([name, [allowed, first]]) => [name, given(name, allowed, first)])),
      keep: (values) => keep(Object.fromEntries(Object.entries(values).map(([name, value]) => [`${widget}.${name}`, value === fields[name][1] ? null : String(value)]))),
    };
  }
  return { keep, setting };
}

/* The depth is in the address, and kept for the next lesson. */
function depthSwitch(body, params, kept) {
  const wanted = [params.get("depth"), savedDepth()].find((name) => DEPTHS.some(([known]) => known === name)) ?? DEPTHS[0][0];
  function choose(name, written) {
    const [, mark] = DEPTHS.find(([known]) => known === name);
    for (const block of body.querySelectorAll("[data-depth]")) block.hidden = block.dataset.depth !== mark;
    saveDepth(name);
    if (written) {
      kept.keep({ depth: name });
      redraw(); // charts of a block that was hidden had no width
    }
  }
  choose(wanted, false);
  return h("fieldset", { class: "choices depths" }, h("legend", {}, "Depth"), DEPTHS.map(([name, , label]) =>
    h("label", {}, h("input", { type: "radio", name: "depth", value: name, checked: name === wanted, onchange: () => choose(name, true) }), label)));
}

/* -- widgets: `export default function mount(element, options, page)`; what it returns is called when the lesson is left. `page.setting` keeps
   in the address what is chosen in them. -- */

function mountAll(body, page) {
  return [...body.querySelectorAll(".widget")].map((element) => mountWidget(element, page));
}

async function mountWidget(element, page) {
  const name = element.dataset.widget;
  const module = NAME.test(name) ? await import(`../widgets/${name}.js`).catch((error) => error) : null;
  if (typeof module?.default !== "function") {
    if (module instanceof Error) console.warn(module);
    return void replace(element, h("p", { class: "error", role: "note" }, `This version of the explorer has no exercise called “${name}”. The text of the lesson is complete without it.`));
  }
  try {
    return await module.default(element, JSON.parse(element.dataset.options || "{}"), page);
  } catch (error) {
    replace(element, failure(error));
  }
}
