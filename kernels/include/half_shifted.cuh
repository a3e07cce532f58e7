// Rows of 16-bit elements that begin anywhere in memory, brought to where the matrix instruction reads them: K along the rows for A, across
// them for B. No tensor map describes such rows, and an asynchronous copy takes 16 bytes from a multiple of 16. So those pieces come as
// they are, and are shifted in shared memory.
#pragma once
#include "half_ring.cuh"

// The FILLERS warps are two teams that take turns with the steps: one copies or waits while the other shifts.
constexpr int TEAMS = 2, TEAM = FILLERS / TEAMS;

// Of its own steps, a team copies AHEAD ahead of the one that it shifts next. The stage that they go to held a step at least two before that one.
// The warpgroups that multiply give it back once the next is there, which has been shifted. With one step more ahead, all could wait for
// each other.
constexpr int AHEAD = (STAGES - 2) / TEAMS;
static_assert(FILLERS % TEAMS == 0 && AHEAD >= 1, "teams alike; one stage is multiplied, one is shifted, and one for each team is on its way");

// The first four rows that a warp of a team copies.
__device__ __forceinline__ int four_of_warp() { return (threadIdx.x - CONSUMERS) / 32 % TEAM * 4; }

// Eight neighbors that begin `bytes` (0, 2, ... 14) into the first of two pieces.
__device__ __forceinline__ uint4 shifted(const uint4& a, const uint4& b, int bytes) {
  const uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  uint32_t v[6], u[5];
#pragma unroll
  for (int i = 0; i < 6; ++i) v[i] = bytes & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) u[i] = bytes & 4 ? v[i + 1] : v[i];
  const int bits = (bytes & 2) * 8;
  return make_uint4(__funnelshift_r(u[0], u[1], bits), __funnelshift_r(u[1], u[2], bits), __funnelshift_r(u[2], u[3], bits),
                    __funnelshift_r(u[3], u[4], bits));
}

// Copies the first `there` bytes of a piece, and zeros for the rest. The end of a row comes by 4: compute-sanitizer takes a copy of a part of
// a piece for one of all of it, which would leave the allocation.
template <int WIDTH>
__device__ __forceinline__ void copy_first(uint32_t to, const uint8_t* from, int there) {
  if (there <= 0 || there >= WIDTH)
    copy_part<WIDTH>(to, from, there <= 0 ? 0 : WIDTH);
  else
    for (int at = 0; at < WIDTH; at += 4) copy_part<4>(to + at, from + at, max(0, min(4, there - at)));
}

// What a lane of a team does with one operand: a stage has ROWS rows of WIDE strips of it, 64 elements each. Eight lanes have a row of a
// strip, and a warp four rows at a time. Its next four are APART further, a multiple of 8. So all rows of a lane, at every step, begin the
// same number of bytes behind a multiple of 16.
template <int ROWS, int WIDE>
struct Shifted {
  static constexpr int APART = 4 * TEAM;                           // rows from one of a lane's to its next
  static constexpr int HIGH = ROWS / APART, PASSES = HIGH * WIDE;  // a lane's rows of a strip; its pieces of all strips
  static constexpr int BYTES = ROWS * WIDE * 16;                   // of a ninth piece for each row of a strip: the end of one that is shifted
  static_assert(APART % 8 == 0 && ROWS % APART == 0 && PASSES <= 8, "rows that begin alike; each lane copies one ninth piece at most");
  const uint8_t *piece, *ninth;  // in global memory: of the lane's first row; of the row whose ninth piece it copies
  size_t apart, step;            // bytes from a lane's row to its next, and from a step to the next
  int row, column;               // in the strip: of the lane's first piece; columns are bytes
  int bytes, ninth_bytes;        // that the rows begin behind a multiple of 16
  bool still, eights;            // no row is shifted; rows begin at multiples of 8 bytes, not of 16, and are copied by as many

