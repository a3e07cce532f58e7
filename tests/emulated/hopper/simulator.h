// A Hopper GPU as a C++ program sees it, slow and suspicious: what the rungs for Hopper use of CUDA C++ and of the headers that hold assembler
// text. Every thread of a cluster is a fiber, and they run in random order. What is asynchronous on a GPU happens here at a random time
// between its start and the wait for it: boxes arrive late, matrix instructions read shared memory late, and until then their sums are NaN.
// A kernel that waits for the wrong thing gets wrong results or hangs, and a hang is reported.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "types.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
inline Index threadIdx, blockIdx, gridDim, blockDim;

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct uint4 {
  uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct uint2 {
  uint32_t x, y;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
inline uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }
inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
inline int __clz(uint32_t x) { return x ? __builtin_clz(x) : 32; }
inline uint32_t __vminu4(uint32_t a, uint32_t b) {
  uint32_t least = 0;
  for (int i = 0; i < 32; i += 8) least |= min(a >> i & 0xff, b >> i & 0xff) << i;
  return least;
}
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t shift) { return uint32_t(((uint64_t(high) << 32 | low) << shift) >> 32); }
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) { return uint32_t((uint64_t(high) << 32 | low) >> shift % 32); }

// A tensor map as the host of the simulator makes it: 128 bytes, as on a GPU.
struct alignas(64) TensorMap {
  uint8_t* first;
  int64_t width, height, pitch;  // elements, rows, bytes
  int64_t apart;                 // bytes from a matrix of a batch to the next
  int32_t box_width, box_height;
  int32_t size;                  // bytes of an element
  uint8_t rest[128 - 52];
};
static_assert(sizeof(TensorMap) == 128);

namespace hopper {

struct Fault {
  std::string what;
};
[[noreturn]] inline void fault(const std::string& what) { throw Fault{what}; }

struct Barrier {
  int expected = 0, arrived = 0, phase = 0;
  int64_t bytes = 0;
  void settle() {
    if (arrived == expected && bytes == 0) arrived = 0, phase ^= 1;
    if (arrived > expected) fault("more arrivals at a barrier than it expects");
  }
};
struct Meeting {  // of threads at a hardware barrier, or of a warp or warpgroup for one instruction
  int here = 0, times = 0;
};
struct Sums {
  float* target = nullptr;  // in a thread's registers; none are under way there otherwise
  std::vector<float> values;
};
struct Products {  // of a warpgroup
  std::vector<std::function<void()>> open;         // issued, not yet in a group
  std::deque<std::vector<std::function<void()>>> groups;
  std::vector<Sums> places[128];                         // a place each for the sums that are under way at the same time
  std::vector<int> last;                                 // the number of the last group that adds to a place
  int committed = 0;                                     // groups
};
struct Block {
  std::vector<uint8_t> shared;
  std::map<uint32_t, Barrier> barriers;
  std::map<int, Meeting> hardware;
  std::vector<Meeting> warps, warpgroups;
  std::vector<Products> products;
  std::map<const void*, std::vector<uint8_t>> variables;  // `__shared__`, by where they are declared
  Index index;
  int alive = 0;
};
struct Thread {
  ucontext_t context;  // to start it
  jmp_buf left;        // where it has left off
  bool started = false;
  std::unique_ptr<uint8_t[]> stack;
  const void* condition = nullptr;  // that it waits for
  bool (*holds)(const void*);
  Block* block = nullptr;
  unsigned index = 0;
  bool done = false, arrived = false;                    // at the cluster's barrier
  int meeting = 0;                                       // there: how often all had met before
  std::vector<std::function<void()>> boxes;              // on their way out, not yet in a group
  std::deque<std::vector<std::function<void()>>> stores;  // groups of them
  std::deque<std::vector<std::function<void()>>> loads{1};  // its own copies on their way in; the last group is open
  uint32_t lanes[5];                         // what it gives to an instruction of its warp, and gets from it
};

constexpr size_t STACK = 48 << 10;  // bytes, of a thread
inline std::mt19937 dice;
inline std::vector<std::unique_ptr<Block>> blocks;  // of the cluster that runs
inline std::vector<std::unique_ptr<Thread>> threads;
inline std::vector<std::function<void()>> copies;  // to shared memory, on their way
inline Meeting whole_cluster;
inline jmp_buf scheduler;
inline Thread* now = nullptr;
inline uint64_t progress = 0;
inline std::string failure;

// Leaves the thread until the condition holds. The scheduler, to which no thread is `now`, asks for that: it switches to no thread that would
// only wait.
template <class Condition>
void wait_until(Condition condition) {
  if (!condition()) {
    now->condition = &condition;
    now->holds = [](const void* asked) { return (*static_cast<const Condition*>(asked))(); };
    if (!_setjmp(now->left)) _longjmp(scheduler, 1);
  }
  ++progress;
}
// Goes on with a thread until it waits or ends. `_setjmp` keeps no signals: `swapcontext` asks the kernel for them at each switch.
inline void go_on(Thread* thread) {
  now = thread;
  thread->condition = nullptr;
  if (_setjmp(scheduler)) return;
  if (thread->started) _longjmp(thread->left, 1);
  thread->started = true;
  setcontext(&thread->context);
}
// Waits until `count` threads have come. The last one calls `act`.
template <class Act>
void meet(Meeting& meeting, int count, Act act) {
  const int times = meeting.times;
  ++progress;
  if (++meeting.here == count) {
    act();
    meeting.here = 0, ++meeting.times;
  } else {
    wait_until([&] { return meeting.times != times; });
  }
}
inline int alive_in_cluster() {
  int count = 0;
  for (auto& block : blocks) count += block->alive;
  return count;
}
inline uint8_t* memory_of(uint32_t address, Block* block) {
  if ((address & 0xFFFFFF) >= block->shared.size()) fault("an address outside of shared memory");
  return block->shared.data() + (address & 0xFFFFFF);
}
inline void still_there(Block* block) {
  if (!block->alive) fault("the shared memory of a block that has ended");
}
inline int rank_of(Block* block) {
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].get() == block) return int(i);
  return -1;
}

}  // namespace hopper

