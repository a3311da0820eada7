// A line across a chart that can be dragged along it, with the value where it stands.
import { circle, group, label, line, measure, rect } from "../../svg.js";

/** The line at x with knobs at the given heights, [value, look] each; `words` stand above it. */
export function cursor(chart, name, at, knobs, words) {
  const x = chart.x(at);
  // Words stay within the chart.
  const half = measure(words, 12.5, 600) / 2;
  const middle = Math.min(Math.max(x, chart.left + half), chart.right - half);
  return group(
    { class: "handle", "data-drag": name },
    rect(x - 14, chart.top, 28, chart.bottom - chart.top, { fill: "transparent" }),
    line(x, chart.top, x, chart.bottom),
    label(middle, chart.top - 6, words, { anchor: "middle", class: "strong" }),
    knobs.map(([value, look]) => circle(x, chart.y(value), 6.5, { class: `knob s${look}` })),
  );
}

/** The sample nearest to a distance, as its place in the list. */
export function nearest(distances, wanted) {
  let [low, high] = [0, distances.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (distances[middle] > wanted) high = middle;
    else low = middle;
  }
  return wanted - distances[low] <= distances[high] - wanted ? low : high;
}
