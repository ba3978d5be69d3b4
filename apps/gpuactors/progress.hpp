// Shows on a line of the terminal how far work is while a command waits for it.
#pragma once

#include <gpuactors/gpuactors.hpp>

#include <functional>
#include <string>
#include <vector>

namespace gpuactors::cli {

/// The line of standard error on which a wait shows how far it is, if that is a terminal. It is clear again at the end,
/// whatever follows.
class StatusLine {
public:
  StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  ~StatusLine();

  [[nodiscard]] bool is_seen() const noexcept {
    return seen_;
  }

  void show(const std::string& text);

private:
  bool seen_;
  bool shown_ = false;
};

/// Waits for `count` results. `wait_for` waits for all of them up to a time, and returns how many are ready. On a
/// terminal, standard error shows each second how many are ready, and what the first request in the queue waits for.
/// Returns at once, without waiting, if standard error is no terminal.
void show_progress(Cluster& cluster, std::size_t count, const std::function<std::size_t(Duration)>& wait_for);

template <class T>
void show_progress(Cluster& cluster, const std::vector<Future<T>>& futures) {
  show_progress(cluster, futures.size(),
                [&futures](Duration timeout) { return wait(futures, futures.size(), timeout).size(); });
}

} // namespace gpuactors::cli
