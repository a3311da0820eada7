// Chinese: the part model. Each entry is the English as the code has it, and what is said for it.
export default [
  ["how far it looks, in tokens", "看多远（token 数）"],
  ["weight on the token before", "给前一个 token 的权重"],
  ["weight on the first token", "给第一个 token 的权重"],
  ["What a real model looks at", "真实的模型在看哪里"],
  [
    `<p>This is <strong>{0}</strong>: {1} layers of {2} heads. Every row of the map is a token that asks, every column a token
      that is looked at; a row's weights sum to 1. Positions enter through the rotation, and in a causal model through the mask: a
      head that always looks one token back has learned that from distances.</p> <p>The small grid has one cell per head: choose a
      head by clicking it. This one looks <output data-value="reach"></output> tokens far on average, gives <output
      data-value="previous"></output> of its weight to the token before, and <output data-value="first"></output> to the first
      token.</p>`,
    `<p>这是 <strong>{0}</strong>：{1} 层，每层 {2} 个头。图中每一行是发出查询的 token，
      每一列是被看的 token；一行的权重之和为 1。位置信息通过旋转进入模型，因果模型里还通过掩码：总是看前一个 token 的头，
      正是从距离学会的。</p><p>小方格图里一格是一个头，点一下就选中它。
      这个头平均看 <output data-value="reach"></output> 个 token 远，
      把 <output data-value="previous"></output> 的权重给前一个 token，<output data-value="first"></output> 给第一个 token。</p>`,
  ],
  ["text", "文本"],
  ["The cat sat on the mat because it was tired.", "今天天气很好，我们一起去公园散步。"],
  ["layer", "层"],
  ["the grid shows", "方格图显示"],
  ["score ", "分数 "],
  ["tokens back, m − n", "往前几个 token，m − n"],
  ["mean weight", "平均权重"],
  ["all heads: {0}", "所有头：{0}"],
  ["head →", "头 →"],
  ["{0} ({1}) looks at {2} ({3}): {4}", "{0}（{1}）看 {2}（{3}）：{4}"],
  ["layer {0}, head {1}: {2}", "第 {0} 层第 {1} 个头：{2}"],
  [
    "The attention of layer {0}, head {1} among {2} tokens, as a map.",
    "第 {0} 层第 {1} 个头在 {2} 个 token 之间的注意力图。",
  ],
];
