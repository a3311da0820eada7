// Chinese: the part inspect. Each entry is the English as the code has it, and what is said for it.
export default [
  ["part of the circle seen in training", "训练时见过的圆周比例"],
  ["distance between two tokens", "两个 token 的距离"],
  ["mean of all cosines cos Δθ", "所有余弦 cos Δθ 的平均"],
  ["These layers have no rotary embedding.", "这些层没有旋转位置编码。"],
  ["pair {0}: features {1} and {2}", "第 {0} 对：第 {1} 维与第 {2} 维"],
  ["which features form a pair is not known: choose a pairing", "不知道哪两维成对：请选择配对方式"],
  ["feature 0", "第 0 维"],
  ["{0} pairs stand still", "{0} 对静止不动"],
  ["first negative at distance {0}", "在距离 {0} 第一次为负"],
  ["positive up to distance {0}", "直到距离 {0} 都为正"],
  ["Distance {0}: mean of all cosines {1}", "距离 {0}：所有余弦的平均 {1}"],
  ["features {0} and {1}", "第 {0} 维与第 {1} 维"],
  ["stands still", "静止不动"],
  ["a turn takes {0} tokens", "转一圈要 {0} 个 token"],
  ["{0} turns in {1}", "在 {1} 个 token 内转 {0} 圈"],
  ["{0} % of the circle seen in training", "训练时见过圆周的 {0}%"],
  ["Pair {0}: {1}", "第 {0} 对：{1}"],
  ["; ", "；"],
  [
    "{0} has {1} bytes; a config.json has at most {2}. It was not read.",
    "{0} 有 {1} 字节；config.json 最多 {2} 字节。没有读取。",
  ],
  [
    "{0} cannot be read. Is it a folder? Drop the config.json inside it.",
    "{0} 无法读取。它是文件夹吗？请拖入其中的 config.json。",
  ],
  [
    "{0} is empty; expected a Hugging Face config.json.",
    "{0} 是空的；应为 Hugging Face 的 config.json。",
  ],
  [
    "{0} is not a text; expected a Hugging Face config.json.",
    "{0} 不是文本；应为 Hugging Face 的 config.json。",
  ],
  ["{0} is a folder; drop the config.json inside it.", "{0} 是文件夹；请拖入其中的 config.json。"],
  [
    "These are {0} files, none of them called config.json; drop one.",
    "这是 {0} 个文件，没有一个叫 config.json；请只拖一个。",
  ],
  ["The configuration in the address cannot be read: {0}.", "地址里的配置无法读取：{0}。"],
  ["it has characters that do not belong there", "含有不该出现的字符"],
  ["it is cut off or damaged", "不完整或已损坏"],
  ["it has more than {0} bytes", "超过 {0} 字节"],
  ["model type", "模型类型"],
  ["unknown", "未知"],
  ["pairing", "配对方式"],
  ["takes", "最大长度"],
  ["{0} tokens (max_position_embeddings)", "{0} 个 token（max_position_embeddings）"],
  ["rule", "规则"],
  ["no rotary embedding in these layers", "这些层没有旋转位置编码"],
  [
    "This configuration is too long for an address: a link to this page does not hold it.",
    "这份配置太长，放不进地址：本页的链接不包含它。",
  ],
  ["What follows", "由此可知"],
  [
    "What <code>roformer inspect --json</code> prints",
    "<code>roformer inspect --json</code> 的输出",
  ],
  ["attention", "注意力系数"],
  ["turned vectors are scaled by {0}, scores by its square", "转后的向量乘以 {0}，分数乘以它的平方"],
  ["Bands of pairs", "分段"],
  ["pairs", "维度对"],
  ["wavelength, tokens", "波长（token 数）"],
  ["turns in {0}", "{0} 内的圈数"],
  ["what the rule does", "规则的作用"],
  ["Copy", "复制"],
  ["At {0} tokens, {1} times the {2} of training", "目标 {0} 个 token，是训练长度 {2} 的 {1} 倍"],
  ["unseen pairs", "超出的对"],
  ["unchanged pairs", "不变的对"],
  ["neighbours closer by", "角度差除以"],
  ["attention factor", "注意力系数"],
  ["Settings to paste", "可直接粘贴的设置"],
  ["Your own model", "你自己的模型"],
  [
    `<p>All that was shown so far follows from a few numbers in a model’s <code>config.json</code>. <strong>Drop one anywhere on
      this page</strong>, paste it, or choose it. It goes to the program that serves this page and no further.</p> <div
      class="take"> <label class="button">Choose a file<input type="file" id="inspect-file"
      accept=".json,application/json"></label> <textarea id="inspect-paste" rows="2" spellcheck="false" aria-label="Paste a
      config.json here" placeholder="or paste it here"></textarea> </div> <div class="control choice"><span class="label"
      id="inspect-examples">or look at one of these</span><div class="choices examples" role="group"
      aria-labelledby="inspect-examples"></div></div> <p>Shown: <strong data-value="name"></strong>. <span
      data-value="about"></span></p> <p class="soft">Dots and bars: blue pairs have seen every angle in training, grey ones a part
      of the circle and reach no further, orange ones reach angles that they have never seen. The last curve is the score of two
      like tokens: once it is negative, like tokens can score below unlike ones.</p>`,
    `<p>前面所讲的一切，
      都由模型 <code>config.json</code> 里的几个数决定。<strong>把它拖到本页任何地方</strong>，粘贴，
      或选择文件都行。它只交给提供本页的程序，不会去别处。</p>
      <div class="take"><label class="button">选择文件<input type="file" id="inspect-file" accept=".json,application/json"></label><textarea id="inspect-paste" rows="2" spellcheck="false" aria-label="在此粘贴 config.json" placeholder="或在此粘贴"></textarea></div><div class="control choice"><span class="label" id="inspect-examples">或者看看这些</span><div class="choices examples" role="group" aria-labelledby="inspect-examples"></div></div><p>正在显示：<strong data-value="name"></strong>。<span data-value="about"></span></p>
      <p class="soft">圆点与竖条：蓝色的对在训练时见过所有角度；灰色的只见过圆周的一部分，但也不会超出；橙色的会到达从未见过的角度。
      最后一条曲线是两个相同 token 的分数：一旦为负，相同的 token 就可能比不相同的得分还低。</p>`,
  ],
  ["as the file says", "按文件"],
  ["interleaved to half", "交错读、对半写"],
  ["{0}.", "{0}。"],
  [" radians per token", " 弧度/token"],
  [" tokens per turn", " 个 token 转一圈"],
  ["turns", "圈数"],
  ["Layers without rotary embedding.", "没有旋转位置编码的层。"],
  [
    "The wavelengths of {0} pairs with base {1}, and what training has seen of each.",
    "底数 {1} 下 {0} 对维度的波长，以及训练时各见过多少。",
  ],
  [
    "there is nothing in it; expected a Hugging Face config.json",
    "里面什么也没有；应为 Hugging Face 的 config.json",
  ],
  ["{0}: {1}", "{0}：{1}"],
  ["what was pasted", "粘贴的内容"],
  ["layer type", "层的类型"],
  ["Show it on the whole page", "应用到整页"],
  [
    "Sets base, features, trained and target length everywhere to those of this configuration",
    "把全页的底数、维数、训练长度和目标长度都设成这份配置的数值",
  ],
  ["Selected", "已选中"],
  ["what was dropped", "拖入的内容"],
  ["These layers have no rotary embedding to show elsewhere.", "这些层没有旋转位置编码，无法应用到别处。"],
  ["The other parts show a {0} from {1} to {2}; here it is {3}.", "其他部分的“{0}”只能从 {1} 到 {2}；这里是 {3}。"],
];
