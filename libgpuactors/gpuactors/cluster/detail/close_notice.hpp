// CloseNotice: says what the end of a cluster waits for, if that takes its time. Internal to the cluster layer.
#pragma once

#include <gpuactors/actor/holder_table.hpp>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

namespace gpuactors::detail {

/// Says it again and again, in growing distances, from its construction to its destruction.
class CloseNotice {
public:
  using Notice = std::function<void(std::string_view)>;

  /// @param first when to say it first; zero: never.
  /// @param notice is called on a thread of this object.
  CloseNotice(std::shared_ptr<const HolderTable> holders, Duration first, Notice notice);
  CloseNotice(const CloseNotice&) = delete;
  CloseNotice& operator=(const CloseNotice&) = delete;
  ~CloseNotice();

private:
  void run(Duration wait, TimePoint begun);

  std::shared_ptr<const HolderTable> holders_;
  const Notice notice_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

/// What is said: pure.
/// @param there as `HolderTable::still_there` returns it.
[[nodiscard]] std::string close_notice(const std::vector<std::string>& there, Duration waited);

} // namespace gpuactors::detail
