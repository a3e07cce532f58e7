// The pipeline's own kernels on a GPU: drawing operands, their float64 copies, the comparison with the reference, the audit of a timed
// launch, the peak rate. Compiled once per architecture, apart from every kernel that is measured.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "operands.h"

namespace {

constexpr unsigned CANARY = 0x7FF87FF9;  // a NaN as float, as either half of it, and doubled as double; as E4M3 in each second byte
constexpr int THREADS = 256;

template <class T>
struct Bits;
template <>
struct Bits<__half> {
  using type = unsigned short;
};
template <>
struct Bits<__nv_bfloat16> {
  using type = unsigned short;
};
template <>
struct Bits<__nv_fp8_e4m3> {
  using type = unsigned char;
};
template <>
struct Bits<float> {
  using type = unsigned;
};
template <>
struct Bits<double> {
  using type = u64;
};

template <class T>
__device__ typename Bits<T>::type bits(T value) {
  return *(typename Bits<T>::type*)&value;
}

template <class T>
__device__ typename Bits<T>::type canary(long long i) {
  if constexpr (sizeof(T) == 1) return CANARY >> i % 4 * 8 & 0xFF;
  if constexpr (sizeof(T) == 2) return i % 2 ? CANARY >> 16 : CANARY & 0xFFFF;
  if constexpr (sizeof(T) == 4) return CANARY;
  if constexpr (sizeof(T) == 8) return (u64)CANARY << 32 | CANARY;
}

// The least positive number.
template <class T>
__device__ double least() {
  const typename Bits<T>::type one = 1;
  return double(*(const T*)&one);
}

// The place of a matrix: `first` elements into a buffer of `total`. Canaries are all around it and in the padding of its rows. A batch has
// `count` of them, `stride` apart.
struct Place {
  long long total, first, rows, cols, ld, count, stride;
};

// The matrix, and the row and the column in it, of an element of a buffer. It is outside of all matrices if `inside` is not set.
struct Spot {
  long long z, row, col;
  bool inside;
  __device__ Spot(Place p, long long i) {
    long long at = i - p.first;
    z = p.count > 1 ? at / p.stride : 0, at -= z * p.stride;
    row = at / p.ld, col = at % p.ld;
    inside = i >= p.first && z < p.count && row < p.rows && col < p.cols;
  }
};

template <class T>
__device__ void fill(T* buffer, Place p, Draw d) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < p.total; i += (long long)gridDim.x * blockDim.x) {
    const Spot at(p, i);
    if (at.inside)
      buffer[i] = T(stored(of_batch(d, at.z), at.row, at.col));
    else
      ((typename Bits<T>::type*)buffer)[i] = canary<T>(i);
  }
}

// op(A), op(B) or C, `rows` x `cols`, of the rows in memory from `skip` on, or of a batch `count` matrices from number `skip` on, drawn again and
// rounded to T, in float64: what a launch has written where they lie does not matter.
template <class T>
__device__ void draw_wide(Draw d, long long skip, long long count, long long rows, long long cols, double* out, int absolute) {
  const long long first = count > 1 ? skip : 0;
  skip -= first;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count * rows * cols; i += (long long)gridDim.x * blockDim.x) {
    const long long row = i / cols % rows, col = i % cols;
    const Draw own = of_batch(d, first + i / (rows * cols));
    const long long at_row = skip + (d.transposed ? col : row), at_col = d.transposed ? row : col;
    const double value = double(T(stored(own, at_row, at_col))) * factor_at(own, at_row, at_col);
    out[i] = absolute ? fabs(value) : value;
  }
}

// Overwritten canaries behind a matrix, and before the first, counted by all blocks of a row of the grid together.
template <class T>
__device__ double spoilt_round(const T* buffer, Place p, long long z) {
  const auto* words = (const typename Bits<T>::type*)buffer;
  const long long thread = blockIdx.x * (long long)THREADS + threadIdx.x, threads = gridDim.x * (long long)THREADS;
  const long long first = p.first + z * p.stride, next = z + 1 < p.count ? first + p.stride : p.total;
  double count = 0;
  for (long long i = thread; i < p.first && z == 0; i += threads) count += words[i] != canary<T>(i);
  for (long long i = first + p.rows * p.ld + thread; i < next; i += threads) count += words[i] != canary<T>(i);
  return count;
}

