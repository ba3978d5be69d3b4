#include <gpuactors/agent/log_readers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace gpuactors {

namespace {

struct Reader {
  explicit Reader(const LogQuery& first) : query(first) {
    // nop
  }

  const LogQuery query;
  LogFollowing following{};
  /// Whether the lines that existed at the first query have been read into `lines`.
  bool opened = false;
  std::deque<LogLine> lines{};
  /// How many lines after those were dropped because the buffer was full.
  std::uint64_t dropped = 0;
  std::optional<Error> error{};
  /// The pending answer and its deadline; null when the reader has not polled again since `asked`.
  LogReaders::Done done{};
  TimePoint answer_by{};
  TimePoint asked{};

  [[nodiscard]] bool has_news() const {
    return !lines.empty() || dropped > 0 || error || !query.follow;
  }

  void add(std::vector<LogLine> more, std::uint64_t lost, std::size_t most) {
    for (auto& line : more)
      // The existing lines arrive all at once; the loop below bounds them.
      if (!opened
          || (dropped == 0 && lines.size() < most && waiting_bytes_ + bytes_of(line) <= limits::log_reader_bytes))
        push(std::move(line));
      else
        ++dropped;
    while (!opened && waiting_bytes_ > limits::log_reader_bytes)
      static_cast<void>(pop());
    dropped += lost;
    opened = true;
  }

  LogAnswer take(std::size_t most_bytes) {
    LogAnswer answer;
    if (lines.empty())
      answer.dropped = std::exchange(dropped, 0);
    std::size_t bytes = 0;
    while (!lines.empty() && (answer.lines.empty() || bytes + lines.front().text.size() <= most_bytes)) {
      bytes += bytes_of(lines.front());
      answer.lines.push_back(pop());
    }
    return answer;
  }

private:
  static std::size_t bytes_of(const LogLine& line) {
    return line.text.size() + line.source.size() + line.node.size();
  }

  void push(LogLine line) {
    waiting_bytes_ += bytes_of(line);
    lines.push_back(std::move(line));
  }

  LogLine pop() {
    auto line = std::move(lines.front());
    lines.pop_front();
    waiting_bytes_ -= bytes_of(line);
    return line;
  }

  std::size_t waiting_bytes_ = 0;
};

} // namespace

class LogReaders::State {
public:
  State(LogStore& store, std::shared_ptr<const LogSources> sources, LogReaderBounds bounds)
    : store_(store), sources_(std::move(sources)), bounds_(bounds), thread_([this] { run(); }) {
    // nop
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    {
      const std::lock_guard lock{mutex_};
      closing_ = true;
    }
    wake_.notify_all();
    thread_.join();
    for (auto& [id, reader] : readers_) {
      reader->following.stop();
      if (reader->done)
        reader->done(fail(Errc::unavailable, "the node is ending"));
    }
  }

  void read(const LogQuery& query, Done done) {
    Done earlier;
    std::string full;
    {
      const std::lock_guard lock{mutex_};
      auto known = readers_.find(query.reader);
      if (known == readers_.end())
        full = why_full(query.caller);
      if (known == readers_.end() && full.empty()) {
        known = readers_.emplace(query.reader, std::make_shared<Reader>(query)).first;
        to_open_.push_back(known->second);
      }
      if (known != readers_.end()) {
        auto& reader = *known->second;
        earlier = std::exchange(reader.done, std::exchange(done, nullptr));
        reader.asked = Clock::now();
        reader.answer_by = deadline_after(reader.asked, std::min<Duration>(query.wait, limits::log_wait));
      }
    }
    wake_.notify_all();
    if (earlier)
      earlier(LogAnswer{});
    if (done)
      done(fail(Errc::queue_full, std::move(full)));
  }

private:
  using Entry = std::shared_ptr<Reader>;

  /// Why the caller cannot read, too; empty: it can. One client must not keep the others out, nor all clients those who
  /// look after the node.
  [[nodiscard]] std::string why_full(const Caller& caller) const {
    if (readers_.size() >= bounds_.readers)
      return fmt::format("{} are reading the log of this node already, which is as many as may", readers_.size());
    if (caller.administers)
      return {};
    std::size_t clients = 0;
    std::size_t own = 0;
    for (const auto& [number, reader] : readers_)
      if (const auto& other = reader->query.caller; !other.administers) {
        ++clients;
        own += other.name == caller.name ? 1 : 0;
      }
    if (own >= bounds_.readers_per_name)
      return fmt::format("\"{}\" is reading the log of this node {} times already, which is as often as one client may",
                         caller.name, own);
    if (clients + bounds_.readers_kept >= bounds_.readers)
      return fmt::format("{} clients are reading the log of this node already, which is as many as may", clients);
    return {};
  }

