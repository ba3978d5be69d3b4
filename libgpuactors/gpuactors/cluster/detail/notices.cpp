#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/notices.hpp>

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace gpuactors::detail {

struct Notices::State {
  explicit State(Sink to) : sink(std::move(to)) {
    // nop
  }

  const Sink sink;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  std::size_t bytes = 0;
  std::size_t dropped = 0;
  bool writing = false;
  bool closed = false;
};

Notices::Notices(Sink sink) : state_(std::make_shared<State>(std::move(sink))) {
  try {
    // Detached, since the thread may block forever on an output that nobody reads.
    std::thread{[state = state_] { write(state); }}.detach();
  } catch (const std::system_error&) {
    // Without a thread, all lines are dropped; the daemon will hardly get far either.
    state_->closed = true;
  }
}

Notices::~Notices() {
  std::unique_lock lock{state_->mutex};
  state_->closed = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, limits::notice_last_words,
                           [this] { return state_->lines.empty() && !state_->writing; });
}

Notices::Sink Notices::entry() const {
  return [state = state_](std::string_view line) {
    const std::lock_guard lock{state->mutex};
    if (state->closed)
      return;
    if (state->bytes + line.size() > limits::notice_bytes) {
      ++state->dropped;
      return;
    }
    state->bytes += line.size();
    state->lines.emplace_back(line);
    state->changed.notify_all();
  };
}

void Notices::write(const std::shared_ptr<State>& state) {
  std::unique_lock lock{state->mutex};
  for (;;) {
    state->changed.wait(lock, [&] { return !state->lines.empty() || state->closed; });
    if (state->lines.empty())
      return;
    const auto line = std::move(state->lines.front());
    state->lines.pop_front();
    state->bytes -= line.size();
    const auto dropped = state->lines.empty() ? std::exchange(state->dropped, 0) : 0;
    state->writing = true;
    lock.unlock();
    state->sink(line);
    if (dropped > 0)
      state->sink(fmt::format("{} lines were left out here: they could not be written in time", dropped));
    lock.lock();
    state->writing = false;
    state->changed.notify_all();
  }
}

} // namespace gpuactors::detail
