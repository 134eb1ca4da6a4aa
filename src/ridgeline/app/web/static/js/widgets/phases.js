/* Prefill and decode side by side, for prompts of any length. */
import { h, replace, table } from "../dom.js";
import { draw } from "../draw.js";
import { asker, say, slider, speaker } from "../exercise.js";

const PROMPTS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker(), rows = h("div");
  const refresh = asker("phases", output, async (result) => {
    say(output, result.answer);
    replace(rows, table(result.table));
    await draw(chart, result.chart);
  });
  const prompts = [...new Set([...PROMPTS, options.prompt])].sort((a, b) => a - b);
  const { values: first, keep } = page.setting("phases", { prompt: [prompts, options.prompt] });
  element.append(slider("Prompt", prompts, first.prompt, (tokens) => `${tokens} tokens`, (prompt) => { keep({ prompt }); refresh({ ...options, prompt }); }), chart, output, rows);
  await refresh({ ...options, prompt: first.prompt });
}