inline uint8_t* dynamic_shared() { return hopper::now->block->shared.data(); }
// A variable of the block. Each place that declares one has its own NUMBER.
template <class Variable, int NUMBER>
Variable& shared_variable() {
  static char place;
  auto& memory = hopper::now->block->variables[&place];
  if (memory.empty())
    for (size_t i = 0; i < sizeof(Variable); ++i) memory.push_back(uint8_t(hopper::dice()));
  return *reinterpret_cast<Variable*>(memory.data());
}
inline void __syncthreads() {
  using namespace hopper;
  meet(now->block->hardware[0], now->block->alive, [] {});
}
inline void __syncwarp() {
  using namespace hopper;
  const int last = int(blockDim.x) - int(now->index / 32 * 32);
  meet(now->block->warps[now->index / 32], last < 32 ? last : 32, [] {});
}

// What a lane of the thread's warp gives.
inline uint32_t* lanes_of(hopper::Thread* thread, int lane) {
  return hopper::threads[hopper::rank_of(thread->block) * blockDim.x + thread->index / 32 * 32 + lane]->lanes;
}
// All lanes of a warp come, each with a word. The last one calls `act` with all of them, and each gets its own as it is then.
template <class Act>
uint32_t together(uint32_t word, Act act) {
  using namespace hopper;
  Thread* mine = now;
  mine->lanes[0] = word;
  meet(mine->block->warps[mine->index / 32], 32, [&] {
    uint32_t all[32];
    for (int lane = 0; lane < 32; ++lane) all[lane] = *lanes_of(mine, lane);
    act(all);
    for (int lane = 0; lane < 32; ++lane) *lanes_of(mine, lane) = all[lane];
  });
  return mine->lanes[0];
}
template <class Value>
Value moved(Value x, int from, int across) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = together(bits, [=](uint32_t (&all)[32]) {
    uint32_t old[32];
    memcpy(old, all, sizeof old);
    for (int lane = 0; lane < 32; ++lane) all[lane] = old[(across ? lane : from) ^ across];
  });
  memcpy(&x, &bits, 4);
  return x;
}
template <class Value>
Value __shfl_sync(uint32_t, Value x, int from) {
  return moved(x, from, 0);
}
template <class Value>
Value __shfl_xor_sync(uint32_t, Value x, int across) {
  return moved(x, 0, across);
}
inline uint32_t __reduce_max_sync(uint32_t, uint32_t x) {
  return together(x, [](uint32_t (&all)[32]) {
    uint32_t most = 0;
    for (uint32_t one : all) most = max(most, one);
    for (uint32_t& one : all) one = most;
  });
}
inline bool __any_sync(uint32_t, bool yes) { return __reduce_max_sync(0, yes); }
inline bool __all_sync(uint32_t, bool yes) { return !__reduce_max_sync(0, !yes); }

