/* Prefill and decode side by side, for prompts of any length. */
import { h, replace, table } from "../dom.js";
import { draw } from "../draw.js";
import { asker, say, slider, speaker } from "../exercise.js";

const PROMPTS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

export default async function mount(element, options) {
  const chart = h("div"), output = speaker(), rows = h("div");
  const refresh = asker("phases", output, async (result) => {
    say(output, result.answer);
    replace(rows, table(result.table));
    await draw(chart, result.chart);
  });
  const prompts = [...new Set([...PROMPTS, options.prompt])].sort((a, b) => a - b);
  element.append(slider("Prompt", prompts, options.prompt, (tokens) => `${tokens} tokens`, (prompt) => refresh({ ...options, prompt })), chart, output, rows);
  await refresh(options);
}
