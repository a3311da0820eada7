// Chinese: the part extension. Each entry is the English as the code has it, and what is said for it.
export default [
  ["saw every angle in training", "训练时见过所有角度"],
  ["saw a part, reaches no more", "见过一部分，也不会超出"],
  ["reaches angles never seen", "会到达从未见过的角度"],
  ["slower by, θ/θ′", "减慢倍数 θ/θ′"],
  ["linear (PI)", "线性内插（PI）"],
  ["dynamic NTK", "动态 NTK"],
  ["the fastest pair", "最快的一对"],
  ["a quarter of the pairs", "四分之一处"],
  ["half of the pairs", "一半处"],
  ["three quarters", "四分之三处"],
  ["the slowest pair", "最慢的一对"],
  [
    "None: every pair turns on as before, and the slow ones leave all that training has shown.",
    "不处理：每对照旧转下去，慢的几对会走出训练见过的范围。",
  ],
  [
    `Linear, or position interpolation, squeezes every position by the stretch s: no new angles at all, but every pair loses
      resolution, the fastest ones too. It needs some fine-tuning.`,
    "线性内插（位置内插）把所有位置除以 s：不会出现任何新角度，但每一对都损失分辨率，最快的也不例外。需要一些微调。",
  ],
  [
    `NTK-aware takes a larger base, such that the fastest pair is kept and the slowest slowed by s: the ones between are slowed
      by less than s, and some of the slow ones among them still leave the known angles.`,
    "NTK-aware 换一个更大的底数，使最快的一对不变，最慢的一对频率除以 s：中间各对的除数都小于 s，其中较慢的一些仍会走出已知的角度。",
  ],
  [
    `Dynamic NTK is NTK-aware by the length of the text so far: nothing changes within the trained length, and then the base
      grows with every token (the thin lines: on the way to the target). Keys in a cache were turned with an older base, and must
      be turned again.`,
    `动态 NTK 是随当前文本长度变化的 NTK-aware：训练长度以内什么都不变，
      之后每多一个 token 底数就增大一点（细线是通往目标途中的样子）。缓存里的键是用旧的底数转的，必须重新转。`,
  ],
  [
    `YaRN asks how often a pair turned in training: 32 times or more and it is kept, once or less and it is slowed by s, with a
      ramp between. It also scales queries and keys a little, so that attention stays sharp among more tokens.`,
    `YaRN 看一对维度在训练时转了几圈：32 圈及以上的不变，1 圈及以下的频率除以 s，中间逐渐过渡。它还把查询和键略微放大，
      使注意力在更多 token 之间仍然集中。`,
  ],
  [
    `LongRoPE gives each pair a divisor of its own, found by a search that measures a real model. Drag the points to make up a
      list; it never falls from a pair to the next. Real lists come from that search, and no formula gives them.`,
    `LongRoPE 给每对维度各自的除数，由在真实模型上的搜索得到。拖动各点可以自己编一组；除数从一对到下一对从不减小。
      真正的数值只来自那样的搜索，没有公式。`,
  ],
  [
    `Llama 3 is like YaRN with other marks: kept from 4 turns in training on, slowed by s up to one, a ramp between, and no
      scaling. Its models were then trained on long texts.`,
    `Llama 3 与 YaRN 相似，只是界线不同：训练时转 4 圈及以上的不变，1 圈及以下的频率除以 s，中间逐渐过渡，也不放大。
      模型随后又在长文本上训练过。`,
  ],
  ["and nothing changes", "什么都不变"],
  [" for the first {0} pairs, ", "（前 {0} 对），"],
  [" for the last {0}", "（后 {0} 对）"],
  ["with ", "其中 "],
  [" beyond ", "，超过 "],
  [" to ", " 到 "],
  [" within 0 and 1", "，限制在 0 与 1 之间"],
  ["Reaching further than training", "比训练走得更远：外推"],
  [
    `<p>Each pair of features is a hand of a clock. A full turn takes it 2π/θ tokens, its <em>wavelength</em>: about 6 tokens for
      the fastest pair, <output data-value="slowest"></output> for the slowest. Training on <output data-value="length"></output>
      tokens showed the model every angle of the fast pairs. But <output data-value="never"></output> of <output
      data-value="pairs"></output> pairs never came round once: of their circle the model knows only a part.</p> <p><strong>Past
      the trained length these slow pairs turn on, to angles that the model has never met.</strong> Nothing in its weights says
      what they mean, and answers fall apart there. The fast pairs are no trouble: they only see known angles again.</p> <p>So
      every method slows pairs down, to fit <output data-value="context"></output> tokens into the angles that were seen, and not
      every method gets there: the table counts the pairs that still reach beyond. They differ in which pairs they slow, and fast
      pairs have a price: they tell neighbouring tokens apart, and slowed down they do so less well.</p> <p
      data-value="about"></p> <p>At the target <output class="big" data-value="unseen"></output> of <output
      data-value="pairs"></output> pairs reach angles never seen, and <output data-value="kept"></output> turn exactly as before.
      At the fastest pair, neighbouring tokens come closer by a factor of <output data-value="crowding"></output>. Turned vectors
      are scaled by <output data-value="attention"></output>.</p> <p class="soft">The base sets how slow the slow pairs are. A
      larger one keeps more of them within their first turn and leaves room for long texts, if the model is trained with it.
      Changed afterwards it moves every angle but those of pair 0, which is what NTK-aware does on purpose.</p>`,
    `<p>每对维度是一根时钟指针。转满一圈要 2π/θ 个 token，这就是它的<em>波长</em>：最快的一对约 6 个 token，
      最慢的 <output data-value="slowest"></output> 个。
      在 <output data-value="length"></output> 个 token 上训练，模型见过快的那些对的所有角度；
      但 <output data-value="pairs"></output> 对里有 <output data-value="never"></output> 对一圈也没转完：
      它们的圆，模型只认识一部分。</p><p><strong>超过训练长度后，这些慢的对继续转，
      转到模型从未见过的角度。</strong>权重里没有任何东西说明那些角度的含义，回答到这里就乱了。快的对没有问题：
      它们只是再次经过熟悉的角度。</p><p>所以各种方法都让指针慢下来，
      好把 <output data-value="context"></output> 个 token 装进见过的角度里——不过并非都能做到，
      表里列出了每种方法下还有几对会超出。方法之间的差别在于减慢哪些对；而减慢快的对是有代价的：它们负责分清相邻的 token，慢了就分得不那么清楚。</p>
      <p data-value="about"></p>
      <p>在目标长度，<output data-value="pairs"></output> 对中有 <output class="big" data-value="unseen"></output> 对到达从未见过的角度，<output data-value="kept"></output> 对与原来完全一样。
      在最快的一对上，相邻 token 的角度差除以 <output data-value="crowding"></output>。
      转后的向量乘以 <output data-value="attention"></output>。</p>
      <p class="soft">底数决定慢的对有多慢。底数越大，留在第一圈以内的对越多，给长文本留的余地越大——前提是模型就用这个底数训练。
      训练之后再改，除第 0 对外所有角度都会变；NTK-aware 正是有意这样做。</p>`,
  ],
  ["method", "方法"],
  ["show the difference to plain RoPE, θ/θ′", "显示与普通 RoPE 的差别 θ/θ′"],
  ["slower by s to the power, at {0}", "除以 s 的几次方，{0}"],
  [
    `<table><thead><tr><th scope="col">method</th><th scope="col">unseen pairs</th><th scope="col">unchanged pairs</th> <th
      scope="col">neighbours closer by</th><th scope="col">attention factor</th></tr></thead><tbody>{0}</tbody></table>`,
    `<table><thead><tr><th scope="col">方法</th><th scope="col">超出的对</th><th scope="col">不变的对</th><th scope="col">角度差除以</th><th scope="col">注意力系数</th></tr></thead><tbody>{0}</tbody></table>`,
  ],
  ["{0} turns", "{0} 圈"],
  ["as in plain RoPE", "与普通 RoPE 相同"],
  ["{0} times slower than in plain RoPE", "频率是普通 RoPE 的 1/{0}"],
  [
    "Pair {0}: a turn takes {1} tokens, {2}; {3} in training, {4} at the target.",
    "第 {0} 对：转一圈要 {1} 个 token，{2}；训练时转 {3}，目标长度转 {4}。",
  ],
  [
    `The wavelength of each of {0} pairs under seven methods, against the trained length {1} and the target length {2}. Under
      {3}, {4} pairs reach angles never seen in training.`,
    "七种方法下 {0} 对维度各自的波长，对照训练长度 {1} 与目标长度 {2}。采用 {3} 时，{4} 对到达训练时从未见过的角度。",
  ],
];
