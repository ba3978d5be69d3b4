#include "detail/line_cutter.hpp"
#include "detail/spawn.hpp"

#include <gpuactors/agent/process_table.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace gpuactors {

namespace {

using detail::Descriptor;

// How long a process that has ended waits for what it has left in its group, which was killed then, and how often it is
// looked at. What a driver holds on to, or what nobody reaps, must not keep it for ever.
constexpr std::chrono::seconds group_patience{5};
constexpr std::chrono::milliseconds group_look{2};

// The most that one turn reads from a pipe, so that a process which writes without end does not starve the others.
constexpr std::size_t read_bytes = 64U << 10;

/// One of the two outputs of a process.
struct Output {
  OutputStream stream;
  Descriptor pipe;
  detail::LineCutter cutter{limits::log_line_bytes};
};

struct Child {
  Process process;
  Descriptor handle;
  std::array<Output, 2> outputs;
  /// Once it was reaped: how it has ended, and until when the rest of its group may take.
  std::optional<ExitStatus> status{};
  TimePoint patience_ends{};
};

} // namespace

// -- the thread ----------------------------------------------------------------

class ProcessTable::Loop {
public:
  Loop(ProcessHandlers handlers, Descriptor wake)
    : handlers_(std::move(handlers)), wake_(std::move(wake)), buffer_(read_bytes, '\0'), thread_([this] { run(); }) {
    // nop
  }

  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  ~Loop() {
    {
      const std::lock_guard guard{mutex_};
      stopping_ = true;
    }
    wake();
    thread_.join();
  }

  Result<Process> start(const Command& command) {
    // A handler runs on this thread, which must not wait for itself.
    if (std::this_thread::get_id() == thread_.get_id())
      return start_here(command);
    std::promise<Result<Process>> promise;
    auto started = promise.get_future();
    {
      const std::lock_guard guard{mutex_};
      if (stopping_)
        return fail_stopping(command);
      wanted_.push_back({&command, &promise});
    }
    wake();
    return started.get();
  }

  Result<void> signal(ProcessId id, int number) {
    // The lock keeps the loop from closing the handle meanwhile.
    const std::lock_guard guard{mutex_};
    const auto it = children_.find(id);
    if (it != children_.end() && ::syscall(SYS_pidfd_send_signal, it->second.handle.get(), number, nullptr, 0) == 0)
      return {};
    if (it == children_.end() || errno == ESRCH)
      return fail(Errc::not_found, fmt::format("process {} has ended, or there was none", id.value()));
    return fail(Errc::invalid_argument,
                fmt::format("signal {} cannot be sent to process {} (pid {}): {}; 1 to {} are expected", number,
                            id.value(), it->second.process.pid, detail::errno_text(errno), SIGRTMAX));
  }

private:
  struct Wanted {
    const Command* command;
    std::promise<Result<Process>>* promise;
  };

  static Failure fail_stopping(const Command& command) {
    return fail(Errc::cancelled,
                fmt::format("{} was not started: all processes are being ended", command.path.string()));
  }

  void wake() const {
    // The write fails only if the counter is full, and a full counter wakes the loop as well.
    [[maybe_unused]] const auto result = ::eventfd_write(wake_.get(), 1);
  }

  void run() {
    while (take_orders())
      wait_and_serve();
  }

  /// Starts the wanted processes; kills all processes, once, when the table stops. @returns whether there is more to
  /// do.
  bool take_orders() {
    std::deque<Wanted> wanted;
    bool stopping = false;
    {
      const std::lock_guard guard{mutex_};
      wanted.swap(wanted_);
      stopping = stopping_;
    }
    for (const auto& [command, promise] : wanted)
      promise->set_value(start_here(*command));
    if (stopping && !killed_) {
      killed_ = true;
      for (const auto& [id, child] : children_)
        ::syscall(SYS_pidfd_send_signal, child.handle.get(), SIGKILL, nullptr, 0);
    }
    return !stopping || !children_.empty();
  }

  Result<Process> start_here(const Command& command) {
    if (killed_)
      return fail_stopping(command);
    GPUACTORS_LET(spawned, detail::spawn(command));
    const ProcessId id{++last_id_};
    Process process{id, spawned.pid, command.tag};
    Child child{process,
                std::move(spawned.handle),
                {Output{OutputStream::out, std::move(spawned.out)}, Output{OutputStream::err, std::move(spawned.err)}}};
    const std::lock_guard guard{mutex_};
    children_.emplace(id, std::move(child));
    return process;
  }