__device__ double total_of(double value) {  // over the block; in thread 0
  __shared__ double part[THREADS / 32];
  for (int lanes = 16; lanes; lanes /= 2) value += __shfl_down_sync(~0u, value, lanes);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < THREADS / 32; ++w) value += part[w];
  return value;
}

// Compares the buffer of C. sums[block] = {sum (C-R)^2, sum R^2, sum S^2, max |C-R|/S, its place in C, elements that are NaN or infinite in C
// or R but not alike, overwritten canaries, sum of what rounding R once loses, squared}. Where |C-R| is at most the element type's least positive number, |C-R|/S counts as 0: no rounding
// is relative to results so small. `exact` is what `operands.exact_elements` returns: elements that must be exact are compared with R rounded
// to the element type, and their |C-R|/S is infinite if they are off at all.
template <class T>
__device__ void compare(const T* buffer, Place p, const double* R, const double* S, int exact, double* sums) {
  double diff2 = 0, ref2 = 0, scale2 = 0, worst = 0, where = 0, wild = 0, stray = 0, rounded2 = 0;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < p.total; i += (long long)gridDim.x * blockDim.x) {
    const Spot at(p, i);
    if (!at.inside) {
      stray += ((const typename Bits<T>::type*)buffer)[i] != canary<T>(i);
      continue;
    }
    const long long place = (at.z * p.rows + at.row) * p.cols + at.col;
    const double value = double(buffer[i]), rounded = double(T(R[place])), scale = S[place];
    const bool is_exact = exact == 1 || (exact == 2 && whole_at(at.row) && whole_at(at.col));
    const double ref = is_exact ? rounded : R[place];
    double share = 0;
    if (!isfinite(value) || !isfinite(rounded)) {
      if (value == rounded || (isnan(value) && isnan(rounded))) continue;
      ++wild;
      share = INFINITY;
    } else {
      const double diff = fabs(value - ref);
      diff2 += diff * diff, ref2 += ref * ref, scale2 += scale * scale, rounded2 += (rounded - ref) * (rounded - ref);
      share = is_exact && diff > 0 ? INFINITY : diff > least<T>() ? diff / scale : 0;
    }
    if (share > worst) worst = share, where = double(place);
  }
  __shared__ double most[THREADS][2];
  most[threadIdx.x][0] = worst, most[threadIdx.x][1] = where;
  const double totals[] = {total_of(diff2), total_of(ref2), total_of(scale2), total_of(wild), total_of(stray), total_of(rounded2)};
  if (threadIdx.x) return;
  for (int t = 1; t < THREADS; ++t)
    if (most[t][0] > worst) worst = most[t][0], where = most[t][1];
  double* mine = sums + 8 * blockIdx.x;
  mine[0] = totals[0], mine[1] = totals[1], mine[2] = totals[2], mine[3] = worst, mine[4] = where, mine[5] = totals[3], mine[6] = totals[4], mine[7] = totals[5];
}

// Of the elements of C whose bits are not those of another result, of which row i % rows is the like of row i, the first, counted row by row and
// matrix by matrix, if it is less than `*where`.
template <class T>
__device__ void differ(const T* buffer, Place p, const T* other, Place o, long long rows, u64* where) {
  using U = typename Bits<T>::type;
  const U *c = (const U*)buffer + p.first, *like = (const U*)other + o.first;
  const long long all = p.count * p.rows * p.cols;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < all; i += (long long)gridDim.x * blockDim.x) {
    const long long z = i / (p.rows * p.cols), row = i / p.cols % p.rows, col = i % p.cols;
    if (c[z * p.stride + row * p.ld + col] == like[z * o.stride + row % rows * o.ld + col]) continue;
    atomicMin(where, (u64)i);
    return;
  }
}

