// The curves of a comparison that was run: real models, trained with each encoding.
import { frame, legend, series } from "../chart.js";
import { choice } from "../controls.js";
import { fixed, number } from "../format.js";
import { frac, i, o, row, sub, sum } from "../math.js";
import { group, label, px, rect, tag } from "../svg.js";
import { t } from "../words.js";

const SHOWN = { by_length: t`by length`, loss: t`while training`, attention: t`attention by distance` };

/** The curve of an encoding as points with a band. */
const points = (curve, what) => (what === "attention" ? curve.attention.map((mean, x) => ({ x, mean, low: mean, high: mean })) : curve[what]);

export default ({ comparison }) =>
  comparison && {
    id: "comparison",
    title: t`Which encoding, measured`,
    text: t`<p>Small models, alike except in how they know positions, were trained on the same data from the same seeds
      (<code>roformer compare</code>). A line is the mean over <output data-value="seeds"></output> seeds, its band reaches from the least to
      the most.</p><p><output class="sentence" data-value="isolates"></output></p>
      <p>What lies right of the shade is longer than anything trained on: <output data-value="train"></output> was the longest. There the best
      on average is <output data-value="best"></output>.</p>`,
    controls: {
      task: choice(t`task`, comparison[0], comparison.map((name) => [name, name])),
      what: choice(t`shown`, "by_length", Object.entries(SHOWN)),
    },
    route: "comparison",
    ask: ({ task }) => ({ task }),

    values: (data) => ({
      seeds: number(data.seeds),
      isolates: data.isolates,
      train: number(data.train_length),
      best: best(data),
    }),

    formula: () => row(o(t`mean`), o("="), frac(row(o("1")), row(o("#"), i(t`seeds`))), sum(i("s")), sub(i("x"), i("s"))),

    draw(data, { what }, width) {
      const curves = data.encodings.map((curve, index) => ({ name: curve.encoding, look: index % 8, dash: index > 7 ? "5 3" : undefined, points: points(curve, what) })).filter((curve) => curve.points.length);
      if (!curves.length) return { height: 60, content: label(0, 30, t`This comparison has no such curve.`, { class: "name" }) };
      const names = legend(curves.map(({ look, name, dash }) => [look, name, dash]), 2, 16, width - 4);
      const all = curves.flatMap((curve) => curve.points).filter((point) => Number.isFinite(point.mean));
      const isShare = what === "by_length" && !data.is_language;
      const most = isShare ? 1 : Math.max(...all.map((point) => point.high));
      const y = { domain: [what === "attention" || isShare ? 0 : Math.min(...all.map((point) => point.low)), most], label: { by_length: data.is_language ? t`loss` : t`exact answers`, loss: t`training loss`, attention: t`mean weight, last layer` }[what] };
      const x = { domain: [Math.min(...all.map((point) => point.x)), Math.max(...all.map((point) => point.x))], label: { by_length: t`length`, loss: t`step`, attention: t`distance m − n` }[what] };
      const height = names.height + 340;
      const chart = frame({ width, height, top: names.height + 34, x, y });
      const band = (curve) => {
        const ends = [...curve.points.map((p) => [p.x, p.high]), ...curve.points.toReversed().map((p) => [p.x, p.low])];
        return tag("path", { class: `band s${curve.look}`, d: `M${ends.map(([a, b]) => `${px(chart.x(a))} ${px(chart.y(b))}`).join("L")}Z` });
      };
      const trained = what === "by_length" ? rect(chart.left, chart.top, chart.x(Math.min(data.train_length, x.domain[1])) - chart.left, chart.bottom - chart.top, { class: "range" }) + label(chart.left + 6, chart.bottom - 7, t`trained`) : "";
      const lines = curves.map((curve) => series(chart, curve.points.map((p) => [p.x, p.mean]), curve.look, { "stroke-dasharray": curve.dash }));
      return { height, content: trained + chart.axes + group({}, curves.map(band), lines) + names.content };
    },

    table(data, { what }) {
      return { columns: ["encoding", "x", "mean", "low", "high"], rows: data.encodings.flatMap((curve) => points(curve, what).map((p) => [curve.encoding, p.x, p.mean, p.low, p.high])) };
    },
    describe: (data, { what }) => t`Curves of ${data.encodings.length} encodings on the task ${data.task}: ${SHOWN[what]}.`,
  };

/** The encoding with the best mean beyond the trained length, with its value. */
function best(data) {
  const beyond = data.encodings.map((curve) => {
    const far = curve.by_length.filter((point) => point.x > data.train_length);
    return [curve.encoding, far.reduce((sum, point) => sum + point.mean, 0) / far.length];
  });
  const [name, value] = beyond.filter(([, value]) => Number.isFinite(value)).toSorted((a, b) => (data.is_language ? a[1] - b[1] : b[1] - a[1]))[0] ?? [t`none`, NaN];
  return `${name} (${fixed(value, 3)})`;
}
