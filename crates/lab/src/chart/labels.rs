//! Labels beside the ends of lines, moved apart where they would touch.

/// Places for labels of these heights between `low` and `high`, in the order of the wanted places and as near to them as can
/// be. A place is that of the label's first line. `None` if they do not fit.
pub(super) fn spread(wanted: &[f64], heights: &[f64], low: f64, high: f64) -> Option<Vec<f64>> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // With the heights taken out, places need only rise: neighbours that do not are pooled at their mean.
    let mut above = 0.0;
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &index in &order {
        let mut pool = (wanted[index] - above, 1);
        while let Some(&(mean, count)) = pools.last()
            && mean > pool.0
        {
            let total = pool.1 + count;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / total as f64, total);
            pools.pop();
        }
        pools.push(pool);
        above += heights[index];
    }
    let room = high - low - above;
    if room < 0.0 {
        return None;
    }
    let mut places = vec![0.0; wanted.len()];
    let mut above = 0.0;
    let risen = pools.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count));
    for (&index, place) in order.iter().zip(risen) {
        places[index] = place.clamp(low, low + room) + above;
        above += heights[index];
    }
    Some(places)
}

/// About how wide a text is, in pixels, at the size of labels. Too wide rather than too narrow.
pub(super) fn width(text: &str) -> f64 {
    text.chars()
        .map(|c| {
            if c.is_ascii() {
                6.9
            } else if c < '\u{2e80}' {
                9.5
            } else {
                13.0
            }
        })
        .sum()
}