// Adds a digest of `count` words to `sum`. Nobody who does not know the secret can change the words and leave the digest as it was, but by luck.
extern "C" __global__ void digest(const u64* words, long long count, u64 secret, u64* sum) {
  const long long thread = blockIdx.x * (long long)blockDim.x + threadIdx.x, threads = gridDim.x * (long long)blockDim.x;
  u64 mine = 0;
  for (long long i = thread; i < count; i += threads) mine += mix(words[i] ^ mix(secret + i));
  atomicAdd(sum, mine);
}

__device__ double sign(u64 secret, long long j) { return mix(secret + j) & 1 ? 1 : -1; }

// The audits go along the rows of op(A) and op(B), padding and extra rows too: a block takes a row, or, if the matrix lies transposed, a column of
// what lies in memory.
__device__ long long lines_of(Place p, Draw d) { return d.transposed ? p.ld : p.rows; }
__device__ long long across_of(Place p, Draw d) { return d.transposed ? p.rows : p.ld; }

// An element of such a line: its row and column in memory, its place in the buffer, whether it is in the matrix, its value, and by what this is
// multiplied.
template <class T>
struct Element {
  long long row, col, at;
  bool inside;
  T value;
  double factor;
  __device__ Element(Place p, Draw d, long long line, long long other)
      : row(d.transposed ? other : line), col(d.transposed ? line : other), at(p.first + row * p.ld + col), inside(col < p.cols),
        value(T(inside ? stored(d, row, col) : 0.0)), factor(factor_at(d, row, col)) {}
  __device__ bool changed(const T* buffer) const { return ((const typename Bits<T>::type*)buffer)[at] != (inside ? bits(value) : canary<T>(at)); }
};

// The audit of a launch (Freivalds, Probabilistic machines can use less running time, IFIP 1977): for a vector x of random signs, C x and
// alpha A (B x) + beta C0 x are equal except for rounding. audit = {max |C x - alpha A (B x) - beta C0 x| of a row over its scale, changed
// elements in and around A and B, overwritten canaries around C}. First B: w = op(B) x and the sum of squares of each row of op(B), K x N, for
// the rows in memory from `skip` on. Of a batch a row of the grid takes a matrix, and `count` from number `skip` on are multiplied.
template <class T>
__device__ void audit_b(const T* buffer, Place p, Draw d, long long skip, long long count, long long N, u64 secret, double* w, double* squares,
                        double* audit) {
  const long long number = p.count > 1 ? blockIdx.y - skip : 0;
  const bool multiplied = number >= 0 && number < count;
  double changed = spoilt_round(buffer, p, blockIdx.y);
  d.matrix = 1;  // as it is: known to the compiler, it leaves out how the others are drawn
  d = of_batch(d, blockIdx.y), p.first += blockIdx.y * p.stride;
  if (p.count > 1) skip = 0;
  if (multiplied) w += number * d.k, squares += number * d.k;
  const double unit = to_square(d);
  const long long lines = lines_of(p, d), across = across_of(p, d);
  for (long long line = blockIdx.x; line < lines; line += gridDim.x) {
    double sum = 0, square = 0;
    for (long long other = threadIdx.x; other < across; other += THREADS) {
      const Element<T> element(p, d, line, other);
      changed += element.changed(buffer);
      const long long col = d.transposed ? element.row - skip : element.col;
      if (!element.inside || col < 0 || col >= N) continue;
      const double value = double(element.value) * element.factor;
      sum += sign(secret, col) * value, square += (unit * value) * (unit * value);
    }
    sum = total_of(sum), square = total_of(square);
    const long long k = d.transposed ? line : line - skip;
    if (threadIdx.x == 0 && multiplied && k >= 0 && k < d.k) w[k] = sum, squares[k] = square;
  }
  changed = total_of(changed);
  if (threadIdx.x == 0) atomicAdd(&audit[1], changed);
}

