// Chinese: the part tokens. Each entry is the English as the code has it, and what is said for it.
export default [
  ["Only the distance counts", "只有距离起作用"],
  [
    `<p>A rotary embedding turns the query at position m by m·θ and the key at position n by n·θ, pair of features by pair of
      features, each pair with its own θ. The score is the product of the two turned vectors.</p> <p>Drag the query or the key:
      the score changes. Drag the bar between them: both turn, by the same angle, and the angle between them stays: of the turns
      e<sup>imθ</sup> and e<sup>−inθ</sup>, e<sup>i(m−n)θ</sup> is left. <strong>So the score depends on m − n alone.</strong></p>
      <p>Score: <output class="big" data-value="score"></output> at distance <output data-value="distance"></output>; without
      positions <output data-value="unturned"></output>.</p>`,
    `<p>旋转位置编码把位置 m 的查询转过 m·θ，把位置 n 的键转过 n·θ，维度两两成对地转，每对有自己的 θ。
      转过之后，两个向量的内积就是分数。</p><p>拖动查询或键，分数会变。拖动它们之间的横条，两者一起转过同样的角度，夹角不变：
      e<sup>imθ</sup> 与 e<sup>−inθ</sup> 相乘，
      只剩 e<sup>i(m−n)θ</sup>。<strong>所以分数只依赖相对位置 m&nbsp;−&nbsp;n。</strong></p>
      <p>分数：<output class="big" data-value="score"></output>，
      距离 <output data-value="distance"></output>；
      没有位置时是 <output data-value="unturned"></output>。</p>`,
  ],
  ["move both together", "两个一起移动"],
  ["features, d", "维数 d"],
  ["another query and key", "换一组查询和键"],
  ["pair {0}: {1}", "第 {0} 对：{1}"],
  [
    "A query at {0} and a key at {1} on a ruler, and each pair of their features as two hands of a clock. Score {2}.",
    "标尺上查询在 {0}，键在 {1}；每对维度画成时钟的两根指针。分数 {2}。",
  ],
];