  // `first` is the first element of the block's first step.
  __device__ __forceinline__ Shifted(const T* first, int ld, size_t step_) : apart(size_t(ld) * APART * 2), step(step_ * 2) {
    const int lane = threadIdx.x % 32, four = four_of_warp();
    row = four + lane / 8, column = lane % 8 * 16;
    const size_t begin = reinterpret_cast<size_t>(first + size_t(row) * ld);
    const size_t other = reinterpret_cast<size_t>(first + size_t(four + lane % 4 + lane / 4 % HIGH * APART) * ld);
    const size_t all = reinterpret_cast<size_t>(first) | size_t(ld) * 2;
    still = all % 8 == 0, eights = still && all % 16 != 0;
    bytes = still ? 0 : begin % 16, ninth_bytes = still ? 0 : other % 16;
    piece = reinterpret_cast<const uint8_t*>(begin - bytes + column);
    ninth = reinterpret_cast<const uint8_t*>(other - ninth_bytes + (lane / 4 / HIGH + 1) * 128);
  }

  // Starts the copies of the next step to a stage, and of the ninth pieces to `ninths`. The operand goes on for `rows` rows and `left` columns.
  // What lies beyond is not copied: zeros come in its place. The first piece of a row may begin before the row. Those bytes are copied, and
  // shifted out.
  __device__ __forceinline__ void load(uint32_t to, uint32_t ninths, int rows, int left) {
    const int lane = threadIdx.x % 32, four = four_of_warp(), ends = min(left, WIDE * 64 + 8) * 2;  // in bytes
    to += row * 128 + (column ^ row % 8 * 16);
    if (rows >= ROWS && left >= WIDE * 64 + 8)
      eights ? copy_pieces<8, true>(to, rows, ends) : copy_pieces<16, true>(to, rows, ends);
    else
      eights ? copy_pieces<8, false>(to, rows, ends) : copy_pieces<16, false>(to, rows, ends);
    if (lane < PASSES * 4 && !still) {
      const bool wanted = ninth_bytes && four + lane % 4 + lane / 4 % HIGH * APART < rows;
      const int there = wanted ? ends + ninth_bytes - (lane / 4 / HIGH + 1) * 128 : 0;
      copy_first<16>(ninths + (four + lane % 4 + lane / 4 * APART) * 16, ninth, there);
    }
    piece += step, ninth += step;
  }
  // Most stages lie INSIDE of the operand.
  template <int WIDTH, bool INSIDE>
  __device__ __forceinline__ void copy_pieces(uint32_t to, int rows, int ends) const {
#pragma unroll
    for (int i = 0; i < PASSES; ++i)
#pragma unroll
      for (int at = 0; at < 16; at += WIDTH) {
        const int there = row + i % HIGH * APART < rows ? ends + bytes - column - i / HIGH * 128 - at : 0;
        copy_first<WIDTH>(to + i * APART * 128 + at, piece + i / HIGH * 128 + i % HIGH * apart + at, INSIDE ? WIDTH : there);
      }
  }

  // Shifts what has come, in place: the pieces of a row belong to lanes of one warp, which reads them all before it writes one. Rows beyond
  // `rows` have come as zeros, and stay.
  __device__ __forceinline__ void shift(uint8_t* stage, const uint8_t* ninths, int rows) const {
    constexpr int ONCE = PASSES < 4 ? PASSES : 4;  // pieces that are read before the first is written
    if (still) return;
    const int four = four_of_warp();
    uint8_t* own = stage + row * 128 + (column ^ row % 8 * 16);
    const uint8_t* next = column < 112 ? stage + row * 128 + (column + 16 ^ row % 8 * 16) : ninths + row * 16;
    const int further = APART * (column < 112 ? 128 : 16);
#pragma unroll
    for (int i = 0; i < PASSES; i += ONCE) {
      uint4 v[ONCE], w[ONCE];
#pragma unroll
      for (int j = 0; j < ONCE; ++j) {
        if (four + (i + j) % HIGH * APART >= rows) continue;
        v[j] = *reinterpret_cast<const uint4*>(own + (i + j) * APART * 128);
        w[j] = *reinterpret_cast<const uint4*>(next + (i + j) * further);
      }
      __syncwarp();
#pragma unroll
      for (int j = 0; j < ONCE; ++j)
        if (four + (i + j) % HIGH * APART < rows) *reinterpret_cast<uint4*>(own + (i + j) * APART * 128) = shifted(v[j], w[j], bytes);
    }
  }
};
