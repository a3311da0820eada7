// Chinese: the way through the page. Each entry is the English as the code has it, and what is said for it.
export default [
  ["Why positions?", "为什么需要位置"],
  [
    `Attention compares words, and forgets where they stand: move the words and nothing changes but the order of the rows. So a
      position has to be told.`,
    "注意力只比较词与词，不管它们排在哪里：换了顺序，变的只是各行的次序。所以位置要另外告诉它。",
  ],
  ["Absolute codes", "绝对位置编码"],
  [
    `The first answer is a code for each position, added to the word. Look at what shares, numbers and binary digits lack, and
      how sines and cosines mend it.`,
    "最早的办法是给每个位置一个编码，加到词向量上。看看比例、整数、二进制各有什么不足，正弦和余弦又怎样补上。",
  ],
  ["Complex numbers", "复数"],
  [
    `Two features are one complex number, and multiplying it by e<sup>iθ</sup> turns it. The inner product of two of them is
      Re[q·k*]: angles are subtracted.`,
    "两维就是一个复数，乘以 e<sup>iθ</sup> 就是旋转。两个复数的内积是 Re[q·k*]：角度相减。",
  ],
  ["Two dimensions", "二维"],
  [
    `Turn the query by mθ and the key by nθ, here with a single pair. Drag the bar between them: the score depends on m − n,
      though each was turned by its own position alone.`,
    "查询转过 mθ，键转过 nθ，这里只有一对维度。拖动它们之间的横条：各自只按绝对位置转，分数却只依赖相对位置 m − n。",
  ],
  ["Many dimensions", "多维"],
  [
    `A head has many pairs, each with a θ of its own, from fast to slow: θ = base<sup>−2j/d</sup>. Move the base, and see which
      clocks never come round.`,
    "一个头有许多对维度，每对有自己的 θ，从快到慢：θ = 底数<sup>−2j/d</sup>。改变底数，看哪些时钟一圈也转不完。",
  ],
  ["Long-term decay", "远程衰减"],
  [
    "The paper proves that a bound falls with the distance. Try the other curves as well: a score below the bound need not fall.",
    "论文证明了一个上界随距离下降。再试试别的曲线：上界之下的分数，未必下降。",
  ],
  ["Linear attention", "线性注意力"],
  [
    "A rotation acts on q and k one by one, so that linear attention takes it at no cost. Mind what becomes of its weights.",
    "旋转分别作用在 q 和 k 上，所以线性注意力不花代价就能用。留意它的权重变成了什么样。",
  ],
  ["Receptive field", "感受野"],
  [
    "A variant moves all frequencies towards a common one. See what α and ρ do, and what they do not.",
    "有一个变体把所有频率移向共同的一个。看 α 和 ρ 做了什么，又没做什么。",
  ],
  ["Implementations", "各种实现"],
  [
    `Code that pairs neighbours and code that pairs halves are both rotary embedding, with other weights. Check which one a model
      has; then look at the exactness of angles, and at a model of your own.`,
    "相邻两维配对，或前后两半配对，都是旋转位置编码，只是权重的排列不同。先弄清模型用哪一种；再看看角度有多准，以及你自己的模型。",
  ],
  ["The notes, stop by stop", "按笔记的顺序"],
  ["← Back", "← 上一站"],
  ["Next →", "下一站 →"],
  ["End", "结束"],
  ["Follow the notes, stop by stop", "按笔记的顺序走一遍"],
];
