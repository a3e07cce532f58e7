// The loop over K of rungs 13 to 16: asynchronous copies into a ring of stages, and multiply-adds in snake order.
#pragma once
#include "async.cuh"
#include "vector.cuh"

// Whether rows of a matrix of `cols` columns can be moved four elements at a time.
__device__ __forceinline__ bool wide(const T* matrix, int ld, int cols) {
  return reinterpret_cast<size_t>(matrix) % 16 == 0 && (ld | cols) % 4 == 0;
}

// A BM x BN tile of C, the work of one block. Its K is gone through BK at a time, of which each of GROUPS groups of warps takes a share.
// SPREAD, LEAD and B_FIRST change the order of instructions only, and what the compiler makes of it; SPLIT above 0 puts as many steps
// between the two halves of the barrier. CHUNK above 0 (of BK) is how many products are added one after another: the sums of such chunks
// are added up apart, where a thread has registers for both.
template <int BM, int BN, int BK, int TM, int TN, int GROUPS, int STAGES, int SPREAD, int LEAD, int B_FIRST, int SPLIT, int CHUNK = 0>
struct BlockTile {
  static constexpr int WARPS = BM * BN / (4 * TM * 8 * TN);  // of a group
  static constexpr int THREADS = 32 * WARPS * GROUPS;
  // K runs down in shared memory. What is K-major lies transposed, in padded rows as in rung 08.
  static constexpr int WIDTH_A = TRANS_A ? BM : BM + 4, WIDTH_B = TRANS_B ? BN + 4 : BN;
  static constexpr unsigned STAGE = BK * (WIDTH_A + WIDTH_B) * sizeof(T);  // bytes
  static constexpr int STEPS = BK / GROUPS;                                // k of a tile that one group takes

  float sum[TM][TN] = {};  // sum[m][n] is at row + m/4*16 + m%4, col + n/4*32 + n%4 of the tile
  int group, row, col;

  __device__ __forceinline__ BlockTile() {
    const int warp = threadIdx.x / 32 % WARPS, lane = threadIdx.x % 32;
    group = threadIdx.x / (32 * WARPS);
    row = warp / (BN / (8 * TN)) * 4 * TM + lane / 2 % 4 * 4;
    col = warp % (BN / (8 * TN)) * 8 * TN + (lane / 8 * 2 + lane % 2) * 4;
  }

