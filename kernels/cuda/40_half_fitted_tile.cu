/*---
title: Half precision, fitted tile
idea: a rule chooses the height of the tiles for every problem, so that the last wave is as full as the others
builds_on: 35_half_multicast
parameters: {BN: 128, HIGH: 16, CM: 1, CN: 2}
configurations:
  - {BN: [128, 192], CM: 1, CN: 2}
  - {BN: [128, 192], CM: 2, CN: 1}
  - {BN: [128, 192], CM: 2, CN: 2}
element_types: [bfloat16, float16]
layouts: [nn, nt, tn, tt]
batch: true
where:
  clusters: clusters_of_4 if CM * CN == 4 else sm_count // 2
  columns: batch * ceil_div(N, BN * CN)  # of clusters, in all matrices
  full: 256 if BN == 128 else 192  # the greatest height
  waves: "ceil_div(columns * ceil_div(M, full * CM), clusters)"  # of tiles of that height: fewer than these there cannot be
  down: clusters * waves // columns  # so many clusters above each other fill them
  height: "max(64, 16 * ceil_div(M, 16 * down * CM))"
block: [2 * BN + 128]
grid: [CM * CN * clusters]
dynamic_shared: 28 * 8192 + 8 * 16
tensor_maps:
  - {of: A, box: [64, (64 if TRANS_A else height) // CN], swizzle: 128}
  - {of: B, box: [64, (BN if TRANS_B else 64) // CM], swizzle: 128}
  - {of: C, box: [64, 16], swizzle: 128}
requires: [BN == 128 or BN == 192, HIGH >= 1, CM == 1 or CM == 2, CN == 1 or CN == 2, CM * CN > 1]
architecture: sm_90a
global_reads: batch * K * (M * ceil_div(N, BN) + N * ceil_div(M, height))
global_writes: batch * M * N
---*/
// Tiles of 128 x 256 are a good size, but their number is what it is: 1536 x 1536 has 72 of them for 132 SMs, and 5120 x 5120 has 800, six
// waves and a little of a seventh. A tile of the right height has neither: 132 of 128 columns by 144 rows, and seven full waves by
// 224. So the rule in the header takes as many waves as tiles of the full height need, and makes the tiles as low as fills those waves.
//
// The height must be free for that. The matrix instruction's 64 rows are not, but the width of its other operand is any multiple of 8. So the
// operands change places, as in rung 39: 64 columns of C a warpgroup, and 64 to 256 rows of it, or with three warpgroups 64 to 192. The height is
// known to the compiler in each of 13 copies of the code, or of 9, and with it the number of stages. Sums are stored to shared memory transposed.
//
// The rest is as in rungs 34 and 35: CM blocks of a cluster above each other share columns of B, CN beside each other rows of A; blocks do one
// tile after another; and a tile leaves while the next is multiplied. A cluster of four asks the L2 for less than a pair, but fits on fewer SMs:
// on an H200 30 at a time, on 120 of 132.
//
// What holds it back: low tiles need more bytes a product. In TN and TT, A comes in strips of 64 rows (docs/ladder/layouts.md): a lower tile copies
// more than it needs.

#include "half_share.cuh"
#include "half_store.cuh"

constexpr int CONSUMERS = BN * 2, FULL = BN == 128 ? 256 : 192;  // threads that multiply; the greatest height of a tile
constexpr int SPACE = 24 * STRIP, MOST = 8;                      // bytes of stages, and the most of those
constexpr int AT_SLOTS = SPACE, SLOTS = BN == 128 ? 2 : 1, AT_BARRIERS = AT_SLOTS + 4 * STRIP;
constexpr int LAST = 2;  // steps of a block's last tile that its warpgroups do one after another

// The rule: see the header.
struct Plan {
  int clusters, columns, rows, height, matrices;
  __device__ __forceinline__ Plan(int M, int N, int matrices_) : matrices(matrices_) {
    clusters = gridDim.x / (CM * CN), columns = (N + BN * CN - 1) / (BN * CN);
    const int all = columns * matrices, waves = (all * ((M + FULL * CM - 1) / (FULL * CM)) + clusters - 1) / clusters;
    const int down = clusters * waves / all * CM;
    height = max(64, (M + 16 * down - 1) / (16 * down) * 16), rows = (M + height * CM - 1) / (height * CM);
  }
  __device__ __forceinline__ int count() const { return BATCH ? rows * columns * matrices : rows * columns; }  // of tiles
};

// The tiles of this block: one of each cluster of them, every clusters-th. They go down HIGH clusters before they go right, and in the next
// band left.
struct Tiles {
  const Plan& plan;
  int tile = blockIdx.x / (CM * CN), row, column;
#if BATCH
  int z = 0;
#else
  static constexpr int z = 0;
#endif
  bool back = true;  // along K

