// Chinese: the part decay. Each entry is the English as the code has it, and what is said for it.
export default [
  ["the paper’s bound", "论文的上界"],
  ["your own", "自己设定"],
  ["three cosines", "三个余弦"],
  ["a single pair", "单独一对"],
  [" The dashed line is base 10 000, for comparison.", "虚线是底数 10 000，供比较。"],
  [
    `However a query and a key look: their score at distance Δ is at most a constant of the two times this curve. The curve falls
      on the whole and swings on the way. It is a ceiling, for one fixed q and k, and nothing says that a score comes near it.
      With a larger base it falls later on the whole, though not at every distance.{0}`,
    `不论查询和键是什么样，它们在距离 Δ 的分数，最多是一个只与二者有关的常数乘以这条曲线。曲线总体下降，途中有起伏。它是固定 q、k 时的上界，
      并没有说分数会接近它。底数越大，总体上降得越晚，但并非每个距离都如此。{0}`,
  ],
  ["Up to Δ = {0} it stays above zero.", "直到 Δ = {0}，它都在零以上。"],
  [
    `At Δ = {0} it is negative for the first time: there a key just like the query scores less than a key that has nothing to do
      with it, which scores 0 on average.`,
    "到 Δ = {0} 时它第一次变成负数：在那里，与查询一模一样的键，得分反而低于毫不相干的键——后者平均得 0 分。",
  ],
  [
    `Every pair of q and k alike and of length 1: the score is the plain sum of cosines. It falls as the pairs get out of step.
      {0} On the whole a larger base moves that distance out, but not steadily, because the sum swings as it falls: for d = 128 it
      is {1} at base {2}, {3} at {4} and {5} at {6}.{7}`,
    `q 与 k 每一对都相同、长度为 1：分数就是余弦之和。各对的步调渐渐错开，它就下降。{0}总体上，底数越大这个距离越远，但并不平稳，
      因为余弦之和边降边摆：d = 128 时，底数 {2} 对应 {1}，{4} 对应 {3}，{6} 对应 {5}。{7}`,
  ],
  [
    `If q and k are drawn by chance and have nothing in common, the expected score is zero at every distance. Scores stray from
      it by √d = {0}, near and far alike: that is the band, and the thin lines are three examples. There is no decay here at all.
      Decay comes from what q and k share: give both a common mean, and watch it appear.`,
    `若 q 与 k 随机取、毫无共同之处，分数的期望在任何距离都是零。实际分数偏离它的标准差是 √d = {0}，远近一样：这就是色带，细线是三个例子。
      这里根本没有衰减。衰减来自 q 与 k 的共同部分：给二者一个共同的均值，看它出现。`,
  ],
  [
    `Every feature of q and k now has the mean {0}, and the expected score falls with the distance as that of alike vectors does.
      What the two share decays. What they do not share, the band of ±{1} around it, is as wide far away as it is near.`,
    `现在 q 与 k 的每一维均值都是 {0}，分数的期望就像相同向量那样随距离下降。二者共有的部分在衰减；不共有的部分，
      即围绕它 ±{1} 的色带，远处与近处一样宽。`,
  ],
  [
    `Drag the hands: blue is the query, orange the key, one clock a pair. Each pair adds the product of the two lengths times the
      cosine of Δθ plus the angle between them. Nothing makes nearest best: turn every key hand ahead by r·θ, and the score is
      highest at distance r. Now it is highest at Δ = {0}, of the distances from 0 to {1}.`,
    `拖动指针：蓝色是查询，橙色是键，每对一个时钟。每对的贡献是两个长度之积乘以 cos(Δθ + ψ)，ψ 是二者的夹角。没有什么规定越近越好：
      把键的每根指针都往前转 r·θ，分数就在距离 r 处最高。现在，在 0 到 {1} 的距离里，最高点在 Δ = {0}。`,
  ],
  [
    `An explanation that is often given takes three frequencies, 1, 0.3 and 0.05, and reads off S(2) = {0} and S(50) = {1}: “the
      farther, the lower”. Look on. S(20) is {2}, more than S(2). At 126 it is {3} of 3, and at 377 all three cosines are at their
      top again: {4}. A sum of a few cosines does not fade; it comes back.`,
    `一种常见的解释取三个频率 1、0.3、0.05，读出 S(2) = {0} 和 S(50) = {1}，就说“越远越低”。再往后看：
      S(20) 是 {2}，比 S(2) 还高；126 处是 {3}（满分 3）；到 377，三个余弦又同时回到顶点：{4}。
      几个余弦之和不会消失，它会回来。`,
  ],
  [
    `A single pair with frequency θ = {0}. “A larger θ is more local” holds only while Δθ stays well under π, in the shaded part.
      At Δ = {1} the score is lowest, at {2} it is back at the top. {3}`,
    `单独一对，频率 θ = {0}。“θ 越大越关注局部”，只有 Δθ 远小于 π 时才成立，即有底色的部分。Δ = {1} 时分数最低，
      到 {2} 又回到顶点。{3}`,
  ],
  ["Give the key a phase, and the peak leaves Δ = 0.", "给键一个相位，峰值就会离开 Δ = 0。"],
  ["The key is ahead by {0}, so the peak is at {1}/θ = {2}.", "键超前 {0}，所以峰值在 {1}/θ = {2}。"],
  [", C of q and k alone", "，C 只与 q、k 有关"],
  [" at every ", "，对任意 "],
  ["bound", "上界"],
  ["score", "分数"],
  ["expected score", "分数的期望"],
  ["Does attention fade with distance?", "注意力会随距离衰减吗？"],
  [
    `<p>The RoFormer paper shows that a bound on the score falls as the distance grows, and calls it long-term decay. It is often
      retold as “the farther, the lower”. That is more than the paper says. Choose a curve, and drag the line along it.</p> <p
      data-value="about"></p> <p>At Δ = <output data-value="at"></output> the curve is at <output class="big"
      data-value="value"></output>.</p>`,
    `<p>RoFormer 论文证明，分数的一个上界随距离增大而下降，并称之为远程衰减。流传开来，常被说成“越远分数越低”，这就超出了论文的结论。
      选一条曲线，沿着它拖动竖线。</p><p data-value="about"></p>
      <p>在 Δ = <output data-value="at"></output> 处，
      曲线的值是 <output class="big" data-value="value"></output>。</p>`,
  ],
  ["curve", "曲线"],
  ["common mean of q and k", "q 与 k 的共同均值"],
  ["other examples", "换几个例子"],
  ["q, two numbers per pair", "q，每对两个数"],
  ["k, two numbers per pair", "k，每对两个数"],
  ["a distance to peak at, r", "想让峰值出现的距离 r"],
  ["frequency θ", "频率 θ"],
  ["phase of the key, φ", "键的相位 φ"],
  ["expected", "期望"],
  ["examples", "例子"],
  ["base {0}", "底数 {0}"],
  ["base 10 000", "底数 10 000"],
  ["Make it peak there", "让峰值在那里"],
  ["{0} against the distance from 0 to {1}. At {2} it is {3}.", "{0}随距离的变化，从 0 到 {1}。在 {2} 处是 {3}。"],
];
