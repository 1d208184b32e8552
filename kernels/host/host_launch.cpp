#include "kernels/host/host_launch.hpp"

#include <algorithm>
#include <thread>

namespace assay::tile {
namespace {

/// A block of the grid: of which sequence, and which of its items.
struct Block {
  std::size_t sequence;
  int item;
};

/// The items of all launches as one grid, one sequence after another.
class Grid {
 public:
  explicit Grid(std::span<HostLaunch* const> launches) {
    for (const HostLaunch* launch : launches) {
      first_.push_back(blocks_);
      blocks_ += launch->items;
    }
  }
  int blocks() const { return blocks_; }
  Block at(int block) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), block);
    const auto sequence = static_cast<std::size_t>(after - first_.begin()) - 1;
    return {sequence, block - first_[sequence]};
  }

 private:
  std::vector<int> first_;
  int blocks_ = 0;
};

/// Runs the blocks of a grid; an error is its sequence's, and of one the first by block, whatever the threads.
void run_blocks(std::span<HostLaunch* const> launches) {
  const Grid grid(launches);
  const Policy& policy = launches[0]->policy;
  int threads = policy.threads > 0 ? policy.threads : static_cast<int>(std::thread::hardware_concurrency());
  threads = policy.stats != nullptr || policy.asked != nullptr ? 1 : std::max(1, std::min(threads, grid.blocks()));
  struct Failure {
    std::exception_ptr error;
    std::size_t sequence = 0;
  };
  std::vector<Failure> failures(static_cast<std::size_t>(threads));
  const bool packed = launches.size() > 1;
  const auto run = [&](int i, std::size_t& sequence) {
    if (!packed) return launches[0]->run(*launches[0], i, static_cast<std::uint64_t>(i));
    Block block = grid.at(i);
    if (block.item == 0 && i > 0) block = chosen(policy, "block_of_the_neighbour"_s, block, grid.at(i - 1));
    sequence = block.sequence;
    const int stream = chosen(policy, "stream_of_the_batch"_s, block.item, i);
    launches[sequence]->run(*launches[sequence], block.item, static_cast<std::uint64_t>(stream));
  };
  const auto work = [&](int t) {
    Failure& failure = failures[static_cast<std::size_t>(t)];
    try {
      for (int i = t; i < grid.blocks(); i += threads) run(i, failure.sequence);
    } catch (...) {
      failure.error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int t = 1; t < threads; ++t) pool.emplace_back(work, t);
    work(0);
  }
  for (const Failure& failure : failures)
    if (failure.error && !launches[failure.sequence]->error) launches[failure.sequence]->error = failure.error;
}

void serve(std::span<pack::Request* const> requests) {
  std::vector<HostLaunch*> launches;
  for (pack::Request* request : requests) launches.push_back(static_cast<HostLaunch*>(request));
  run_blocks(launches);
}

}  // namespace

void run_launch(HostLaunch& launch) {
  if (pack::active()) return pack::meet({serve, reinterpret_cast<std::intptr_t>(launch.run)}, launch);
  HostLaunch* const alone[] = {&launch};
  run_blocks(alone);
  if (launch.error) std::rethrow_exception(launch.error);
}

}  // namespace assay::tile
