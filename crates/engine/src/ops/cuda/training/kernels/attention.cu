// ---- Attention for training: what its forward and its backward share ------------------------------------------------
//
// Tiles of 16·N queries and as many keys, of heads of up to D features, in f32. 256 threads, 16 by 16: thread (down, across)
// computes the scores of queries down + 16·i and keys across + 16·j, and of vectors, one for each query (or key) down + 16·n,
// the features that `column_of` gives it. A score's distance has a slot, query − key + 16·N − 1 within the tile, so those of
// a thread lie 16 apart: it needs 2·N − 1 of the vectors of a table for its N·N scores. A band is the vectors of all slots; that
// of a table that keys meet has them from the last to the first: keys find theirs there as queries do elsewhere.
//
// Tokens' numbers are f32 or bf16 by a flag: only where they are read and written does it matter.

namespace attention {

constexpr u32 THREADS = 256;

// The beginning of what changes from step to step.
struct Scalars {
    u64 seed, step;
    u32 is_training;
};

// Vectors or numbers by distance.
struct Rows {
    const float *values;  // [rows, heads, head_dim], a bias: [heads, rows]; null: none
    float *gradient;      // as the values, added to; null: not wanted
    const u32 *index;     // [2·length − 1]
    u32 rows, heads;
};

struct Work {
    const void *joined;  // [batch·length, heads + 2·key_heads, head_dim]
    void *out;           // [batch·length, heads, head_dim]
    float *lse;          // [batch·length, heads]
    const u64 *mask;     // [batch, ⌈length / 64⌉]
    const Scalars *scalars;
    const float *content, *position;  // [heads, head_dim]; null: none
    Rows bias, query, key, value;
    const void *slope;  // the gradient of out
    void *given;        // the gradient of joined
    float *content_gradient, *position_gradient;
    float *delta;  // [batch·length, heads]: each query's sum of result times gradient
    const u32 *segments;  // [batch·length]; null: scores have nothing of segments
    const float *segment_query, *segment_vectors;  // [heads, head_dim], and [2, heads, head_dim]: of the same, of another
    float *segment_query_gradient, *segment_vectors_gradient;
    u64 site;
    u32 length, heads, key_heads, head_dim;
    u32 tiles;  // ⌈length / (16·N)⌉
    u32 is_causal, is_bf16;
    u32 is_wide;  // vectors begin at multiples of 4 numbers
    u32 is_dropping, threshold;
    u32 window;  // tokens as far away as this or further are not seen; 0: none is too far
    float scale, keep;
};

template <int N, int D> struct Sizes {
    static constexpr int ROWS = 16 * N, STEP = D + 4, SCORES = ROWS + 4, SLOTS = 2 * ROWS;
    static constexpr int COLUMNS = D / 16, WIDE = COLUMNS < 4 ? COLUMNS : 4;
    static constexpr int QUADS = (ROWS * D / 4 + 255) / 256;
    static constexpr int VECTORS = ROWS * STEP, WEIGHTS = ROWS * SCORES;
};

__device__ inline u32 down() { return threadIdx.x / 16; }
__device__ inline u32 across() { return threadIdx.x % 16; }

// Which feature is number c of a thread's.
template <int D> __device__ inline u32 column_of(int c) {
    constexpr int WIDE = Sizes<1, D>::WIDE;
    return across() * WIDE + c / WIDE * 16 * WIDE + c % WIDE;
}

// ---- Reading and writing --------------------------------------------------------------------------------------------

// V numbers that lie side by side in shared memory.
template <int V> __device__ inline void take(float *to, const float *from) {
    if (V == 4) {
        float4 x = *(const float4 *)from;
        to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
    } else {
        float2 x = *(const float2 *)from;
        to[0] = x.x, to[1] = x.y;
    }
}

// A thread's features of a vector in shared memory.
template <int D> __device__ inline void take_columns(float *to, const float *from) {
    constexpr int WIDE = Sizes<1, D>::WIDE;
#pragma unroll
    for (int c = 0; c < D / 16; c += WIDE) take<WIDE>(to + c, from + column_of<D>(c));
}

__device__ inline float low(u32 pair) { return __uint_as_float(pair << 16); }
__device__ inline float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

// Bytes of a token's numbers.
__device__ inline u32 bytes(const Work &work, u32 numbers) { return numbers << (work.is_bf16 ? 1 : 2); }

// A token's number, by its address.
__device__ inline float read(const Work &work, const char *from) {
    return work.is_bf16 ? widen(*(const bf16 *)from) : *(const float *)from;
}

// 4 of them, where vectors are wide.
__device__ inline void read_wide(const Work &work, const char *from, float *to) {
    if (work.is_bf16) {
        uint2 x = *(const uint2 *)from;
        to[0] = low(x.x), to[1] = high(x.x), to[2] = low(x.y), to[3] = high(x.y);
    } else {
        take<4>(to, (const float *)from);
    }
}

template <int V> __device__ inline void write(const Work &work, char *to, u32 left, const float *from) {
    if (!work.is_wide) {
#pragma unroll
        for (u32 v = 0; v < V; v++) {
            if (v >= left) continue;
            if (work.is_bf16) {
                narrow(from[v], ((bf16 *)to)[v]);
            } else {
                ((float *)to)[v] = from[v];
            }
        }
    } else if (work.is_bf16) {
        if (V == 4) {
            *(uint2 *)to = make_uint2(pack(from[0], from[1]), pack(from[2], from[3]));
        } else {
            *(u32 *)to = pack(from[0], from[1]);
        }
    } else if (V == 4) {
        *(float4 *)to = make_float4(from[0], from[1], from[2], from[3]);
    } else {
        *(float2 *)to = make_float2(from[0], from[1]);
    }
}

// A thread's features of a vector, into that of a token.
template <int D> __device__ inline void write_columns(const Work &work, char *to, const float *from) {
    constexpr int WIDE = Sizes<1, D>::WIDE;
#pragma unroll
    for (int c = 0; c < D / 16; c += WIDE) {
        u32 column = column_of<D>(c);
        if (column < work.head_dim) write<WIDE>(work, to + bytes(work, column), work.head_dim - column, from + c);
    }
}

// The vectors of a tile on their way to shared memory: wide ones are all asked for before any is waited for.
template <int N, int D> struct Fetched {
    using S = Sizes<N, D>;
    float x[S::QUADS][4];
    const char *from;
    u32 step, rows;

    // `rows` vectors, `step` numbers apart; the others are zeros.
    __device__ inline void fetch(const Work &work, const char *from, u32 step, u32 rows) {
        this->from = from, this->step = step, this->rows = rows;
#pragma unroll
        for (int quad = 0; quad < S::QUADS; quad++) {
            u32 i = threadIdx.x + quad * THREADS, row = i / (D / 4), column = i % (D / 4) * 4;
#pragma unroll
            for (int v = 0; v < 4; v++) x[quad][v] = 0;
            if (work.is_wide && row < rows && column < work.head_dim)
                read_wide(work, from + bytes(work, row * step + column), x[quad]);
        }
    }

    __device__ inline void place(const Work &work, float *to) const {
        if (!work.is_wide) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < S::ROWS * D; i += THREADS) {
                u32 row = i / D, column = i % D;
                bool is_there = row < rows && column < work.head_dim;
                to[row * S::STEP + column] = is_there ? read(work, from + bytes(work, row * step + column)) : 0;
            }
            return;
        }
#pragma unroll
        for (int quad = 0; quad < S::QUADS; quad++) {
            u32 i = threadIdx.x + quad * THREADS, row = i / (D / 4), column = i % (D / 4) * 4;
            if (row >= S::ROWS) continue;
            *(float4 *)(to + row * S::STEP + column) = make_float4(x[quad][0], x[quad][1], x[quad][2], x[quad][3]);
        }
    }
};

