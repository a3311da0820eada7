// Chinese: the part complex. Each entry is the English as the code has it, and what is said for it.
export default [
  ["A complex number is a rotation", "复数就是旋转"],
  [
    `<p>Two features of a query are a point (x, y) of the plane, or one complex number z = x + iy. Drag <em>z</em>, or drag what
      it becomes when it is multiplied by e<sup>iθ</sup> = cos θ + i sin θ: <strong>a turn by θ that keeps the length.</strong> A
      matrix does the same to the pair (x, y), and that is all that rotary embedding does to a pair of features.</p> <p>By length
      and angle, z = r (cos φ + i sin φ) with r = <output data-value="radius"></output> and φ = atan2(y, x) = <output
      data-value="phase"></output>; arctan(y/x) would give <output data-value="arctangent"></output>: it does not tell a point
      from the one opposite (drag z to the left half).</p> <p>Every z is a matrix, which turns by φ and stretches by r. The unit
      square becomes a square of side r, so the determinant of the matrix is its area, |z|² = <output
      data-value="determinant"></output>.</p> <p>The conjugate k* has the angle of k with the other sign. In z·k* the angles are
      subtracted, and the real part is the inner product ⟨z, k⟩ = <output class="big" data-value="inner"></output>. With
      e<sup>imθ</sup> in z and e<sup>inθ</sup> in k, what is left of both turns is e<sup>i(m−n)θ</sup>.</p>`,
    `<p>查询的两维是平面上的点 (x, y)，也就是一个复数 z = x + iy。拖动 <em>z</em>，
      或者拖动它乘以 e<sup>iθ</sup> = cos θ + i sin θ 之后的样子：<strong>转过 θ，
      长度不变。</strong>用矩阵乘 (x, y) 也是同一件事；旋转位置编码对一对维度做的，不过如此。</p><p>用长度和角度来写，
      z = r (cos φ + i sin φ)，其中 r = <output data-value="radius"></output>，
      φ = atan2(y, x) = <output data-value="phase"></output>；若用 arctan(y/x)，
      得到的是 <output data-value="arctangent"></output>：
      它分不清一个点和它对面的点（把 z 拖到左半边试试）。</p><p>每个 z 都是一个矩阵：转过 φ，长度变为 r 倍。
      单位正方形变成边长为 r 的正方形，所以矩阵的行列式就是它的面积，
      |z|² = <output data-value="determinant"></output>。</p>
      <p>共轭 k* 的角度与 k 的大小相同，符号相反。在 z·k* 里角度相减，
      实部正是内积 ⟨z, k⟩ = <output class="big" data-value="inner"></output>。
      给 z 乘上 e<sup>imθ</sup>、给 k 乘上 e<sup>inθ</sup>，
      两次旋转最后只剩 e<sup>i(m−n)θ</sup>。</p>`,
  ],
  ["real part of z, x", "z 的实部 x"],
  ["imaginary part of z, y", "z 的虚部 y"],
  ["angle θ, in degrees", "角度 θ（度）"],
  ["real part of k", "k 的实部"],
  ["imaginary part of k", "k 的虚部"],
  ["nothing, as x is 0", "没有值（x 为 0）"],
  [
    "The plane with z = {0} + {1}i, z turned by {2} degrees to {3} + {4}i, ",
    "复平面：z = {0} + {1}i，转过 {2} 度后到 {3} + {4}i，",
  ],
  [
    "and k. Beside it the unit square, which z as a matrix makes {0} times as large.",
    "另有 k。旁边是单位正方形，z 作为矩阵把它的面积变为 {0} 倍。",
  ],
  ["the unit square under z", "z 作用下的单位正方形"],
  ["area {0} = |z|²", "面积 {0} = |z|²"],
];
