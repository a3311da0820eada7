//! Made-up results that look like real ones: seven encodings, three seeds, copy, recall, a control and a language model.

use lab::results::*;
use lab::statistics::Verdict;

/// The seeds; with three, a t distribution has two degrees of freedom and a simple formula.
const SEEDS: [u64; 3] = [1, 2, 3];

/// An encoding: how far beyond training it holds on copy, how soon it learns, what it adds to the loss of language.
struct Kind {
    label: &'static str,
    reach: f64,
    pace: f64,
    language: f64,
    positions: u64,
}

const KINDS: [Kind; 7] = [
    Kind { label: "rotary", reach: 1.22, pace: 1.0, language: 0.0, positions: 0 },
    Kind { label: "sinusoidal", reach: 1.21, pace: 1.5, language: 0.09, positions: 0 },
    Kind { label: "learned", reach: 1.2, pace: 2.9, language: 0.12, positions: 2688 },
    Kind { label: "none", reach: 1.3, pace: 1.7, language: 0.15, positions: 0 },
    Kind { label: "alibi", reach: 1.6, pace: 1.05, language: -0.01, positions: 0 },
    Kind { label: "t5", reach: 1.75, pace: 0.95, language: -0.02, positions: 64 },
    Kind { label: "receptive:alpha=0.3,rho=0.5", reach: 1.26, pace: 0.97, language: -0.005, positions: 4 },
];

/// A number from −1 to 1 that depends on its arguments alone.
fn noise(seed: u64, site: u64, index: u64) -> f64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ site.wrapping_mul(0xbf58_476d_1ce4_e5b9)
        ^ index.wrapping_mul(0x94d0_49bb_1331_11eb);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A whole comparison and its times.
pub fn made_up() -> (Results, Timings) {
    let tasks = vec![
        task(
            0,
            "copy",
            "Finding the token that stood a fixed offset back: pure addressing by position.",
            20,
            &[5, 10, 15, 20, 25, 30, 35, 40],
        ),
        task(
            1,
            "recall",
            "Finding a value by its key wherever it stands: content, with distance in the way.",
            32,
            &[8, 16, 24, 32, 48, 64],
        ),
        task(
            2,
            "majority",
            "The most frequent token: order carries no information, so nothing should differ.",
            20,
            &[5, 10, 20, 30, 40],
        ),
        task(
            3,
            "charlm",
            "Characters of real text: realism rather than one isolated thing.",
            64,
            &[16, 32, 64, 128, 256],
        ),
    ];
    let runs = tasks.iter().flat_map(|task| {
        task.runs.iter().map(|run| {
            let tokens_s = 42_000.0 / (1.0 + run.position_parameters as f64 / 9000.0)
                * (1.0 + 0.02 * noise(run.seed, 77, 1));
            RunTiming {
                task: task.name.clone(),
                encoding: run.encoding.clone(),
                seed: run.seed,
                is_again: run.is_again,
                seconds: (task.steps * task.tokens_per_step) as f64 / tokens_s,
                tokens_s,
            }
        })
    });
    let timings = Timings { seconds: 412.6, threads: 2, runs: runs.collect() };
    let plan = Plan {
        preset: "quick".into(),
        attention: "softmax".into(),
        encodings: KINDS
            .iter()
            .map(|kind| EncodingPlan {
                label: kind.label.into(),
                name: kind.label.split(':').next().unwrap().into(),
            })
            .collect(),
        seeds: SEEDS.to_vec(),
        budget: Some(5),
        rates: vec![0.001, 0.002, 0.004],
        width: 64,
        layers: 2,
        heads: 2,
        sizes: Vec::new(),
        batch: 32,
        source: None,
        training: Default::default(),
        left_out: vec![LeftOut { label: "xlnet".into(), reason: "its tables do not fit the batch".into() }],
    };
    (Results { version: "0.1.0".into(), hash: "5f3a9c0e77d1b284".into(), plan, tasks }, timings)
}

