// The scheduler: clusters one after another, their threads in random order. And what the threads ask of it.
#include "simulator.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

Index threadIdx, blockIdx, gridDim, blockDim;

namespace hopper {

struct Fault {
  std::string what;
};
[[noreturn]] static void fault(const std::string& what) { throw Fault{what}; }

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
static std::mt19937 dice;
static std::vector<std::unique_ptr<Block>> blocks;  // of the cluster that runs
static std::vector<std::unique_ptr<Thread>> threads;
static std::vector<std::function<void()>> copies;  // to shared memory, on their way
static Meeting whole_cluster;
static jmp_buf scheduler;
static Thread* now = nullptr;
static uint64_t progress = 0;
static std::string failure;

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
static void go_on(Thread* thread) {
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
static int alive_in_cluster() {
  int count = 0;
  for (auto& block : blocks) count += block->alive;
  return count;
}
static uint8_t* memory_of(uint32_t address, Block* block) {
  if ((address & 0xFFFFFF) >= block->shared.size()) fault("an address outside of shared memory");
  return block->shared.data() + (address & 0xFFFFFF);
}
static void still_there(Block* block) {
  if (!block->alive) fault("the shared memory of a block that has ended");
}
static int rank_of(Block* block) {
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].get() == block) return int(i);
  return -1;
}

uint8_t* variable(const void* place, size_t bytes) {
  auto& memory = now->block->variables[place];
  while (memory.size() < bytes) memory.push_back(uint8_t(dice()));
  return memory.data();
}
void sync(int number, int threads) {
  meet(now->block->hardware[number], threads, [] {});
}
void arrive(int number, int threads) {
  Meeting& meeting = now->block->hardware[number];
  ++progress;
  if (++meeting.here == threads) meeting.here = 0, ++meeting.times;
}

