// Notices: a daemon's messages to its operator, written by a separate thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace gpuactors::detail {

/// A queue of lines between their producers and the output. A stopped terminal, an unread pipe or a full disk blocks
/// whoever writes there, and a blocked agent serves nobody. Lines wait here instead, in order, up to
/// `limits::notice_bytes`; further lines are dropped, and a separate line says how many.
class Notices {
public:
  using Sink = std::function<void(std::string_view)>;

  /// `sink` is called on the writing thread, one call at a time.
  explicit Notices(Sink sink);
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// Writes the waiting lines, for at most `limits::notice_last_words`.
  ~Notices();

  /// The function that takes lines: callable from any thread, never blocks, and may outlive this object.
  [[nodiscard]] Sink entry() const;

private:
  struct State;
  static void write(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

} // namespace gpuactors::detail