fn task(site: u64, name: &str, isolates: &str, train_length: usize, test_lengths: &[usize]) -> TaskResult {
    let mut task = TaskResult {
        name: name.into(),
        isolates: isolates.into(),
        is_control: name == "majority",
        is_language: name == "charlm",
        train_length,
        test_lengths: test_lengths.to_vec(),
        symbols: None,
        steps: 1200,
        tokens_per_step: 1344,
        size: None,
        pilots: Vec::new(),
        runs: Vec::new(),
        comparisons: Vec::new(),
        rankings: Vec::new(),
        swaps: Vec::new(),
        sweep: Vec::new(),
    };
    let of = |index: usize, is_again: bool| SEEDS.map(|seed| run(&task, site, index, seed, is_again));
    let runs = (0..KINDS.len()).flat_map(|index| of(index, false)).chain(of(0, true)).collect();
    task.runs = runs;
    task.comparisons = Measure::ALL.into_iter().flat_map(|measure| compare(&task, measure)).collect();
    task.rankings = Measure::ALL.into_iter().map(|measure| ranking(&task, measure)).collect();
    if name == "copy" {
        for (rule, value) in [
            (Rule::AsTrained, 0.04),
            (Rule::Linear, 0.11),
            (Rule::Ntk, 0.38),
            (Rule::Yarn, 0.46),
            (Rule::Dynamic, 0.35),
        ] {
            for (length, part) in [(30, 1.4), (40, 1.0)] {
                let values = SEEDS.map(|seed| value * part + 0.03 * noise(seed, 40, length)).to_vec();
                task.swaps.push(Swap {
                    trained: "rotary".into(),
                    tested: rule,
                    length: length as usize,
                    values,
                });
            }
        }
        for (label, value) in [
            ("receptive:alpha=0.1,rho=0.5", 0.91),
            ("receptive:alpha=0.3,rho=0.5", 0.97),
            ("receptive:alpha=0.5,rho=0.9", 0.88),
        ] {
            task.sweep.push(Swept {
                label: label.into(),
                name: "receptive".into(),
                values: vec![value, value - 0.02],
                is_chosen: value > 0.95,
            });
        }
    }
    task
}

fn run(task: &TaskResult, site: u64, index: usize, seed: u64, is_again: bool) -> RunResult {
    let TaskResult { is_control, is_language, train_length, .. } = *task;
    let kind = &KINDS[index];
    let at = |what: u64, step: u64| {
        noise(seed + if is_again { 1000 } else { 0 }, site * 1000 + index as u64 * 10 + what, step)
    };
    let pace = if is_control { 1.0 } else { kind.pace };
    let half = 260.0 * pace * (1.0 + 0.06 * at(1, 0));
    let loss = |step: u64| match is_language {
        true => 1.75 + kind.language + 1.5 * (-(step as f64) / (180.0 * pace)).exp() + 0.02 * at(2, step),
        false => 0.02 + 3.4 / (1.0 + ((step as f64 - half) / 70.0).exp()) + 0.03 * (1.0 + at(2, step)),
    };
    let accuracy = task.test_lengths.iter().map(|&length| {
        let far = length as f64 / train_length as f64;
        let reach = if is_control { 6.0 } else { kind.reach * (1.0 + 0.04 * at(3, 0)) };
        let top = if kind.label == "learned" && site == 0 { 0.71 } else { 0.995 };
        let exact =
            (top + 0.004 * at(4, length as u64)) / (1.0 + ((far - reach) * 14.0).exp().min(1e9)).max(1.0);
        let beyond = (far / (kind.reach * 1.2) - 1.0).max(0.0);
        let loss = if is_language {
            1.9 + kind.language - 0.05 * far.min(1.0) + 0.6 * beyond + 0.01 * at(4, length as u64)
        } else {
            3.0 * (1.0 - exact)
        };
        Accuracy { length, exact: exact.clamp(0.0, 1.0), token: exact.sqrt().clamp(0.0, 1.0), loss }
    });
    let attention = (0..2).map(|layer| {
        let peak = if layer == 0 { 1.0 } else { train_length as f64 * 0.5 };
        let wide = if kind.label == "alibi" { 3.0 } else { 5.0 + 2.0 * index as f64 };
        let weights: Vec<f64> = (0..=train_length)
            .map(|distance| (-((distance as f64 - peak).abs() / wide)).exp() + 0.05)
            .collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    });
    let contexts: &[usize] = if is_language { &[8, 16, 32, 64, 128, 256] } else { &[] };
    let context = contexts.iter().map(|&context| {
        let beyond = (context as f64 / 64.0 / (kind.reach * 1.1) - 1.0).max(0.0);
        ContextPoint {
            context,
            loss: 1.7
                + kind.language
                + 1.2 / (context as f64).sqrt()
                + 0.5 * beyond
                + 0.01 * at(5, context as u64),
        }
    });
    let learned = match kind.label.starts_with("receptive") {
        true => vec![
            Learned {
                name: "alpha".into(),
                layers: (0..2)
                    .map(|layer| 0.3 - 0.12 * layer as f64 + 0.03 * site as f64 + 0.02 * at(6, layer))
                    .collect(),
            },
            Learned {
                name: "rho".into(),
                layers: (0..2)
                    .map(|layer| 0.5 + 0.1 * layer as f64 - 0.02 * site as f64 + 0.03 * at(7, layer))
                    .collect(),
            },
        ],
        false => Vec::new(),
    };
    RunResult {
        encoding: kind.label.into(),
        seed,
        is_again,
        rate: if kind.pace > 1.4 { 0.004 } else { 0.002 },
        parameters: 107_904 + kind.positions,
        position_parameters: kind.positions,
        flops_per_step: 9.2e8 + 4.0e5 * kind.positions as f64,
        curve: (1..=60).map(|point| CurvePoint { step: point * 20, loss: loss(point * 20) }).collect(),
        accuracy: accuracy.collect(),
        attention: attention.collect(),
        context: context.collect(),
        learned,
    }
}