  __device__ __forceinline__ bool next() {
    if (tile >= plan.count()) return false;
#if BATCH
    z = tile / (plan.rows * plan.columns);
#endif
    const int columns = plan.columns, t = tile - z * (plan.rows * columns), band = t / (HIGH * columns), high = min(HIGH, plan.rows - band * HIGH);
    const int rest = t - band * HIGH * columns;
    const int right = rest / high, rank = blockIdx.x % (CM * CN);
    row = ((band * HIGH + rest % high) * CM + rank % CM) * plan.height;
    column = ((band % 2 ? columns - 1 - right : right) * CN + rank / CM) * BN;
    tile += plan.clusters, back = !back;
    return true;
  }
  __device__ __forceinline__ bool last() const { return tile >= plan.count(); }
};

// The ring for tiles of HEIGHT rows, and what both roles do with it.
template <int HEIGHT>
struct Fitted {
  using OfA = Operand<HEIGHT, TRANS_A>;
  using OfB = Operand<BN, !TRANS_B>;
  static constexpr int B_BYTES = OfB::BYTES, STAGE = B_BYTES + OfA::BYTES, STAGES = SPACE / STAGE < MOST ? SPACE / STAGE : MOST;
  static constexpr int PIECES = (HEIGHT + 63) / 64;
  uint32_t memory, barriers;
  int group;
  Sharing<CM, CN> sharing;
  int place = 0, parity = 0, before = 0, slot = 0;

  __device__ __forceinline__ uint32_t full(int i) const { return barriers + i * 8; }
  __device__ __forceinline__ uint32_t empty(int i) const { return barriers + (MOST + i) * 8; }
  __device__ __forceinline__ void next() {
    if (++place == STAGES) place = 0, parity ^= 1;
  }

  __device__ __forceinline__ void fill_all(Tiles tiles, int steps, const TensorMap& a_map, const TensorMap& b_map) {
    while (tiles.next())
      for (int step = 0; step < steps; ++step) {
        const uint32_t b = memory + place * STAGE, there = full(place);
        const int k = (tiles.back ? steps - 1 - step : step) * DEPTH;
        barrier_wait(empty(place), parity ^ 1);
        barrier_expect(there, STAGE);
        sharing.template copy_a<OfA>(b + B_BYTES, a_map, tiles.row, k, tiles.z, there);
        sharing.template copy_b<OfB>(b, b_map, tiles.column, k, tiles.z, there);
        next();
      }
    for (int i = 0; i < STAGES; ++i, next()) barrier_wait(empty(place), parity ^ 1);  // finish_filling in half_ring.cuh
  }

  __device__ __forceinline__ void multiply_step(float (&sum)[HEIGHT / 2], int step) {
    barrier_wait(full(place), parity);
    const uint32_t b = memory + place * STAGE;
    multiply_stage<OfB, OfA>(sum, OfB::at(b + group * STRIP), OfA::at(b + B_BYTES), step > 0);
    wgmma_wait<1>();
    sharing.give_back(empty(before), step > 0);
    before = place;
    next();
  }

  // 64 rows of the warpgroup's 64 columns to a slot, and from there to C by boxes of 16 rows.
  __device__ __forceinline__ void put(const uint32_t (&rounded)[HEIGHT / 4], int piece, uint32_t to, const TensorMap& c_map, int row,
                                      int column, int z) {
    const unsigned thread = threadIdx.x % 128, lane = thread % 32;
    const unsigned corner = (lane / 16 * 8 + lane % 8) * 128 + ((thread / 32 * 2 + lane / 8 % 2) ^ lane % 8) * 16;
    if (is_storer()) stores_read<SLOTS - 1>();  // what was in the slot before has left
    some_sync<128>(1 + group);
#pragma unroll
    for (int i = piece * 4; i < min(piece * 4 + 4, HEIGHT / 16); ++i) {
      const uint32_t* v = &rounded[i * 4];
      store_transposed(to + i % 4 * 2048 + corner, v[0], v[1], v[2], v[3]);
    }
    async_may_follow();
    some_sync<128>(1 + group);
    if (is_storer()) {
#pragma unroll
      for (int i = piece * 4; i < min(piece * 4 + 4, HEIGHT / 16); ++i) store_box(c_map, column, row + i * 16, z, to + i % 4 * 2048);
      stores_commit();
    }
    if (++slot == SLOTS) slot = 0;
  }

