// Pictures that are drawn anew only when what they show changes: a drag across a matrix moves a cross, not its shades.

const isDark = matchMedia("(prefers-color-scheme: dark)");

/** A function that gives what `make` gave last, for as long as the key and the reader's colours stay. */
export function kept(make) {
  let [last, drawn] = [null, ""];
  return (key, ...given) => {
    const now = `${isDark.matches} ${key}`;
    if (now !== last) [last, drawn] = [now, make(...given)];
    return drawn;
  };
}