// Where the vector of a head of a token begins: among joined ones (queries, then keys, then values), and among results.
__device__ inline u32 width_of(const Work &work) { return (work.heads + 2 * work.key_heads) * work.head_dim; }
__device__ inline char *joined_at(const Work &work, const void *joined, u64 token, u32 head) {
    return (char *)joined + ((token * width_of(work) + head * work.head_dim) << (work.is_bf16 ? 1 : 2));
}
__device__ inline char *out_at(const Work &work, const void *out, u64 token, u32 head) {
    return (char *)out + ((token * work.heads + head) * work.head_dim << (work.is_bf16 ? 1 : 2));
}

// The vector that a head's queries meet in keys of their own segment (0), or of another (1).
__device__ inline const float *segment_vector(const Work &work, u32 apart, u32 head) {
    return work.segment_vectors + (apart * work.heads + head) * work.head_dim;
}

// Which of a thread's scores of a tile are of two segments: bit i·N + j.
template <int N> __device__ inline u32 apart(const Work &work, u32 sequence, u32 query, u32 key) {
    const u32 *segments = work.segments + (u64)sequence * work.length;
    auto of = [&](u32 token) { return token < work.length ? segments[token] : 0; };
    u32 bits = 0;
#pragma unroll
    for (u32 n = 0; n < N * N; n++)
        bits |= (u32)(of(query + down() + n / N * 16) != of(key + across() + n % N * 16)) << n;
    return bits;
}