// async.cuh, bulk.cuh
inline uint32_t shared_address(const void* shared) {
  using namespace hopper;
  const auto* at = static_cast<const uint8_t*>(shared);
  return uint32_t(at - now->block->shared.data()) | uint32_t(rank_of(now->block)) << 24;
}
inline hopper::Barrier& barrier_at(uint32_t address, hopper::Block* block) {
  hopper::memory_of(address, block);
  if (address % 8) hopper::fault("a barrier at an odd address");
  return block->barriers[address & 0xFFFFFF];
}
inline void barrier_init(uint32_t barrier, int arrivals) { barrier_at(barrier, hopper::now->block).expected = arrivals; }
inline void barrier_arrive_in(hopper::Block* block, uint32_t address) {
  hopper::Barrier& barrier = barrier_at(address, block);
  ++barrier.arrived, ++hopper::progress;
  barrier.settle();
}
inline void barrier_arrive(uint32_t barrier) { barrier_arrive_in(hopper::now->block, barrier); }
inline void barrier_wait(uint32_t address, int parity) {
  hopper::Barrier& barrier = barrier_at(address, hopper::now->block);
  hopper::wait_until([&] { return barrier.expected && barrier.phase != parity; });
}
// WIDTH bytes are read and written when the copy happens: at some time before the wait for its group.
template <int WIDTH>
void copy_part(uint32_t to, const void* from, int bytes) {
  using namespace hopper;
  Block* block = now->block;
  if (to % WIDTH || bytes && reinterpret_cast<size_t>(from) % WIDTH) fault("a copy at no multiple of its width");
  if (bytes < 0 || bytes > WIDTH) fault("a copy of more bytes than its width, or fewer than none");
  memory_of(to + WIDTH - 1, block);
  now->loads.back().push_back([=] {
    uint8_t piece[WIDTH] = {};
    memcpy(piece, from, bytes);
    memcpy(memory_of(to, block), piece, WIDTH);
  });
}
template <int COUNT>
void copy_or_zero(uint32_t to, const float* from, bool wanted) {
  copy_part<4 * COUNT>(to, from, wanted ? 4 * COUNT : 0);
}
inline void commit() { hopper::now->loads.emplace_back(); }
template <int LEFT>
void wait() {
  for (auto& loads = hopper::now->loads; loads.size() > LEFT + 1; loads.pop_front())
    for (auto& load : loads.front()) load();
}
inline void barriers_ready() {}
inline void barrier_expect(uint32_t address, int bytes) {
  hopper::Barrier& barrier = barrier_at(address, hopper::now->block);
  ++barrier.arrived, barrier.bytes += bytes, ++hopper::progress;
  barrier.settle();
}
inline void copy_bulk(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  using namespace hopper;
  Block* block = now->block;
  if ((to | size_t(from) | uint32_t(bytes)) % 16) fault("a bulk copy of other than 16 bytes");
  copies.push_back([=] {
    still_there(block);
    memory_of(to + bytes - 1, block);
    memcpy(memory_of(to, block), from, bytes);
    Barrier& come = barrier_at(barrier, block);
    come.bytes -= bytes;
    come.settle();
  });
}
inline void async_may_follow() {}
template <int COUNT>
void give_registers_back() {}
template <int COUNT>
void take_registers() {}
template <int THREADS>
void some_sync(int number) {
  hopper::meet(hopper::now->block->hardware[number], THREADS, [] {});
}
template <int THREADS>
void some_arrive(int number) {
  hopper::Meeting& meeting = hopper::now->block->hardware[number];
  ++hopper::progress;
  if (++meeting.here == THREADS) meeting.here = 0, ++meeting.times;
}

