// Chinese: the part biases. Each entry is the English as the code has it, and what is said for it.
export default [
  ["+ number of the bucket", "+ 所在桶的数值"],
  ["− slope × distance", "− 斜率 × 距离"],
  ["− log of the distance", "− 距离的对数"],
  ["+ query · vector", "+ 查询 · 向量"],
  ["rotary, alike", "旋转，q、k 相同"],
  ["part of the score left", "分数剩下的比例"],
  ["rotary, random", "旋转，q、k 随机"],
  ["the score", "分数本身"],
  ["Adding to the score, or turning", "往分数上加，还是转动向量"],
  [
    `<p>Other encodings leave q and k alone and change the score of each query m with each key n. Each picture shows by how much,
      for every query (down) and key (across). All depend on m − n alone, so each is made of diagonals. Blue adds, orange takes
      away. Drag the cross.</p> <p><strong>T5</strong> sorts distances into buckets and adds one learned number for each; far
      distances share wide buckets, before and after have their own. <strong>ALiBi</strong> takes a fixed slope times the distance
      off; each head has its slope. <strong>KERPLE</strong> takes a logarithm off, which flattens. <strong>Shaw</strong> adds the
      product of the query with a vector for the distance, clipped at ± k: all distances beyond share one vector.</p>
      <p><strong>Rotary</strong> adds nothing. It turns q and k, so that what is left of the score of the same two vectors depends
      on the distance: a factor for each pair of features. One picture is for q and k that are alike, one for two drawn at random.
      Only T5, Shaw and rotary (unless q and k are alike) tell before from after.</p> <p class="soft">What a model learns is made
      up here: T5’s numbers, KERPLE’s r₁ = 1 and r₂ = ½, and the query and key of Shaw and the last picture, which are drawn at
      random and are the same at every position. Shaw’s vectors are sines and cosines, as in NEZHA.</p>`,
    `<p>另一些位置编码不动 q 和 k，只改查询 m 与键 n 之间的分数。每张图画的就是改了多少：往下是查询，往右是键。
      它们都只依赖相对位置 m&nbsp;−&nbsp;n，所以图案都是一条条斜线。蓝色是加，橙色是减。拖动十字看看。</p>
      <p><strong>T5</strong> 把距离分到若干个桶里，每个桶加一个学到的数；远处的桶更宽，
      前后各有各的桶。<strong>ALiBi</strong> 减去“固定斜率 × 距离”，
      每个头一个斜率。<strong>KERPLE</strong> 减去一个对数，
      越远越平。<strong>Shaw</strong> 加上查询与距离向量的内积，距离在 ± k 处截断：再远就共用一个向量。</p>
      <p><strong>旋转位置编码</strong>什么也不加。它转动 q 和 k，于是同样两个向量的分数还剩多少，取决于距离：
      每对维度乘一个因子。一张图里 q 与 k 相同，另一张里两者随机。
      能分清前与后的只有 T5、Shaw 和旋转位置编码（q 与 k 相同时除外）。</p><p class="soft">凡是模型要学的量，
      这里都是人为取定的：T5 的各个数、KERPLE 的 r₁ = 1 与 r₂ = ½，以及 Shaw 和最后一张图里的查询与键——它们随机抽取，
      每个位置都一样。Shaw 的向量按 NEZHA 的做法取正弦和余弦。</p>`,
  ],
  ["head, of 8 (T5, ALiBi)", "第几个头，共 8 个（T5、ALiBi）"],
  ["Shaw’s clip bound k", "Shaw 的截断距离 k"],
  ["tokens", "token 数"],
  ["another query and key (Shaw, rotary)", "换一组查询和键（Shaw、旋转）"],
  ["bucket ", "桶 "],
  [" (clipped)", "（已截断）"],
  ["rotary", "旋转"],
  ["{0}, query {1}, key {2}: {3}", "{0}，查询 {1}，键 {2}：{3}"],
  [
    `<table><thead><tr><th>at m − n = {0}</th><th>here</th><th>m and n exchanged</th><th>10 further</th></tr></thead>
      <tbody>{1}</tbody></table>`,
    "<table><thead><tr><th>m − n = {0} 处</th><th>此处</th><th>m、n 互换</th><th>再远 10</th></tr></thead><tbody>{1}</tbody></table>",
  ],
  [
    "Six pictures of what encodings do to scores. At distance {0}: {1}.",
    "六张图，画的是各种位置编码如何改变分数。距离 {0} 处：{1}。",
  ],
];
