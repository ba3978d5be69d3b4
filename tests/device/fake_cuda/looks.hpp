// What looks at streams of the fake driver have seen.
#pragma once

#include <gpuactors/base/result.hpp>

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gpuactors::fake {

/// What streams that are looked at again and again have told of the work that they had at the first look.
class Looks {
public:
  struct Told {
    std::atomic<bool> done{false};
    /// Of that work, once it is done.
    Result<void> result = {};
  };

  /// Null: nobody has looked since the stream got more.
  std::shared_ptr<Told> of(CUstream stream) {
    const std::lock_guard guard{mutex_};
    const auto found = streams_.find(stream);
    return found != streams_.end() ? found->second.last : nullptr;
  }

  std::shared_ptr<Told> add(CUstream stream) {
    const std::lock_guard guard{mutex_};
    auto& [last, all] = streams_[stream];
    std::erase_if(all, [](const auto& told) { return told->done && told->result; });
    return last = all.emplace_back(std::make_shared<Told>());
  }

  /// The stream gets more.
  void outdate(CUstream stream) {
    const std::lock_guard guard{mutex_};
    if (const auto found = streams_.find(stream); found != streams_.end())
      found->second.last = nullptr;
  }

  /// All its work is done. @returns the first error that was told to a look: the stream itself tells an error once.
  Result<void> settle(CUstream stream) {
    std::vector<std::shared_ptr<Told>> all;
    {
      const std::lock_guard guard{mutex_};
      if (const auto found = streams_.extract(stream); !found.empty())
        all = found.mapped().all;
    }
    for (const auto& told : all)
      if (told->done && !told->result)
        return told->result;
    return {};
  }

private:
  struct Stream {
    std::shared_ptr<Told> last;
    std::vector<std::shared_ptr<Told>> all;
  };

  std::mutex mutex_;
  std::map<CUstream, Stream> streams_;
};

} // namespace gpuactors::fake
