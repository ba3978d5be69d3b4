// What a daemon tells its operator, written by a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace gpuactors::detail {

/// Between those who have something to say and where it is written. A terminal that is held, a pipe that nobody reads,
/// a full disk: whoever writes there waits, and an agent that waits serves nobody. So lines wait here instead, in
/// order, up to `limits::notice_bytes`; those that come then are dropped, and counted in a line of their own.
class Notices {
public:
  using Sink = std::function<void(std::string_view)>;

  /// `sink` is called on the thread, one call at a time.
  explicit Notices(Sink sink);
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// Writes what waits, and gives up when that takes longer than `limits::notice_last_words`.
  ~Notices();

  /// Takes lines: any thread, does not block, and may outlive this object.
  [[nodiscard]] Sink entry() const;

private:
  struct State;
  static void write(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

} // namespace gpuactors::detail
