// Chinese: the part receptive. Each entry is the English as the code has it, and what is said for it.
export default [
  ["A receptive field for rotary embedding", "给旋转位置编码一个感受野"],
  [
    `<p>A variant of rotary embedding takes other frequencies: each is moved towards a frequency that all pairs share,
      θ*<sub>j</sub> = α/10000<sup>ρ</sup> + (1 − α)θ<sub>j</sub>. The score a* then has two parts: a′ and b′, the real and the
      imaginary part of the sum with the frequencies (1 − α)θ<sub>j</sub>, mixed by an angle that grows with the distance.</p>
      <p>The shared frequency φ = α/10000<sup>ρ</sup> is <output data-value="phi"></output>: it depends on α as well as on ρ.
      Raise ρ until φ is next to nothing: then a* is a′, and the rule <strong>is linear interpolation</strong>, with positions
      divided by 1/(1 − α) = <output data-value="stretch"></output>. α makes frequencies smaller; it does not make their influence
      smaller.</p> <p><span data-value="hilbert"></span></p> <p>Nothing is gained that rotary embedding could not do: with the
      frequencies θ*<sub>j</sub> a plain rotation gives the same score, <output data-value="rotation"></output>.</p>`,
    `<p>旋转位置编码的一个变体换了频率：每个频率都移向各对共有的一个频率，
      θ*<sub>j</sub> = α/10000<sup>ρ</sup> + (1 − α)θ<sub>j</sub>。
      这时分数 a* 由两部分组成：a′ 与 b′，即以 (1 − α)θ<sub>j</sub> 为频率求和的实部与虚部，
      再按一个随距离增大的角度混合。</p>
      <p>共有的频率 φ = α/10000<sup>ρ</sup> 是 <output data-value="phi"></output>：
      它既取决于 ρ，也取决于 α。增大 ρ，直到 φ 几乎为零：这时 a* 就是 a′，这条规则<strong>就是线性内插</strong>，
      位置除以 1/(1 − α) = <output data-value="stretch"></output>。α 让频率变小，
      并没有让它们的影响变小。</p><p><span data-value="hilbert"></span></p>
      <p>它并没有超出旋转位置编码的能力：直接用频率 θ*<sub>j</sub> 去旋转，
      得到的分数完全一样，<output data-value="rotation"></output>。</p>`,
  ],
  ["query and key", "查询与键"],
  ["another random query and key", "换一组随机的查询和键"],
  ["∞ (at α = 1 all pairs turn alike)", "∞（α = 1 时各对转得一样快）"],
  [
    `b′ is the Hilbert transform of a′: every cosine in a′ is a sine in b′. The dots, which are the transform, lie on b′. That
      holds for α below 1 alone.`,
    "b′ 是 a′ 的希尔伯特变换：a′ 里的每个余弦，在 b′ 里是正弦。圆点就是变换的结果，落在 b′ 上。这只在 α 小于 1 时成立。",
  ],
  [
    `At α = 1 a′ and b′ are constants. The Hilbert transform of a constant is 0 (the dots), which is not b′: the two are a
      Hilbert pair for α below 1 alone.`,
    "α = 1 时 a′ 与 b′ 都是常数。常数的希尔伯特变换是 0（圆点），不是 b′：只有 α 小于 1 时两者才是希尔伯特变换对。",
  ],
  [
    `Above α = 1 the frequencies (1 − α)θ are negative, and the Hilbert transform of a′ (the dots) is −b′: the two are a Hilbert
      pair for α below 1 alone.`,
    "α 大于 1 时频率 (1 − α)θ 为负，a′ 的希尔伯特变换（圆点）是 −b′：只有 α 小于 1 时两者才是希尔伯特变换对。",
  ],
  ["Hilbert transform of a′", "a′ 的希尔伯特变换"],
  ["a*, the score", "a*，即分数"],
  ["usual score", "普通分数"],
  ["Δ = {0}: a′ {1}, b′ {2}, a* {3}, usual {4}", "Δ = {0}：a′ {1}，b′ {2}，a* {3}，普通 {4}"],
  [
    "The parts a′ and b′ of a score and the score itself, for α {0} and ρ {1}. At distance {2} the score is {3}.",
    "α = {0}、ρ = {1} 时，分数的两部分 a′、b′ 与分数本身。距离 {2} 处的分数是 {3}。",
  ],
  ["θ before", "原来的 θ"],
  ["θ* (rings: negative)", "θ*（空心：为负）"],
  ["θ* after", "改后的 θ*"],
];
