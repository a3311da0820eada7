// Chinese: the part linear. Each entry is the English as the code has it, and what is said for it.
export default [
  ["Attention without comparing all pairs", "不必两两比较的注意力"],
  [
    `<p>Softmax attention compares every query with every key: its work grows with the square of the length. Linear attention
      puts φ(q)·φ(k) in the place of the exponential, with a φ that makes D positive features, such as elu(x) + 1. (It replaces
      the exponential; it does not approximate it.) Then the sum over keys is the same for every query and is made once: S, a
      matrix of D × d numbers. The work is of order L·D·d.</p> <p>At L = <output data-value="length"></output>: softmax <output
      data-value="softmax"></output> multiplications per head, linear <output data-value="linear"></output>. They cross at L =
      D·(d + 1)/d = <output data-value="crossing"></output>, about D: a shorter text is cheaper with softmax.</p> <p>A bias added
      to the score, as T5 has it, differs for each query and key, so that there is no one S to share. It need not cost L² again: a
      bias by distance is a convolution, which takes L·log L. A rotation is a part of the features and costs next to nothing.</p>
      <p>But rotate φ(q) and φ(k), and their products can be negative. RoFormer rotates the numerator alone: a rotated denominator
      could be zero. The bars are a real example: the weights of query <output data-value="query"></output> sum to <output
      data-value="sum"></output>, not 1; the smallest is <output data-value="least"></output>; <output
      data-value="negative"></output> of all 256 are negative. With the denominator rotated too it would be <output
      data-value="turned"></output> in the place of <output data-value="plain"></output>.</p>`,
    `<p>softmax 注意力要把每个查询与每个键都比一遍，计算量随长度的平方增长。线性注意力用 φ(q)·φ(k) 取代指数，
      φ 给出 D 个正的特征，例如 elu(x) + 1。（是取代指数，不是近似它。）这样，对键的求和与查询无关，只需算一次，得到 S，
      一个 D × d 的矩阵。总计算量是 L·D·d 的量级。</p>
      <p>L = <output data-value="length"></output> 时，每个头的乘法次数：
      softmax 是 <output data-value="softmax"></output>，
      线性是 <output data-value="linear"></output>。
      两者在 L = D·(d + 1)/d = <output data-value="crossing"></output> 处相等，
      约等于 D：更短的文本，softmax 反而便宜。</p><p>像 T5 那样往分数上加偏置，偏置随查询和键而变，
      就没有可以共用的 S 了。代价倒不必回到 L²：只与距离有关的偏置是卷积，只需 L·log L。而旋转是特征的一部分，几乎不花代价。</p>
      <p>不过，把 φ(q)、φ(k) 转过之后，乘积可能为负。RoFormer 只转分子：分母若也转，就可能为零。条形图是实际的例子：
      查询 <output data-value="query"></output> 的权重之和是 <output data-value="sum"></output>，
      不是 1；最小的是 <output data-value="least"></output>；
      全部 256 个里有 <output data-value="negative"></output> 个为负。分母若也转，
      就会是 <output data-value="turned"></output>，
      而不是 <output data-value="plain"></output>。</p>`,
  ],
  ["numbers of a value, d", "值向量的维数 d"],
  ["features of φ, D", "φ 的特征数 D"],
  ["query of the example", "例子中的查询"],
  ["another example", "换一个例子"],
  ["linear", "线性"],
  ["softmax attention", "softmax 注意力"],
  ["linear attention", "线性注意力"],
  ["equal at L = {0}", "L = {0} 时相等"],
  ["multiplications of one head", "一个头的乘法次数"],
  [
    `Multiplications against the length: at {0} softmax attention takes {1}, linear attention {2}. Below, weights of one query:
      with rotation they sum to {3}.`,
    `乘法次数随长度的变化：长度 {0} 时 softmax 注意力要 {1} 次，线性注意力要 {2} 次。下面是一个查询的权重：
      旋转之后的和是 {3}。`,
  ],
  ["without positions: sum {0}", "没有位置：和 {0}"],
  ["numerator rotated: sum {0}", "分子旋转：和 {0}"],
  ["negative", "为负"],
  ["an example: the weights of one query", "例子：一个查询的各个权重"],
  ["key n", "键 n"],
];