/// What a run reached on a measure.
fn measured(task: &TaskResult, run: &RunResult, measure: Measure) -> f64 {
    let mean = |is_beyond: bool| {
        let points = run.accuracy.iter().filter(|point| (point.length > task.train_length) == is_beyond);
        let values: Vec<f64> =
            points.map(|point| if task.is_language { point.loss } else { point.exact }).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    match measure {
        Measure::InRange => mean(false),
        Measure::Beyond => mean(true),
        Measure::Loss => run.curve.last().unwrap().loss,
        Measure::Speed => run
            .curve
            .iter()
            .find(|point| point.loss < if task.is_language { 2.1 } else { 0.5 })
            .map_or(1200.0, |point| point.step as f64),
    }
}

/// Places by the means, with one on either side where there is one: made up.
fn ranking(task: &TaskResult, measure: Measure) -> Ranking {
    let mean = |label: &str| {
        let runs = task.runs.iter().filter(|run| run.encoding == label && !run.is_again);
        runs.map(|run| measured(task, run, measure)).sum::<f64>()
    };
    let mut labels: Vec<&str> = KINDS.iter().map(|kind| kind.label).collect();
    labels.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    let place = |(index, label): (usize, &&str)| Place {
        encoding: label.to_string(),
        first: index.max(1),
        last: (index + 2).min(KINDS.len()),
    };
    Ranking { measure, places: labels.iter().enumerate().map(place).collect() }
}

fn compare(task: &TaskResult, measure: Measure) -> Vec<Comparison> {
    let of = |label: &str, is_again: bool| -> Vec<f64> {
        let runs = task.runs.iter().filter(|run| run.encoding == label && run.is_again == is_again);
        runs.map(|run| measured(task, run, measure)).collect()
    };
    let is_more_better = matches!(measure, Measure::InRange | Measure::Beyond) && !task.is_language;
    let margin = if measure == Measure::Speed { 50.0 } else { 0.02 };
    let base = of(KINDS[0].label, false);
    let others = KINDS[1..].iter().map(|kind| (kind, false)).chain([(&KINDS[0], true)]);
    let mut rows: Vec<Comparison> = others
        .map(|(kind, is_again)| {
            let differences: Vec<f64> =
                of(kind.label, is_again).iter().zip(&base).map(|(a, b)| a - b).collect();
            let mean = differences.iter().sum::<f64>() / 3.0;
            let error =
                (differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 2.0 / 3.0).sqrt().max(2e-3);
            // Above t, two degrees of freedom.
            let above = |t: f64| 0.5 - t / (2.0 * (2.0 + t * t).sqrt());
            let p = 2.0 * above((mean / error).abs());
            let p_equal = above((mean + margin) / error).max(1.0 - above((mean - margin) / error));
            let unlearned = is_more_better && kind.label == "learned" && task.name == "copy";
            Comparison {
                encoding: kind.label.into(),
                is_again,
                measure,
                mean,
                effect: Some(mean / (error * 3f64.sqrt())),
                low: mean - 4.303 * error,
                high: mean + 4.303 * error,
                p,
                p_holm: p,
                detectable: 5.4 * error,
                margin,
                p_equal,
                verdict: Verdict::Unclear,
                not_judged: (unlearned && measure == Measure::Beyond)
                    .then(|| "did not learn it in 1200 steps".into()),
                differences,
            }
        })
        .collect();
    let mut order: Vec<usize> = (0..rows.len()).filter(|&row| !rows[row].is_again).collect();
    order.sort_by(|&a, &b| rows[a].p.total_cmp(&rows[b].p));
    let mut highest: f64 = 0.0;
    for (rank, &row) in order.iter().enumerate() {
        highest = highest.max((rows[row].p * (order.len() - rank) as f64).min(1.0));
        rows[row].p_holm = highest;
    }
    for row in &mut rows {
        row.verdict = match (row.p_holm < 0.05, row.p_equal < 0.05) {
            (true, _) if (row.mean > 0.0) == is_more_better => Verdict::Better,
            (true, _) => Verdict::Worse,
            (_, true) => Verdict::Tie,
            _ => Verdict::Unclear,
        };
    }
    rows
}