// ---- Who sees whom, and what is dropped -----------------------------------------------------------------------------

// The keys of a tile that are there, a bit each.
template <int N> __device__ inline u64 there(const Work &work, u32 sequence, u32 key) {
    u64 word = work.mask[(u64)sequence * ((work.length + 63) / 64) + key / 64] >> key % 64;
    u32 count = min(16u * N, work.length - key);
    return count < 64 ? word & ((1ull << count) - 1) : word;
}

// The first token within the window of another, and the one behind the last.
__device__ inline u32 window_start(const Work &work, u32 token) {
    return work.window && token + 1 > work.window ? token + 1 - work.window : 0;
}
__device__ inline u32 window_end(const Work &work, u32 token) {
    return work.window ? min(work.length, token + work.window) : work.length;
}

// Of those, the ones that a query sees.
__device__ inline u64 within(const Work &work, u64 word, u32 query, u32 key) {
    if (query >= work.length) return 0;
    if (work.is_causal && query < key + 63) word = query < key ? 0 : word & ((2ull << (query - key)) - 1);
    if (!work.window) return word;
    u32 start = window_start(work, query), end = window_end(work, query);
    if (end <= key || start >= key + 64) return 0;
    if (end - key < 64) word &= (1ull << (end - key)) - 1;
    return start > key ? word & ~0ull << (start - key) : word;
}

constexpr u64 GAMMA = 0x9E3779B97F4A7C15ull;

__device__ inline u64 mix(u64 z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

// Dropout, as attention/dropout.rs and ops/dropout.rs decide.
struct Dropping {
    bool is_on;
    u64 key;

    __device__ inline Dropping(const Work &work) {
        is_on = work.is_dropping && work.scalars->is_training;
        key = is_on ? mix(mix(mix(work.scalars->seed + GAMMA) + work.scalars->step + GAMMA) + work.site + GAMMA) : 0;
    }

    // Which of a thread's scores of a tile stay: bit i·N + j.
    template <int N>
    __device__ inline u32 kept(const Work &work, u32 sequence, u32 head, u32 query, u32 key) const {
        if (!is_on) return ~0u;
        u64 row = ((u64)sequence * work.heads + head) * work.length + query + down();
        u64 first = row * work.length + key + across() + 1;
        u32 bits = 0;
#pragma unroll 1
        for (u32 n = 0; n < N * N; n++) {
            u64 index = first + (u64)(n / N * 16) * work.length + n % N * 16;
            bits |= (u32)((mix(this->key + index * GAMMA) >> 32) >= work.threshold) << n;
        }
        return bits;
    }
};

// ---- Products -------------------------------------------------------------------------------------------------------

__device__ inline float dot(float4 a, float4 b, float sum) {
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    return fmaf(a.w, b.w, sum);
}

// Adds a_i·b_j to a thread's scores.
template <int N, int D>
__device__ inline void add_dots(const Work &work, float (&s)[N][N], const float *a, const float *b) {
    constexpr int STEP = Sizes<N, D>::STEP;
    a += down() * STEP, b += across() * STEP;
#pragma unroll(N > 3 ? 1 : 2)
    for (u32 d = 0; d < work.head_dim; d += 4) {
        float4 x[N], y[N];
#pragma unroll
        for (int n = 0; n < N; n++) {
            x[n] = *(const float4 *)(a + 16 * n * STEP + d);
            y[n] = *(const float4 *)(b + 16 * n * STEP + d);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int j = 0; j < N; j++) s[i][j] = dot(x[i], y[j], s[i][j]);
        }
    }
}

// Adds to a thread's scores what queries, or keys, meet in a band.
template <int N, int D, bool BY_KEY>
__device__ inline void add_band_dots(const Work &work, float (&s)[N][N], const float *vectors, const float *band) {
    constexpr int STEP = Sizes<N, D>::STEP;
    u32 own = BY_KEY ? across() : down(), other = BY_KEY ? down() : across();
    vectors += own * STEP, band += (own + 15 - other) * STEP;
#pragma unroll 1
    for (u32 d = 0; d < work.head_dim; d += 4) {
        float4 x[N];
#pragma unroll
        for (int n = 0; n < N; n++) x[n] = *(const float4 *)(vectors + 16 * n * STEP + d);
#pragma unroll
        for (int c = 0; c < 2 * N - 1; c++) {
            float4 y = *(const float4 *)(band + 16 * c * STEP + d);
#pragma unroll
            for (int n = 0; n < N; n++) {
                int m = n + N - 1 - c;
                if (m < 0 || m >= N) continue;
                float &sum = BY_KEY ? s[m][n] : s[n][m];
                sum = dot(x[n], y, sum);
            }
        }
    }
}

