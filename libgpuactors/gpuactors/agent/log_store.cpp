#include "detail/rotating_files.hpp"

#include <gpuactors/agent/log_store.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace gpuactors {

namespace {

using detail::LogPlace;
using detail::RotatingFiles;

struct Follower {
  LogFilter filter;
  LogStore::Callback callback;
  /// Lines for the next call of the callback.
  std::vector<LogLine> lines;
  /// How many lines after those were dropped because the buffer was full.
  std::uint64_t dropped = 0;
  /// Whether the lines from before the subscription have been read into `lines`.
  bool has_past = false;

  [[nodiscard]] bool is_due() const {
    return has_past && (!lines.empty() || dropped > 0);
  }
};

std::vector<LogLine> last_lines(const std::filesystem::path& folder, LogPlace end, const LogFilter& filter,
                                std::size_t count) {
  std::vector<LogLine> result;
  if (count > 0)
    RotatingFiles::read_back(folder, end, [&](std::string_view text) {
      // Skips lines that do not parse, such as incomplete ones.
      if (auto line = parse_log_line(text); line && filter.admits(*line))
        result.push_back(std::move(*line));
      return result.size() < count;
    });
  std::reverse(result.begin(), result.end());
  return result;
}

Result<void> check_count(std::size_t count) {
  if (count <= limits::log_tail_lines)
    return {};
  return fail(Errc::invalid_argument,
              fmt::format("{} lines of a log are too many at once: {} at most", count, limits::log_tail_lines));
}

} // namespace

bool LogFilter::admits(const LogLine& line) const {
  return (node.empty() || node == line.node)
         && (sources.empty() || std::find(sources.begin(), sources.end(), line.source) != sources.end())
         && (!wanted || wanted(line));
}

// -- state shared by the store and its subscriptions ---------------------------

class LogStore::State {
public:
  State(LogOptions options, detail::Descriptor lock, RotatingFiles files)
    : options_(std::move(options)), lock_(std::move(lock)), files_(std::move(files)), thread_([this] { deliver(); }) {
    // nop
  }