  __device__ __forceinline__ void multiply_all(Tiles tiles, int steps, int M, int N, float alpha, float beta, T* C, int ldc,
                                               long long stride_c, const TensorMap& c_map) {
    const bool boxes = beta == 0 && (ldc % 8 | N % 8 | int(reinterpret_cast<size_t>(C) % 16) | int(stride_c % 8)) == 0;
    const uint32_t slots = memory + AT_SLOTS + group * SLOTS * STRIP;
    float sum[HEIGHT / 2];
    uint32_t rounded[HEIGHT / 4];
    bool pending = false;  // the tile before has not left yet
    int row = 0, column = 0, z = 0;
    while (tiles.next()) {
      int step = 0;
#pragma unroll
      for (int i = 0; i < PIECES; ++i) {
        if (step < steps) multiply_step(sum, step++);
        if (pending) put(rounded, i, slots + slot * STRIP, c_map, row, column, z);
      }
      const int together = tiles.last() ? max(step, steps - LAST) : steps;  // what follows, the warpgroups do one after another
#pragma unroll 1
      for (; step < together; ++step) multiply_step(sum, step);
      if (tiles.last()) {
        if (group > 0) some_sync<256>(4 + group);
#pragma unroll 1
        for (; step < steps; ++step) multiply_step(sum, step);
        if (group < BN / 64 - 1) some_arrive<256>(5 + group);
      }
      wgmma_wait<0>();
      wgmma_done(sum);
      sharing.give_back(empty(before), steps > 0);
      if (steps == 0)
#pragma unroll
        for (int i = 0; i < HEIGHT / 2; ++i) sum[i] = 0;
      row = tiles.row, column = tiles.column + group * 64, z = tiles.z;
      pending = boxes;
      if (boxes) {
        if (alpha != 1)
#pragma unroll
          for (int i = 0; i < HEIGHT / 2; ++i) sum[i] *= alpha;
#pragma unroll
        for (int i = 0; i < HEIGHT / 4; ++i) rounded[i] = pack(sum[2 * i], sum[2 * i + 1]);
      } else {
        const int thread = fresh(threadIdx.x % 128), c = column + thread / 32 * 16 + thread % 32 / 4, r = row + thread % 4 * 2;
#pragma unroll
        for (int i = 0; i < HEIGHT / 2; ++i) {
          const int y = r + i / 4 * 8 + i % 2, x = c + i / 2 % 2 * 8;
          if (y < M && x < N) store_pair(C + z * stride_c + size_t(y) * ldc + x, 1, alpha, sum[i], 0, beta, false);
        }
      }
    }
    if (pending && group < BN / 64 - 1) {
      some_arrive<CONSUMERS>(4);
#pragma unroll
      for (int i = 0; i < PIECES; ++i) put(rounded, i, slots + slot * STRIP, c_map, row, column, z);
    } else if (pending) {  // the stages have done their work
      if (is_storer()) stores_read<0>();
      some_sync<CONSUMERS>(4);
#pragma unroll
      for (int i = 0; i < PIECES; ++i) put(rounded, i, memory + (group * 4 + i) * STRIP, c_map, row, column, z);
    }
    if (is_storer()) stores_read<0>();
  }
};

// What a warpgroup does: the one that fills the ring, or one that multiplies.
template <bool FILLS, int HEIGHT = FULL>
__device__ __forceinline__ void work(const Plan& plan, uint32_t memory, int group, int steps, int M, int N, float alpha, float beta, T* C, int ldc,
                                     long long stride_c, const TensorMap& a_map, const TensorMap& b_map, const TensorMap& c_map) {
  if (plan.height == HEIGHT) {
    Fitted<HEIGHT> ring{memory, memory + AT_BARRIERS, group};
    if (FILLS)
      ring.fill_all(Tiles{plan}, steps, a_map, b_map);
    else
      ring.multiply_all(Tiles{plan}, steps, M, N, alpha, beta, C, ldc, stride_c, c_map);
  } else if constexpr (HEIGHT > 64) {
    work<FILLS, HEIGHT - 16>(plan, memory, group, steps, M, N, alpha, beta, C, ldc, stride_c, a_map, b_map, c_map);
  }
}

extern "C" __global__ void __cluster_dims__(CM * CN, 1, 1) __launch_bounds__(CONSUMERS + 128, 1)
    gemm(int M, int N, int K, float alpha, const T* __restrict__ A, int lda, const T* __restrict__ B, int ldb, float beta, T* __restrict__ C,
         int ldc, BATCH_PARAMETER const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         const __grid_constant__ TensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t memory = shared_address(shared);
  if (warp_index() == 0 && is_elected()) prefetch(a_map), prefetch(b_map), prefetch(c_map);
  if (threadIdx.x == CONSUMERS) {
    for (int i = 0; i < MOST; ++i)
      barrier_init(memory + AT_BARRIERS + i * 8, 1), barrier_init(memory + AT_BARRIERS + (MOST + i) * 8, CONSUMERS / 32 * (CM + CN - 1));
    barriers_ready();
  }
  __syncwarp();
  cluster_arrive();
  const long long stride_c = (BATCH_ARGUMENT).stride_c;
  const Plan plan(M, N, (BATCH_ARGUMENT).count);
  const int steps = alpha == 0 ? 0 : (K + DEPTH - 1) / DEPTH;
  cluster_wait();
  const int group = warp_index() / 4;
  if (group == CONSUMERS / 128) {
    give_registers_back<BN == 128 ? 40 : 32>();
    if (warp_index() == CONSUMERS / 32 && is_elected()) work<true>(plan, memory, group, steps, M, N, alpha, beta, C, ldc, stride_c, a_map, b_map, c_map);
  } else {
    take_registers<BN == 128 ? 232 : 160>();
    work<false>(plan, memory, group, steps, M, N, alpha, beta, C, ldc, stride_c, a_map, b_map, c_map);
  }
}
