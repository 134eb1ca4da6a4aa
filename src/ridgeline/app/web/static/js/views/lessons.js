import { h } from "../dom.js";

export function mount(place) {
  place.append(h("h1", {}, "lessons"));
}