// Adds to a thread's vectors the sum of `count` others by their weights, `weights` [own, other].
template <int N, int D>
__device__ inline void add_product(float (&sum)[N][D / 16], const float *weights, const float *vectors, u32 count) {
    constexpr int STEP = Sizes<N, D>::STEP, SCORES = Sizes<N, D>::SCORES, COLUMNS = D / 16;
    weights += down() * SCORES;
    // Enough work in one pass to hide what it waits for, without too much code.
#pragma unroll(N * COLUMNS > 8 ? 1 : 2)
    for (u32 other = 0; other < count; other += 4) {
        float w[N][4];
#pragma unroll
        for (int n = 0; n < N; n++) take<4>(w[n], weights + 16 * n * SCORES + other);
#pragma unroll
        for (int more = 0; more < 4; more++) {
            float x[COLUMNS];
            take_columns<D>(x, vectors + (other + more) * STEP);
#pragma unroll
            for (int n = 0; n < N; n++) {
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) sum[n][c] = fmaf(w[n][more], x[c], sum[n][c]);
            }
        }
    }
}

// Adds to a thread's vectors the sum of a band's by weights, `weights` [own, other].
template <int N, int D>
__device__ inline void add_band_product(float (&sum)[N][D / 16], const float *weights, const float *band) {
    constexpr int STEP = Sizes<N, D>::STEP, SCORES = Sizes<N, D>::SCORES, COLUMNS = D / 16;
    weights += down() * SCORES;
#pragma unroll 1
    for (int other = 0; other < 16; other++) {
        const float *vectors = band + (down() + 15 - other) * STEP;
        float w[N][N];
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int m = 0; m < N; m++) w[n][m] = weights[16 * n * SCORES + 16 * m + other];
        }
#pragma unroll
        for (int k = 0; k < 2 * N - 1; k++) {
            float x[COLUMNS];
            take_columns<D>(x, vectors + 16 * k * STEP);
#pragma unroll
            for (int n = 0; n < N; n++) {
                int m = n + N - 1 - k;
                if (m < 0 || m >= N) continue;
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) sum[n][c] = fmaf(w[n][m], x[c], sum[n][c]);
            }
        }
    }
}

// The part of `add_diagonals` for one of 16 vectors, and one of 16 others, with all that lie a multiple of 16 from them.
template <int N, int D, int SHIFT>
__device__ inline void add_some_diagonals(
    float (&sum)[2 * N][D / 16], const float *weights, u32 own_step, u32 other_step, const float *vectors
) {
    constexpr int STEP = Sizes<N, D>::STEP, COLUMNS = D / 16;
#pragma unroll
    for (int n = 0; n < N; n++) {
        float x[COLUMNS];
        take_columns<D>(x, vectors + 16 * n * STEP);
#pragma unroll
        for (int m = 0; m < N; m++) {
            float w = weights[16 * n * own_step + 16 * m * other_step];
            float (&to)[COLUMNS] = sum[n - m + N - 1 + SHIFT];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) to[c] = fmaf(w, x[c], to[c]);
        }
    }
}

// Adds to vectors by slot (a thread's: down + 16·n) those of a tile by weights, which are `own_step` apart from one vector to
// the next, and `other_step` from what it meets to the next.
template <int N, int D>
__device__ inline void add_diagonals(
    float (&sum)[2 * N][D / 16], const float *weights, u32 own_step, u32 other_step, const float *vectors
) {
    constexpr int STEP = Sizes<N, D>::STEP;
#pragma unroll 1
    for (u32 own = 0; own < 16; own++) {
        // The one, of 16, that this meets at the thread's slot of 16.
        u32 other = (own + 15 - down()) % 16;
        const float *w = weights + own * own_step + other * other_step;
        if (own > down()) {
            add_some_diagonals<N, D, 1>(sum, w, own_step, other_step, vectors + own * STEP);
        } else {
            add_some_diagonals<N, D, 0>(sum, w, own_step, other_step, vectors + own * STEP);
        }
    }
}

}  // namespace attention