// What a lane of the thread's warp gives.
static uint32_t* lanes_of(Thread* thread, int lane) {
  return threads[rank_of(thread->block) * blockDim.x + thread->index / 32 * 32 + lane]->lanes;
}
// All lanes of a warp come, each with a word. The last one calls `act` with all of them, and each gets its own as it is then.
template <class Act>
uint32_t together(uint32_t word, Act act) {
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
uint32_t moved(uint32_t bits, int from, int across) {
  return together(bits, [=](uint32_t (&all)[32]) {
    uint32_t old[32];
    memcpy(old, all, sizeof old);
    for (int lane = 0; lane < 32; ++lane) all[lane] = old[(across ? lane : from) ^ across];
  });
}

static Barrier& barrier_at(uint32_t address, Block* block) {
  memory_of(address, block);
  if (address % 8) fault("a barrier at an odd address");
  return block->barriers[address & 0xFFFFFF];
}
static void barrier_arrive_in(Block* block, uint32_t address) {
  Barrier& barrier = barrier_at(address, block);
  ++barrier.arrived, ++progress;
  barrier.settle();
}
// The bytes are read and written when the copy happens: at some time before the wait for its group.
void copy_part(uint32_t to, const void* from, int bytes, int width) {
  Block* block = now->block;
  if (to % width || bytes && reinterpret_cast<size_t>(from) % width) fault("a copy at no multiple of its width");
  if (bytes < 0 || bytes > width) fault("a copy of more bytes than its width, or fewer than none");
  memory_of(to + width - 1, block);
  now->loads.back().push_back([=] {
    uint8_t* piece = memory_of(to, block);
    memset(piece, 0, width);
    memcpy(piece, from, bytes);
  });
}
void wait_for_loads(size_t left) {
  for (auto& loads = now->loads; loads.size() > left + 1; loads.pop_front())
    for (auto& load : loads.front()) load();
}
void wait_for_stores(size_t left) {
  for (auto& stores = now->stores; stores.size() > left; stores.pop_front())
    for (auto& store : stores.front()) store();
}
uint8_t* shared_of(const void* shared, int rank) { return memory_of(shared_address(shared), blocks.at(rank).get()); }

static uint32_t swizzled(int row, int byte) { return row * 128 + ((byte / 16 ^ row % 8) * 16) + byte % 16; }
static uint8_t* row_of(const TensorMap& map, int y, int z) {
  if (!map.first) fault("a tensor map that cannot be made");
  return map.first + z * map.apart + y * map.pitch;
}
static void copy_to(Block* block, uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier) {
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

// Row or column i of an operand, at k, by the fields of its descriptor: a core matrix is 8 x 16 bytes, in rows of 128 that are swizzled or by
// itself.
static float element_at(Block* block, Element element, uint64_t operand, bool mn_major, int i, int k) {
  const uint32_t address = uint32_t(operand & 0x3FFF) << 4, one = uint32_t(operand >> 16 & 0x3FFF) << 4, eight = uint32_t(operand >> 32 & 0x3FFF) << 4;
  const uint32_t byte = k * element.size;
  uint32_t at = address / 1024 * 1024;
  if (operand >> 62 == 0) {
    if (mn_major) fault("an operand across K without swizzle");
    at = address + i / 8 * eight + i % 8 * 16 + byte / 16 * one + byte % 16;
  } else if (operand >> 62 != 1) {
    fault("a descriptor of another swizzle than 128 bytes");
  } else if (mn_major) {
    const uint32_t row = address / 128 % 8 + k;
    at += i / 64 * one + row / 8 * eight + swizzled(row % 8, i % 64 * 2);
  } else {
    at += i / 8 * eight + swizzled(i % 8, address % 128 + byte);
  }
  return element.read(memory_of(at, block));
}

// Columns of sums are added to at once, each in the order of K. Of products of 8 bits, Hopper's tensor cores cut off what is smaller than 2^-13
// times the power of two in the largest of them and the sum (DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.3.2).
constexpr int AT_ONCE = 8;
using Floats = float __attribute__((vector_size(4 * AT_ONCE)));
using Words = int32_t __attribute__((vector_size(4 * AT_ONCE)));
static Floats added(Floats sum, const float* left, const Floats* right, int count, int apart) {
  for (int k = 0; k < count; ++k) sum += left[k] * right[k * apart];
  return sum;
}
static Floats added_and_cut(Floats sum, const float* left, const Floats* right, int count, int apart) {
  const Floats whole = added(sum, left, right, count, apart);
  Floats products[32];
  Words largest = Words(sum) & 0x7FFFFFFF;  // bits of what is positive are ordered as it is
  for (int k = 0; k < count; ++k) {
    products[k] = left[k] * right[k * apart];
    const Words size = Words(products[k]) & 0x7FFFFFFF;
    largest = size > largest ? size : largest;
  }
  const Words finite = largest < 0x7F800000;
  Words exponent = largest >> 23;
  exponent = exponent > 27 ? exponent : 27;  // below are no sums of products of 8 bits but 0
  const Floats unit = Floats((exponent - 13) << 23), units_of_one = Floats((254 + 13 - exponent) << 23);
  auto cut = [&](Floats x) { return __builtin_convertvector(Floats(Words(x * units_of_one) & finite), Words); };
  Words units = cut(sum);
  for (int k = 0; k < count; ++k) units += cut(products[k]);
  return finite ? __builtin_convertvector(units, Floats) * unit : whole;
}

void multiply(float* d, int columns, Element element, uint64_t a, bool a_mn_major, uint64_t b, bool b_mn_major, bool add) {
  Block* block = now->block;
  const int group = now->index / 128, thread = now->index % 128;
  Products& products = block->products.at(group);
  auto& places = products.places[thread];
  size_t place = 0;
  while (place < places.size() && places[place].target != d) ++place;
  if (place == places.size()) {  // none are under way
    for (place = 0; place < places.size() && places[place].target; ++place) {}
    if (place == places.size()) places.emplace_back();
    places[place] = {d, {d, d + columns / 2}};
  }
  std::fill(d, d + columns / 2, NAN);  // nobody may read them before the wait
  meet(block->warpgroups.at(group), 128, [&] {
    products.last.resize(products.places[0].size());
    products.last[place] = products.committed + 1;
    products.open.push_back([=, &products] {
      const int count = 32 / element.size;
      // not on the stack of a thread, which is small
      static float left[64][32];
      static Floats right[32 * 256 / AT_ONCE];
      for (int k = 0; k < count; ++k) {
        for (int row = 0; row < 64; ++row) left[row][k] = element_at(block, element, a, a_mn_major, row, k);
        for (int column = 0; column < columns; ++column) reinterpret_cast<float*>(right)[k * columns + column] = element_at(block, element, b, b_mn_major, column, k);
      }
      for (int row = 0; row < 64; ++row) {
        const int first = row / 16 * 32 + row % 8 * 4;  // the thread that has the first two columns; the next ones have the others
        for (int column = 0; column < columns; column += AT_ONCE) {
          float* values[AT_ONCE];
          Floats sum = {};
          for (int i = 0; i < AT_ONCE; ++i) {
            values[i] = &products.places[first + i / 2][place].values[column / 8 * 4 + row % 16 / 8 * 2 + i % 2];
            if (add) sum[i] = *values[i];
          }
          sum = (element.size == 1 ? added_and_cut : added)(sum, left[row], right + column / AT_ONCE, count, columns / AT_ONCE);
          for (int i = 0; i < AT_ONCE; ++i) *values[i] = sum[i];
        }
      }
    });
  });
}
static void first_group(Products& products) {
  for (auto& product : products.groups.front()) product();
  products.groups.pop_front();
}
void wait_for_products(size_t left) {
  Block* block = now->block;
  const int group = now->index / 128;
  Products& products = block->products.at(group);
  meet(block->warpgroups.at(group), 128, [&] {
    while (products.groups.size() > left) first_group(products);
    for (auto& places : products.places)
      for (size_t place = 0; place < places.size(); ++place)
        if (auto& [target, values] = places[place]; target && products.last[place] <= products.committed - int(left))
          memcpy(target, values.data(), values.size() * 4), target = nullptr;
  });
}
void store_four(uint32_t to, const uint32_t (&given)[4], bool transposed) {
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

static void (*entry)(const void*);
static const void* entered;

static void body() {
  try {
    entry(entered);
    for (auto& loads : now->loads)
      if (!loads.empty()) fault("a thread ended before its copies had come");
    if (!now->stores.empty() || !now->boxes.empty()) fault("a thread ended before its boxes were read from shared memory");
  } catch (const Fault& found) {
    if (failure.empty()) failure = found.what;
  }
  now->done = true;
  --now->block->alive;
  ++progress;
  _longjmp(scheduler, 1);
}

// One cluster, from the block with the number `first` on.
static void run_cluster(unsigned size, Index first, unsigned count, int shared) {
  blocks.clear(), threads.clear(), copies.clear();
  whole_cluster = {};
  for (unsigned b = 0; b < size; ++b) {
    auto block = std::make_unique<Block>();
    block->shared.resize((shared + 3) / 4 * 4);
    for (size_t i = 0; i < block->shared.size(); i += 4) {  // what the block before left
      const uint32_t left = dice();
      memcpy(&block->shared[i], &left, 4);
    }
    block->shared.resize(shared);
    block->index = {first.x + b, first.y, first.z}, block->alive = int(count);
    block->warps.resize((count + 31) / 32), block->warpgroups.resize(count / 128 + 1), block->products.resize(count / 128 + 1);
    blocks.push_back(std::move(block));
  }
  for (auto& block : blocks)
    for (unsigned t = 0; t < count; ++t) {
      auto thread = std::make_unique<Thread>();
      thread->block = block.get(), thread->index = t, thread->stack.reset(new uint8_t[STACK]);  // nothing is written to it: that takes long
      getcontext(&thread->context);
      thread->context.uc_stack.ss_sp = thread->stack.get(), thread->context.uc_stack.ss_size = STACK;
      makecontext(&thread->context, body, 0);
      threads.push_back(std::move(thread));
    }
  std::vector<Thread*> order;
  for (auto& thread : threads) order.push_back(thread.get());
  for (int idle = 0; failure.empty();) {
    const uint64_t before = progress;
    // warps in random order, and sometimes one of them not at all; the lanes of a warp one after another
    for (size_t i = order.size() / 32; i-- > 1;) {
      const size_t j = dice() % (i + 1);
      for (int lane = 0; lane < 32; ++lane) std::swap(order[i * 32 + lane], order[j * 32 + lane]);
    }
    bool left = false;
    for (size_t i = 0; i < order.size(); ++i) {
      Thread* thread = order[i];
      if (thread->done) continue;
      left = true;
      if (i % 32 == 0 && dice() % 4 == 0) {
        i += 31;
        continue;
      }
      if (thread->condition && !thread->holds(thread->condition)) continue;
      threadIdx = {thread->index, 0, 0}, blockIdx = thread->block->index;
      go_on(thread);
    }
    if (!left && copies.empty()) break;
    for (size_t i = 0; i < copies.size();)
      if (dice() % 2 || idle) {
        const auto copy = copies[i];
        copies.erase(copies.begin() + i);
        try {
          copy();
        } catch (const Fault& found) {
          failure = found.what;
        }
        ++progress;
      } else {
        ++i;
      }
    for (auto& thread : threads)  // those of a thread in any order
      if (auto& groups = thread->loads; groups.size() > 1 || !groups.back().empty())
        if (auto& loads = groups[dice() % groups.size()]; !loads.empty() && dice() % 4 == 0) loads.back()(), loads.pop_back(), ++progress;
    for (auto& block : blocks)
      for (auto& products : block->products)
        if (!products.groups.empty() && dice() % 4 == 0) first_group(products);
    idle = progress == before ? idle + 1 : 0;
    if (idle > 64) failure = "a hang: no thread of block " + std::to_string(first.x) + " gets any further";
  }
}

const char* run_threads(void (*call)(const void*), const void* given, unsigned size, const unsigned* grid, unsigned block, int shared, unsigned seed) {
  failure.clear();
  entry = call, entered = given;
  dice.seed(seed);
  gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block, 1, 1};
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0] && failure.empty(); x += size) run_cluster(size, {x, y, z}, block, shared);
  return failure.c_str();
}

}  // namespace hopper

