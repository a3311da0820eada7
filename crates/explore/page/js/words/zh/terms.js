// Chinese: the part terms. Each entry is the English as the code has it, and what is said for it.
export default [
  ["word–word", "词–词"],
  ["word–place", "词–位"],
  ["place–word", "位–词"],
  ["place–place", "位–位"],
  ["score, the sum", "分数，即总和"],
  ["Added codes", "加性编码"],
  [
    "as in the Transformer of 2017 and in BERT: all four terms, with codes of absolute positions.",
    "2017 年的 Transformer 和 BERT：四项都在，用绝对位置编码。",
  ],
  [
    `keeps word–word; in word–place the code becomes a learned vector for the distance, clipped; the query’s place goes, and with
      it the last two. Values get such vectors too.`,
    "保留词–词；词–位中的编码换成按距离学到的向量（有截断）；查询一侧的位置去掉，最后两项也随之消失。值也加上这样的向量。",
  ],
  [
    `has all four, as Transformer-XL: the key’s place becomes sines and cosines of the distance with a projection of their own,
      the query’s place two learned vectors u and v.`,
    "四项都有，与 Transformer-XL 相同：键的位置换成距离的正弦、余弦，并用单独的投影；查询的位置换成两个学到的向量 u、v。",
  ],
  [
    "keeps word–word; place–place becomes one learned number for each head and bucket of distances; the mixed terms go.",
    "保留词–词；位–位换成每个头、每个距离桶一个学到的数；两个交叉项去掉。",
  ],
  [
    "keeps word–word; both mixed terms, with learned vectors for the clipped distance in place of codes; place–place goes.",
    "保留词–词；两个交叉项里的编码换成按截断距离学到的向量；位–位去掉。",
  ],
  ["Rotary", "旋转"],
  [
    "adds no code at all: a rotation by the distance stands in the middle of word–word.",
    "根本不加编码：在词–词的中间放进按距离的旋转。",
  ],
  ["replaced", "替换"],
  ["left out", "去掉"],
  ["What adding a code does to a score", "把编码加上去，分数会怎样"],
  [
    `<p>The first Transformer adds to each word x the code p of its place, and compares the sums. What stands between a query and
      a key is one matrix W, made of both projections. Multiply (x + p) W (x + p)ᵀ out, and a score is <strong>four
      terms</strong>: how a word fits a word, a word a place, a place a word, and a place a place.</p> <p>Drag the marked cell.
      <output data-value="query"></output> at place <output data-value="m"></output> looks at <output data-value="key"></output>
      at place <output data-value="n"></output>; the four numbers add up to <output class="big" data-value="score"></output>.</p>
      <p>Nothing here says <em>distance</em>: with W between them, place–place differs from place to place along its diagonals.
      Only for special ones such as the identity does it depend on m − n alone. Later models keep some of the terms and put the
      distance into others.</p>`,
    `<p>最早的 Transformer 给每个词 x 加上位置编码 p，再比较这些和。查询与键之间是一个矩阵 W，由两个投影合成。
      把 (x + p) W (x + p)ᵀ 展开，分数就是<strong>四项</strong>：
      词对词、词对位置、位置对词、位置对位置。</p><p>拖动标出的格子。
      位置 <output data-value="m"></output> 的<output data-value="query"></output>看位置 <output data-value="n"></output> 的<output data-value="key"></output>，
      四个数加起来是 <output class="big" data-value="score"></output>。</p>
      <p>这里没有一处说到<em>距离</em>：中间隔着 W，位–位沿对角线也处处不同。只有 W 很特殊（比如单位矩阵）时，
      它才只依赖 m&nbsp;−&nbsp;n。后来的模型保留其中几项，把距离放进另外几项。</p>`,
  ],
  ["strength of the codes", "编码的强度"],
  ["random, as before training", "随机，如同训练前"],
  ["identity", "单位矩阵"],
  ["what others keep", "各家的取舍"],
  ["{0}:", "{0}："],
  ["blue is positive, orange negative", "蓝色为正，橙色为负"],
  ["{0}, “{1}” at {2} and “{3}” at {4}: {5}", "{0}，“{1}”在 {2}、“{3}”在 {4}：{5}"],
  [
    "Four matrices of words against words and their sum. At query {0} and key {1}: {2}.",
    "四个词对词的矩阵及其和。查询 {0}、键 {1} 处：{2}。",
  ],
];
