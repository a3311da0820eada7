// Chinese: the part codes. Each entry is the English as the code has it, and what is said for it.
export default [
  ["How to write down a position", "位置怎么写成编码"],
  [
    `<p>A model needs a code for each position, and there are simple ones. The <em>share</em> m/L stays between 0 and 1, but a
      step of one word is 1/L: it depends on the length. Position <output data-value="m"></output> is <output
      data-value="share"></output> in a text of <output data-value="length"></output> words and <output
      data-value="half"></output> in one of <output data-value="double"></output>.</p> <p>The <em>number</em> m takes equal steps,
      but grows without bound: a longer text has numbers that no training text had.</p> <p><em>Binary digits</em> are 0 or 1,
      however large m is. But they jump: from <output data-value="from"></output> to <output data-value="to"></output>, which are
      neighbours, <output data-value="flips"></output> change<span data-value="far"></span>.</p> <p><strong>Sines and cosines are
      the smooth form of the digits.</strong> Each digit alternates half as fast as the one below it; each pair of a sine and a
      cosine turns more slowly than the one before, here by a factor of <output data-value="factor"></output>. From any position
      to the next the code moves equally far: <output class="big" data-value="step"></output>.</p>`,
    `<p>模型需要给每个位置一个编码，最简单的有这么几种。<em>比例</em> m/L 总在 0 与 1 之间，但走一个词的步长是 1/L，
      随长度而变：
      位置 <output data-value="m"></output> 在 <output data-value="length"></output> 个词的文本里是 <output data-value="share"></output>，
      在 <output data-value="double"></output> 个词的文本里却是 <output data-value="half"></output>。</p>
      <p><em>整数</em> m 步长相等，却没有上限：更长的文本会出现训练时没有过的数。</p>
      <p><em>二进制</em>不管 m 多大，每一位都只是 0 或 1。
      可它会跳：<output data-value="from"></output> 和 <output data-value="to"></output> 明明相邻，
      却有 <output data-value="flips"></output> 变了<span data-value="far"></span>。</p>
      <p><strong>正弦和余弦就是光滑版的二进制。</strong>二进制的每一位，变化都比低一位慢一半；每一对正弦、余弦也比前一对转得慢，
      这里的速度是前一对的 1/<output data-value="factor"></output>。从任何位置走到下一个，
      这种编码移动的距离都一样：<output class="big" data-value="step"></output>。</p>`,
  ],
  ["features of the sinusoidal code, d", "三角函数式编码的维数 d"],
  ["compare", "比较"],
  ["each position with the next", "每个位置与下一个"],
  ["position m with all", "位置 m 与所有位置"],
  ["{0} of {1} digits", "{1} 位中的 {0} 位"],
  [", and from {0} to {1} a single one", "；而从 {0} 到 {1} 反倒只变一位"],
  ["pair {0}", "第 {0} 对"],
  ["share of the length, m/L", "在全长中的比例 m/L"],
  ["the number, m", "整数 m"],
  ["its binary digits", "二进制各位"],
  ["sines, cosines (thin)", "正弦、余弦（细线）"],
  ["sines, and cosines (thin), of the first {0} of {1} pairs", "正弦与余弦（细线），共 {1} 对，画出前 {0} 对"],
  ["position {0}: share {1}, digits {2}, first sine {3}", "位置 {0}：比例 {1}，二进制 {2}，第一个正弦 {3}"],
  [
    "Four codes of the positions 0 to {0}. Position {1} has the share {2} and the digits {3}.",
    "位置 0 到 {0} 的四种编码。位置 {1} 的比例是 {2}，二进制是 {3}。",
  ],
  ["share", "比例"],
  ["number", "整数"],
  ["digits", "二进制"],
  ["sines", "正弦"],
  ["sines, cosines", "正弦、余弦"],
  ["other position", "另一个位置"],
  ["how far each code moves with a step", "每走一步，各种编码移动多远"],
  ["how far each code is from that of {0}", "各种编码与位置 {0} 的编码相距多远"],
];