using namespace hopper;

uint8_t* dynamic_shared() { return now->block->shared.data(); }
void __syncthreads() {
  meet(now->block->hardware[0], now->block->alive, [] {});
}
void __syncwarp() {
  const int last = int(blockDim.x) - int(now->index / 32 * 32);
  meet(now->block->warps[now->index / 32], last < 32 ? last : 32, [] {});
}

uint32_t __reduce_max_sync(uint32_t, uint32_t x) {
  return together(x, [](uint32_t (&all)[32]) {
    uint32_t most = 0;
    for (uint32_t one : all) most = max(most, one);
    for (uint32_t& one : all) one = most;
  });
}
uint32_t shared_address(const void* shared) {
  const auto* at = static_cast<const uint8_t*>(shared);
  return uint32_t(at - now->block->shared.data()) | uint32_t(rank_of(now->block)) << 24;
}
void barrier_init(uint32_t barrier, int arrivals) { barrier_at(barrier, now->block).expected = arrivals; }
void barrier_arrive(uint32_t barrier) { barrier_arrive_in(now->block, barrier); }
void barrier_wait(uint32_t address, int parity) {
  Barrier& barrier = barrier_at(address, now->block);
  wait_until([&] { return barrier.expected && barrier.phase != parity; });
}
void commit() { now->loads.emplace_back(); }
void barrier_expect(uint32_t address, int bytes) {
  Barrier& barrier = barrier_at(address, now->block);
  ++barrier.arrived, barrier.bytes += bytes, ++progress;
  barrier.settle();
}
void copy_bulk(uint32_t to, const void* from, int bytes, uint32_t barrier) {
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
void cluster_arrive() {
  if (now->arrived) fault("a second arrival at the cluster's barrier without a wait");
  now->arrived = true, now->meeting = whole_cluster.times, ++progress;
  if (++whole_cluster.here == alive_in_cluster()) whole_cluster.here = 0, ++whole_cluster.times;
}
void cluster_wait() {
  if (!now->arrived) fault("a wait at the cluster's barrier without an arrival");
  wait_until([mine = now] { return whole_cluster.times != mine->meeting; });
  now->arrived = false;
}
// On its way to the other block until a random time, which nothing but the barrier there tells.
void barrier_arrive_at(uint32_t barrier, int rank, bool wanted) {
  if (!wanted) return;
  Block* other = blocks.at(rank).get();
  copies.push_back([=] {
    still_there(other);
    barrier_arrive_in(other, barrier);
  });
}
void send_bulk(uint32_t to, uint32_t from, int bytes, uint32_t barrier, int rank) {
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

void copy_box(uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier) {
  Block* block = now->block;
  copies.push_back([=] { copy_to(block, to, map, x, y, z, barrier); });
}
void copy_box(uint32_t to, const TensorMap& map, int x, int y, int z, uint32_t barrier, uint16_t to_blocks) {
  for (size_t i = 0; i < blocks.size(); ++i)
    if (to_blocks >> i & 1) {
      Block* block = blocks[i].get();
      copies.push_back([=] { copy_to(block, to, map, x, y, z, barrier); });
    }
}
// A row of the matrix ends with a whole piece of 16 bytes, as on a GPU.
void store_box(const TensorMap& map, int x, int y, int z, uint32_t from) {
  Block* block = now->block;
  now->boxes.push_back([=] {
    for (int r = 0; r < map.box_height; ++r)
      for (int c = 0; c < map.box_width; ++c)
        if (x + c < (map.width + 7) / 8 * 8 && y + r < map.height) memcpy(row_of(map, y + r, z) + (x + c) * 2, memory_of(from + swizzled(r, c * 2), block), 2);
  });
}
void stores_commit() {
  now->stores.push_back(std::move(now->boxes));
  now->boxes.clear();
}
void wgmma_commit() {
  const int group = now->index / 128;
  meet(now->block->warpgroups.at(group), 128, [&] {
    Products& products = now->block->products[group];
    products.groups.push_back(std::move(products.open));
    products.open.clear();
    ++products.committed;
  });
}
uint32_t transposed(uint32_t pair) {
  return together(pair, [](uint32_t (&all)[32]) {
    uint16_t elements[8][8];
    for (int lane = 0; lane < 32; ++lane) memcpy(&elements[lane / 4][lane % 4 * 2], &all[lane], 4);
    for (int lane = 0; lane < 32; ++lane) all[lane] = elements[lane % 4 * 2][lane / 4] | uint32_t(elements[lane % 4 * 2 + 1][lane / 4]) << 16;
  });
}