  // sum <- sum + op(A)*op(B) for the tile of C at (row0, col0) and k from `begin` to `end`. WIDE: what is MN-major in copies of four elements.
  //
  // No copy of the loop is guarded. A row or column beyond the matrix is replaced by the last one: what comes of it is in sums that
  // are never stored. Only k must not be invented, and the tile of k that is short comes first, where it is copied apart.
  template <bool WIDE>
  __device__ __forceinline__ void accumulate(T* ring, int M, int N, const T* A, int lda, const T* B, int ldb, int row0, int col0,
                                             int begin, int end) {
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int tiles = (end - begin + BK - 1) / BK, first = min(end - begin, end - begin - (tiles - 1) * BK);  // none of an empty slice

    // K-major: one element a copy, since it is transposed on the way. A warp takes 8 k (32 bytes) of 4 rows. MN-major: rows of BM or BN elements,
    // in fours if all threads get some.
    constexpr int EACH_A = TRANS_A && WIDE && BM * BK % (4 * THREADS) == 0 ? 4 : 1, COPIES_A = BM * BK / EACH_A / THREADS, ROWS_A = THREADS / (TRANS_A ? BM / EACH_A : BK);
    const int ka = TRANS_A ? thread / (BM / EACH_A) : warp % (BK / 8) * 8 + lane % 8;
    const int ra = TRANS_A ? thread % (BM / EACH_A) * EACH_A : warp / (BK / 8) * 4 + lane / 8, top = min(row0 + ra, M - EACH_A);
    const unsigned to_a = shared_address(ring + ka * WIDTH_A + ra);
    const T* from_a = TRANS_A ? A + size_t(begin + ka) * lda + top : A + size_t(top) * lda + begin + ka;
    int down[COPIES_A];  // from there to the row of copy i
#pragma unroll
    for (int i = 0; i < COPIES_A; ++i) down[i] = (min(row0 + ra + i * ROWS_A, M - 1) - top) * lda;

    constexpr int EACH_B = !TRANS_B && WIDE ? 4 : 1, COPIES_B = BK * BN / EACH_B / THREADS, ROWS_B = THREADS / (TRANS_B ? BK : BN / EACH_B);
    const int kb = TRANS_B ? warp % (BK / 8) * 8 + lane % 8 : thread / (BN / EACH_B);
    const int cb = TRANS_B ? warp / (BK / 8) * 4 + lane / 8 : thread % (BN / EACH_B) * EACH_B;
    const unsigned to_b = shared_address(ring + BK * WIDTH_A + kb * WIDTH_B + cb);
    const T* from_b = TRANS_B ? B + size_t(min(col0 + cb, N - 1)) * ldb + begin + kb : B + size_t(begin + kb) * ldb + min(col0 + cb, N - EACH_B);
    static_assert(COPIES_A * THREADS * EACH_A == BM * BK && COPIES_B * THREADS * EACH_B == BK * BN, "the copies bring whole tiles");
    int right[TRANS_B ? COPIES_B : 1];
#pragma unroll
    for (int i = 0; i < COPIES_B && TRANS_B; ++i) right[i] = (min(col0 + cb + i * ROWS_B, N - 1) - min(col0 + cb, N - 1)) * ldb;

    // One tile of A and one of B into the stage at byte `stage` of the ring; nothing where `wanted` is false.
    constexpr int NEXT_A = TRANS_A ? ROWS_A * BM : ROWS_A, NEXT_B = TRANS_B ? ROWS_B : ROWS_B * BN;  // there, from one copy to the next
    const auto copy = [&](unsigned stage, bool wanted) {
#pragma unroll
      for (int i = 0; i < COPIES_A; ++i)
        copy_if<EACH_A>(to_a + stage + i * NEXT_A * 4, TRANS_A ? from_a + size_t(i * ROWS_A) * lda : from_a + down[i], wanted);
#pragma unroll
      for (int i = 0; i < COPIES_B; ++i)
        copy_if<EACH_B>(to_b + stage + i * NEXT_B * 4, TRANS_B ? from_b + right[TRANS_B * i] : from_b + size_t(i * ROWS_B) * ldb, wanted);
      from_a += TRANS_A ? size_t(BK) * lda : BK, from_b += TRANS_B ? BK : size_t(BK) * ldb;
    };

#pragma unroll
    for (int i = 0; i < COPIES_A; ++i)
      copy_or_zero<EACH_A>(to_a + i * NEXT_A * 4, TRANS_A ? from_a + size_t(i * ROWS_A) * lda : from_a + down[i],
                           (TRANS_A ? ka + i * ROWS_A : ka) < first);
#pragma unroll
    for (int i = 0; i < COPIES_B; ++i)
      copy_or_zero<EACH_B>(to_b + i * NEXT_B * 4, TRANS_B ? from_b + right[TRANS_B * i] : from_b + size_t(i * ROWS_B) * ldb,
                           (TRANS_B ? kb : kb + i * ROWS_B) < first);
    from_a += TRANS_A ? ptrdiff_t(first) * lda : first, from_b += TRANS_B ? first : ptrdiff_t(first) * ldb;
    commit();
#pragma unroll
    for (int stage = 1; stage < STAGES - 1; ++stage) {
      copy(stage * STAGE, stage < tiles);
      commit();
    }

    const T* at_a = ring + group * STEPS * WIDTH_A + row;
    const T* at_b = ring + BK * WIDTH_A + group * STEPS * WIDTH_B + col;
    float a[2][TM], b[2][TN];
    // Fragment i of step k: four elements of A or B.
    const auto read = [&](int buffer, unsigned stage, int k, int i) {
      const bool of_b = B_FIRST ? i < TN / 4 : i >= TM / 4;
      const int part = B_FIRST ? (of_b ? i : i - TN / 4) : (of_b ? i - TM / 4 : i);
      const T* from = of_b ? at_b + k * WIDTH_B + 32 * part : at_a + k * WIDTH_A + 16 * part;
      *reinterpret_cast<float4*>(of_b ? &b[buffer][4 * part] : &a[buffer][4 * part]) =
          *reinterpret_cast<const float4*>(reinterpret_cast<const char*>(from) + stage);
    };
    __shared__ unsigned long long barrier_memory;
    Barrier barrier{shared_address(&barrier_memory)};
    if (SPLIT && thread == 0) barrier.begin(THREADS);
    wait<STAGES - 2>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < (TM + TN) / 4; ++i) read(0, 0, 0, i);

