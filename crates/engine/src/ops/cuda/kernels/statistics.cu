// ---- What a norm divides by: that of models and of training -------------------------------------------------------

// The mean, 0 where it is not taken off, and 1/√(variance + ε).
struct Statistics {
    float mean, scale;
};

// Of a vector that a warp has in registers: x(n, i) are COUNT neighbouring numbers, N times a lane, 0 beyond the vector's end.
template <int N, int COUNT, typename Numbers>
__device__ inline Statistics statistics_of_lanes(Numbers x, u32 width, bool has_mean, float epsilon) {
    float mean = 0;
    if (has_mean) {
        float sum = 0;
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) sum += x(n, i);
        }
        mean = sum_of_lanes(sum) / width;
    }
    float squares = 0;
#pragma unroll
    for (int n = 0; n < N; n++) {
        if ((n * 32 + threadIdx.x) * COUNT < width) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) squares += (x(n, i) - mean) * (x(n, i) - mean);
        }
    }
    return {mean, 1 / sqrtf(sum_of_lanes(squares) / width + epsilon)};
}

// Of a vector that a block of one row of threads reads as x(i); `parts` holds 32 numbers.
template <typename Numbers>
__device__ inline Statistics statistics_of_block(Numbers x, u32 width, bool has_mean, float epsilon, float *parts) {
    float mean = 0;
    if (has_mean) {
        float sum = 0;
        for (u32 i = threadIdx.x; i < width; i += blockDim.x) sum += x(i);
        mean = sum_of_block(sum, parts) / width;
    }
    float squares = 0;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) squares += (x(i) - mean) * (x(i) - mean);
    return {mean, 1 / sqrtf(sum_of_block(squares, parts) / width + epsilon)};
}