// Then A, of which the rows in memory from `skip` on were multiplied, and C. The scale of row i is sqrt(|C_i|^2 + |alpha A_i|^2 |B|^2 / K + |beta C0_i|^2): the size of a row of sums without cancellation.
// The comparison with the reference covers rows whose A (B x) is not finite.
template <class T, class Out>
__device__ void audit_a(const T* buffer, Place p, Draw d, long long skip, const Out* c, Place pc, Draw dc, const double* w, const double* squares,
                        u64 secret, double alpha, double beta, double* audit) {
  const long long number = p.count > 1 ? blockIdx.y - skip : 0;
  const bool multiplied = number >= 0 && number < pc.count;
  double worst = 0, changed = spoilt_round(buffer, p, blockIdx.y), stray = multiplied ? spoilt_round(c, pc, number) : 0, norm_b = 0;
  d.matrix = 0, dc.matrix = 2;
  d = of_batch(d, blockIdx.y), p.first += blockIdx.y * p.stride;
  if (p.count > 1) skip = 0;
  if (multiplied) dc = of_batch(dc, number), pc.first += number * pc.stride, w += number * d.k, squares += number * d.k;
  Draw of_b = d;
  of_b.matrix = 1;
  const double unit = to_square(d), unit_c = unit * to_square(of_b);
  const long long lines = lines_of(p, d), across = across_of(p, d);
  for (long long k = threadIdx.x; k < d.k; k += THREADS) norm_b += squares[k];
  norm_b = total_of(norm_b);
  for (long long line = blockIdx.x; line < lines; line += gridDim.x) {
    double z = 0, y = 0, a2 = 0, c2 = 0;
    for (long long other = threadIdx.x; other < across; other += THREADS) {
      const Element<T> element(p, d, line, other);
      changed += element.changed(buffer);
      const long long k = d.transposed ? element.row - skip : element.col;
      if (!element.inside || k < 0 || k >= d.k) continue;
      const double value = double(element.value) * element.factor;
      z += value * w[k], a2 += (unit * value) * (unit * value);
    }
    const long long of_c = d.transposed ? line : line - skip;
    if (!multiplied || of_c < 0 || of_c >= pc.rows) continue;
    z *= alpha;  // not finite if A or B is not, even if alpha is 0: then C may have NaN
    for (long long col = threadIdx.x; col < pc.ld; col += THREADS) {
      const long long at = pc.first + of_c * pc.ld + col;
      if (col < pc.cols) {
        const double value = double(c[at]), before = beta == 0 ? 0 : beta * double(Out(operand(dc, of_c, col)));
        y += sign(secret, col) * value, z += sign(secret, col) * before;
        c2 += (unit_c * value) * (unit_c * value) + (unit_c * before) * (unit_c * before);
      } else {
        stray += ((const typename Bits<Out>::type*)c)[at] != canary<Out>(at);
      }
    }
    z = total_of(z), y = total_of(y), a2 = total_of(a2), c2 = total_of(c2);
    if (threadIdx.x == 0 && isfinite(z)) {
      const double ab2 = alpha * alpha * a2 * norm_b / double(d.k);
      const double off = unit_c * fabs(y - z), share = off == 0 ? 0 : off / sqrt(c2 + ab2);
      worst = isfinite(share) ? fmax(worst, share) : INFINITY;
    }
  }
  changed = total_of(changed), stray = total_of(stray);
  if (threadIdx.x == 0) {
    atomicMax((u64*)&audit[0], (u64)__double_as_longlong(worst));  // the bits of nonnegative numbers have the same order as the numbers
    atomicAdd(&audit[1], changed), atomicAdd(&audit[2], stray);
  }
}

}  // namespace

