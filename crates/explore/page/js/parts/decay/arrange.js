// Controls that depend on others: some are shown only for some choices, sliders along Δ end where the axis does.
import { keyOf } from "../../controls.js";
import { state as page } from "../../state.js";

/**
 * Keeps a part's controls in order: `when` is { control: (state) => whether it is shown }, `along` are the names of sliders that
 * end at `reach`; `also` is called with the state after every change.
 */
export function arrange(section, part, { now, set }, when, along, also = () => {}) {
  const control = (name) => section.querySelector(`#${part.id}-${name}`).closest(".control");
  const keys = Object.keys(part.controls).map((name) => keyOf(part, name));
  const refresh = () => {
    const state = now();
    for (const [name, isShown] of Object.entries(when)) control(name).style.display = isShown(state) ? "" : "none";
    for (const name of along) for (const input of control(name).querySelectorAll("input")) input.max = state.reach;
    if (state.at > state.reach) set({ at: state.reach });
    also(state);
  };
  page.listen((changed) => keys.some((key) => changed.has(key)) && refresh());
  refresh();
}
