// What the charts of wavelengths share: ticks for tokens, the trained length and the target, and rows of names.
import { count } from "../format.js";
import { circle, group, label, line, measure, rect } from "../svg.js";
import { language, t } from "../words.js";

/** Powers of ten as [value, text], as many as fit: 10, 100, 1k, … */
export function powersOfTen([low, high], pixels) {
  const powers = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power++) powers.push(power);
  const every = Math.max(1, Math.ceil((powers.length * 30) / pixels));
  // Chinese counts by ten thousands.
  const [group, names] = language === "zh" ? [4, ["", "万", "亿", "万亿"]] : [3, ["", "k", "M", "G", "T"]];
  const text = (power) => (power < 15 ? `${10 ** (power % group)}${names[Math.floor(power / group)]}` : `1e${power}`);
  return powers.filter((_, index) => index % every === 0).map((power) => [10 ** power, text(power)]);
}

/** The two lengths as lines, where they are known; a shade where a turn takes longer than the trained one. */
export function lengthMarks(chart, trained, target) {
  const marks = [trained && [trained, t`trained on`], target && target !== trained && [target, t`target`]].filter(Boolean);
  const [first, second] = marks.map(([value]) => chart.y(value));
  const isClose = second !== undefined && Math.abs(first - second) < 17;
  const draw = ([value, name], index) => {
    const y = chart.y(value);
    const isBelow = isClose && y > (index ? first : second);
    return line(chart.left, y, chart.right, y, { class: "level" }) + label(chart.left + 14, isBelow ? y + 14 : y - 5, `${name} ${count(value)}`, { class: "name" });
  };
  const shade = trained ? rect(chart.left, chart.top, chart.right - chart.left, chart.y(trained) - chart.top, { class: "range" }) : "";
  const isRoomy = trained && chart.y(Math.max(trained, target ?? 0)) - chart.top > 44;
  return { shade, lines: marks.map(draw).join("") + (isRoomy ? label(chart.left + 14, chart.top + 16, t`now a turn is longer than a training text`) : "") };
}

/** Names in rows: entries are { look, name, dash, isDot }; gives the drawing and its height. */
export function nameRows(entries, y, width) {
  let [left, top] = [4, y];
  const content = entries.map(({ look, name, dash, isDot }) => {
    const mark = isDot ? 14 : 22;
    const wide = mark + measure(name) + 16;
    if (left > 4 && left + wide - 12 > width) [left, top] = [4, top + 18];
    const sample = isDot ? circle(left + 5, top - 4, 4, { class: "point" }) : line(left, top - 4, left + 16, top - 4, { class: "line", "stroke-dasharray": dash });
    const drawn = group({ class: look }, sample, label(left + mark, top, name, { class: "name" }));
    left += wide;
    return drawn;
  });
  return { content: content.join(""), height: top - y + 18 };
}