// Changed elements of scales and around them, for the audit.
extern "C" __global__ void __launch_bounds__(THREADS) audit_scales(const float* buffer, Place p, Draw d, double* audit) {
  double changed = 0;
  for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < p.total; i += (long long)gridDim.x * THREADS) {
    const Spot at(p, i);
    changed += ((const unsigned*)buffer)[i] != (at.inside ? bits((float)scale_at(d, at.row, at.col)) : canary<float>(i));
  }
  changed = total_of(changed);
  if (threadIdx.x == 0) atomicAdd(&audit[1], changed);
}

#define FOR_TYPE(NAME, T, OUT)                                                                                                                 \
  extern "C" __global__ void fill_##NAME(T* buffer, Place p, Draw d) { fill(buffer, p, d); }                                                   \
  extern "C" __global__ void draw_wide_##NAME(Draw d, long long skip, long long count, long long rows, long long cols, double* out, int absolute) { \
    draw_wide<T>(d, skip, count, rows, cols, out, absolute);                                                                                   \
  }                                                                                                                                            \
  extern "C" __global__ void __launch_bounds__(THREADS, 2) audit_b_##NAME(const T* buffer, Place p, Draw d, long long skip, long long count, long long N, u64 secret, \
                                                                       double* w, double* squares, double* audit) {                            \
    audit_b(buffer, p, d, skip, count, N, secret, w, squares, audit);                                                                          \
  }                                                                                                                                            \
  extern "C" __global__ void __launch_bounds__(THREADS, 2)                                                                                     \
      audit_a_##NAME(const T* buffer, Place p, Draw d, long long skip, const OUT* c, Place pc, Draw dc, const double* w, const double* squares, \
                     u64 secret, double alpha, double beta, double* audit) {                                                                   \
    audit_a(buffer, p, d, skip, c, pc, dc, w, squares, secret, alpha, beta, audit);                                                            \
  }
#define FOR_RESULT(NAME, T)                                                                                                                    \
  FOR_TYPE(NAME, T, T)                                                                                                                         \
  extern "C" __global__ void __launch_bounds__(THREADS, 2)                                                                                     \
      compare_##NAME(const T* buffer, Place p, const double* R, const double* S, double* sums, int exact) {                                    \
    compare(buffer, p, R, S, exact, sums);                                                                                                     \
  }                                                                                                                                            \
  extern "C" __global__ void differ_##NAME(const T* buffer, Place p, const T* other, Place o, long long rows, u64* where) {                    \
    differ(buffer, p, other, o, rows, where);                                                                                                  \
  }
FOR_RESULT(float32, float)
FOR_RESULT(float64, double)
FOR_RESULT(float16, __half)
FOR_RESULT(bfloat16, __nv_bfloat16)
FOR_TYPE(float8_e4m3, __nv_fp8_e4m3, __nv_bfloat16)
FOR_TYPE(float8_e4m3_float16, __nv_fp8_e4m3, __half)
FOR_TYPE(float8_e4m3_blocks, __nv_fp8_e4m3, __nv_bfloat16)

// Peak FP32 rate: every thread makes `rounds` times 1024 independent multiply-adds in registers, 8 chains of 128. The loop itself (a counter,
// a comparison, a branch) then takes 3 instructions in a thousand.
extern "C" __global__ void __launch_bounds__(256) peak_fma(int rounds, float a, float b, float* out) {
  float x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = threadIdx.x + i;
#pragma unroll 1
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int j = 0; j < 128; ++j)
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = fmaf(x[i], a, b);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += x[i];
  if (sum == 12345.678f) *out = sum;  // keeps the chains alive; almost never true
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define SUMS_8(i)                                                                                                                              \
  "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3]), "+f"(x[i + 4]), "+f"(x[i + 5]), "+f"(x[i + 6]), "+f"(x[i + 7])
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)

#define MULTIPLY(form, majors)                                                                                                                 \
  asm volatile("wgmma.mma_async.sync.aligned.m64n256" form " {"                                                                                \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "                          \
               "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "                \
               "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "                \
               "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, "                \
               "%88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "      \
               "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"                    \
               "}, %128, %129, 1, 1, 1" majors ";"                                                                                             \
               : SUMS_32(0), SUMS_32(32), SUMS_32(64), SUMS_32(96)                                                                             \
               : "l"(a), "l"(b))

