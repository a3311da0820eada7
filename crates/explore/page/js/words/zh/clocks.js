// Chinese: the part clocks. Each entry is the English as the code has it, and what is said for it.
export default [
  ["seen in training", "训练时见过"],
  ["never seen", "从未见过"],
  ["hand at m", "位置 m 的指针"],
  [
    "Pair {0}: a turn takes {1} tokens, {2} turns within {3}; the hand is at {4}{5}.",
    "第 {0} 对：转一圈要 {1} 个 token，在 {3} 个 token 内转 {2} 圈；指针此刻在 {4}{5}。",
  ],
  [", where training never had it", "，训练时从没到过这里"],
  ["A wall of clocks", "一面墙的时钟"],
  [
    `<p>A whole head is a wall of clocks, one for each pair of features, the fastest first. At position m the hand of pair j has
      turned by m·θ<sub>j</sub>, from the right and anticlockwise. Together the hands tell the position, as the hands for seconds,
      minutes and hours tell the time.</p> <p><strong>What the base does.</strong> It makes the slow clocks slow. A turn takes
      6.28 tokens for the first pair, whatever the base; for the last one here it takes <output data-value="slowest"></output>.
      With a larger base every clock but the first goes slower, and more of them stay within their first turn.</p> <p><strong>What
      breaks past the trained length.</strong> Grey is the arc that a hand has swept within the <output
      data-value="length"></output> tokens of training. Fast clocks went round many times and have seen every angle, but <output
      class="big" data-value="never"></output> of <output data-value="pairs"></output> pairs never complete a turn. In a text of
      <output data-value="context"></output> tokens <output class="big" data-value="unseen"></output> pairs reach angles that
      training never showed, in orange. Nobody has taught the model what those mean.</p> <p>Drag across the wall to move the
      position. <span data-value="about"></span></p>`,
    `<p>整个注意力头就是一面墙的时钟，每对维度一个，从快到慢。到位置 m 时，第 j 对的指针从右边出发，
      逆时针转过了 m·θ<sub>j</sub>。所有指针合在一起就报出了位置，好比秒针、分针、时针合在一起报出时间。</p>
      <p><strong>底数起什么作用。</strong>它让慢的时钟更慢。无论底数多大，第一对转一圈都是 6.28 个 token；
      这里最后一对要 <output data-value="slowest"></output> 个。底数越大，除第一个以外的时钟都走得越慢，
      停在第一圈以内的也越多。</p>
      <p><strong>超过训练长度会怎样。</strong>灰色是训练的 <output data-value="length"></output> 个 token 之内指针扫过的弧。
      快的时钟转过许多圈，什么角度都见过；
      但 <output data-value="pairs"></output> 对里有 <output class="big" data-value="never"></output> 对一圈也没转完。
      到了 <output data-value="context"></output> 个 token 的文本里，
      有 <output class="big" data-value="unseen"></output> 对会转到训练时从未出现的角度，
      也就是橙色部分。那些角度是什么意思，没有人教过模型。</p><p>在墙上横向拖动，
      可以改变位置。<span data-value="about"></span></p>`,
  ],
  ["look at pair j", "看第几对 j"],
  ["training has not seen all of it", "训练时没有见全"],
  ["training has seen every angle", "训练时见过所有角度"],
  [" tokens", " 个 token"],
  [" turns", " 圈"],
  ["trained length {0}", "训练长度 {0}"],
  ["target length {0}", "目标长度 {0}"],
  [
    `{0} clocks, one per pair, at position {1}. {2} never complete a turn within {3} tokens; {4} reach unseen angles within {5};
      {6} stand at one now. The last hand is at {7} radians.`,
    `{0} 个时钟，每对维度一个，位置 {1}。在 {3} 个 token 内，{2} 个转不满一圈；在 {5} 个 token 内，
      {4} 个会到达没见过的角度；此刻有 {6} 个正处于这样的角度。最后一根指针在 {7} 弧度。`,
  ],
];
