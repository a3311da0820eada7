// Chinese: the part pairing. Each entry is the English as the code has it, and what is said for it.
export default [
  ["Which two features form a pair", "哪两维成一对"],
  [
    `<p>All that was said holds for any way of choosing the pairs, and models choose differently. With d features:</p>
      <p><strong>Interleaved</strong>: neighbours, 2j and 2j+1. The RoFormer paper, GPT-J, GLM, Cohere.<br> <strong>Half</strong>:
      j and j + d/2. GPT-NeoX, Llama, Qwen, MiniMind.<br> <strong>Interleaved to half</strong>: neighbours when read, halves when
      written. DeepSeek, RoFormer_pytorch. Scores are those of interleaved; the turned vectors come out in another order.</p>
      <p>On (1, 2, 3, 4) the two make different vectors. On (1, 0, 0, 1) they make the same numbers in another order, because each
      pair gets the same two numbers either way: a test on that vector proves nothing. <span data-value="verdict"></span></p>
      <p>The pairing belongs to the weights. Run under the other one they are another model, and nothing complains. Permute the
      rows of the weights that make queries and keys, so that every pair finds its two numbers in its own places, and <strong>the
      scores are what they were</strong>. (Llama's own code is interleaved; its weights were permuted for Hugging Face.)</p>`,
    `<p>前面所讲的，不管怎样配对都成立，而各个模型配对的方式并不相同。设有 d 维：</p>
      <p><strong>交错（interleaved）</strong>：相邻两维，2j 与 2j+1。
      RoFormer 论文、GPT-J、GLM、Cohere。<br><strong>对半（half）</strong>：j 与 j + d/2。
      GPT-NeoX、Llama、Qwen、MiniMind。<br><strong>交错读、对半写</strong>：读时取相邻两维，
      写时放到前后两半。DeepSeek、RoFormer_pytorch。分数与交错相同，只是转后的向量换了排列。</p>
      <p>对 (1, 2, 3, 4)，两种配对得到不同的向量。对 (1, 0, 0, 1)，得到的数相同、只是次序不同，因为无论怎样配对，
      每对拿到的都是那两个数：用这个向量做测试，什么也证明不了。<span data-value="verdict"></span></p>
      <p>配对方式属于权重。换一种方式去跑，就成了另一个模型，而且不会有任何报错。把产生查询和键的权重按行重排，
      使每一对在自己的位置上找到原来的两个数，<strong>分数就与原来一样</strong>。（Llama 自己的代码是交错的；
      放到 Hugging Face 上的权重重排过。）</p>`,
  ],
  ["query, 4 to 16 numbers", "查询，4 到 16 个数"],
  ["permute the weights for half", "为对半方式重排权重"],
  ["queries to try", "可以试试"],
  ["1 to 8", "1 到 8"],
  ["16 features", "16 维"],
  ["The query here is such a vector.", "现在的查询正是这种向量。"],
  ["The query here is not such a vector: the results differ.", "现在的查询不是这种向量：两种结果不同。"],
  ["pair 0", "第 0 对"],
  ["turned by ", "转过 "],
  ["half, permuted", "对半，已重排"],
  ["✓ as trained", "✓ 与训练时相同"],
  ["✗ another score", "✗ 分数变了"],
  [
    `<p class="soft">Weights trained interleaved, a query at {0}, the key {1} at {2}:</p> <table><thead><tr><th>run
      as</th><th>score</th><th></th></tr></thead><tbody> {3}{4} {5}{6}</tbody></table>`,
    `<p class="soft">权重按交错方式训练，查询在 {0}，键 {1} 在 {2}：</p>
      <table><thead><tr><th>运行方式</th><th>分数</th><th></th></tr></thead><tbody>{3}{4}{5}{6}</tbody></table>`,
  ],
  ["half, with the same weights", "对半，权重不变"],
  ["query interleaved, key half", "查询交错，键对半"],
  ["half, with permuted weights", "对半，权重重排"],
  ["interleaved: 2j, 2j+1", "交错：2j、2j+1"],
  ["half, weights permuted", "对半，权重已重排"],
  ["half: j, j+d/2", "对半：j、j+d/2"],
  ["turned, at m = {0}", "转后，m = {0}"],
  [
    "Feature {0} forms pair {1} with feature {2}: {3}, turned {4}.",
    "第 {0} 维与第 {2} 维组成第 {1} 对：{3}，转后 {4}。",
  ],
  [
    "A query {0} under two pairings. Interleaved it becomes {1}, half{2} {3}.",
    "查询 {0} 的两种配对。交错得到 {1}，对半{2}得到 {3}。",
  ],
  [" with permuted weights", "（权重已重排）"],
];