  void run() {
    std::unique_lock lock{mutex_};
    while (!closing_) {
      if (!to_open_.empty()) {
        const auto reader = to_open_.front();
        to_open_.pop_front();
        lock.unlock();
        open(reader);
        lock.lock();
        continue;
      }
      std::vector<std::pair<Done, Result<LogAnswer>>> answers;
      std::vector<Entry> over;
      const auto next = collect(Clock::now(), answers, over);
      if (answers.empty() && over.empty()) {
        if (next == never)
          wake_.wait(lock);
        else
          wake_.wait_until(lock, next);
        continue;
      }
      lock.unlock();
      for (auto& [done, answer] : answers)
        done(std::move(answer));
      // `stop` waits for a running callback, which takes the lock: it must be released here.
      for (const auto& reader : over)
        reader->following.stop();
      over.clear();
      lock.lock();
    }
  }

  /// Collects due answers, and readers whose log has ended or who stopped polling. @returns when to look again.
  TimePoint collect(TimePoint now, std::vector<std::pair<Done, Result<LogAnswer>>>& answers, std::vector<Entry>& over) {
    auto next = never;
    for (auto it = readers_.begin(); it != readers_.end();) {
      auto& reader = *it->second;
      bool ended = false;
      auto due = never;
      if (!reader.done) {
        due = deadline_after(reader.asked, bounds_.idle);
        ended = now >= due;
      } else if (reader.error) {
        answers.emplace_back(std::exchange(reader.done, nullptr), fail(*reader.error));
        ended = true;
      } else if ((reader.opened || reader.query.follow) && (reader.has_news() || now >= reader.answer_by)) {
        auto answer = reader.take(bounds_.answer_bytes);
        ended = !reader.query.follow && answer.lines.empty();
        answers.emplace_back(std::exchange(reader.done, nullptr), std::move(answer));
        reader.asked = now;
        due = deadline_after(now, bounds_.idle);
      } else {
        due = reader.answer_by;
      }
      if (!ended)
        next = std::min(next, due);
      else
        over.push_back(it->second);
      it = ended ? readers_.erase(it) : std::next(it);
    }
    return next;
  }

  /// Reads the existing lines, or subscribes to the store. Must be called without the lock.
  void open(const Entry& reader) {
    const auto& query = reader->query;
    LogFilter filter;
    if (query.actor)
      filter.wanted = [sources = sources_, actor = query.actor](const LogLine& line) {
        return sources->concerns(actor, line);
      };
    if (query.follow) {
      auto following =
          store_.follow(std::move(filter), query.count,
                        [this, weak = std::weak_ptr{reader}](std::vector<LogLine> lines, std::uint64_t dropped) {
                          const auto known = weak.lock();
                          if (known == nullptr)
                            return;
                          {
                            const std::lock_guard lock{mutex_};
                            known->add(std::move(lines), dropped, bounds_.lines);
                          }
                          wake_.notify_all();
                        });
      const std::lock_guard lock{mutex_};
      if (following)
        reader->following = std::move(*following);
      else
        reader->error = following.error();
      return;
    }
    auto lines = store_.tail(filter, query.count);
    const std::lock_guard lock{mutex_};
    if (lines)
      reader->add(std::move(*lines), 0, bounds_.lines);
    else
      reader->error = lines.error();
    reader->opened = true;
  }

  LogStore& store_;
  const std::shared_ptr<const LogSources> sources_;
  const LogReaderBounds bounds_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::uint64_t, Entry> readers_;
  std::deque<Entry> to_open_;
  bool closing_ = false;

  /// The last member, since the thread uses the others.
  std::thread thread_;
};

Result<std::unique_ptr<LogReaders>> LogReaders::make(LogStore& store, std::shared_ptr<const LogSources> sources,
                                                     LogReaderBounds bounds) {
  try {
    return std::unique_ptr<LogReaders>{new LogReaders{std::make_unique<State>(store, std::move(sources), bounds)}};
  } catch (const std::system_error& error) { // from std::thread
    return fail(Errc::unavailable,
                fmt::format("a log cannot be read from elsewhere: {}; one thread more than now is needed (ulimit -u)",
                            error.what()));
  }
}

LogReaders::LogReaders(std::unique_ptr<State> state) : state_(std::move(state)) {
  // nop
}

LogReaders::~LogReaders() = default;

void LogReaders::read(const LogQuery& query, Done done) {
  state_->read(query, std::move(done));
}

} // namespace gpuactors
