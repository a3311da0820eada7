//! A small text by chance, for language models where no text is given: sentences of a grammar with agreement over a
//! distance, quoted speech and names that come again.

use super::Draws;

const NAMES: [&str; 12] =
    ["Ada", "Bela", "Carl", "Dora", "Emil", "Frida", "Gero", "Hanna", "Ivo", "Jana", "Kurt", "Lena"];
const NOUNS: [[&str; 2]; 12] = [
    ["river", "rivers"],
    ["teacher", "teachers"],
    ["lamp", "lamps"],
    ["garden", "gardens"],
    ["wolf", "wolves"],
    ["letter", "letters"],
    ["city", "cities"],
    ["child", "children"],
    ["bridge", "bridges"],
    ["song", "songs"],
    ["captain", "captains"],
    ["stone", "stones"],
];
const ADJECTIVES: [&str; 10] =
    ["old", "quiet", "bright", "small", "distant", "green", "heavy", "gentle", "narrow", "golden"];
const VERBS: [[&str; 2]; 10] = [
    ["sees", "see"],
    ["follows", "follow"],
    ["remembers", "remember"],
    ["carries", "carry"],
    ["finds", "find"],
    ["loses", "lose"],
    ["knows", "know"],
    ["paints", "paint"],
    ["watches", "watch"],
    ["builds", "build"],
];
const PLACES: [&str; 8] = [
    "near the water",
    "under the hill",
    "in the morning",
    "after the rain",
    "behind the wall",
    "at the market",
    "on the long road",
    "before the winter",
];

/// A text of at least so many characters. A paragraph has two names, which come again in it.
pub(super) fn text(seed: u64, characters: usize) -> String {
    let mut draws = Draws::new(&[seed, 0x0067_7261_6d6d_6172]);
    let mut text = String::new();
    while text.len() < characters {
        let names = draws.different(2, NAMES.len()).into_iter().map(|name| NAMES[name]).collect::<Vec<_>>();
        for _ in 0..3 + draws.below(4) {
            let sentence = sentence(&mut draws, &names);
            text.push_str(&sentence);
            text.push(' ');
        }
        text.pop();
        text.push('\n');
    }
    text
}

fn sentence(draws: &mut Draws, names: &[&str]) -> String {
    let name = names[draws.below(names.len())];
    match draws.below(4) {
        0 => format!("{name} says: \"{}\"", clause(draws, names)),
        1 => format!("{name} {} {}.", VERBS[draws.below(VERBS.len())][0], phrase(draws, 0).0),
        _ => clause(draws, names),
    }
}

/// A subject, perhaps with a clause inside it, and a verb that agrees with the subject.
fn clause(draws: &mut Draws, names: &[&str]) -> String {
    let (subject, number) = phrase(draws, 2);
    let mut start = subject.chars();
    let subject: String =
        start.next().into_iter().flat_map(char::to_uppercase).chain(start.as_str().chars()).collect();
    let verb = VERBS[draws.below(VERBS.len())][number];
    let object = match draws.below(3) {
        0 => names[draws.below(names.len())].to_string(),
        _ => phrase(draws, 0).0,
    };
    let place = PLACES[draws.below(PLACES.len())];
    match draws.below(2) {
        0 => format!("{subject} {verb} {object} {place}."),
        _ => format!("{subject} {verb} {object}."),
    }
}

/// A noun phrase and its number, 0 for one; of `depth` 1 and more perhaps with a clause of its own.
fn phrase(draws: &mut Draws, depth: usize) -> (String, usize) {
    let number = draws.below(2);
    let noun = NOUNS[draws.below(NOUNS.len())][number];
    let noun = match draws.below(3) {
        0 => noun.to_string(),
        _ => format!("{} {noun}", ADJECTIVES[draws.below(ADJECTIVES.len())]),
    };
    let article = ["the", if number == 0 { "one" } else { "some" }][draws.below(2)];
    if depth > 0 && draws.below(3) == 0 {
        let (other, inner) = phrase(draws, depth - 1);
        let verb = VERBS[draws.below(VERBS.len())][inner];
        return (format!("{article} {noun} that {other} {verb}"), number);
    }
    (format!("{article} {noun}"), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_long_enough_and_their_own() {
        let (a, b) = (text(1, 5000), text(2, 5000));
        assert!(a.len() >= 5000 && a.is_ascii() && a != b);
        assert_eq!(a, text(1, 5000));
        assert!(a.lines().all(|line| line.ends_with(['.', '"'])));
        // Names come again within a paragraph.
        let line = a.lines().next().unwrap();
        assert!(NAMES.iter().filter(|name| line.contains(**name)).count() <= 2);
    }
}