  /// Ends the thread; idempotent.
  void close() {
    {
      const std::lock_guard guard{mutex_};
      closing_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }

  void append(const LogLine& line) {
    std::string warning;
    {
      const std::lock_guard guard{mutex_};
      std::string_view rest = line.text;
      for (bool more = true; more;) {
        const auto end = rest.find('\n');
        auto part = line;
        part.text = rest.substr(0, end);
        more = end != std::string_view::npos && end + 1 < rest.size();
        rest.remove_prefix(more ? end + 1 : rest.size());
        write(part, warning);
        show(part);
      }
    }
    changed_.notify_all();
    if (!warning.empty() && options_.on_warning)
      options_.on_warning(warning);
  }

  [[nodiscard]] std::vector<LogLine> tail(const LogFilter& filter, std::size_t count) const {
    return last_lines(options_.folder, end(), filter, count);
  }

  std::shared_ptr<Follower> follow(LogFilter filter, std::size_t count, Callback callback) {
    auto follower = std::make_shared<Follower>();
    follower->filter = std::move(filter);
    follower->callback = std::move(callback);
    LogPlace now;
    {
      const std::lock_guard guard{mutex_};
      followers_.push_back(follower);
      now = files_.end();
    }
    // Reads without the lock, so that `append` does not wait for the disk.
    auto past = last_lines(options_.folder, now, follower->filter, count);
    {
      const std::lock_guard guard{mutex_};
      follower->lines.insert(follower->lines.begin(), std::make_move_iterator(past.begin()),
                             std::make_move_iterator(past.end()));
      follower->has_past = true;
    }
    changed_.notify_all();
    return follower;
  }

  void forget(const std::shared_ptr<Follower>& follower) {
    std::unique_lock lock{mutex_};
    followers_.erase(std::remove(followers_.begin(), followers_.end(), follower), followers_.end());
    if (std::this_thread::get_id() != thread_.get_id())
      changed_.wait(lock, [&] { return called_ != follower; });
  }

private:
  [[nodiscard]] LogPlace end() const {
    const std::lock_guard guard{mutex_};
    return files_.end();
  }

  /// Writes a line; if lines are missing before it, first a line that says how many.
  void write(const LogLine& line, std::string& warning) {
    if (missing_ > 0) {
      const LogLine note{line.time, line.node, "log", OutputStream::err,
                         fmt::format("{} lines are missing: {}", missing_, why_missing_)};
      if (!files_.append(to_string(note))) {
        ++missing_;
        return;
      }
      missing_ = 0;
    }
    const auto lost = files_.append(to_string(line));
    if (!lost) {
      missing_ = 1;
      why_missing_ = lost.error().message();
      warning = fmt::format("what workers write is lost until that changes: {}", why_missing_);
    } else if (!lost->empty()) {
      warning = fmt::format("{}, with what was in it; a new one is begun", *lost);
    }
  }

  void show(const LogLine& line) {
    for (const auto& follower : followers_)
      if (follower->filter.admits(line)) {
        if (follower->lines.size() < options_.follow_lines)
          follower->lines.push_back(line);
        else
          ++follower->dropped;
      }
  }

  void deliver() {
    std::unique_lock lock{mutex_};
    const auto is_due = [](const auto& follower) { return follower->is_due(); };
    const auto due = [&] { return std::find_if(followers_.begin(), followers_.end(), is_due); };
    while (true) {
      changed_.wait(lock, [&] { return closing_ || due() != followers_.end(); });
      if (closing_)
        return;
      const auto it = due();
      called_ = *it;
      std::rotate(it, it + 1, followers_.end()); // round robin: the other followers go first next time
      auto lines = std::exchange(called_->lines, {});
      const auto dropped = std::exchange(called_->dropped, 0);
      lock.unlock();
      called_->callback(std::move(lines), dropped);
      lock.lock();
      // Destroying the callback may destroy a `LogFollowing` that it holds, which calls `forget`: not under the lock.
      auto done = std::move(called_);
      called_.reset();
      changed_.notify_all();
      lock.unlock();
      done.reset();
      lock.lock();
    }
  }

  const LogOptions options_;
  const detail::Descriptor lock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  RotatingFiles files_;
  /// How many lines could not be written since the last that could.
  std::uint64_t missing_ = 0;
  std::string why_missing_;
  std::vector<std::shared_ptr<Follower>> followers_;
  /// The follower whose callback is running.
  std::shared_ptr<Follower> called_;
  bool closing_ = false;

  std::thread thread_;
};

// -- subscriptions -------------------------------------------------------------

struct LogFollowing::Part {
  std::weak_ptr<LogStore::State> state;
  std::shared_ptr<Follower> follower;
};

LogFollowing::LogFollowing(std::shared_ptr<Part> part) : part_(std::move(part)) {
  // nop
}

LogFollowing& LogFollowing::operator=(LogFollowing&& other) noexcept {
  if (this != &other) {
    stop();
    part_ = std::move(other.part_);
  }
  return *this;
}

LogFollowing::~LogFollowing() {
  stop();
}

void LogFollowing::stop() {
  const auto part = std::move(part_);
  if (part == nullptr)
    return;
  if (const auto state = part->state.lock())
    state->forget(part->follower);
}

// -- store ---------------------------------------------------------------------

Result<std::unique_ptr<LogStore>> LogStore::open(LogOptions options) {
  if (options.file_bytes == 0 || options.files == 0 || options.follow_lines == 0)
    return fail(Errc::invalid_argument,
                fmt::format("a log of {} files of {} bytes, with {} lines for one who follows it, holds nothing: each "
                            "is at least 1",
                            options.files, options.file_bytes, options.follow_lines));
  GPUACTORS_LET(lock, detail::lock_folder(options.folder));
  GPUACTORS_LET(files, RotatingFiles::open(options.folder, options.file_bytes, options.files));
  try {
    return std::unique_ptr<LogStore>{
        new LogStore{std::make_shared<State>(std::move(options), std::move(lock), std::move(files))}};
  } catch (const std::system_error& error) { // from std::thread
    return fail(
        Errc::unavailable,
        fmt::format("a log cannot be followed: {}; one thread more than now is needed (ulimit -u)", error.what()));
  }
}

LogStore::LogStore(std::shared_ptr<State> state) : state_(std::move(state)) {
  // nop
}

LogStore::~LogStore() {
  state_->close();
}

void LogStore::append(const LogLine& line) {
  state_->append(line);
}

Result<std::vector<LogLine>> LogStore::tail(const LogFilter& filter, std::size_t count) const {
  GPUACTORS_TRY(check_count(count));
  return state_->tail(filter, count);
}

Result<LogFollowing> LogStore::follow(LogFilter filter, std::size_t count, Callback callback) {
  GPUACTORS_TRY(check_count(count));
  auto follower = state_->follow(std::move(filter), count, std::move(callback));
  return LogFollowing{std::make_shared<LogFollowing::Part>(LogFollowing::Part{state_, std::move(follower)})};
}

} // namespace gpuactors