// cluster.cuh
inline void cluster_arrive() {
  using namespace hopper;
  if (now->arrived) fault("a second arrival at the cluster's barrier without a wait");
  now->arrived = true, now->meeting = whole_cluster.times, ++progress;
  if (++whole_cluster.here == alive_in_cluster()) whole_cluster.here = 0, ++whole_cluster.times;
}
inline void cluster_wait() {
  using namespace hopper;
  if (!now->arrived) fault("a wait at the cluster's barrier without an arrival");
  wait_until([mine = now] { return whole_cluster.times != mine->meeting; });
  now->arrived = false;
}
inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
template <class Element>
Element* shared_of(Element* shared, int rank) {
  return reinterpret_cast<Element*>(hopper::memory_of(shared_address(shared), hopper::blocks.at(rank).get()));
}
inline void barrier_arrive_if(uint32_t barrier, bool wanted) {
  if (wanted) barrier_arrive(barrier);
}
// On its way to the other block until a random time, which nothing but the barrier there tells.
inline void barrier_arrive_at(uint32_t barrier, int rank, bool wanted) {
  using namespace hopper;
  if (!wanted) return;
  Block* other = blocks.at(rank).get();
  copies.push_back([=] {
    still_there(other);
    barrier_arrive_in(other, barrier);
  });
}
inline void send_bulk(uint32_t to, uint32_t from, int bytes, uint32_t barrier, int rank) {
  using namespace hopper;
  Block *mine = now->block, *other = blocks.at(rank).get();
  if ((to | from | uint32_t(bytes)) % 16) fault("a bulk copy of other than 16 bytes");
  copies.push_back([=] {
    still_there(mine), still_there(other);
    memory_of(from + bytes - 1, mine), memory_of(to + bytes - 1, other);
    memcpy(memory_of(to, other), memory_of(from, mine), bytes);
    Barrier& come = barrier_at(barrier, other);
    come.bytes -= bytes;
    come.settle();
  });
}

// half.cuh: all lanes of a warp take part.
inline int warp_index() {
  __syncwarp();
  return hopper::now->index / 32;
}
inline bool is_elected() {
  __syncwarp();
  return hopper::now->index % 32 == 0;
}
inline bool is_storer() { return warp_index() % 4 == 0 && is_elected(); }

// tensor_map.cuh
inline void prefetch(const TensorMap&) {}
inline uint32_t swizzled(int row, int byte) { return row * 128 + ((byte / 16 ^ row % 8) * 16) + byte % 16; }
inline uint8_t* row_of(const TensorMap& map, int y, int z) {
  if (!map.first) hopper::fault("a tensor map that cannot be made");
  return map.first + z * map.apart + y * map.pitch;
}
inline void copy_to(hopper::Block* block, uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier) {
  using namespace hopper;
  still_there(block);
  if (to % 1024) fault("a box at an address that is no multiple of 1024");
  for (int r = 0; r < map.box_height; ++r)
    for (int c = 0; c < map.box_width; ++c) {
      uint16_t value = 0;
      const int size = map.size;
      if (x + c >= 0 && x + c < map.width && y + r >= 0 && y + r < map.height) memcpy(&value, row_of(map, y + r, z) + (x + c) * size, size);
      memcpy(memory_of(to + swizzled(r, c * size), block), &value, size);
    }
  Barrier& come = barrier_at(barrier, block);
  come.bytes -= map.box_width * map.box_height * map.size;
  come.settle();
}
inline void copy_box(uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier) {
  hopper::Block* block = hopper::now->block;
  hopper::copies.push_back([=] { copy_to(block, to, map, x, y, z, barrier); });
}
inline void copy_box(uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier, uint16_t blocks) {
  for (size_t i = 0; i < hopper::blocks.size(); ++i)
    if (blocks >> i & 1) {
      hopper::Block* block = hopper::blocks[i].get();
      hopper::copies.push_back([=] { copy_to(block, to, map, x, y, z, barrier); });
    }
}
// A row of the matrix ends with a whole piece of 16 bytes, as on a GPU.
inline void store_box(const TensorMap& map, int x, int y, int z, uint32_t from) {
  using namespace hopper;
  Block* block = now->block;
  now->boxes.push_back([=] {
    for (int r = 0; r < map.box_height; ++r)
      for (int c = 0; c < map.box_width; ++c)
        if (x + c < (map.width + 7) / 8 * 8 && y + r < map.height) memcpy(row_of(map, y + r, z) + (x + c) * 2, memory_of(from + swizzled(r, c * 2), block), 2);
  });
}
inline void stores_commit() {
  hopper::now->stores.push_back(std::move(hopper::now->boxes));
  hopper::now->boxes.clear();
}
template <int LEFT>
void stores_read() {
  for (auto& stores = hopper::now->stores; stores.size() > LEFT; stores.pop_front())
    for (auto& store : stores.front()) store();
}

