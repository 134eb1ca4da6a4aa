/* Evaluated in the page by test_looks_browser.py: what a person would see. Each function returns a list of complaints. */
(() => {
  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getClientRects().length > 0;
  const parts = (colour) => { const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number); return [red, green, blue, alpha]; };
  const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const over = (front, back) => [0, 1, 2].map((place) => front[place] * front[3] + back[place] * (1 - front[3]));
  const contrast = (one, two) => { const [low, high] = [luminance(one), luminance(two)].sort((a, b) => a - b); return (high + 0.05) / (low + 0.05); };

  /* What is behind an element: backgrounds of its ancestors, from the page up. */
  function ground(element) {
    const chain = [];
    for (let each = element; each; each = each.parentElement) chain.unshift(getComputedStyle(each).backgroundColor);
    return chain.map(parts).reduce((back, front) => over(front, back), [255, 255, 255]);
  }
  const name = (element) => `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""}.${String(element.className?.baseVal ?? element.className).replaceAll(" ", ".")}`;

  /* WCAG AA: 4.5 to 1, 3 to 1 for large text; a disabled control is exempt. */
  function faint() {
    const complaints = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(element.tagName) || !visible(element) || element.closest(":disabled, .visually-hidden, .modebar")) continue;
      const style = getComputedStyle(element), drawn = element instanceof SVGElement;
      const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const back = ground(element), ratio = contrast(over(parts(drawn ? style.fill : style.color), back), back);
      if (ratio < (large ? 3 : 4.5)) complaints.push(`${ratio.toFixed(2)}: ${name(element)} "${node.data.trim().slice(0, 40)}"`);
    }
    return [...new Set(complaints)];
  }

  /* Controls that a screen reader could not name; a placeholder is no name. */
  function nameless() {
    const named = (element) => {
      const by = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
      const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(" ");
      return [element.getAttribute("aria-label"), by, labels, ["BUTTON", "A", "SUMMARY"].includes(element.tagName) ? element.textContent : "", element.tagName === "TR" ? element.textContent : ""].some((text) => text?.trim());
    };
    return [...document.querySelectorAll("button, input, select, textarea, a[href], summary, [tabindex='0'], [role=img]")].filter((element) => visible(element) && !element.closest(".modebar") && !named(element)).map(name);
  }

  /* Texts on charts that leave the picture or cover each other; slanted ones have no upright box to compare. */
  function crowded() {
    const complaints = [];
    for (const frame of document.querySelectorAll(".js-plotly-plot")) {
      if (!visible(frame)) continue;
      const outer = frame.getBoundingClientRect();
      const labels = [...frame.querySelectorAll(".annotation")].filter((group) => !(frame.layout.annotations[Number(group.dataset.index)]?.textangle)).map((group) => group.querySelector("text"));
      const texts = [...labels, ...frame.querySelectorAll(".bartext, .xtick text, .ytick text, .xtitle, .ytitle")].filter((text) => text?.textContent.trim());
      const boxes = texts.map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() })).filter(({ box }) => box.width > 0);
      for (const { text, box } of boxes) if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 || box.bottom > outer.bottom + 1) complaints.push(`outside: ${text}`);
      boxes.forEach((one, place) => boxes.slice(place + 1).forEach((two) => {
        const wide = Math.min(one.box.right, two.box.right) - Math.max(one.box.left, two.box.left), high = Math.min(one.box.bottom, two.box.bottom) - Math.max(one.box.top, two.box.top);
        if (wide > 2 && high > 3) complaints.push(`overlap: ${one.text} | ${two.text}`);
      }));
    }
    return complaints;
  }

  /* What is wider than the window and does not scroll in a box of its own. */
  function wide() {
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    return [...document.querySelectorAll("body *")].filter((element) => visible(element) && element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".scroll, pre, .hidden, .skip")).slice(0, 5).map(name);
  }
  return { faint, nameless, crowded, wide };
})()
