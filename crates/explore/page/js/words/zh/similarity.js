// Chinese: the part similarity. Each entry is the English as the code has it, and what is said for it.
export default [
  ["How alike are two positions?", "两个位置有多像？"],
  [
    `<p>Before rotary embedding there were sinusoidal codes: each position has a vector of sines and cosines, with the same
      frequencies that rotary embedding has, and it is added to the vector of the word there. The first picture shows the codes, a
      row for each position.</p> <p>The second one multiplies every code with every other. Along each diagonal all values are the
      same: <strong>the product depends on the distance alone</strong>. Of the pairs shown, no two at one distance differ by more
      than <output data-value="spread"></output>, which is rounding.</p> <p>Two things it cannot do. It is symmetric, so it does
      not tell <em>before</em> from <em>after</em>: position <output data-value="m"></output> is as like <output
      data-value="n"></output> as it is like <output data-value="mirror"></output>, as far away on the other side. And it does not
      tend to zero, as is often said: far away it keeps swinging, by ±<output data-value="level"></output> (the root mean square
      beyond Δ = 50 000; in the long run √d/2).</p>`,
    `<p>在旋转位置编码之前，有三角函数式（sinusoidal）位置编码：每个位置是一个由正弦、余弦组成的向量，频率与旋转位置编码相同，
      加到该位置的词向量上。第一张图就是这些编码，每个位置一行。</p><p>第二张图是每两个编码的内积。
      每条对角线上的值都相同：<strong>内积只依赖相对位置</strong>。图中相同距离的各对，
      彼此相差不超过 <output data-value="spread"></output>，那只是舍入误差。</p><p>有两件事它做不到。
      它是对称的，分不清<em>前</em>与<em>后</em>：
      位置 <output data-value="m"></output> 与 <output data-value="n"></output> 有多像，
      与另一侧同样远的 <output data-value="mirror"></output> 就有多像。它也不像常说的那样趋于零：
      到了远处仍在摆动，幅度 ±<output data-value="level"></output>（Δ 超过 50 000 之后的均方根；
      长远来看是 √d/2）。</p>`,
  ],
  ["position n", "位置 n"],
  ["features of a code, d", "编码的维数 d"],
  ["positions shown", "显示的位置数"],
  [" both moved", "，两者各移一位"],
  ["the codes", "各位置的编码"],
  ["feature →", "维 →"],
  ["position ↓", "位置 ↓"],
  ["their inner products", "两两的内积"],
  ["position n →", "位置 n →"],
  ["position m ↓", "位置 m ↓"],
  ["position {0}, feature {1}: {2}", "位置 {0}，第 {1} 维：{2}"],
  [
    `Sinusoidal codes as a picture, the matrix of their inner products, and the product against the distance. Positions {0} and
      {1}: {2}.`,
    "三角函数式编码的图、它们的内积矩阵，以及内积随距离的变化。位置 {0} 与 {1}：{2}。",
  ],
  ["distance |m − n|", "距离 |m − n|"],
  ["as far as a million", "远到一百万"],
  ["dotted: ± {0}", "虚线：± {0}"],
];
