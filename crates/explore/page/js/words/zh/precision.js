// Chinese: the part precision. Each entry is the English as the code has it, and what is said for it.
export default [
  ["pair", "第几对"],
  ["How exact is an angle?", "角度有多准？"],
  [
    `<p>Far into a text the product m·θ is a large number, and only what is left after whole turns counts. A number of 32 bits
      (f32) keeps about seven digits in all: near a million, neighbours are 0.06 apart. Hugging Face's decoders form their angles
      that way.</p> <p>At position <output data-value="position"></output> such angles are off by up to <output class="big"
      data-value="single"></output> rad. The hands are drawn as they come out; the lens shows what lies between them.</p>
      <p>Positions kept in bf16 are worse. It has eight binary digits: it <strong>cannot tell 256 from 257</strong>. Position
      <output data-value="position"></output> becomes <output data-value="rounded"></output>, a number that stands for <output
      data-value="shared"></output>. This happens when a whole model, positions and all, is cast to bf16.</p> <p>The tables behind
      this page are within <output data-value="tables"></output> of the true cosines and sines here, and within
      0.51·2<sup>−24</sup>, about <output data-value="bound"></output>, at every position: frequencies are kept in two 64-bit
      parts, the angle is formed from both, and each cosine is rounded once.</p>`,
    `<p>文本深处，乘积 m·θ 是个很大的数，而有用的只是去掉整圈之后剩下的部分。32 位浮点数（f32）总共约七位有效数字：在一百万附近，
      相邻两个数相差 0.06。Hugging Face 的解码器就是这样算角度的。</p>
      <p>在位置 <output data-value="position"></output>，
      这样的角度误差最大可达 <output class="big" data-value="single"></output> 弧度。
      指针按算出的结果画；放大镜里是它们之间的差别。</p><p>位置若用 bf16 保存，就更糟。
      它只有八位二进制有效数字，<strong>分不清 256 和 257</strong>。
      位置 <output data-value="position"></output> 变成 <output data-value="rounded"></output>，
      这一个数代表<output data-value="shared"></output>。把整个模型连同位置一起转成 bf16，
      就会这样。</p><p>本页所用的数表，
      在这里与真正的余弦、正弦相差不超过 <output data-value="tables"></output>；
      在任何位置都不超过 0.51·2<sup>−24</sup>，约 <output data-value="bound"></output>：
      频率用两个 64 位数保存，角度由两者合成，每个余弦只舍入一次。</p>`,
  ],
  ["positions to try", "可以试试的位置"],
  ["this position alone", "这一个位置"],
  ["{0} positions in a row", "连续 {0} 个位置"],
  ["off by ", "误差 "],
  ["exact", "精确"],
  ["positions in bf16", "位置用 bf16"],
  ["angles in f32", "角度用 f32"],
  ["the tables here", "这里的数表"],
  ["pair {0}, as it turned", "第 {0} 对，转过之后"],
  ["under the lens: ± {0} rad", "放大镜下：± {0} 弧度"],
  ["error of the cosine or sine, whichever is larger", "余弦与正弦的误差，取大者"],
  [
    "Pair {0}: f32 is off by {1} rad ({2}), bf16 by {3} rad.",
    "第 {0} 对：f32 误差 {1} 弧度（{2}），bf16 误差 {3} 弧度。",
  ],
  [
    `The hands of pair {0} at position {1}: f32 is off by {2} radians, a position in bf16 by {3}. Below, the errors of all pairs;
      the tables here are within {4}.`,
    `第 {0} 对在位置 {1} 的指针：f32 误差 {2} 弧度，bf16 的位置误差 {3}。下面是所有对的误差；
      这里的数表在 {4} 以内。`,
  ],
];
