// Pinned memory and host functions of the fake driver.
#include <device/fake_cuda/driver.hpp>
#include <device/fake_cuda/host_side.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace gpuactors::fake {

namespace {

struct HostSide {
  std::mutex mutex;
  /// Unpinning may go on, or what is behind a host function.
  std::condition_variable changed;
  /// Bytes of each pinned block.
  std::map<void*, std::size_t> pinned;
  std::size_t pinned_bytes = 0;
  std::size_t most_pinned = 0;
  /// 0: none.
  std::size_t limit = 0;
  bool was_refused = false;
  bool hold_unpinning = false;
  bool holding = false;
  /// Those that are held at the moment, the first with the number that follows.
  std::vector<std::pair<CUhostFn, void*>> held;
  std::size_t called = 0;
  int host_functions = 0;
  /// Of the streams that there are: another one may come to have the handle of one that is gone.
  std::map<CUstream, int> host_functions_on;
};

HostSide& host_side() {
  static auto* one = new HostSide;
  return *one;
}

thread_local bool in_host_function = false;
thread_local int unpinned_here = 0;

} // namespace

CUresult mem_host_alloc(void** memory, std::size_t bytes, unsigned) {
  need_context("cuMemHostAlloc");
  auto& host = host_side();
  const std::lock_guard guard{host.mutex};
  if (host.limit != 0 && host.pinned_bytes + bytes > host.limit) {
    host.was_refused = true;
    host.changed.notify_all();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *memory = std::malloc(bytes);
  if (*memory == nullptr)
    return CUDA_ERROR_OUT_OF_MEMORY;
  host.pinned[*memory] = bytes;
  host.pinned_bytes += bytes;
  host.most_pinned = std::max(host.most_pinned, host.pinned_bytes);
  ++live;
  return CUDA_SUCCESS;
}

CUresult mem_free_host(void* memory) {
  need_context("cuMemFreeHost");
  auto& host = host_side();
  std::unique_lock guard{host.mutex};
  host.changed.wait(guard, [&] { return !host.hold_unpinning && (host.limit == 0 || host.was_refused); });
  const auto block = host.pinned.find(memory);
  if (block == host.pinned.end())
    misuse("memory was unpinned that is not pinned");
  host.pinned_bytes -= block->second;
  host.pinned.erase(block);
  std::free(memory);
  ++unpinned_here;
  --live;
  return CUDA_SUCCESS;
}

bool is_pinned(const void* memory) {
  auto& host = host_side();
  const std::lock_guard guard{host.mutex};
  const auto* const byte = static_cast<const char*>(memory);
  return std::any_of(host.pinned.begin(), host.pinned.end(), [byte](const auto& block) {
    const auto* const begin = static_cast<const char*>(block.first);
    return begin <= byte && byte < begin + block.second;
  });
}

void call_host_function(CUhostFn function, void* data) {
  in_host_function = true;
  function(data);
  in_host_function = false;
}

bool is_in_host_function() {
  return in_host_function;
}

void note_host_function(CUstream stream) {
  const std::lock_guard guard{host_side().mutex};
  ++host_side().host_functions;
  ++host_side().host_functions_on[stream];
}

void forget_host_functions(CUstream stream) {
  const std::lock_guard guard{host_side().mutex};
  host_side().host_functions_on.erase(stream);
}

std::size_t hold_host_function(CUhostFn function, void* data) {
  auto& host = host_side();
  const std::lock_guard guard{host.mutex};
  if (!host.holding)
    return 0;
  host.held.emplace_back(function, data);
  return host.called + host.held.size();
}

void await_held(std::uint64_t, std::uint64_t, const void* pack) {
  std::size_t number = 0;
  std::memcpy(&number, pack, sizeof(number));
  auto& host = host_side();
  std::unique_lock lock{host.mutex};
  host.changed.wait(lock, [&] { return host.called >= number || machine().sticky != 0; });
}

void wake_held() {
  const std::lock_guard guard{host_side().mutex};
  host_side().changed.notify_all();
}

} // namespace gpuactors::fake

extern "C" {

void fake_cuda_hold_host_functions(bool hold) {
  using gpuactors::fake::host_side;
  std::vector<std::pair<CUhostFn, void*>> held;
  {
    const std::lock_guard guard{host_side().mutex};
    host_side().holding = hold;
    if (!hold)
      held.swap(host_side().held);
  }
  for (const auto& [function, data] : held)
    gpuactors::fake::call_host_function(function, data);
  const std::lock_guard guard{host_side().mutex};
  host_side().called += held.size();
  host_side().changed.notify_all();
}

int fake_cuda_host_functions(void* stream) {
  using gpuactors::fake::host_side;
  const std::lock_guard guard{host_side().mutex};
  if (stream == nullptr)
    return host_side().host_functions;
  const auto& each = host_side().host_functions_on;
  const auto found = each.find(static_cast<CUstream>(stream));
  return found == each.end() ? 0 : found->second;
}

void fake_cuda_limit_pinned(std::size_t bytes) {
  using gpuactors::fake::host_side;
  const std::lock_guard guard{host_side().mutex};
  host_side().limit = bytes;
  host_side().was_refused = false;
  host_side().changed.notify_all();
}

void fake_cuda_hold_unpinning(bool hold) {
  using gpuactors::fake::host_side;
  const std::lock_guard guard{host_side().mutex};
  host_side().hold_unpinning = hold;
  host_side().changed.notify_all();
}

std::size_t fake_cuda_most_pinned() {
  using gpuactors::fake::host_side;
  const std::lock_guard guard{host_side().mutex};
  return std::exchange(host_side().most_pinned, host_side().pinned_bytes);
}

int fake_cuda_unpinned_here() {
  return gpuactors::fake::unpinned_here;
}
}
