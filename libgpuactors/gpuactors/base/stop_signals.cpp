#include <gpuactors/base/signal_counter.hpp>
#include <gpuactors/base/stop_signals.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace gpuactors {

/// The signals, and the thread that does what follows from one: a handler may do next to nothing.
struct StopSignals::Watcher {
  explicit Watcher(std::stop_source source) : stop(std::move(source)) {
    if (end < 0)
      return;
    signals.emplace(detail::SignalCounter::Later::as_before);
    try {
      thread = std::make_unique<std::thread>([this] { run(); });
    } catch (const std::system_error&) {
      signals.reset();
    }
  }

  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  ~Watcher() {
    // In a child that was forked, there is no such thread, and the descriptor wakes that of the parent.
    if (::getpid() != owner)
      static_cast<void>(thread.release());
    if (thread != nullptr) {
      ::eventfd_write(end, 1);
      thread->join();
    }
    if (end >= 0)
      ::close(end);
  }

  void run() {
    std::array<pollfd, 2> watched{pollfd{detail::SignalCounter::descriptor(), POLLIN, 0}, pollfd{end, POLLIN, 0}};
    while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR)
      continue;
    if (signals->take())
      stop.request_stop();
  }

  std::stop_source stop;
  pid_t owner = ::getpid();
  /// Ends the thread without a signal.
  int end = ::eventfd(0, EFD_CLOEXEC);
  std::optional<detail::SignalCounter> signals;
  std::unique_ptr<std::thread> thread;
};

StopSignals::StopSignals() : watcher_(std::make_unique<Watcher>(stop_)) {
  // nop
}

StopSignals::~StopSignals() = default;

void StopSignals::wait() const {
  while (!wait_for(std::chrono::hours{1}))
    continue;
}

bool StopSignals::wait_for(Duration time) const {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock{mutex};
  wake.wait_until(lock, stop_.get_token(), deadline_after(Clock::now(), time), [this] { return came(); });
  return came();
}

} // namespace gpuactors
