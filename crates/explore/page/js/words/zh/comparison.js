// Chinese: the part comparison. Each entry is the English as the code has it, and what is said for it.
export default [
  ["by length", "随长度"],
  ["while training", "训练过程"],
  ["attention by distance", "注意力随距离"],
  ["Which encoding, measured", "哪种位置编码更好：实测"],
  [
    `<p>Small models, alike except in how they know positions, were trained on the same data from the same seeds (<code>roformer
      compare</code>). A line is the mean over <output data-value="seeds"></output> seeds, its band reaches from the least to the
      most.</p><p><output class="sentence" data-value="isolates"></output></p> <p>What lies right of the shade is longer than anything trained on:
      <output data-value="train"></output> was the longest. There the best on average is <output data-value="best"></output>.</p>`,
    `<p>一批小模型，除位置编码外完全相同，
      用同样的数据、同样的随机种子训练（<code>roformer compare</code>）。
      每条线是 <output data-value="seeds"></output> 个种子的平均，色带从最小到最大。</p>
      <p><output class="sentence" data-value="isolates"></output></p><p>底色以右比训练时见过的任何文本都长：
      训练最长是 <output data-value="train"></output>。
      在那里平均最好的是 <output data-value="best"></output>。</p>`,
  ],
  ["mean", "平均"],
  ["seeds", "种子"],
  ["task", "任务"],
  ["shown", "显示"],
  ["This comparison has no such curve.", "这次比较里没有这种曲线。"],
  ["loss", "损失"],
  ["exact answers", "完全答对的比例"],
  ["training loss", "训练损失"],
  ["mean weight, last layer", "平均权重，最后一层"],
  ["length", "长度"],
  ["step", "步数"],
  ["distance m − n", "距离 m − n"],
  ["Curves of {0} encodings on the task {1}: {2}.", "{0} 种位置编码在任务 {1} 上的曲线：{2}。"],
];
