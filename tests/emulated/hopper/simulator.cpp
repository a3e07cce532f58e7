// The scheduler: clusters one after another, their threads in random order.
#include "simulator.h"

namespace hopper {

static std::function<void()> entry;

static void body() {
  try {
    entry();
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
    block->shared.resize(shared);
    for (auto& byte : block->shared) byte = uint8_t(dice());  // what the block before left
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

const char* run(std::function<void()> call, unsigned size, const unsigned* grid, unsigned block, int shared) {
  failure.clear();
  entry = std::move(call);
  gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block, 1, 1};
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0] && failure.empty(); x += size) run_cluster(size, {x, y, z}, block, shared);
  return failure.c_str();
}

}  // namespace hopper
