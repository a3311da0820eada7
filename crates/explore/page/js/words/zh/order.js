// Chinese: the part order. Each entry is the English as the code has it, and what is said for it.
export default [
  ["Shuffle", "打乱"],
  ["Reverse", "倒过来"],
  ["As written", "恢复原样"],
  ["order: drag words in the figure, or choose one here and press ← or →", "顺序：在图中拖动词，或在这里选中一个再按 ← →"],
  ["{0}, place {1}; arrow keys move it", "{0}，位置 {1}；按方向键移动"],
  ["0,5,2,3,4,1", "2,1,0"],
  ["Without positions there is no order", "没有位置，就没有顺序"],
  [
    `<p>In attention every word looks at every word. The one that looks has a query q, the one looked at a key k, and their
      product is the score. Both are made of the word’s own vector, and that is the same wherever the word stands.</p> <p>Drag a
      word to another place. The matrix of scores QKᵀ does change, but only as a table that is sorted anew: it becomes P·QKᵀ·Pᵀ,
      its rows and columns moved. <strong>Every word gets the very same output.</strong> That a dog bites a man or a man a dog is
      all the same; and a word that comes twice gets the same output twice.</p> <p>Same outputs: <output class="big"
      data-value="same"></output>. The largest change of any word’s output is <output data-value="largest"></output><span
      data-value="reason"></span>.</p> <p>A <em>causal mask</em>, under which a word sees only itself and what stands before it,
      breaks this symmetry alone, without any code of positions. <em>Rotary embedding</em> breaks it too: it turns queries and
      keys by their places.</p>`,
    `<p>在注意力里，每个词都去看所有的词。看的一方有查询 q，被看的一方有键 k，两者的内积就是分数。q 和 k 都由词自己的向量算出，
      而词不论排在哪里，这个向量都一样。</p><p>把一个词拖到别处。分数矩阵 QKᵀ 确实变了，但只像表格重新排序一样：变成 P·QKᵀ·Pᵀ，
      行与列换了位置。<strong>每个词得到的输出却丝毫未变。</strong>“我爱你”还是“你爱我”，对它是一回事；同一个词出现两次，
      两次的输出也相同。</p><p>输出相同：<output class="big" data-value="same"></output>。
      所有词中，
      输出的最大变化是 <output data-value="largest"></output><span data-value="reason"></span>。</p>
      <p><em>因果掩码</em>让每个词只看见自己和前面的词，不用任何位置编码就能打破这种对称。<em>旋转位置编码</em>也能打破：
      它按位置转动查询和键。</p>`,
  ],
  ["places", "位置"],
  ["causal mask", "因果掩码"],
  ["rotary embedding", "旋转位置编码"],
  ["show", "显示"],
  ["scores QKᵀ/√d", "分数 QKᵀ/√d"],
  ["attention weights", "注意力权重"],
  [": words see others than before, at other distances", "：各词看到的词与先前不同，距离也不同"],
  [": words see others than before", "：各词看到的词与先前不同"],
  [": scores now depend on distances", "：分数现在与距离有关"],
  [", which is rounding", "，只是舍入误差"],
  [": no word has moved", "：没有词移动过"],
  ["yes", "是"],
  ["no", "否"],
  ["as it stands now", "现在的顺序"],
  ["as written", "原来的顺序"],
  ["Blue +, orange −.", "蓝正，橙负。"],
  ["Blue is positive, orange negative.", "蓝色为正，橙色为负。"],
  ["Rows look at columns. {0}", "每行看各列。{0}"],
  ["Deep is much, pale is little.", "颜色越深，权重越大。"],
  ["“{0}” does not see “{1}”", "“{0}”看不见“{1}”"],
  ["“{0}” looks at “{1}”: score {2}, weight {3}", "“{0}”看“{1}”：分数 {2}，权重 {3}"],
  ["Attention scores of a sentence as written and as it stands now: {0}. ", "一个句子原来的顺序与现在的顺序下的注意力分数：{0}。"],
  ["The largest change of any word’s output is {0}.", "所有词中，输出的最大变化是 {0}。"],
  ["each word’s output", "每个词的输出"],
  ["now", "现在"],
  ["change", "变化"],
];