  /// Only this thread changes `children_`, so it reads the table without the lock.
  void wait_and_serve() {
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
    std::vector<ProcessId> ids;
    int wait = -1;
    for (const auto& [id, child] : children_) {
      ids.push_back(id);
      // Of one that was reaped there is nothing to be heard until its group is gone.
      const bool ended = child.status.has_value();
      if (ended)
        wait = static_cast<int>(group_look.count());
      polled.push_back({ended ? -1 : child.handle.get(), POLLIN, 0});
      for (const auto& output : child.outputs)
        polled.push_back({ended ? -1 : output.pipe.get(), POLLIN, 0});
    }
    if (::poll(polled.data(), polled.size(), wait) < 0)
      return; // interrupted by a signal, or out of memory: the next call retries
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto* events = &polled[1 + 3 * i];
      auto& child = children_.at(ids[i]);
      if (events[0].revents != 0) {
        child.status = detail::reap(child.process.pid);
        child.patience_ends = deadline_after(Clock::now(), group_patience);
      }
      if (child.status) {
        // What it has started may hold what it held.
        if (detail::is_group_gone(child.process.pid) || Clock::now() >= child.patience_ends)
          bury(child);
        continue;
      }
      for (std::size_t k = 0; k < child.outputs.size(); ++k)
        if (events[1 + k].revents != 0)
          read_some(child, child.outputs[k], read_bytes);
    }
  }

  /// @returns the number of bytes read; closes the pipe at its end.
  std::size_t read_some(Child& child, Output& output, std::size_t most) {
    const auto count = ::read(output.pipe.get(), buffer_.data(), std::min(most, buffer_.size()));
    if (count > 0) {
      output.cutter.feed({buffer_.data(), static_cast<std::size_t>(count)}, sink_of(child, output));
      return static_cast<std::size_t>(count);
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR))
      output.pipe.reset();
    return 0;
  }

  detail::LineCutter::Sink sink_of(const Child& child, const Output& output) const {
    return [&](std::string_view text) {
      if (handlers_.on_line)
        handlers_.on_line(child.process, output.stream, text, std::chrono::system_clock::now());
    };
  }

  /// Reads the rest of the output of a process that was reaped, and forgets it.
  void bury(Child& child) {
    const auto status = *child.status;
    for (auto& output : child.outputs) {
      // The pipe now holds the rest of the process's output. Its end of file may never come: a descendant that left the
      // process group may still hold the pipe and write to it.
      int left = 0;
      if (output.pipe)
        ::ioctl(output.pipe.get(), FIONREAD, &left);
      for (auto most = static_cast<std::size_t>(left); most > 0;) {
        const auto count = read_some(child, output, most);
        if (count == 0)
          break;
        most -= count;
      }
      output.cutter.finish(sink_of(child, output));
    }
    const auto process = child.process;
    {
      const std::lock_guard guard{mutex_};
      children_.erase(process.id);
    }
    if (handlers_.on_exit)
      handlers_.on_exit(process, status);
  }

  const ProcessHandlers handlers_;
  const Descriptor wake_;
  std::string buffer_;

  std::mutex mutex_;
  std::deque<Wanted> wanted_;
  std::map<ProcessId, Child> children_;
  bool stopping_ = false;

  // Used by the thread only.
  std::uint64_t last_id_ = 0;
  bool killed_ = false;

  /// The last member, since the thread uses the others. One thread starts all processes, because for PR_SET_PDEATHSIG
  /// the parent of a process ends with the thread that started it.
  std::thread thread_;
};

// -- the table -----------------------------------------------------------------

Result<std::unique_ptr<ProcessTable>> ProcessTable::make(ProcessHandlers handlers) {
  Descriptor wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  const auto refuse = [](const std::string& why) {
    return fail(Errc::unavailable, fmt::format("processes cannot be watched: {}; one thread and one descriptor more "
                                               "than now are needed (ulimit -u, ulimit -n)",
                                               why));
  };
  if (!wake)
    return refuse(detail::errno_text(errno));
  try {
    return std::unique_ptr<ProcessTable>{
        new ProcessTable{std::make_unique<Loop>(std::move(handlers), std::move(wake))}};
  } catch (const std::system_error& error) { // from std::thread
    return refuse(error.what());
  }
}

ProcessTable::ProcessTable(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {
  // nop
}

ProcessTable::~ProcessTable() = default;

Result<Process> ProcessTable::start(const Command& command) {
  return loop_->start(command);
}

Result<void> ProcessTable::signal(ProcessId id, int number) {
  return loop_->signal(id, number);
}

} // namespace gpuactors