    unsigned now = 0, free = (STAGES - 1) * STAGE;  // the stage that is computed on, and the one that the next copies go to
    float total[CHUNK ? TM : 1][CHUNK ? TN : 1] = {};
    int tile = 0;
    const auto multiply = [&](int stop) {
#pragma unroll 1
      for (; tile < stop; ++tile) {
        const unsigned next = now == (STAGES - 1) * STAGE ? 0 : now + STAGE;
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
          if (SPLIT && k == STEPS - 1 - LEAD - SPLIT) {
            wait<STAGES - 3>();
            barrier.arrive();
          }
          if (k == STEPS - 1 - LEAD) {  // the next tile is there, and every warp has left the one before this
            if (SPLIT) {
              barrier.wait();
            } else {
              wait<STAGES - 3>();
              __syncthreads();
            }
            copy(free, tile + STAGES - 1 < tiles);
            commit();
            free = free == (STAGES - 1) * STAGE ? 0 : free + STAGE;
          }
#pragma unroll
          for (int i = 0; i < TM * TN; ++i) {
            if (i % SPREAD == 0 && i / SPREAD < (TM + TN) / 4)
              read((k + 1) % 2, k + 1 < STEPS ? now : next, (k + 1) % STEPS, i / SPREAD);
            // Like a snake along the longer side: each multiply-add shares one factor with the one before it.
            constexpr int LINE = TM < TN ? TM : TN;
            const int line = i / LINE, turn = line % 2 ? LINE - 1 - i % LINE : i % LINE;
            const int m = TM < TN ? turn : line, n = TM < TN ? line : turn;
            sum[m][n] = fmaf(a[k % 2][m], b[k % 2][n], sum[m][n]);
          }
        }
        now = next;
      }
    };
    if (!CHUNK) multiply(tiles);
    while (CHUNK && tile < tiles) {
      multiply(min(tiles, tile + CHUNK / BK));
#pragma unroll
      for (int i = 0; i < TM * TN; ++i) {
        total[i / TN][i % TN] += sum[i / TN][i % TN];
        sum[i / TN][i % TN] = tile == tiles ? total[i / TN][i % TN] : 0;
      }
    }
    wait<0>();
    __syncthreads();  // the ring may be used anew
    if (SPLIT && thread == 0) barrier.end();
  }

  // The thread's sums to a tile of which `rows` x `cols` exist: to <- alpha*sum + beta*to.
  __device__ __forceinline__ void put_own(T* to, int ld, int rows, int cols, T alpha, T beta, bool vector) const {
    float scaled[TM][TN];  // first of all, so that the sums need not lie in fours as stores want them: the loop is faster then
#pragma unroll
    for (int m = 0; m < TM; ++m)
#pragma unroll
      for (int n = 0; n < TN; ++n) scaled[m][n] = alpha * sum[m][n];
#pragma unroll
    for (int m = 0; m < TM; ++m) {
      const int r = row + m / 4 * 16 + m % 4;
#pragma unroll
      for (int n = 0; n < TN; n += 4) {
        const int c = col + n / 4 * 32;
        store4(&to[size_t(r) * ld + c], 1, &scaled[m][n], beta, r < rows ? cols - c : 0, vector);
      }
    }
  }

  // The same for the sums of all groups together, which meet in shared memory; and from there, too, rows that do not begin on 16-byte
  // boundaries are stored, by neighbouring threads neighbouring elements.
  __device__ __forceinline__ void put(T* ring, T* to, int ld, int rows, int cols, T alpha, T beta, bool vector) const {
    if (GROUPS == 1 && vector) return put_own(to, ld, rows, cols, alpha, beta, true);
    put_own(ring + group * BM * BN, BN, BM, BN, alpha, 0, true);
    __syncthreads();
    if (vector) {
      for (int i = 4 * threadIdx.x; i < BM * BN; i += 4 * THREADS) {
        float total[4] = {};
#pragma unroll
        for (int part = 0; part < GROUPS; ++part) add4(total, ring + part * BM * BN + i);
        store4(&to[size_t(i / BN) * ld + i % BN], 1, total, beta, i / BN < rows ? cols - i % BN : 0, true);
      }
    } else {
#pragma unroll 4
      for (int i = threadIdx.x; i < BM * BN; i += THREADS) {
        float total = 0;
#pragma unroll
        for (int part = 0; part < GROUPS; ++part) total += ring[part * BM * BN + i];
        if (i / BN < rows && i % BN < cols) store(&to[size_t(i / BN) * ld + i % BN], 1, total, beta);
      }
    }
    __syncthreads();
  }

  // total <- total + the four elements from `p` on, which is on a 16-byte boundary.
  static __device__ __forceinline__ void add4(float (&total)[4], const float* p) {
    const float4 v = *reinterpret_cast<const float4*>(p);
    total[0] += v.x, total[1] += v.y, total[2] += v.z, total[3] += v.w;
  }
};

// The corner of tile `index` of C. Some rows of tiles are gone through column by column: blocks that run side by side then share
// more of A and B in the L2 than if they were one row after the other.
template <int BM, int BN>
struct Corner {
  int row, col;
  __device__ __forceinline__ Corner(int index, int M, int N) {
    constexpr int ROWS = BM < 1024 ? 1024 / BM : 1;
    const int tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN;
    const int top = index / (ROWS * tiles_n) * ROWS, rows = min(ROWS, tiles_m - top), rest = index - top * tiles_n;
    row = (top + rest % rows) * BM;
    col = rest / rows * BN;
  }
};
