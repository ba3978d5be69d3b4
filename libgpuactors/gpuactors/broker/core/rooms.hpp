// Rooms: what each client's name may have of something of the broker's, so that none takes all of its memory. Internal
// to the layer.
#pragma once

#include <gpuactors/base/caller.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/base/units.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace gpuactors {

/// Counts things by name, and their bytes. One thread.
class Rooms {
public:
  /// Of one thing; given back with its last copy, which may outlive the object.
  using Place = std::shared_ptr<const void>;

  /// @param what names the things: "requests that wait".
  Rooms(std::string what, std::size_t most, std::size_t most_bytes)
    : what_(std::move(what)), most_(most), most_bytes_(most_bytes) {
    // nop
  }

  /// @returns a place for one more thing, null for those who administer; `queue_full` if the caller's name has as many
  ///          as it may, or as many bytes.
  [[nodiscard]] Result<Place> enter(const Caller& caller, std::size_t bytes) {
    if (caller.administers)
      return Place{};
    if (const auto found = used_->find(caller.name); found != used_->end()) {
      const auto& used = found->second;
      if (used.count >= most_)
        return fail(Errc::queue_full, fmt::format("\"{}\" has {} {} already, which is as many as one client may have",
                                                  caller.name, used.count, what_));
      if (used.bytes + bytes > most_bytes_)
        return fail(Errc::queue_full,
                    fmt::format("\"{}\" has {} {} already, of {} in all: with {} more they would have more than the {} "
                                "that one client may have",
                                caller.name, used.count, what_, format_bytes(used.bytes), format_bytes(bytes),
                                format_bytes(most_bytes_)));
    }
    return hold(caller.name, bytes);
  }

  /// A place for something that is there already.
  [[nodiscard]] Place hold(const std::string& name, std::size_t bytes) {
    auto& used = (*used_)[name];
    ++used.count;
    used.bytes += bytes;
    return {&used, [all = used_, name, bytes](const void*) {
              const auto left = all->find(name);
              left->second.bytes -= bytes;
              if (--left->second.count == 0)
                all->erase(left);
            }};
  }

private:
  struct Used {
    std::size_t count = 0;
    std::size_t bytes = 0;
  };

  const std::string what_;
  const std::size_t most_;
  const std::size_t most_bytes_;
  const std::shared_ptr<std::map<std::string, Used>> used_ = std::make_shared<std::map<std::string, Used>>();
};

} // namespace gpuactors
