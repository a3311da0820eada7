// ---- Linear attention of whole sequences --------------------------------------------------------------------------
// As attention/linear of the CPU: a block takes one head of one sequence, chunk by chunk, with the state S [m, e] in
// shared memory as f32. Products of a chunk and the state are made by all threads from shared memory to shared memory.

namespace linear_attention {

constexpr int THREADS = 256;

extern __shared__ __align__(16) float memory[];

// Queries and keys of the numerator, those of the denominator, values.
enum Input { QN, KN, QD, KD, V };

struct Attention {
    const void *inputs[5];  // [batch · length, heads · m], of values heads · e
    const u64 *mask;        // [batch, words]: a bit a key
    void *out;              // [batch · length, heads · e]
    const void *dout;       // as out; of the way back
    void *gradients[5];     // as the inputs; of the way back. Two of features may be the same
    float *kept;            // [batch · heads, 2, length]: 1/D and dD of every query; of the way back
    u32 accumulate[5];
    u32 length;
    u32 heads;
    u32 m;                  // features of a head
    u32 e;                  // numbers of a value
    u32 words;
    u32 chunk;              // tokens at a time
    u32 is_causal;
    u32 is_wide;            // rows of every head begin at multiples of 16 bytes
};

// ---- Products within shared memory ----

// Numbers from one row to the next: an odd number of times 16 bytes, so that neighbouring threads may read 16 bytes of
// neighbouring rows at once.
__device__ inline int padded(int width) { return (((width + 3) / 4) | 1) * 4; }
// Numbers of a row that are read: those beyond its width are 0.
__device__ inline int filled(int width) { return (width + 3) / 4 * 4; }

// A matrix in shared memory: where it begins, and the step from row to row.
struct Matrix {
    int at, row;
};

template <int N> struct __align__(4 * N) Vector {
    float x[N];
};
template <int N> __device__ inline Vector<N> read(int at) { return *(const Vector<N> *)(memory + at); }

// Which of the factors are turned.
enum Turned { NEITHER, SECOND, FIRST };
// What becomes of the result; PAST sets it, to 0 where the column is beyond the row.
enum Mode { SET, ADD, PAST };

// A thread takes DOWN × ACROSS numbers of a tile. It reads along the rows of both factors, 16 bytes or as many numbers as it
// takes, so what it takes lies side by side along the axes that rows have in the result, and 16 apart along others.
template <int TURNED, int DOWN, int ACROSS>
__device__ inline void multiply_as(Matrix out, Matrix a, Matrix b, int rows, int columns, int depth, int mode) {
    int down = threadIdx.x / 16, across = threadIdx.x % 16;
    auto row_of = [&](int top, int i) { return TURNED == FIRST ? top + DOWN * down + i : top + down + 16 * i; };
    auto column_of = [&](int left, int j) { return TURNED == SECOND ? left + across + 16 * j : left + ACROSS * across + j; };
    for (int top = 0; top < rows; top += 16 * DOWN) {
        for (int left = 0; left < columns; left += 16 * ACROSS) {
            // What is beyond the edges reads the last row or column and is not written.
            int at[DOWN], bt[ACROSS];
#pragma unroll
            for (int i = 0; i < DOWN; i++) {
                at[i] = TURNED == FIRST ? a.at + min(row_of(top, 0), (rows - 1) / DOWN * DOWN)
                                        : a.at + min(row_of(top, i), rows - 1) * a.row;
            }
#pragma unroll
            for (int j = 0; j < ACROSS; j++) {
                bt[j] = TURNED == SECOND ? b.at + min(column_of(left, j), columns - 1) * b.row
                                         : b.at + min(column_of(left, 0), (columns - 1) / ACROSS * ACROSS);
            }
            float sum[DOWN][ACROSS] = {};
            for (int k = 0; k < depth; k += 4) {
                float x[4][DOWN], y[4][ACROSS];
                if (TURNED == FIRST) {
#pragma unroll
                    for (int step = 0; step < 4; step++) {
                        Vector<DOWN> own = read<DOWN>(at[0] + (k + step) * a.row);
#pragma unroll
                        for (int i = 0; i < DOWN; i++) x[step][i] = own.x[i];
                    }
                } else {
#pragma unroll
                    for (int i = 0; i < DOWN; i++) {
                        Vector<4> own = read<4>(at[i] + k);
#pragma unroll
                        for (int step = 0; step < 4; step++) x[step][i] = own.x[step];
                    }
                }
                if (TURNED == SECOND) {
#pragma unroll
                    for (int j = 0; j < ACROSS; j++) {
                        Vector<4> own = read<4>(bt[j] + k);
#pragma unroll
                        for (int step = 0; step < 4; step++) y[step][j] = own.x[step];
                    }
                } else {
#pragma unroll
                    for (int step = 0; step < 4; step++) {
                        Vector<ACROSS> own = read<ACROSS>(bt[0] + (k + step) * b.row);
#pragma unroll
                        for (int j = 0; j < ACROSS; j++) y[step][j] = own.x[j];
                    }
                }
#pragma unroll
                for (int step = 0; step < 4; step++) {
#pragma unroll
                    for (int i = 0; i < DOWN; i++) {
#pragma unroll
                        for (int j = 0; j < ACROSS; j++) sum[i][j] += x[step][i] * y[step][j];
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < DOWN; i++) {
#pragma unroll
                for (int j = 0; j < ACROSS; j++) {
                    int row = row_of(top, i), column = column_of(left, j);
                    if (row >= rows || column >= columns) continue;
                    float &to = memory[out.at + row * out.row + column];
                    if (mode == PAST) to = column > row ? 0 : sum[i][j];
                    else to = mode == ADD ? to + sum[i][j] : sum[i][j];
                }
            }
        }
    }
}

// out [rows, columns] = a [rows, depth] · b [depth, columns], of which a factor may be stored turned. Beyond `depth`, up to a
// multiple of 4, both are 0. A number of `out` is the same thread's for the same sizes and the same turned factor.
template <int TURNED>
__device__ __noinline__ void multiply(Matrix out, Matrix a, Matrix b, int rows, int columns, int depth, int mode) {
    if (rows > 32) {
        if (columns > 32) multiply_as<TURNED, 4, 4>(out, a, b, rows, columns, depth, mode);
        else multiply_as<TURNED, 4, 2>(out, a, b, rows, columns, depth, mode);
    } else {
        if (columns > 32) multiply_as<TURNED, 2, 4>(out, a, b, rows, columns, depth, mode);
        else multiply_as<TURNED, 2, 2>(out, a, b, rows, columns, depth, mode);
    }
}

// ---- One head of one sequence ----

template <typename T> struct Head {
    const Attention &work;
    u32 sequence, head;
    int length, m, e, chunk;
    // In shared memory. Rows of a chunk: queries, keys, values; sums of the denominator; pairs; results as wide as features
    // and as values; what goes back.
    Matrix state, q, k, z, v, pairs, o, d, g;
    int carry, inverses, slopes;

    __device__ Head(const Attention &work) : work(work) {
        sequence = blockIdx.x / work.heads, head = blockIdx.x % work.heads;
        length = work.length, m = work.m, e = work.e, chunk = work.chunk;
        int next = 0;
        auto take = [&](int rows, int columns) {
            Matrix matrix = {next, padded(columns)};
            next += rows * padded(columns);
            return matrix;
        };
        state = take(filled(m), e), q = take(chunk, m), k = take(chunk, m), z = take(chunk, m);
        v = take(chunk, e), o = take(chunk, e), pairs = take(chunk, chunk);
        carry = take(1, m).at, inverses = take(1, chunk).at;
        // The rest is there on the way back alone.
        d = take(chunk, m), g = take(chunk, e), slopes = take(1, chunk).at;
    }

    // A token's numbers of this head.
    __device__ u64 place(int token, int width) const {
        return (((u64)sequence * length + token) * work.heads + head) * width;
    }
    __device__ const T *row(const void *x, int token, int width) const { return (const T *)x + place(token, width); }
    __device__ bool is_real(int token) const {
        return work.mask[(u64)sequence * work.words + token / 64] >> token % 64 & 1;
    }
    __device__ float *kept(int which) const { return work.kept + ((u64)blockIdx.x * 2 + which) * length; }

    // Rows of a chunk to shared memory. Zeros beyond the length and, of keys, for padding: what is in its memory, even if no
    // number, then never reaches a sum. `scales` are numbers of tokens that rows are multiplied with, or null.
    __device__ void gather(Matrix to, const void *from, int width, int first, bool are_keys, const float *scales) const {
        if (work.is_wide) gather_as<Wide<T>::COUNT>(to, from, width, first, are_keys, scales);
        else gather_as<1>(to, from, width, first, are_keys, scales);
    }
    template <int COUNT>
    __device__ void gather_as(Matrix to, const void *from, int width, int first, bool are_keys, const float *scales) const {
        struct __align__(sizeof(T) * COUNT) Piece {
            T x[COUNT];
        };
        int pieces = filled(width) / COUNT;
        for (int index = threadIdx.x; index < chunk * pieces; index += THREADS) {
            int row = index / pieces, column = index % pieces * COUNT, token = first + row;
            float *x = memory + (to.at + row * to.row + column);
            if (token < length && column < width && (!are_keys || is_real(token))) {
                Piece piece = *(const Piece *)(this->row(from, token, width) + column);
                float scale = scales ? scales[token] : 1;
#pragma unroll
                for (int i = 0; i < COUNT; i++) x[i] = scale * widen(piece.x[i]);
            } else {
#pragma unroll
                for (int i = 0; i < COUNT; i++) x[i] = 0;
            }
        }
    }
    __device__ void gather_keys(int first) const {
        gather(k, work.inputs[KN], m, first, true, nullptr);
        gather(v, work.inputs[V], e, first, true, nullptr);
    }

    __device__ void clear() const {
        for (int i = threadIdx.x; i < filled(m) * state.row; i += THREADS) memory[state.at + i] = 0;
        for (int i = threadIdx.x; i < m; i += THREADS) memory[carry + i] = 0;
    }

    // Rows of z become the sums up to them, from what was carried on; or down to them.
    __device__ void scan(bool is_back) const {
        for (int i = threadIdx.x; i < m; i += THREADS) {
            float sum = memory[carry + i];
            for (int step = 0; step < chunk; step++) {
                float &x = memory[z.at + (is_back ? chunk - 1 - step : step) * z.row + i];
                x = sum += x;
            }
            memory[carry + i] = sum;
        }
    }

    // The sums of keys that a row of the chunk sees: its own, or all.
    __device__ int seen(int row) const { return work.is_causal ? z.at + row * z.row : carry; }

    // The inner product of a token's row of x and a row of shared memory, by the neighbouring threads of a row; all of them
    // have it. `scale` is what each product is multiplied with.
    __device__ float dot(const void *x, int token, int with, float scale) const {
        int parts = THREADS / chunk;
        float sum = 0;
        if (token < length) {
            const T *own = this->row(x, token, m);
#pragma unroll 4
            for (int i = threadIdx.x % parts; i < m; i += parts) sum += widen(own[i]) * (memory[with + i] * scale);
        }
        return sum_of_lanes(sum, parts);
    }
    // The row of the chunk that a thread has a part of.
    __device__ int own_row() const { return threadIdx.x / (THREADS / chunk); }

    // 1/D of every query of a chunk, 0 where D is.
    __device__ void invert(int first) const {
        int row = own_row();
        float sum = dot(work.inputs[QD], first + row, seen(row), 1);
        memory[inverses + row] = sum == 0 ? 0 : 1 / sum;
    }

    // Calls `each` for all numbers of a chunk's rows, with row, column and place in memory.
    template <typename Each> __device__ void each(int first, int width, Each each) const {
        int rows = min(chunk, length - first);
        for (int index = threadIdx.x; index < rows * width; index += THREADS) {
            int row = index / width, column = index % width;
            each(row, column, place(first + row, width) + column);
        }
    }

    // S += Σ k vᵀ over the chunk.
    __device__ void add_state() const { multiply<FIRST>(state, k, v, m, e, chunk, ADD); }

    // All keys, at once.
    __device__ void sum_keys() const {
        for (int first = 0; first < length; first += chunk) {
            gather_keys(first);
            gather(z, work.inputs[KD], m, first, true, nullptr);
            __syncthreads();
            add_state();
            scan(false);
            __syncthreads();
        }
    }

    __device__ void forward() const {
        clear();
        __syncthreads();
        if (!work.is_causal) sum_keys();
        for (int first = 0; first < length; first += chunk) {
            gather(q, work.inputs[QN], m, first, false, nullptr);
            if (work.is_causal) {
                gather_keys(first);
                gather(z, work.inputs[KD], m, first, true, nullptr);
            }
            __syncthreads();
            if (work.is_causal) {
                scan(false);
                multiply<SECOND>(pairs, q, k, chunk, chunk, m, PAST);
                __syncthreads();
            }
            multiply<NEITHER>(o, q, state, chunk, e, m, SET);
            if (work.is_causal) multiply<NEITHER>(o, pairs, v, chunk, e, chunk, ADD);
            invert(first);
            __syncthreads();
            each(first, e, [&](int row, int i, u64 at) {
                narrow(memory[o.at + row * o.row + i] * memory[inverses + row], ((T *)work.out)[at]);
            });
            if (work.is_causal) add_state();
            __syncthreads();
        }
    }

    // ---- The way back ----

    __device__ static void give(void *to, u64 at, float x, bool accumulate) {
        T &number = ((T *)to)[at];
        narrow(accumulate ? widen(number) + x : x, number);
    }
    // The gradients of two inputs; where they go to the same place, their sum, which is set if either is.
    __device__ void give_both(Input a, Input b, u64 at, float x, float y) const {
        if (work.gradients[a] == work.gradients[b]) {
            return give(work.gradients[a], at, x + y, work.accumulate[a] && work.accumulate[b]);
        }
        give(work.gradients[a], at, x, work.accumulate[a]);
        give(work.gradients[b], at, y, work.accumulate[b]);
    }

    // The gradients of a chunk's queries.
    __device__ void queries(int first) const {
        gather(g, work.dout, e, first, false, nullptr);
        if (work.is_causal) {
            gather_keys(first);
            gather(z, work.inputs[KD], m, first, true, nullptr);
        }
        __syncthreads();
        if (work.is_causal) {
            scan(false);
            multiply<SECOND>(pairs, g, v, chunk, chunk, e, PAST);
            __syncthreads();
        }
        multiply<SECOND>(d, g, state, chunk, m, e, SET);
        if (work.is_causal) {
            __syncthreads();
            multiply<NEITHER>(d, pairs, k, chunk, m, chunk, ADD);
        }
        invert(first);
        __syncthreads();
        int own = own_row(), token = first + own;
        float inverse = memory[inverses + own];
        // dD = −(qn·dqn)/D
        float slope = -dot(work.inputs[QN], token, d.at + own * d.row, inverse) * inverse;
        memory[slopes + own] = slope;
        if (token < length && threadIdx.x % (THREADS / chunk) == 0) kept(0)[token] = inverse, kept(1)[token] = slope;
        __syncthreads();
        each(first, m, [&](int row, int i, u64 at) {
            float own = memory[d.at + row * d.row + i] * memory[inverses + row];
            give_both(QN, QD, at, own, memory[slopes + row] * memory[seen(row) + i]);
        });
        if (work.is_causal) add_state();
        __syncthreads();
    }

    // What goes back from a chunk's queries to keys: q, g = dN, z = dD·qd.
    __device__ void gather_slopes(int first) const {
        gather(q, work.inputs[QN], m, first, false, nullptr);
        gather(g, work.dout, e, first, false, kept(0));
        gather(z, work.inputs[QD], m, first, false, kept(1));
    }

    // The gradients of a chunk's keys and values, with dS in place of S.
    __device__ void keys(int first) const {
        gather_keys(first);
        if (work.is_causal) gather_slopes(first);
        __syncthreads();
        if (work.is_causal) {
            scan(true);
            // Pairs as rows of queries, as everywhere; the products read them turned.
            multiply<SECOND>(pairs, g, v, chunk, chunk, e, PAST);
            __syncthreads();
        }
        multiply<SECOND>(d, v, state, chunk, m, e, SET);
        multiply<NEITHER>(o, k, state, chunk, e, m, SET);
        if (work.is_causal) {
            __syncthreads();
            multiply<FIRST>(d, pairs, q, chunk, m, chunk, ADD);
            __syncthreads();
            multiply<SECOND>(pairs, q, k, chunk, chunk, m, PAST);
            __syncthreads();
            multiply<FIRST>(o, pairs, g, chunk, e, chunk, ADD);
        }
        __syncthreads();
        each(first, m, [&](int row, int i, u64 at) {
            float sum = is_real(first + row) ? memory[seen(row) + i] : 0;
            give_both(KN, KD, at, memory[d.at + row * d.row + i], sum);
        });
        each(first, e, [&](int row, int i, u64 at) {
            give(work.gradients[V], at, memory[o.at + row * o.row + i], work.accumulate[V]);
        });
        if (work.is_causal) multiply<FIRST>(state, q, g, m, e, chunk, ADD);
        __syncthreads();
    }

    __device__ void backward() const {
        clear();
        __syncthreads();
        if (!work.is_causal) sum_keys();
        for (int first = 0; first < length; first += chunk) queries(first);
        clear();
        __syncthreads();
        if (!work.is_causal) {
            for (int first = 0; first < length; first += chunk) {
                gather_slopes(first);
                __syncthreads();
                multiply<FIRST>(state, q, g, m, e, chunk, ADD);
                scan(false);
                __syncthreads();
            }
        }
        for (int first = (length - 1) / chunk * chunk; first >= 0; first -= chunk) keys(first);
    }
};

}  // namespace linear_attention

#define LINEAR(kind, T)                                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        linear_forward_##kind(const __grid_constant__ linear_attention::Attention work) {                              \
        linear_attention::Head<T>(work).forward();                                                                     \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        linear_backward_##kind(const __grid_constant__ linear_attention::Attention work) {                             \
        linear_attention::Head<T>(work).backward();                                                                    \
    }
LINEAR(f32, float)
LINEAR(bf16, bf16)