// The tensor cores' peak: each warpgroup multiplies the same tiles in shared memory, 64 rows of 32 bytes by 256 with FP32 sums, without waiting
// for anything else (PTX ISA, "wgmma.mma_async"). The elements, of 16 bits or of 8 (E4M3), are random between 1/2 and 1 and of both signs.
template <int BITS>
__device__ void multiply_only(int rounds, float* out) {
  constexpr int A_BYTES = 64 * 32, B_BYTES = 256 * 32;
  constexpr unsigned RANDOM = BITS == 16 ? 0x83ff83ffu : 0x87878787u, HALVES = BITS == 16 ? 0x38003800u : 0x30303030u;
  __shared__ alignas(128) unsigned tiles[(2 * A_BYTES + B_BYTES) / 4];
  for (unsigned i = threadIdx.x; i < sizeof tiles / 4; i += 256) {
    const unsigned mixed = (i + 1) * 2654435761u;
    tiles[i] = ((mixed ^ mixed >> 15) & RANDOM) | HALVES;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  // Core matrices of 8 rows of 16 bytes: 128 bytes from one to the next along K, 256 along the rows ("Matrix Descriptor Format", no swizzle).
  const u64 strides = u64(128 >> 4) << 16 | u64(256 >> 4) << 32;
  const unsigned at = unsigned(__cvta_generic_to_shared(tiles));
  const u64 a = strides | (at + threadIdx.x / 128 * A_BYTES) >> 4, b = strides | (at + 2 * A_BYTES) >> 4;
  float x[128] = {};
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if constexpr (BITS == 16)
        MULTIPLY("k16.f32.f16.f16", ", 0, 0");
      else
        MULTIPLY("k32.f32.e4m3.e4m3", "");
    }
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i) sum += x[i];
  if (sum == 12345.678f) *out = sum;  // keeps the products; almost never true
}
extern "C" __global__ void __launch_bounds__(256) peak_tensor_16(int rounds, float* out) { multiply_only<16>(rounds, out); }
extern "C" __global__ void __launch_bounds__(256) peak_tensor_8(int rounds, float* out) { multiply_only<8>(rounds, out); }
#endif

// L2 bandwidth: all blocks read a buffer that fits the cache `passes` times, past L1. A block reads another part in each pass, so that every
// SM reads both halves of a cache that has two.
extern "C" __global__ void __launch_bounds__(THREADS) peak_read(const float4* in, int count, int passes, float* out) {
  float sum = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const int block = (blockIdx.x + pass) % gridDim.x;
#pragma unroll 4
    for (int i = block * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) {
      const float4 value = __ldcg(in + i);
      sum += value.x + value.y + value.z + value.w;
    }
  }
  if (sum == 12345.678f) *out = sum;
}

__device__ u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Latency: the only thread of each block follows a chain of word indices through a buffer of `lines` cache lines, past L1. ns[block] is what
// all of its `steps` loads take. The loads are volatile, and stay between the two readings of the clock; the store needs the last one.
extern "C" __global__ void peak_chase(const unsigned* next, int lines, int steps, double* ns) {
  unsigned at = unsigned((long long)lines * blockIdx.x / gridDim.x) * 32;
  const u64 start = nanoseconds();
#pragma unroll 8
  for (int step = 0; step < steps; ++step) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(next + at));
  const u64 end = nanoseconds();
  ns[blockIdx.x] = at == ~0u ? 0 : double(end - start);
}

// For each block: the multiprocessor that it runs on, this one's cycles, and the GPU's time in nanoseconds (PTX ISA, "Special Registers").
extern "C" __global__ void stamp(u64* at) {
  if (threadIdx.x > 0) return;
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  at[3 * blockIdx.x] = number, at[3 * blockIdx.x + 1] = clock64(), at[3 * blockIdx.x + 2] = nanoseconds();
}
