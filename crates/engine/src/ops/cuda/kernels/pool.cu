// ---- Rows become one ----------------------------------------------------------------------------------------------

// What pool.rs of ops says of a span; `kind` is 0 for a sum, 1 for one by places, 2 for the largest.
struct Span {
    u64 first;
    double place, over;
    u32 rows, kind;
};

// A thread a number: out [spans, width] from x [.., width], in the order of the CPU, so that the bits are its.
template <typename T> __device__ void pool(const T *x, const Span *spans, float *out, u64 count, u32 width) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    Span span = spans[index / width];
    const T *column = x + span.first * width + index % width;
    constexpr u32 AHEAD = 16;  // loads under way at once
    double total = 0;
    float most = 0;
    for (u32 begin = 0; begin < span.rows; begin += AHEAD) {
        float numbers[AHEAD];
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) numbers[i] = begin + i < span.rows ? widen(column[(u64)(begin + i) * width]) : 0;
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            u32 row = begin + i;
            if (row >= span.rows) break;
            float number = numbers[i];
            if (row == 0 || most < number || number != number) most = number;
            double weight = span.kind == 1 ? span.place + row : 1.0;
            total = __dadd_rn(total, __dmul_rn(weight, (double)number));
        }
    }
    out[index] = span.kind == 2 ? most : (float)(total / span.over);
}

#define POOL(name, T)                                                                                                  \
    extern "C" __global__ void name##_pool(const T *x, const Span *spans, float *out, u64 count, u32 width) {          \
        pool<T>(x, spans, out, count, width);                                                                          \
    }
POOL(f32, float)
POOL(bf16, bf16)
