// Chinese: the part turning. Each entry is the English as the code has it, and what is said for it.
export default [
  ["A pair of features turns", "一对维度在转"],
  [
    `<p>Take two features of a query or a key, x₀ and x₁, and draw them as one arrow. A rotary embedding turns this arrow by the
      angle m·θ when the token stands at position m. The arrow keeps its length, so nothing that the two features say is lost; its
      direction now also tells where the token stands.</p> <p>Each pair has its own speed θ<sub>j</sub>. Pair 0 turns by one
      radian a token: pairs are counted from 0. Every next pair is slower. Pair <output data-value="pair"></output> takes <output
      data-value="wavelength"></output> tokens for a full turn; over the 128 positions shown here it turns <output
      data-value="turns"></output> times.</p> <p>Looked at from the side, the two features are two waves, a quarter of a turn
      apart. Drag the pale arrow to change the features, drag across the waves to move the token, or press play and try a fast
      pair and a slow one. The dots are the last {0} positions: <strong>a fast pair tells neighbours apart, a slow one tells near
      from far.</strong></p>`,
    `<p>取查询或键的两维 x₀、x₁，画成一支箭头。token 在位置 m 时，旋转位置编码把箭头转过 m·θ。箭头长度不变，
      两维原来的信息一点没丢；而方向多说了一件事：token 在哪里。</p><p>每对有自己的速度 θ<sub>j</sub>。
      第 0 对（从 0 数起）每个 token 转一弧度，往后一对比一对慢。
      第 <output data-value="pair"></output> 对转一圈要 <output data-value="wavelength"></output> 个 token；
      在这里显示的 128 个位置上，它转 <output data-value="turns"></output> 圈。</p><p>从侧面看，
      两维是两列波，相位差四分之一圈。拖动浅色箭头可以改变这两维，在波上拖动可以移动 token；或者按播放，分别试试快的对和慢的对。
      圆点是最近的 {0} 个位置：<strong>快的对分清相邻，慢的对分清远近。</strong></p>`,
  ],
  ["x₀, the first feature", "x₀，第一维"],
  ["x₁, the second feature", "x₁，第二维"],
  [" tokens for a turn", " 个 token 转一圈"],
  ["the pair, at position m", "位置 m 处的这一对"],
  ["first feature, y₀", "第一维 y₀"],
  ["second feature, y₁", "第二维 y₁"],
  [
    `Pair {0} as an arrow, turned by {1} radians at position {2}, and its two features as waves against the position, now {3} and
      {4}.`,
    "第 {0} 对画成箭头，在位置 {2} 转过 {1} 弧度；两维画成随位置变化的波，现在是 {3} 与 {4}。",
  ],
];
