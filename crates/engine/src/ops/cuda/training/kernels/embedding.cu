// ---- Rows of a table by id, and their gradient --------------------------------------------------------------------

namespace embedding {
// out [count, row] = table[id]; the table has `row` chunks a row.
template <typename Chunk> __device__ void gather(const Chunk *table, const u32 *ids, Chunk *out, u64 chunks, u32 row) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < chunks) out[index] = table[(u64)ids[index / row] * row + index % row];
}

// Rows of dy in the order of their ids, `GROUP` a block. What belongs to an id that no other block has goes to the table; the
// sums of the first and the last id, which others may have too, go to the block's two parts, and `join` adds them.
constexpr u32 GROUP = 32;

struct Back {
    const void *dy;    // [count, width]
    const u32 *ids;    // [count]
    const u32 *order;  // [count]: rows, those with the lowest id first
    float *table;      // [vocabulary, width], added to
    float *parts;      // [groups, 2, width]
    u32 count, width;
};

__device__ inline u32 id_at(const Back &work, u32 place) { return work.ids[work.order[place]]; }

template <typename T> __device__ void scatter(const Back &work) {
    u32 group = blockIdx.x, first = group * GROUP, last = min(first + GROUP, work.count);
    u32 first_id = id_at(work, first), last_id = id_at(work, last - 1);
    for (u32 column = threadIdx.x; column < work.width; column += blockDim.x) {
        float sum = 0;
        u32 id = first_id;
        float *parts = work.parts + (u64)group * 2 * work.width + column;
        // A block of one id alone has one part.
        if (first_id == last_id) parts[work.width] = 0;
        for (u32 place = first; place < last; place++) {
            u32 row = work.order[place], next = work.ids[row];
            if (next != id) {
                if (id == first_id) parts[0] = sum;
                else work.table[(u64)id * work.width + column] += sum;
                id = next, sum = 0;
            }
            sum += widen(((const T *)work.dy)[(u64)row * work.width + column]);
        }
        parts[id == first_id ? 0 : work.width] = sum;
    }
}

// Adds the parts of an id, in order: by the block of the group where it begins.
__device__ void join(const Back &work) {
    u32 group = blockIdx.x, groups = gridDim.x;
    for (u32 side = 0; side < 2; side++) {
        u32 first = group * GROUP, last = min(first + GROUP, work.count);
        u32 id = id_at(work, side == 0 ? first : last - 1);
        if (side == 1 && id == id_at(work, first)) continue;
        // It began in a group before.
        if (side == 0 && group > 0 && id_at(work, first - 1) == id) continue;
        u32 end = group + 1;
        bool goes_on = id_at(work, last - 1) == id;
        while (goes_on && end < groups && id_at(work, end * GROUP) == id) {
            goes_on = id_at(work, min((end + 1) * GROUP, work.count) - 1) == id;
            end++;
        }
        for (u32 column = threadIdx.x; column < work.width; column += blockDim.x) {
            float sum = work.parts[((u64)group * 2 + side) * work.width + column];
#pragma unroll 8
            for (u32 other = group + 1; other < end; other++) sum += work.parts[(u64)other * 2 * work.width + column];
            work.table[(u64)id * work.width + column] += sum;
        }
    }
}
}  // namespace embedding

extern "C" __global__ void gather_2(const u16 *table, const u32 *ids, u16 *out, u64 chunks, u32 row) {
    embedding::gather(table, ids, out, chunks, row);
}
extern "C" __global__ void gather_4(const u32 *table, const u32 *ids, u32 *out, u64 chunks, u32 row) {
    embedding::gather(table, ids, out, chunks, row);
}
extern "C" __global__ void gather_16(const uint4 *table, const u32 *ids, uint4 *out, u64 chunks, u32 row) {
    embedding::gather(table, ids, out, chunks, row);
}
extern "C" __global__ void f32_scatter(const __grid_constant__ embedding::Back work) { embedding::scatter<float>(work); }
extern "C" __global__ void bf16_scatter(const __grid_constant__ embedding::Back work) { embedding::scatter<bf16>(work); }
extern "C" __global__ void scatter_join(const __grid_constant__ embedding::Back work) { embedding::join(work); }