// half.cuh
template <class>
constexpr bool IS_BFLOAT = false;
template <>
constexpr bool IS_BFLOAT<__nv_bfloat16> = true;
// The sum so far and the products of one instruction. Of products of 8 bits, Hopper's tensor cores cut off what is smaller than 2^-13 times the power
// of two in the largest of them (DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.3.2).
template <class Element, int COUNT>
float added(float sum, const float* left, const float* right) {
  float largest = fabsf(sum), products[COUNT];
  for (int k = 0; k < COUNT; ++k) products[k] = left[k] * right[k], largest = fmaxf(largest, fabsf(products[k]));
  if (sizeof(Element) > 1 || largest == 0 || !std::isfinite(largest)) {
    for (float product : products) sum += product;
    return sum;
  }
  const float unit = exp2f(float(ilogbf(largest) - 13));
  float units = truncf(sum / unit);
  for (float product : products) units += truncf(product / unit);
  return truncf(units) * unit;
}
inline int fresh(int x) { return x; }
// Row or column i of an operand, at k, by the fields of its descriptor: a core matrix is 8 x 16 bytes, in rows of 128 that are swizzled or by
// itself.
template <class Element>
float element_at(hopper::Block* block, uint64_t operand, bool mn_major, int i, int k) {
  const uint32_t address = uint32_t(operand & 0x3FFF) << 4, one = uint32_t(operand >> 16 & 0x3FFF) << 4, eight = uint32_t(operand >> 32 & 0x3FFF) << 4;
  const uint32_t byte = k * sizeof(Element);
  uint32_t at = address / 1024 * 1024;
  if (operand >> 62 == 0) {
    if (mn_major) hopper::fault("an operand across K without swizzle");
    at = address + i / 8 * eight + i % 8 * 16 + byte / 16 * one + byte % 16;
  } else if (operand >> 62 != 1) {
    hopper::fault("a descriptor of another swizzle than 128 bytes");
  } else if (mn_major) {
    const uint32_t row = address / 128 % 8 + k;
    at += i / 64 * one + row / 8 * eight + swizzled(row % 8, i % 64 * 2);
  } else {
    at += i / 8 * eight + swizzled(i % 8, address % 128 + byte);
  }
  Element value;
  memcpy(static_cast<void*>(&value), hopper::memory_of(at, block), sizeof value);
  return float(value);
}
// A matrix instruction on 32 bytes of K of both operands.
template <class Element, int N>
void products_of(float (&d)[N / 2], uint64_t a, bool a_mn_major, uint64_t b, bool b_mn_major, int add) {
  using namespace hopper;
  constexpr int COUNT = 32 / sizeof(Element);
  Block* block = now->block;
  const int group = now->index / 128, thread = now->index % 128;
  Products& products = block->products.at(group);
  auto& places = products.places[thread];
  size_t place = 0;
  while (place < places.size() && places[place].target != d) ++place;
  if (place == places.size()) {  // none are under way
    for (place = 0; place < places.size() && places[place].target; ++place) {}
    if (place == places.size()) places.emplace_back();
    places[place] = {d, {d, d + N / 2}};
  }
  for (float& x : d) x = NAN;  // nobody may read them before the wait
  meet(block->warpgroups.at(group), 128, [&] {
    products.last.resize(products.places[0].size());
    products.last[place] = products.committed + 1;
    products.open.push_back([=, &products] {
      float left[64][COUNT], right[N][COUNT];
      for (int k = 0; k < COUNT; ++k) {
        for (int row = 0; row < 64; ++row) left[row][k] = element_at<Element>(block, a, a_mn_major, row, k);
        for (int column = 0; column < N; ++column) right[column][k] = element_at<Element>(block, b, b_mn_major, column, k);
      }
      for (int row = 0; row < 64; ++row)
        for (int column = 0; column < N; ++column) {
          const int t = row / 16 * 32 + row % 8 * 4 + column % 8 / 2, i = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
          float& value = products.places[t][place].values[i];
          value = added<Element, COUNT>(add ? value : 0, left[row], right[column]);
        }
    });
  });
}
// wgmma.cuh
inline uint64_t descriptor(uint32_t address, uint32_t along_k, uint32_t along_rows) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(along_k >> 4) << 16 | uint64_t(along_rows >> 4) << 32;
}
template <int N>
void wgmma_f16(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
  products_of<__half, N>(d, a, false, b, false, add);
}
template <int N>
void wgmma_tf32(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {
  products_of<float, N>(d, a, false, b, false, add);
}
inline float to_tf32(float x) {  // to the nearest, ties away from zero
  return std::isfinite(x) ? __uint_as_float((__float_as_uint(x) + 0x1000) & ~0x1FFFu) : x;
}
inline void wgmma_begin() {}
inline void wgmma_commit() {
  using namespace hopper;
  const int group = now->index / 128;
  meet(now->block->warpgroups.at(group), 128, [&] {
    Products& products = now->block->products[group];
    products.groups.push_back(std::move(products.open));
    products.open.clear();
    ++products.committed;
  });
}
inline void first_group(hopper::Products& products) {
  for (auto& product : products.groups.front()) product();
  products.groups.pop_front();
}
template <int LEFT>
void wgmma_wait() {
  using namespace hopper;
  Block* block = now->block;
  const int group = now->index / 128;
  Products& products = block->products.at(group);
  meet(block->warpgroups.at(group), 128, [&] {
    while (products.groups.size() > LEFT) first_group(products);
    for (auto& places : products.places)
      for (size_t place = 0; place < places.size(); ++place)
        if (auto& [target, values] = places[place]; target && products.last[place] <= products.committed - LEFT)
          memcpy(target, values.data(), values.size() * 4), target = nullptr;
  });
}
template <int COUNT>
void wgmma_done(float (&)[COUNT]) {}
inline void store_four(uint32_t to, const uint32_t (&given)[4], bool transposed) {
  using namespace hopper;
  Thread* mine = now;
  mine->lanes[0] = to;
  memcpy(mine->lanes + 1, given, sizeof given);
  meet(mine->block->warps[mine->index / 32], 32, [&] {
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 2; ++i) {  // an element of row lane / 4 and column lane % 4 * 2 + i
          const int row = lane / 4, column = lane % 4 * 2 + i;
          const uint32_t at = lanes_of(mine, matrix * 8 + (transposed ? column : row))[0] + (transposed ? row : column) * 2;
          memcpy(memory_of(at, mine->block), reinterpret_cast<uint16_t*>(lanes_of(mine, lane) + 1 + matrix) + i, 2);
        }
  });
}
inline void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) { store_four(to, {a, b, c, d}, false); }
inline void store_transposed(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) { store_four(to, {a, b, c, d}, true); }
inline uint32_t transposed(uint32_t pair) {
  return together(pair, [](uint32_t (&all)[32]) {
    uint16_t elements[8][8];
    for (int lane = 0; lane < 32; ++lane) memcpy(&elements[lane / 4][lane % 4 * 2], &all[lane], 4);
    for (int lane = 0; lane < 32; ++lane) all[lane] = elements[lane % 4 * 2][lane / 4] | uint32_t(elements[lane % 4 * 2 + 1][lane / 4]) << 16;
  });
}

namespace hopper {

// Calls the kernel in every thread of the grid; what it complains of, or "".
const char* run(std::function<void()> call, unsigned size, const unsigned* grid, unsigned block, int shared);

}  // namespace hopper
